package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
)

// taskFlags are the flags of task.
type taskFlags struct {
	data, rows, out         string
	label, favourable, from string
	features, columns       []string
	overwrite               bool
	given                   *pflag.FlagSet
}

func taskCommand() command {
	return command{
		name:    "task",
		args:    "init | check TASK | show TASK, [MODEL]",
		summary: "draft a task file from data, hold one against data, or show what it says",
		about: `
  cfq task init -d DATA [MODEL] [-o TASK]      a first draft, with comments
  cfq task init -d DATA [MODEL] --from TASK    fill in what a task file lacks
  cfq task check TASK -d DATA [MODEL]          what does not fit; exit code 2 if anything
  cfq task show TASK                           what the task file comes to

init reads kinds, scaling, bounds (1st to 99th percentile), steps and shares off the
data, says what it guessed, and takes features that look like protected attributes
from what people can change. Given the model it looks for the encoding that makes as
many inputs as the model has and, when outcomes are known, by which it decides best.
Mean and std must be those that the model was trained with: give --rows to read the
training rows only. With --from every byte of the file stays as it is, and what is
missing (mean, std, bounds, shares, mad, quantiles) is put between.

check says which rows cannot be read, what lies out of bounds, which constraints
the people of the data break as they are, and whether model and task belong together.
Warnings alone leave the exit code at 0.`,
		examples: []string{
			"cfq task init -d train.csv model.onnx --label income --favourable '>50K' -o task.yaml",
			"cfq task init -d train.csv --from task.yaml -o task.yaml --overwrite",
			"cfq task check task.yaml -d train.csv model.onnx",
			"cfq task show task.yaml",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &taskFlags{given: fs}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "init, check: the data, a CSV `file`, also gzipped")
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVarP(&f.out, "output", "o", "", "init: the task `file` to write; else stdout")
			fs.StringVar(&f.label, "label", "", "init: `column` of the outcome; else guessed")
			fs.StringVar(&f.favourable, "favourable", "", "init: its `value` that people want; else guessed when it is obvious")
			fs.StringSliceVar(&f.features, "features", nil, "init: `columns` that are the model's inputs, in their order, separated by commas; else found")
			fs.StringSliceVar(&f.columns, "columns", nil, "init: `names` of the columns of a file without header")
			fs.StringVar(&f.from, "from", "", "init: the task `file` whose gaps are to be filled")
			fs.BoolVar(&f.overwrite, "overwrite", false, "init: replace a task file that exists")
			return f.run
		},
	}
}

func (f *taskFlags) run(ctx context.Context, e *env, args []string) error {
	actions := []string{"init", "check", "show"}
	usage := "`cfq help task` says more"
	if len(args) == 0 {
		return cli.Usagef(usage, "say what to do: cfq task init, check or show")
	}
	action, rest := args[0], args[1:]
	if !slices.Contains(actions, action) {
		if s := cli.Suggest(action, actions); s != "" {
			return cli.Usagef(usage, "unknown action %q; did you mean cfq task %s?", action, s)
		}
		return cli.Usagef(usage, "unknown action %q; there are init, check and show", action)
	}
	var stray []string
	for _, name := range []string{"output", "label", "favourable", "features", "columns", "from", "overwrite"} {
		if action != "init" && f.given.Changed(name) {
			stray = append(stray, "--"+name)
		}
	}
	if len(stray) > 0 {
		return cli.Usagef(usage, "cfq task %s has no %s", action, strings.Join(stray, ", "))
	}
	switch action {
	case "init":
		return f.init(ctx, e, rest)
	case "check":
		return f.check(ctx, e, rest)
	}
	return f.show(e, rest)
}

// atMost returns the arguments behind the action: those named, of which the last may be missing and is "" then.
func atMost(action string, have []string, names ...string) ([]string, error) {
	needed := len(names) - 1
	if len(have) < needed {
		names = names[:needed]
	}
	if len(have) < needed || len(have) > len(names) {
		return nil, cli.Wrap(arguments("task", have, names...), cli.Unusable, fmt.Sprintf("usage: cfq task %s %s ...; `cfq help task` says more", action, strings.Join(names, " ")))
	}
	return append(slices.Clone(have), "")[:len(names)], nil
}

// openAny opens the model at path whatever its class index, and says whether it begins with a scaling of its own.
func openAny(ctx context.Context, e *env, path string) (c *classifier.Model, scaled bool, err error) {
	m, err := readModel(path)
	if err != nil {
		return nil, false, err
	}
	c, err = classifier.Open(ctx, m, e.engine(), classifier.Options{Workers: e.workers})
	if err != nil {
		return nil, false, runError(cli.Wrap(fmt.Errorf("model %s: %w", path, err), cli.Unusable, ""))
	}
	return c, scales(m.Graph), nil
}

// scales says whether g scales its input before the first layer: an elementwise operation or a normalisation with constants comes first.
func scales(g *graph.Graph) bool {
	ins := g.DataInputs()
	if len(ins) != 1 {
		return false
	}
	consumers := g.Consumers()
	at := ins[0].Name
	for range len(g.Nodes) {
		next := consumers[at]
		if len(next) == 0 {
			return false
		}
		switch n := next[0]; n.Op {
		case "Identity", "Cast", "Dropout", "QuantizeLinear", "DequantizeLinear", "Clip", "Reshape", "Flatten":
			at = n.Outputs[0]
		case "Sub", "Div", "Mul", "Add", "BatchNormalization", "Scaler", "LayerNormalization":
			return true
		default:
			return false
		}
	}
	return false
}

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/onnxio/codec"
	"cfq/ptq"
	"cfq/sensitivity"
	"cfq/task"
)

// sensitivityFlags are the flags of sensitivity.
type sensitivityFlags struct {
	data, task, rows string
	from, overrides  string
	method, errors   string
	budget           float64
	probes           int
	seed             uint64
	calibrationRows  rowCount
	teacher          teacherFlags
	plot             string
	overwrite        bool
}

func sensitivityCommand() command {
	return command{
		name:    "sensitivity",
		args:    "MODEL -d DATA -t TASK",
		summary: "show how much each layer matters, by gradient, curvature and quantization error",
		about: `
Measures each layer that can be quantized at the rows of the data, as they are
labelled, and at the recourse points of the people whom the model refuses:

  gradient   mean l1 norm of the gradient of a row's loss by the layer's weights;
             at recourse points the paper's counterfactual sensitivity
  curvature  trace of the Hessian of the loss by the layer's weights (HAWQ-V2),
             estimated with random vectors, with its standard error
  error      quantization error of the margin: the layer alone at 2, 3, 4 or 8 bits

and then what bits each rule would give the layers at a budget, and what becomes
of the margin of the whole model with them. --plot draws the same. Nothing is
quantized for good: that is cfq quantize. docs/sensitivity.md defines all of it.

The layers are calibrated and rounded as --method says. Use the training rows
as data.`,
		examples: []string{
			"cfq sensitivity model.onnx -d train.csv -t task.yaml",
			"cfq sensitivity model.onnx -d train.csv -t task.yaml --budget 3 --plot profile.svg",
			"cfq sensitivity model.onnx -d train.csv -t task.yaml --method cf-ptq-paper --probes 256 --json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &sensitivityFlags{}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "the calibration rows: a CSV `file`, also gzipped")
			fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
			fs.StringVar(&f.plot, "plot", "", "draw the profiles into a `file`: .svg or .png")
			fs.StringVar(&f.method, "method", "cf-ptq", "calibrate and round as this `method` of cfq quantize does")
			fs.Float64Var(&f.budget, "budget", 4, "mean `bits` per weight that the rules may give, 2 to 8")
			fs.IntVar(&f.probes, "probes", sensitivity.DefaultProbes, "random vectors for each trace; four times as many halve its standard error")
			fs.Uint64Var(&f.seed, "seed", 1, "seed of the random vectors")
			fs.StringVar(&f.errors, "margin-error", string(ptq.ErrorsAuto), "how quantization errors are found: "+strings.Join(ptq.Names(ptq.ErrorMethods()), ", "))
			f.calibrationRows.add(fs)
			f.teacher.add(fs)
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVar(&f.from, "promises", "", fromHelp)
			fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
			fs.BoolVar(&f.overwrite, "overwrite", false, "replace the plot if it exists")
			return f.run
		},
	}
}

// check looks at the flags before any work is done.
func (f *sensitivityFlags) check(args []string) error {
	if err := arguments("sensitivity", args, "MODEL"); err != nil {
		return err
	}
	if err := checkMethod(f.method, f.budget); err != nil {
		return err
	}
	if err := oneOf("margin-error", f.errors, ptq.Names(ptq.ErrorMethods())); err != nil {
		return err
	}
	if f.probes < 2 {
		return cli.Usagef("two are the least that a standard error can be had from", "--probes %d", f.probes)
	}
	if err := f.calibrationRows.check(); err != nil {
		return err
	}
	if err := f.teacher.check(); err != nil {
		return err
	}
	if f.plot == "" {
		return nil
	}
	if !slices.Contains(chart.Formats(), f.format()) {
		return cli.Usagef("the name must end in .svg or .png", "--plot %s: that is no kind of picture that can be drawn", f.plot)
	}
	if err := cli.Output(f.plot, f.overwrite); err != nil {
		return err
	}
	return cli.Distinct(append(codec.ExternalFiles(args[0]), args[0], f.data, f.task, f.rows, f.from, f.overrides), []string{f.plot})
}

// format is the kind of picture that the plot's name asks for.
func (f *sensitivityFlags) format() string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(f.plot), "."))
}

func (f *sensitivityFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	t, err := readTask(f.task)
	if err != nil {
		return err
	}
	set, err := actionSet(f.task, f.overrides, t)
	if err != nil {
		return err
	}
	m, err := readModel(args[0])
	if err != nil {
		return err
	}
	people, given, err := promised(ctx, e, f.data, f.rows, f.from, t, task.ReadOptions{})
	if err != nil {
		return err
	}
	who := set.of(people)
	set.warn(e)
	promises, err := judgedBy(ctx, e, args[0], m, t, who, given)
	if err != nil {
		return err
	}
	p, err := ptq.Sensitivity(ctx, m, t, people, ptq.Options{
		Method: ptq.MethodName(f.method), Budget: f.budget, Teacher: f.teacher.options(), Cache: f.teacher.cache(),
		Promises: promises, Overrides: set.list, Engine: e.engine(), Workers: e.workers,
		Rows:     f.calibrationRows.option(),
		Progress: e.progress(),
	}, ptq.ProfileOptions{Probes: f.probes, Seed: f.seed, Errors: ptq.ErrorMethod(f.errors)})
	if err != nil {
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	for _, w := range p.Warnings {
		e.msg.Warn("%s", w)
	}
	if f.plot != "" {
		err := cli.Write(f.plot, func(w io.Writer) error { return chart.Draw(w, f.format(), profileCharts(p)...) })
		if err != nil {
			return err
		}
	}
	if e.json {
		return writeJSON(e.stdout, p)
	}
	return writeProfile(e.stdout, p)
}

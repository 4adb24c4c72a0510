package main

import (
	"context"
	"math"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/onnxio/codec"
)

// recourseFlags are the flags of recourse.
type recourseFlags struct {
	data, task, rows, out, from string
	overrides                   string
	margin                      float64
	seed                        uint64
	restarts                    int
	exact                       bool
	robust                      robustFlags
	overwrite                   bool
}

func recourseCommand() command {
	return command{
		name:    "recourse",
		args:    "MODEL -d DATA -t TASK",
		summary: "find what people can change, or check what they were promised",
		about: `
Finds for each person the cheapest change that the task file allows and that the
model accepts with the required margin. With -o it writes a promises file: a CSV
row per person with the status, the action in raw units, its cost and margins,
and the person's values after the action, which are exactly those that the model
judged. People are read, helped and written a batch at a time, so the data may
be of any length.

With --promises it finds nothing but reads a promises file, its own or another
library's, and reports which promises the task allows and the model keeps.
docs/promises.md describes the file.

With --robust M the model is quantized as well, in ways that toolchains may differ
in, and an action must hold in all of these files; a table says how far that carries
over to others (docs/robust.md).`,
		examples: []string{
			"cfq recourse model.onnx -d people.csv -t task.yaml -o promises.csv",
			"cfq recourse model.onnx -d people.csv -t task.yaml --margin 0.1 --json",
			"cfq recourse model.onnx -d people.csv -t task.yaml --exact",
			"cfq recourse model.onnx -d people.csv -t task.yaml --robust 8 --calibration train.csv -o promises.csv",
			"cfq recourse model.onnx -d people.csv -t task.yaml --promises promises.csv",
			"cfq recourse model.onnx -t task.yaml --promises factual-and-counterfactual.csv",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &recourseFlags{}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "the people: a CSV `file`, also gzipped")
			fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
			fs.StringVarP(&f.out, "output", "o", "", "the promises `file` to write")
			fs.StringVar(&f.from, "promises", "", "check this promises `file` instead of finding actions; with -o it is written anew")
			fs.Float64Var(&f.margin, "margin", 0, "required logit `margin`; else the task's")
			fs.Uint64Var(&f.seed, "seed", 1, "seed of the solver")
			fs.IntVar(&f.restarts, "restarts", 0, "random restarts of the solver; 0 is its default")
			fs.BoolVar(&f.exact, "exact", false, "find the cheapest action for certain, or prove that there is none; who needs too long a proof gets the solver's action, which is said; refuses when no proof is possible at all")
			fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
			f.robust.add(fs)
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.BoolVar(&f.overwrite, "overwrite", false, "replace an output that exists")
			return func(ctx context.Context, e *env, args []string) error {
				return f.run(ctx, e, fs.Changed, args)
			}
		},
	}
}

func (f *recourseFlags) run(ctx context.Context, e *env, given func(flag string) bool, args []string) (err error) {
	if err := f.check(given, args); err != nil {
		return err
	}
	t, err := readTask(f.task)
	if err != nil {
		return err
	}
	if !given("margin") {
		f.margin = t.Target.Margin
	}
	if !(f.margin >= 0) || math.IsInf(f.margin, 1) {
		return cli.Usagef("0 asks for any favourable decision", "--margin %v: a required margin is a number of 0 or more", f.margin)
	}
	set, err := actionSet(f.task, f.overrides, t)
	if err != nil {
		return err
	}
	m, err := readModel(args[0])
	if err != nil {
		return err
	}
	c, err := openClassifier(ctx, e, args[0], m, t)
	if err != nil {
		return err
	}
	defer c.Close()
	job := &recourseJob{recourseFlags: f, e: e, t: t, model: c, set: set}
	if f.from != "" {
		return job.checkPromises(ctx)
	}
	if f.robust.models > 0 {
		run, err := f.robust.open(ctx, e, m, t, f.data, f.rows, f.seed)
		if err != nil {
			return err
		}
		defer run.fleet.Close() //nolint:errcheck // nothing was written
		job.robust, job.model = run, run.model()
	}
	return job.findRecourse(ctx)
}

// check looks at the flags before any work is done; given says which of them were.
func (f *recourseFlags) check(given func(flag string) bool, args []string) error {
	if err := arguments("recourse", args, "MODEL"); err != nil {
		return err
	}
	if f.exact && f.from != "" {
		return cli.Usagef("", "--exact finds actions and --promises reads them: give one of the two")
	}
	if err := f.robust.check(f.from, given); err != nil {
		return err
	}
	var outputs []string
	if f.out != "" {
		outputs = []string{f.out}
		if err := cli.Output(f.out, f.overwrite); err != nil {
			return err
		}
	}
	return cli.Distinct(append(codec.ExternalFiles(args[0]), args[0], f.data, f.task, f.rows, f.from, f.overrides, f.robust.calibration), outputs)
}

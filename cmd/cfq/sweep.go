package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/task"
)

// sweepFlags are the flags of sweep.
type sweepFlags struct {
	data, rows, test, testRows string
	task, out                  string
	methods                    []string
	budgets, margins           numbers
	cost                       string
	sample, restarts           int
	seed                       uint64
	calibrationRows            rowCount
	teacher                    teacherFlags
	png, overwrite             bool
}

// The files of a sweep.
const (
	sweepPoints = "points.jsonl"
	sweepTable  = "curves.csv"
	sweepSVG    = "curves.svg"
	sweepPNG    = "curves.png"
)

func sweepCommand() command {
	return command{
		name:    "sweep",
		args:    "MODEL -d TRAIN -t TASK --test TEST -o DIR",
		summary: "draw what methods and budgets cost in recourse, accuracy and bytes",
		about: `
Quantizes the model by several methods at several budgets and measures each
against the original, as quantize and eval do. The folder DIR, which is made when
there is none, gets points.jsonl, with one line for each point as soon as it is
finished; and at the end curves.csv and curves.svg: VD, RVD, CRG and accuracy over
the budget and over the size of the file. docs/sweep.md says what they show.

A run that was stopped goes on where it was when the same command is given again.
With other inputs or options that is an error, not a mixture.`,
		examples: []string{
			"cfq sweep model.onnx -d train.csv -t task.yaml --test test.csv -o sweep",
			"cfq sweep model.onnx -d train.csv -t task.yaml --test test.csv -o sweep --methods cf-ptq,ptq --budgets 2,3,4 --sample 300",
			"cfq sweep model.onnx -d all.csv -t task.yaml --rows '!split.json' --test-rows split.json -o sweep --json > sweep.json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &sweepFlags{}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "the calibration rows: a CSV `file`, also gzipped")
			fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
			fs.StringVar(&f.test, "test", "", "the rows to measure on: a CSV `file`; else those of --data that --test-rows chooses")
			fs.StringVarP(&f.out, "output", "o", "", "the `folder` for the results")
			fs.StringSliceVar(&f.methods, "methods", nil, "`names` of methods, separated by commas: "+strings.Join(ptq.MethodNames(), ", ")+"; else all")
			fs.Var(&f.budgets, "budgets", "mean `bits` per weight, 2 to 8, separated by commas; else 2,2.5,3,3.5,4,5,6,8")
			fs.StringVar(&f.cost, "cost", string(ptq.CostBits), "what a budget counts: "+strings.Join(ptq.Names(ptq.FindSetting("cost").Choices), ", "))
			fs.Var(&f.margins, "margin", "required logit `margins`, separated by commas: 0.1 unless there are some")
			fs.IntVar(&f.sample, "sample", 0, "measure on a random sample of this many refused people; 0 takes all")
			fs.Uint64Var(&f.seed, "seed", 1, "seed of the sample and of the solver")
			fs.IntVar(&f.restarts, "restarts", 0, "random restarts of the solver; 0 is the solver's default")
			f.calibrationRows.add(fs)
			f.teacher.add(fs)
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVar(&f.testRows, "test-rows", "", "the same, of the rows to measure on: such a `file`, or !file")
			fs.BoolVar(&f.png, "png", false, "write "+sweepPNG+" too")
			fs.BoolVar(&f.overwrite, "overwrite", false, "begin anew and replace what is in the folder")
			return f.run
		},
	}
}

func (f *sweepFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	t, err := readTask(f.task)
	if err != nil {
		return err
	}
	m, err := readModel(args[0])
	if err != nil {
		return err
	}
	people, err := readPeople(ctx, e, f.data, f.rows, t)
	if err != nil {
		return err
	}
	test, err := readPeople(ctx, e, f.test, f.testRows, t)
	if err != nil {
		return err
	}
	o := f.options(e)
	in, err := ptq.NewSweepInputs(m, t, people, test, o)
	if err != nil {
		return runError(err)
	}
	log, err := f.open(in)
	if err != nil {
		return err
	}
	if n := len(log.Points); n > 0 {
		e.msg.Note("%s: %s finished before", f.path(sweepPoints), counted(n, "point"))
	}
	r, err := f.sweep(ctx, e, m, t, people, test, o, log)
	if err = errors.Join(err, log.Close()); err != nil {
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	return f.write(e, in, r)
}

// sweep runs what is missing of the sweep.
func (f *sweepFlags) sweep(ctx context.Context, e *env, m *graph.Model, t *task.Task, people, test *task.People, o ptq.SweepOptions, log *ptq.SweepLog) (*ptq.SweepResult, error) {
	kept := len(log.Points)
	o.Done = log.Points
	o.Finished = func(p ptq.SweepPoint) error {
		kept++
		return log.Append(p)
	}
	o.Progress = e.progress()
	r, err := ptq.Sweep(ctx, m, t, people, test, o)
	if ctx.Err() != nil {
		e.msg.Hint(fmt.Sprintf("%s in %s; the same command goes on from there", counted(kept, "point"), f.path(sweepPoints)))
	}
	return r, err
}

func (f *sweepFlags) options(e *env) ptq.SweepOptions {
	var methods []ptq.MethodName
	for _, name := range f.methods {
		methods = append(methods, ptq.MethodName(name))
	}
	return ptq.SweepOptions{
		Methods: methods, Budgets: f.budgets, Margins: f.margins, Sample: f.sample, Seed: f.seed, Workers: e.workers,
		Solver:   recourse.SolveOptions{Restarts: f.restarts},
		Quantize: ptq.Options{Cost: ptq.Cost(f.cost), Rows: f.calibrationRows.option(), Teacher: f.teacher.options(), Cache: f.teacher.cache(), Engine: e.engine()},
	}
}

func (f *sweepFlags) path(name string) string { return filepath.Join(f.out, name) }

// outputs are the files at the end.
func (f *sweepFlags) outputs() []string {
	list := []string{f.path(sweepPoints), f.path(sweepTable), f.path(sweepSVG)}
	if f.png {
		list = append(list, f.path(sweepPNG))
	}
	return list
}

// check looks at the flags before any work is done.
func (f *sweepFlags) check(args []string) error {
	if err := arguments("sweep", args, "MODEL"); err != nil {
		return err
	}
	if f.out == "" {
		return cli.Usagef("-o sweep names a folder", "--output is missing")
	}
	switch {
	case f.test == "" && f.testRows == "":
		return cli.Usagef("--test test.csv names rows that are not those of --data; --test-rows chooses rows of --data", "--test is missing")
	case f.sample < 0:
		return cli.Usagef("0 takes all", "--sample %d: there are no such people", f.sample)
	case f.test == "":
		f.test = f.data
	}
	for _, name := range f.methods {
		if err := oneOf("methods", name, ptq.MethodNames()); err != nil {
			return err
		}
	}
	for _, b := range f.budgets {
		if err := checkBudget("budgets", b); err != nil {
			return err
		}
	}
	if err := oneOf("cost", f.cost, ptq.Names(ptq.FindSetting("cost").Choices)); err != nil {
		return err
	}
	if err := f.calibrationRows.check(); err != nil {
		return err
	}
	if err := f.teacher.check(); err != nil {
		return err
	}
	info, err := os.Stat(f.out)
	switch {
	case f.out == "-":
		return cli.Output(f.out, false)
	case err == nil && !info.IsDir():
		return cli.Usagef("name a folder", "output %s is a file", f.out)
	case err == nil:
		return cli.Distinct(append(codec.ExternalFiles(args[0]), args[0], f.data, f.test, f.task, f.rows, f.testRows), f.outputs())
	case !errors.Is(err, fs.ErrNotExist):
		return cli.Usagef("", "output: %w", err)
	}
	return cli.Output(f.out, false)
}

// open makes the folder and opens the log in it. Curves without a log are not ours.
func (f *sweepFlags) open(in ptq.SweepInputs) (*ptq.SweepLog, error) {
	if err := os.Mkdir(f.out, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, cli.Usagef("", "output: %w", err)
	}
	_, err := os.Stat(f.path(sweepPoints))
	for _, path := range f.outputs() {
		if err := cli.Output(path, f.overwrite || err == nil); err != nil {
			return nil, err
		}
	}
	log, err := ptq.OpenSweepLog(f.path(sweepPoints), in, f.overwrite)
	var input *ptq.InputError
	if errors.As(err, &input) {
		return nil, cli.Wrap(err, cli.Unusable, "name another folder behind -o; --overwrite begins anew in this one")
	}
	return log, err
}

// write puts the files in place and shows the points.
func (f *sweepFlags) write(e *env, in ptq.SweepInputs, r *ptq.SweepResult) error {
	v := newSweepView(r, ptq.Cost(f.cost))
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{sweepTable, v.csv},
		{sweepSVG, func(w io.Writer) error { return v.draw(w, "svg") }},
		{sweepPNG, func(w io.Writer) error { return v.draw(w, "png") }},
		{sweepPoints, func(w io.Writer) error { return ptq.WriteSweepLog(w, in, r) }},
	} {
		if file.name == sweepPNG && !f.png {
			continue
		}
		if err := cli.Write(f.path(file.name), file.write); err != nil {
			return err
		}
	}
	for _, w := range v.warnings() {
		e.msg.Warn("%s", w)
	}
	if e.json {
		return writeJSON(e.stdout, struct {
			Inputs ptq.SweepInputs `json:"inputs"`
			*ptq.SweepResult
		}{in, r})
	}
	return v.text(e.stdout, strings.Join(f.outputs(), ", "))
}

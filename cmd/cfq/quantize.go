package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/onnxio/graph"
	"cfq/ptq"
	"cfq/recourse/promise"
	"cfq/task"
)

func quantizeCommand() command {
	return command{
		name:    "quantize",
		args:    "MODEL -d DATA -t TASK -o OUTPUT",
		summary: "quantize a model so that its recourse holds",
		about: `
Finds teacher recourse points on the data, calibrates the quantizers, gives each
layer or row 2, 3, 4 or 8 bits under the budget, and writes an ONNX file that runs
on the integer kernels of ONNX Runtime. The file is opened again and checked before
it is put in place: every layer must run as planned, and the optimized and the
unoptimized graph must agree.

With --target-vd it looks for the smallest budget at which at most that share of
promises breaks, as shown by people who were held out (docs/target-vd.md). With
--plan it writes the model that a saved plan describes, from nothing else
(docs/plan.md). With --promises the recourse points are those of a promises file, such as
cfq recourse writes: what was promised is what must survive.

Use the training rows as data, and rows that the model has never seen for eval.`,
		notes: quantizeNotes(),
		examples: []string{
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --target-vd 0.02",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --method ptq --budget 8",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --promises promises.csv",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --keep-float /layers.4/Gemm --save-plan plan.json",
			"cfq quantize model.onnx --plan plan.json -o model.q.onnx",
			"cfq quantize model.onnx -d all.csv -t task.yaml -o model.q.onnx --rows '!split.json' --json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &quantizeFlags{given: fs.Changed}
			fs.SortFlags = false
			f.add(fs)
			return f.run
		},
	}
}

// quantizeNotes explains the methods and the values of flags, from the tables.
func quantizeNotes() string {
	var b strings.Builder
	b.WriteString("Methods:\n")
	for _, m := range ptq.Methods() {
		item(&b, string(m.Name), m.Doc)
	}
	b.WriteString("\nWhat a method stands for where a flag is not given:\n")
	writeMethods(&b)
	for _, s := range ptq.Settings() {
		if s.Name == "act-range" {
			continue // as weight-range
		}
		fmt.Fprintf(&b, "\n--%s, %s:\n", s.Name, s.Doc)
		for _, choice := range s.Choices {
			item(&b, choice.Name, choice.Doc)
		}
	}
	return b.String()
}

func (f *quantizeFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if f.plan != "" {
		return f.runPlan(ctx, e, args[0])
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
	people, given, err := f.people(ctx, e, t)
	if err != nil {
		return err
	}
	who := set.of(people)
	set.warn(e)
	o := f.options(e)
	if o.Promises, err = judgedBy(ctx, e, args[0], m, t, who, given); err != nil {
		return err
	}
	if o.Recipe, err = f.recipe(args[0], people); err != nil {
		return err
	}
	f.calibrating = people
	o.Overrides = set.list
	if f.target.VD > 0 {
		return f.runTarget(ctx, e, args[0], m, t, people, o)
	}
	r, err := ptq.Quantize(ctx, m, t, people, o)
	if err != nil {
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	if err := f.usable(e, r); err != nil {
		return err
	}
	return f.write(e, r, nil)
}

// mostRead is how many rows are kept in memory: of more, so many are drawn.
const mostRead = 100000

// people reads the rows to calibrate on, with --promises all of them and the promises.
func (f *quantizeFlags) people(ctx context.Context, e *env, t *task.Task) (*task.People, *promise.File, error) {
	if f.from != "" {
		return promised(ctx, e, f.data, f.rows, f.from, t, task.ReadOptions{Hash: true})
	}
	most := 0 // no bound
	if f.calibrationRows > 0 {
		most = max(mostRead, int(f.calibrationRows))
	}
	p, err := readSample(ctx, e, f.data, f.rows, t, most, f.target.Seed)
	return p, nil, err
}

// readSample is readPeople for at most most rows; 0 = all.
func readSample(ctx context.Context, e *env, path, spec string, t *task.Task, most int, seed uint64) (*task.People, error) {
	o, err := readOptions(path, spec)
	if err != nil {
		return nil, err
	}
	o.Most, o.Seed, o.Hash = most, seed, true
	p, err := task.Read(ctx, path, t, o)
	if err != nil {
		return nil, dataError(err)
	}
	warnRows(e, path, p)
	if p.Thinned > 0 {
		e.msg.Note("%s: %d of %d rows were drawn", path, p.N, p.N+p.Thinned)
	}
	return p, nil
}

// usable says what is not as expected about a result, and refuses one that must not be shipped.
func (f *quantizeFlags) usable(e *env, r *ptq.Result) error {
	for _, w := range r.Warnings {
		e.msg.Warn("%s", w)
	}
	if r.Bytes >= r.FloatBytes {
		return cli.Wrap(fmt.Errorf("%s was not written: it would have %d bytes, and the original has %d", f.out, r.Bytes, r.FloatBytes), cli.Unusable, "a very small model is best left in float")
	}
	if err := r.Verified.Err(); err != nil {
		return cli.Wrap(fmt.Errorf("%s was not written: %w", f.out, err), cli.RunFailed, "the model is correct in float; a report of this is welcome")
	}
	return nil
}

// recipe says which files the quantized model was made from.
func (f *quantizeFlags) recipe(model string, people *task.People) (_ map[string]string, err error) {
	r := map[string]string{"cfq": release(), "rows": f.rows}
	for key, path := range map[string]string{"model": model, "data": f.data, "task": f.task, "promises": f.from, "overrides": f.overrides} {
		if path == "" {
			continue
		}
		if _, r[key], err = fileHash(path); err != nil {
			return nil, err
		}
	}
	if people.Thinned > 0 {
		r["drawn"] = fmt.Sprintf("%d of %d rows, seed %d", people.N, people.N+people.Thinned, f.target.Seed)
	}
	return r, nil
}

// runTarget looks for the smallest model that keeps the target. The model is written in any case; one that
// does not keep the target ends with the code Missed.
func (f *quantizeFlags) runTarget(ctx context.Context, e *env, path string, m *graph.Model, t *task.Task, people *task.People, o ptq.Options) error {
	r, err := ptq.Smallest(ctx, m, t, people, o, f.target)
	var few *ptq.TooFew
	switch {
	case errors.As(err, &few):
		return cli.Wrap(fmt.Errorf("inconclusive: %w", err), cli.Inconclusive, "more rows of data, a larger --holdout or a larger --target-vd; nothing was quantized")
	case err != nil:
		return runError(fmt.Errorf("model %s: %w", path, err))
	}
	if err := f.usable(e, r.Result); err != nil {
		return err
	}
	if err := f.write(e, r.Result, r); err != nil || r.Reached {
		return err
	}
	c := r.Candidates[r.Chosen].HeldOut
	return cli.Wrap(fmt.Errorf("no budget up to 8 bits was shown to keep VD(%g) within %g; %s is the best found: at most %.4f of its promises break, and %.4f of the reverse ones, as far as %d people can show",
		f.target.Margin, f.target.VD, f.out, float64(c.VD.Upper), float64(c.RVD.Upper), r.Asked), cli.Missed,
		"more people narrow the bounds; a larger --target-margin, --method cf-ptq or --keep-float the errors")
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"cfq"
	"cfq/internal/cli"
	"cfq/onnxio"
)

// quantizeFlags are the flags of quantize.
type quantizeFlags struct {
	data, task, rows, out string
	from, overrides       string
	method, allocator     string
	rounding              string
	budget                float64
	scales                string
	reduced               bool
	teacher               teacherFlags
	plan                  string
	overwrite             bool
}

func quantizeCommand() command {
	var methods strings.Builder
	for _, m := range cfq.Methods() {
		item(&methods, m.Name, m.Doc)
	}
	return command{
		name:    "quantize",
		args:    "MODEL -d DATA -t TASK -o OUTPUT",
		summary: "quantize a model so that its recourse holds",
		about: `
Finds teacher recourse points on the data, calibrates the quantizers, gives each
layer 2, 3, 4 or 8 bits under the budget, and writes an ONNX file that runs on
the integer kernels of ONNX Runtime. The file is opened again and checked before
it is put in place: every layer must run on an integer kernel, and the optimized
and the unoptimized graph must agree.

Methods:
` + methods.String() + `
With --from the recourse points are those of a promises file, such as cfq recourse
writes, in place of the teacher's: what was promised is what must survive. A file
with factual rows of its own needs no --data.

Use the training rows as data, and rows that the model has never seen for eval.`,
		examples: []string{
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --method ptq --budget 8",
			"cfq quantize model.onnx -d train.csv -t task.yaml -o model.q.onnx --from promises.csv",
			"cfq quantize model.onnx -d all.csv -t task.yaml -o model.q.onnx --rows '!split.json' --json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &quantizeFlags{}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "the calibration rows: a CSV `file`, also gzipped")
			fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
			fs.StringVarP(&f.out, "output", "o", "", "the quantized model `file`")
			fs.StringVar(&f.method, "method", "cf-ptq", "the `method`; see above")
			fs.Float64Var(&f.budget, "budget", 4, "mean `bits` per weight, 2 to 8; scales and biases come on top")
			fs.StringVar(&f.allocator, "allocator", "", "how bits are given: "+strings.Join(cfq.Names(cfq.Allocators()), ", ")+"; else as the method says")
			fs.StringVar(&f.rounding, "rounding", "", "how weights are rounded: "+strings.Join(cfq.Names(cfq.Roundings()), ", ")+"; else as the method says")
			fs.StringVar(&f.scales, "scales", "", "what has a weight scale of its own: "+strings.Join(cfq.Names(cfq.ScaleKinds()), ", ")+"; else as the method says")
			fs.BoolVar(&f.reduced, "reduced-range", false, "8-bit weights in 7 bits: the same results on CPUs without VNNI")
			f.teacher.add(fs)
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVar(&f.from, "from", "", fromHelp)
			fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
			fs.StringVar(&f.plan, "save-plan", "", "write the plan, what bits and scales went where, as a JSON `file`")
			fs.BoolVar(&f.overwrite, "overwrite", false, "replace outputs that exist")
			return f.run
		},
	}
}

func (f *quantizeFlags) run(ctx context.Context, e *env, args []string) error {
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
	people, given, err := promised(ctx, e, f.data, f.rows, f.from, t)
	if err != nil {
		return err
	}
	who := set.of(people)
	set.warn(e)
	promises, err := judgedBy(ctx, e, args[0], m, t, who, given)
	if err != nil {
		return err
	}
	recipe, err := f.recipe(args[0])
	if err != nil {
		return err
	}
	show := e.msg.Stages()
	r, err := cfq.Quantize(ctx, m, t, people, cfq.Options{
		Method: f.method, Budget: f.budget, Allocator: f.allocator, Rounding: f.rounding, Scales: f.scales, Reduced: f.reduced,
		Teacher: f.teacher.options(), Cache: f.teacher.cache(),
		Promises: promises, Overrides: set.list, Recipe: recipe,
		Engine: e.engine(), Workers: e.workers,
		Progress: func(ev cfq.Event) { show(ev.Stage, ev.Done, ev.Total) },
	})
	if err != nil {
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	for _, w := range r.Warnings {
		e.msg.Warn("%s", w)
	}
	if err := r.Verified.Err(); err != nil {
		return cli.Wrap(fmt.Errorf("%s was not written: %w", f.out, err), cli.RunFailed, "a very small model is best left in float; a larger one may fit with a smaller --budget")
	}
	return f.write(e, r)
}

// recipe says which files the quantized model was made from.
func (f *quantizeFlags) recipe(model string) (_ map[string]string, err error) {
	r := map[string]string{"cfq": release(), "rows": f.rows}
	for key, path := range map[string]string{"model": model, "data": f.data, "task": f.task, "promises": f.from, "overrides": f.overrides} {
		if path == "" {
			continue
		}
		if _, r[key], err = fileHash(path); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check looks at the flags before any work is done.
func (f *quantizeFlags) check(args []string) error {
	if err := arguments("quantize", args, "MODEL"); err != nil {
		return err
	}
	if f.out == "" {
		return cli.Usagef("-o model.q.onnx names the file to write", "--output is missing")
	}
	if err := checkMethod(f.method, f.budget); err != nil {
		return err
	}
	if f.allocator != "" {
		if err := oneOf("allocator", f.allocator, cfq.Names(cfq.Allocators())); err != nil {
			return err
		}
	}
	if f.rounding != "" {
		if err := oneOf("rounding", f.rounding, cfq.Names(cfq.Roundings())); err != nil {
			return err
		}
	}
	if m, err := cfq.FindMethod(f.method); err == nil && m.CalibrateOn == cfq.OnFactual && !m.RecourseSensitivity {
		switch {
		case f.from != "":
			return cli.Usagef("--method cf-ptq calibrates on them", "--from: the method %s has no use for promises", f.method)
		case f.overrides != "":
			return cli.Usagef("--method cf-ptq calibrates on recourse", "--overrides: the method %s has no use for what people can change", f.method)
		}
	}
	if err := f.teacher.check(); err != nil {
		return err
	}
	outputs := []string{f.out}
	if f.plan != "" {
		outputs = append(outputs, f.plan)
	}
	for _, path := range outputs {
		if err := cli.Output(path, f.overwrite); err != nil {
			return err
		}
	}
	return cli.Distinct(append(onnxio.ExternalFiles(args[0]), args[0], f.data, f.task, f.rows, f.from, f.overrides), outputs)
}

// oneOf reports a flag whose value is none of the choices.
func oneOf(flag, value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	hint := fmt.Sprintf("the choices are %s", strings.Join(choices, ", "))
	if s := cli.Suggest(value, choices); s != "" {
		hint = fmt.Sprintf("did you mean %s?", s)
	}
	return cli.Usagef(hint, "--%s %s: there is no such %s", flag, value, flag)
}

// write puts the files in place, the model last, and says what was done.
func (f *quantizeFlags) write(e *env, r *cfq.Result) error {
	if f.plan != "" {
		if err := cli.Write(f.plan, func(w io.Writer) error { return writeJSON(w, r.Plan) }); err != nil {
			return err
		}
	}
	err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(r.Model); return err })
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, r)
	}
	return writeQuantized(e.stdout, f.out, r)
}

func writeQuantized(out io.Writer, path string, r *cfq.Result) error {
	fmt.Fprintf(out, "%s: %s, %.2f bits per weight (budget %g), %d bytes (float %d, %.1fx smaller)\n",
		path, r.Method, r.Bits, r.Budget, r.Bytes, r.FloatBytes, float64(r.FloatBytes)/float64(r.Bytes))
	if r.Recourse > 0 {
		what := "teacher recourse points"
		if r.Promised {
			what = "promised points"
		}
		fmt.Fprintf(out, "calibrated on %d rows and %d %s, %d of them past the decision\n\n", r.Factual, r.Recourse, what, r.Reached)
	} else {
		fmt.Fprintf(out, "calibrated on %d rows\n\n", r.Factual)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tweights\tbits\tscales\tsensitivity\tkernel\t")
	kernels := map[string]string{}
	for _, l := range r.Verified.Layers {
		kernels[l.Node] = l.Kernel
	}
	for _, l := range r.Layers {
		if l.Float != "" {
			fmt.Fprintf(w, "%s\t%d\tfloat\t\t\t%s\t\n", l.Node, l.Params, l.Float)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.3g\t%s\t\n", l.Node, l.Params, l.Bits, l.Channels, l.Score, kernels[l.Node])
	}
	return w.Flush()
}

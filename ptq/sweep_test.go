package ptq

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/allocate"
	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/recourse/constraint"
	"cfq/task"
)

func sweepLoans(t *testing.T) (m *graph.Model, tk *task.Task, train, test *task.People, o SweepOptions) {
	t.Helper()
	m, tk, train = loans(t, "train.csv")
	_, _, test = loans(t, "test.csv")
	return m, tk, few(train, 200), few(test, 150), SweepOptions{
		Methods: []string{"ptq", "cf-ptq-calib"}, Budgets: []float64{4.5, 2, 4},
		Options: eval.Options{Margins: []float64{0.1, 0.25}, Sample: 4, Seed: 5},
	}
}

func sweepOf(t *testing.T, o SweepOptions) *SweepResult {
	t.Helper()
	m, tk, train, test, _ := sweepLoans(t)
	return must.Get(Sweep(t.Context(), loaded(t, m), tk, train, test, o))(t)
}

func numbers() cmp.Option {
	return cmp.Comparer(func(a, b eval.Float) bool { return a == b || !a.Defined() && !b.Defined() })
}

// Every point is what Quantize and a plain eval.Compare give.
func TestSweepIsQuantizeAndCompare(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	r := sweepOf(t, o)
	set := must.Get(constraint.Compile(tk))(t)
	must.Same(t, 6, len(r.Points))
	differ := 0
	for i, p := range r.Points {
		if i > 0 && !reflect.DeepEqual(p.Measured.Margins, r.Points[0].Measured.Margins) {
			differ++
		}
		if i != 1 && i != 5 { // the others come about in the same way
			continue
		}
		method, budget := o.Methods[i/3], []float64{2, 4, 4.5}[i%3]
		recipe := mustRecipe(method, fmt.Sprint("allocate.budget=", budget))
		q := quantized(t, m, tk, train, recipe)
		if p.Method != method || p.Budget != budget || p.Bytes != q.Bytes || p.Bits != q.Bits ||
			len(p.BitWidths) != len(q.Layers) || p.BitWidths[1] != float64(q.Layers[1].Bits) {
			t.Errorf("point %d: %s %v, %d bytes, %v bits, widths %v", i, p.Method, p.Budget, p.Bytes, p.Bits, p.BitWidths)
		}
		written := must.Get(codec.Read(q.Model, ""))(t)
		f := must.Get(taskmodel.Open(loaded(t, m), tk, 1))(t)
		g := must.Get(taskmodel.Open(loaded(t, written), tk, 1))(t)
		want, err := eval.Compare(t.Context(), f, g, &eval.Batch{People: test, Set: set}, eval.Options{
			Margins: o.Margins, Sample: o.Sample,
			Seed: o.Seed,
		})
		must.Do(t, errors.Join(err, f.Close(), g.Close()))
		want.Records = nil
		must.Same(must.In(t, method, budget), want, p.Measured, numbers())
	}
	if r.Points[2].Same != 4 || r.Points[1].Same != 0 || r.Points[2].Measured != r.Points[1].Measured {
		t.Error("uniform widths at 4.5 bits are those at 4, and that is not seen")
	}
	if differ == 0 {
		t.Error("all points are alike")
	}
}

// A sweep that is stopped at any point and run again, with any number of workers, gives the
// result of one run; what was finished is not computed again.
func TestSweepResumes(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Sample = 3
	want := sweepOf(t, o)
	for run, stop := range []int{1, 2, 99} {
		ctx, cancel := context.WithCancel(t.Context())
		var computed []SweepPoint
		o.Workers = 1 + run
		o.Finished = func(p SweepPoint) error {
			if len(computed) == stop {
				return nil // came too late to be kept
			}
			if computed = append(computed, p); len(computed) == stop {
				cancel()
			}
			return nil
		}
		got, err := Sweep(ctx, loaded(t, m), tk, train, test, o)
		cancel()
		if stop < 99 && (!errors.Is(err, context.Canceled) || len(computed) != stop) {
			t.Fatalf("run %d: %d computed: %v", run, len(computed), err)
		}
		if o.Done = append(o.Done, computed...); stop < 99 {
			continue
		}
		if d := cmp.Diff(want, got, numbers()); err != nil || d != "" || len(o.Done) != len(want.Points) {
			t.Errorf("%d points computed, %v: %s", len(o.Done), err, d)
		}
	}
}

func TestSweepOfDamagedPoints(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Methods, o.Budgets = o.Methods[:1], o.Budgets[:1]
	for _, p := range []SweepPoint{{}, {Same: 2}} {
		p.Method, p.Budget = o.Methods[0], o.Budgets[0]
		o.Done = []SweepPoint{p}
		_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, o)
		wantInputError(t, err, "no measurement")
	}
}

// A budget that a method does not fit is a point that says what quantizing says, between others that are
// as without it; it is not tried again, and alone it is an error.
func TestSweepUnfit(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Methods, o.Settings, o.Sample = []string{"ptq"}, []string{"allocate.cost=bytes"}, 2
	o.Budgets = []float64{8}
	fits := sweepOf(t, o)
	o.Budgets = []float64{2, 8}
	var told []SweepPoint
	o.Finished = func(p SweepPoint) error { told = append(told, p); return nil }
	r := sweepOf(t, o)
	of := mustRecipe("ptq", "allocate.cost=bytes", "allocate.budget=2")
	_, want := Quantize(t.Context(), loaded(t, m), tk, train, of, Run{})
	if !errors.Is(want, allocate.ErrBudget) || len(told) != 2 {
		t.Fatalf("%d points, and quantizing: %v", len(told), want)
	}
	must.Same(t, SweepPoint{Method: "ptq", Budget: 2, Unfit: want.Error()}, r.Points[0])
	must.Same(t, fits.Points[0], r.Points[1], numbers())
	o.Done, told = told, nil
	if d := cmp.Diff(r, sweepOf(t, o), numbers()); d != "" || len(told) != 0 {
		t.Errorf("%d points again: %s", len(told), d)
	}
	o.Budgets, o.Done = []float64{2}, nil
	_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, o)
	if wantInputError(t, err, want.Error()); len(told) != 1 {
		t.Errorf("nothing fits: %d points", len(told))
	}
}

func TestSweepOptions(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	for want, change := range map[string]func(*SweepOptions){
		"for method: want":     func(o *SweepOptions) { o.Methods = []string{"ptq", "gptq"} },
		"asked for twice":      func(o *SweepOptions) { o.Methods = []string{"ptq", "ptq"} },
		"budget 1":             func(o *SweepOptions) { o.Budgets = []float64{4, 1} },
		"for round.rule: want": func(o *SweepOptions) { o.Settings = []string{"round.rule=up"} },
		"for train.steps: wan": func(o *SweepOptions) { o.Settings = []string{"train.steps=3"} },
		"required margin":      func(o *SweepOptions) { o.Margins = []float64{-1} },
	} {
		bad := o
		change(&bad)
		_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, bad)
		must.Fail(t, err, want)
	}
}

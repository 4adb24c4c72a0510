package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

func TestGap(t *testing.T) {
	s := NewRecourse(0.1, true)
	of := func(status recourse.Status, cost float64) recourse.Action {
		return recourse.Action{Status: status, Cost: cost}
	}
	for _, c := range []struct{ best, search recourse.Action }{
		{of(recourse.Found, 2), of(recourse.Found, 2.5)},
		{of(recourse.Found, 2), of(recourse.Found, 2*(1-1e-7))},
		{of(recourse.Found, 0), of(recourse.Found, 0)},
		{of(recourse.Found, 4), of(recourse.Found, 5)},
		{of(recourse.Found, 1), of(recourse.NoneFound, math.NaN())},
		{of(recourse.NoneExists, math.NaN()), of(recourse.NoneFound, math.NaN())},
	} {
		s.Add(&promise.Line{Action: c.best}, recourse.Exhaustive)
		s.Compare(c.best, c.search)
	}
	s.Finish(&task.People{}, time.Second)
	must.Same(t, Gap{People: 4, Mean: 0.125, Largest: 0.25, Missed: 1}, *s.Gap)
	var out strings.Builder
	s.Write(&out, "")
	const line = "the search alone      12 % dearer on average, 25 % at most, without an action for 1\n"
	must.Has(t, out.String(), line)
	if s = NewRecourse(0.1, false); s.Gap != nil {
		t.Error("a gap without a proof")
	}
}

func TestMostUsed(t *testing.T) {
	list := []FeatureCount{{"income", 996, 0.996}, {"debt", 8, 0.008}, {"months", 4, 0.004}, {"savings", 1, 0.001}}
	if got, want := mostUsed(list), "income 100 %, debt 1 %, months <1 %, savings <1 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChanges(t *testing.T) {
	tk, err := task.Parse("task.yaml", []byte(`version: 1
data: {label: y, favourable: "1"}
target: {class: favourable, index: 1, margin: 0}
features:
  - {name: income, kind: numeric, mean: 1000, std: 500, bounds: [0, 9000]}
  - {name: job, kind: onehot, values: [none, some]}
  - {name: age, kind: numeric, mean: 40, std: 10, actionable: false}
cost: {norm: l1, weights: inverse_std, eps: 1.0e-3}
`))
	must.Do(t, err)
	set := must.Get(constraint.Compile(tk))(t)
	records := eval.NewRecords([]float64{0.1}, nil)
	found := func(point ...float32) eval.Promise { return eval.Promise{Status: recourse.Found, Point: point} }
	none := eval.Promise{Status: recourse.NoneFound}
	r := &eval.Result{
		Settings: eval.Settings{Margins: []float64{0.1}}, Margins: []eval.AtMargin{{Margin: 0.1}},
		Records: records,
	}
	for _, x := range []eval.Record{
		{X: []float32{0, 1, 0, 0}, Evaluated: true, Steps: []eval.Step{{Full: found(1, 1, 0, 0), Quant: found(0, 0, 1, 0)}}},
		{X: []float32{2, 1, 0, 1}, Row: 1, Evaluated: true, Steps: []eval.Step{{Full: found(5, 0, 1, 1), Quant: none}}},
	} {
		must.Do(t, records.Add(&x))
	}
	same := cmp.Comparer(func(a, b eval.Float) bool { return a == b || !a.Defined() && !b.Defined() })
	undefined := eval.Float(math.NaN())
	want := []Changed{
		{"income", Moves{2, 1000}, Moves{0, undefined}}, // of 500 and 1500
		{"job", Moves{1, undefined}, Moves{1, undefined}},
	}
	c := NewSurvey(&r.Settings, func(of []*eval.Record) *constraint.Set { return set })
	err = records.Visit(c.Visitor())
	must.Do(t, err)
	must.Same(t, want, c.Details(tk.Features).Changes, same)
}

func TestPromisesByBatch(t *testing.T) {
	t.Parallel()
	whole := promise.File{People: &task.People{N: 40}, Rows: 50, Failed: 10}
	var verdicts []promise.Verdict
	for i := range 40 {
		whole.Promises = append(whole.Promises, promise.Promise{Person: i, Line: 2 + (i*7)%40, Margin: 1})
		v := promise.Verdict{Margin: float64(i) - 10, Cost: float64(i), Before: -1}
		if i%3 == 0 {
			why := &constraint.Violation{Constraint: constraint.Immutable, Detail: fmt.Sprint("number ", i)}
			v.Broken = []*constraint.Violation{why, why}
		}
		verdicts = append(verdicts, v)
	}
	sum := func(batch int) string {
		c := NewPromises(0.5)
		for lo := 0; lo < 40; lo += batch {
			f := whole
			f.Promises = whole.Promises[lo : lo+batch]
			c.Add(&f, verdicts[lo:lo+batch])
		}
		c.Finish(&whole)
		var b strings.Builder
		c.Write(&b, "x.csv")
		before := func(a, b BrokenLine) int { return a.Line - b.Line }
		if len(c.First) != 14 || !slices.IsSortedFunc(c.First, before) {
			t.Errorf("%d broken lines are listed, want 14 in their order: %v", len(c.First), c.First)
		}
		return b.String()
	}
	all := sum(40)
	must.Same(t, all, sum(8))
	for _, want := range []string{
		"40, to 40 of 40 people", "26 of 40", "against immutable", "by margin 0.5", "29 of 40", "10 rows",
		"    line 2   ", "    line 10   ", "--json lists the first 14",
	} {
		must.Has(t, all, want)
	}
}

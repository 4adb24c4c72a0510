package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

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
		s.Add(&promise.Line{Action: c.best}, recourse.Proof{Method: recourse.Exhaustive})
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
	const want = "income 100 %, debt 1 %, months <1 %, savings <1 %"
	if got := newSentences().Text("features", list); got != want {
		t.Errorf("%q, want %q", got, want)
	}
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

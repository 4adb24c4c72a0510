package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

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
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

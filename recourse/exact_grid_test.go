package recourse

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/recourse/constraint"
	"cfq/task"
)

func TestExactMaxPoints(t *testing.T) {
	t.Parallel()
	tk := numbers(4)
	for i := range tk.Features {
		tk.Features[i].Step, tk.Features[i].MaxChange, tk.Features[i].Bounds = 0.25, 1, [2]float64{-9, 9} // 9 positions
	}
	a := compile(t, tk)
	m := plain{&affine{w: []float64{1, 1, 1, 1}, b: 0}}
	x := []float32{-0.125, 0, 0, 0, -1, -1, -1, -0.75, -2, -2, -2, -1.75, -5, 0, 0, 0}
	for _, c := range []struct {
		most int
		want []Method
	}{
		{9*9*9*9 - 1, []Method{Exhaustive, Exhaustive, TooMany, TooMany}},
		{9 * 9 * 9 * 9, []Method{Exhaustive, Exhaustive, Exhaustive, Exhaustive}},
		{100, []Method{Exhaustive, TooMany, TooMany, TooMany}},
	} {
		acts, methods := proved(t, m, a, x, ExactOptions{MaxPoints: c.most})
		if d := cmp.Diff(c.want, methods); d != "" {
			t.Errorf("at most %d: %s", c.most, d)
		}
		for i, act := range acts {
			if want := methods[i] == Exhaustive && i < 2; want != (act.Status == Found) {
				t.Errorf("at most %d, person %d: %v", c.most, i, act.Status)
			}
			if (act.Status == NoneExists) != (methods[i] == Exhaustive && i >= 2) {
				t.Errorf("at most %d, person %d: %v", c.most, i, act.Status)
			}
		}
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tk := taskOf(0, feature("a", "numeric"))
		tk.Cost = task.Cost{Norm: rapid.SampledFrom([]string{task.L1, task.L2, task.Mixed}).Draw(rt, "norm"), L1Ratio: 0.4}
		c := &catalogue{a: compile(t, tk), limit: rapid.IntRange(1, 4).Draw(rt, "limit")}
		byChanges := []float64{1, 0, 0, 0, 0}
		for range rapid.IntRange(1, 4).Draw(rt, "shelves") {
			costs := rapid.SliceOfN(rapid.SampledFrom([]float64{1, 1, 2, 2.5, 3, 7.1, 0.3}), 1, 6).Draw(rt, "costs")
			slices.Sort(costs)
			var s featureOptions
			for _, v := range costs {
				s.options = append(s.options, gridOption{sums: constraint.SumsOf(v), cost: v})
			}
			c.options = append(c.options, s)
			for k := 4; k > 0; k-- {
				byChanges[k] += byChanges[k-1] * float64(len(costs))
			}
		}
		total := 0.0
		for k := range c.limit + 1 {
			total += byChanges[k]
		}
		c.start()
		seen, last := map[string]bool{}, &bundle{picks: []int32{-1}}
		for c.open.Len() > 0 {
			v := c.next()
			if key := fmt.Sprint(v.picks); seen[key] || !last.before(v) {
				rt.Fatalf("%s at %g after %v at %g, seen %v", key, v.cost, last.picks, last.cost, seen[key])
			} else {
				seen[key] = true
			}
			last = v
		}
		if float64(len(seen)) != total {
			rt.Errorf("%d actions, want %g", len(seen), total)
		}
	})
}

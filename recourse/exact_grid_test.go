package recourse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/task"
)

// A limit on the actions looked at ends the search of who needs more, and nobody else's.
func TestExactMaxPoints(t *testing.T) {
	t.Parallel()
	var fs []task.Feature
	for i := range 4 {
		f := feature(string(rune('a'+i)), task.Numeric)
		f.Step, f.MaxChange = 0.25, 1 // 9 positions
		fs = append(fs, f)
	}
	a := compile(t, taskOf(0, fs...))
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
		acts, methods, err := Exact(context.Background(), m, a, x, ExactOptions{MaxPoints: c.most})
		if err != nil {
			t.Fatal(err)
		}
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

// The catalogue hands out every action once, by ascending cost, whatever the bands' sizes and ties.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := &catalogue{limit: rapid.IntRange(1, 4).Draw(rt, "limit"), after: math.Inf(-1)}
		byChanges := []float64{1, 0, 0, 0, 0}
		for range rapid.IntRange(1, 4).Draw(rt, "shelves") {
			s := shelf{cost: rapid.SliceOfN(rapid.SampledFrom([]float64{1, 1, 2, 2.5, 3, 7.1, 0.3}), 1, 6).Draw(rt, "costs")}
			slices.Sort(s.cost)
			s.id = make([]int, len(s.cost))
			c.shelf = append(c.shelf, s)
			for k := 4; k > 0; k-- {
				byChanges[k] += byChanges[k-1] * float64(len(s.cost))
			}
		}
		total := 0.0
		for k := range c.limit + 1 {
			total += byChanges[k]
		}
		seen, last := map[string]bool{}, 0.0
		for c.next(rapid.IntRange(1, 40).Draw(rt, "size")) {
			for _, v := range c.band {
				if key := fmt.Sprint(c.picks[int(v.at)*len(c.shelf) : int(v.at+1)*len(c.shelf)]); seen[key] || v.cost < last {
					rt.Fatalf("%s at %g after %g, seen %v", key, v.cost, last, seen[key])
				} else {
					seen[key] = true
				}
				last = v.cost
			}
		}
		if float64(len(seen)) != total || c.looked != len(seen) {
			rt.Errorf("%d actions, counted %d, want %g", len(seen), c.looked, total)
		}
	})
}

package recourse

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func picture(norm string, n, limit int) *task.Task {
	var fs []task.Feature
	for i := range n {
		f := feature(fmt.Sprintf("p%d", i), "numeric")
		f.Number().Mean, f.Number().Std, f.Step, f.Bounds = 33, 78, 1, [2]float64{0, 255}
		f.Actionable = i%7 > 0
		fs = append(fs, f)
	}
	tk := taskOf(limit, fs...)
	tk.Cost.Norm = norm
	return tk
}

// leastByRatio is the least cost of a linear program that closes the gap: without steps, those of most margin for
// their cost go first.
func leastByRatio(a *constraint.Set, m *affine, x []float32, gap float64) (cost float64) {
	lines := []constraint.Line{}
	for _, u := range a.Numeric() {
		w := m.w[u.First]
		lines = append(lines, constraint.Line{
			Feature: u, Slope: math.Abs(w), Weight: a.Norm().Weight(u),
			Room: math.Abs(float64(u.End(x[u.First], w > 0))),
		})
	}
	slices.SortFunc(lines, func(a, b constraint.Line) int { return -cmp.Compare(a.Worth(), b.Worth()) })
	return a.Fill(x, make([]float32, a.Dim()), 0, lines, gap)
}

func TestSolveWideNearOptimum(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 17))
	tk := picture(task.L1, 150, 0)
	a := compile(t, tk)
	m := drawLinear(rng, tk.Dim(), 0.2, -8)
	x := randomPeople(rng, tk, 30)
	var all gaps
	for i, act := range solved(t, m, a, x, 0) {
		if act.Status == AlreadyFavourable {
			continue
		}
		least := leastByRatio(a, m, row(x, i, a.Dim()), -marginOf(t, m, row(x, i, a.Dim())))
		if all = append(all, act.Cost/least-1); act.Status != Found || act.Cost < least*(1-1e-3) {
			t.Errorf("person %d: %v at %g, and the optimum is %g", i, act.Status, act.Cost, least)
		}
	}
	if mean, most := all.report(t); len(all) < 20 || mean > 0.01 || most > 0.05 {
		t.Errorf("mean gap %g, maximum %g of %d people", mean, most, len(all))
	}
}

func TestSolveWideKeepsLimits(t *testing.T) {
	t.Parallel()
	for _, norm := range []string{task.L1, task.L2, task.Mixed} {
		rng := rand.New(rand.NewPCG(2, 18))
		tk := picture(norm, 100, 12)
		a, m := compile(t, tk), newMLP(rng, -1, 100, 16, 1)
		x := randomPeople(rng, tk, 10)
		acts := solved(t, m, a, x, 0.1)
		if !slices.ContainsFunc(acts, func(act Action) bool { return act.Status == Found }) {
			t.Errorf("%s: nobody is helped", norm)
		}
	}
}

func TestSolveWideEffort(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 784} {
		rng := rand.New(rand.NewPCG(5, 6))
		tk := picture(task.L1, n, 0)
		a := compile(t, tk)
		m := &counted{Model: newMLP(rng, -3, n, 24, 12, 1)}
		x := randomPeople(rng, tk, 12)
		acts := must.Get(Solve(t.Context(), m, a, x, SolveOptions{}))(t)
		status := map[Status]int{}
		for _, act := range acts {
			status[act.Status]++
		}
		found, margins, grads := status[Found], m.margins.Load(), m.grads.Load()
		if found < 3 || status[NoneFound] > 2 || margins > 400*12 || grads > 400*12 {
			t.Errorf("%d inputs: %v, %d margins and %d gradients", n, status, margins, grads)
		}
	}
}

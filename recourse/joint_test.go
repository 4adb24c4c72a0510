package recourse

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

// jointTask ties features to each other in every way there is; all of them are discrete.
func jointTask(rng *rand.Rand, norm string, limit int) *task.Task {
	tk := shuffled(rng, limit, parsed(`features:
- {name: years, kind: numeric, mean: 4, std: 2, step: 1, bounds: [0, 8], max_increase: 3, direction: increase}
- {name: age, kind: numeric, mean: 40, std: 10, bounds: [18, 48], actionable: false}
- {name: degree, kind: onehot, values: [none, school, college], actionable: false}
- {name: income, kind: numeric, mean: 30, std: 10, step: 5, bounds: [10, 60], max_change: 15}
- {name: debt, kind: numeric, mean: 10, std: 6, step: 2, bounds: [0, 40], max_change: 8}
- {name: home, kind: onehot, values: [own, rent, free], shares: [0.5, 0.3, 0.2], switch_cost: 1.5}
- {name: rank, kind: onehot, values: [low, mid, high, top], ordered: true, max_change: 2, shares: [0.4, 0.3, 0.2, 0.1]}
- {name: saved, kind: thermometer, thresholds: [10, 20, 30], max_increase: 2}
links:
- {from: years, to: age, scale: 1.5}
- {from: years, to: degree, map: {3: school, 6: college}}
constraints:
- debt <= 0.4 * income
- {if: home = own, then: income >= 30}
- {if: age < 30, then: rank != top}
- {at_most: 2, of: [income, debt, saved]}
`))
	tk.Cost.Norm, tk.Cost.L1Ratio = norm, 0.4
	return tk
}

func jointPeople(rng *rand.Rand, tk *task.Task, n int) []float32 {
	x := make([]float32, 0, n*tk.Dim())
	for range n {
		years, debt := rng.IntN(9), 2*rng.IntN(12)
		raw := map[string]string{
			"years": fmt.Sprint(years), "age": fmt.Sprint(20 + rng.IntN(35)), "income": fmt.Sprint(10 + 5*rng.IntN(11)),
			"debt": fmt.Sprint(debt),
			"home": []string{"own", "rent", "free", ""}[rng.IntN(4)], "rank": []string{"low", "mid", "high", "top"}[rng.IntN(4)],
			"degree": []string{"none", "school", "college"}[years/3%3],
		}
		for i := range tk.Features {
			f := &tk.Features[i]
			in := make([]float32, f.Width)
			if f.Encoding.Kind() == "thermometer" {
				for j := range rng.IntN(f.Width + 1) {
					in[j] = 1
				}
			} else if err := f.Encode(raw[f.Name], in); err != nil {
				panic(err)
			}
			x = append(x, in...)
		}
	}
	return x
}

// cheapestOf is the least cost of a feasible action that reaches the margin, and how many feasible ones there are.
func cheapestOf(t *testing.T, m Model, a *constraint.Set, x []float32, need float32) (least float64, actions int) {
	t.Helper()
	deltas := allJoint(a, x)
	return leastCost(t, m, a, x, deltas, need), len(deltas) / a.Dim()
}

// allJoint are the actions that the set allows, of all combinations of the changes of features.
func allJoint(a *constraint.Set, x []float32) (deltas []float32) {
	d := make([]float32, a.Dim())
	var walk func(i, changed int)
	walk = func(i, changed int) {
		if i == len(a.Free()) {
			moved := slices.Clone(d)
			if a.Propagate(x, moved); a.Check(x, moved) == nil {
				deltas = append(deltas, moved...)
			}
			return
		}
		u := a.Free()[i]
		walk(i+1, changed)
		if changed == a.Limit() {
			return
		}
		for _, o := range u.AllOptions(x, 100) {
			u.Set(x, d, o)
			walk(i+1, changed+1)
		}
		clear(d[u.First : u.First+u.Width])
	}
	walk(0, 0)
	return deltas
}

// leastCost is that of the actions that reach the margin; +Inf when none does.
func leastCost(t *testing.T, m Model, a *constraint.Set, x, deltas []float32, need float32) float64 {
	t.Helper()
	points := slices.Repeat(x, len(deltas)/a.Dim())
	Point(points, points, deltas)
	best := math.Inf(1)
	for i, v := range must.Get(m.Margins(t.Context(), points))(t) {
		if valid(v, need) {
			best = min(best, a.Cost(x, row(deltas, i, a.Dim())))
		}
	}
	return best
}

// A rule with Must holds after any action, also for those who break it as they are and change nothing that it is about:
// the solver and the enumeration agree on who has recourse, and so do the exact solvers.
func TestSolveMust(t *testing.T) {
	t.Parallel()
	repaired, possible := 0, 0
	for seed := range repetitions(5, 12) {
		rng := rand.New(rand.NewPCG(seed, 9))
		tk := jointTask(rng, task.L1, 3)
		for i := range tk.Rules {
			tk.Rules[i].Must = tk.Rules[i].Of == nil
		}
		m, a, x, acts := solveJoint(t, rng, tk)
		for i, act := range acts {
			if act.Status == AlreadyFavourable {
				continue
			}
			best, _ := cheapestOf(t, m, a, row(x, i, a.Dim()), 0.1)
			if math.IsInf(best, 1) != (act.Status != Found) {
				t.Errorf("seed %d, person %d: %v, the least cost is %g", seed, i, act.Status, best)
			}
			holdExact(t, m, a.Select([]int{i}), row(x, i, a.Dim()), best)
			line := drawAffine(rng, tk.Dim(), -0.8)
			least, _ := cheapestOf(t, line, a, row(x, i, a.Dim()), 0.1)
			holdExact(t, line, a.Select([]int{i}), row(x, i, a.Dim()), least)
			if act.Status != Found {
				continue
			}
			possible++
			if slices.ContainsFunc(a.Factual(act.Point), func(c task.RuleCount) bool { return c.Broken > 0 }) {
				t.Errorf("seed %d, person %d: a rule is broken after %v", seed, i, a.Changes(row(x, i, a.Dim()), act.Point))
			}
			if slices.ContainsFunc(a.Factual(row(x, i, a.Dim())), func(c task.RuleCount) bool { return c.Broken > 0 }) {
				repaired++
			}
		}
	}
	if t.Logf("%d actions, %d of them repair a rule", possible, repaired); possible < 8 || repaired < 2 {
		t.Errorf("%d actions, %d of them repair a rule", possible, repaired)
	}
}

func solveJoint(t *testing.T, rng *rand.Rand, tk *task.Task) (m Model, a *constraint.Set, x []float32, acts []Action) {
	t.Helper()
	a = compile(t, tk)
	x = jointPeople(rng, tk, 8)
	m = newMLP(rng, -0.6, tk.Dim(), 12, 1)
	return m, a, x, solved(t, m, a, x, 0.1)
}

func holdExact(t *testing.T, m Model, a *constraint.Set, x []float32, least float64) {
	t.Helper()
	acts, methods := proved(t, m, a, x, ExactOptions{Margin: 0.1})
	switch {
	case acts[0].Status == AlreadyFavourable:
	case math.IsInf(least, 1) && acts[0].Status != NoneExists,
		!math.IsInf(least, 1) && (acts[0].Status != Found || math.Abs(acts[0].Cost-least) > 1e-5*(1+least)):
		t.Errorf("%v (%s) at cost %v, the least cost is %v", acts[0].Status, methods[0], acts[0].Cost, least)
	}
}

func TestSolveJoint(t *testing.T) {
	t.Parallel()
	for _, norm := range []string{task.L1, task.L2, task.Mixed} {
		t.Run(norm, func(t *testing.T) {
			var gaps []float64
			var found, possible, actions int
			for seed := range repetitions(3, 8) {
				rng := rand.New(rand.NewPCG(seed, 9))
				tk := jointTask(rng, norm, 2+int(seed%3))
				m, a, x, acts := solveJoint(t, rng, tk)
				for i, act := range acts {
					if act.Status == AlreadyFavourable {
						continue
					}
					best, n := cheapestOf(t, m, a, row(x, i, a.Dim()), 0.1)
					actions += n
					if math.IsInf(best, 1) {
						if act.Status == Found {
							t.Errorf("seed %d, person %d: found what no enumeration holds", seed, i)
						}
						continue
					}
					possible++
					if act.Status != Found {
						continue
					}
					found++
					if act.Cost < best-1e-4 {
						t.Errorf("seed %d, person %d: cost %g is below the least, %g", seed, i, act.Cost, best)
					}
					gaps = append(gaps, act.Cost/best-1)
				}
			}
			slices.Sort(gaps)
			mean := 0.0
			for _, g := range gaps {
				mean += g / float64(len(gaps))
			}
			t.Logf("%d of %d found, %d actions in all, gap: mean %.2f %%, 95th percentile %.2f %%, worst %.2f %%",
				found, possible, actions, 100*mean, 100*gaps[len(gaps)*95/100], 100*gaps[len(gaps)-1])
			if found < possible*97/100 || mean > 0.03 {
				t.Error("too far from the best actions")
			}
		})
	}
}

func TestGradientStepsJoint(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	tk := jointTask(rng, task.L1, 4)
	a := compile(t, tk)
	x := jointPeople(rng, tk, 200)
	m := newMLP(rng, -0.3, tk.Dim(), 12, 1)
	deltas := must.Get(Teacher(t.Context(), m, a, x, TeacherOptions{Steps: 5}))(t)
	first := must.Get(FirstValid(t.Context(), m, a, x, SolveOptions{}))(t)
	refused, helped := 0, 0
	for i, act := range first {
		person, d, at := row(x, i, a.Dim()), row(deltas, i, a.Dim()), make([]float32, a.Dim())
		must.Do(must.In(t, i), errors.Join(a.Check(person, act.Delta), a.Check(person, d)))
		if marginOf(t, m, person) > 0 {
			continue
		}
		Point(at, person, d)
		if refused++; marginOf(t, m, at) > 0 {
			helped++
		}
	}
	if refused < 20 || helped < refused/4 {
		t.Errorf("%d of %d refused people are helped", helped, refused)
	}
}

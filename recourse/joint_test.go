package recourse

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func jointTask(rng *rand.Rand, norm task.Norm, limit int) *task.Task {
	years := feature("years", "numeric")
	years.Number().Mean, years.Number().Std, years.Step, years.Bounds, years.MaxIncrease = 4, 2, 1, [2]float64{0, 8}, 3
	years.Direction = task.Increase
	age := feature("age", "numeric")
	age.Number().Mean, age.Number().Std, age.Actionable, age.Mutable, age.Bounds = 40, 10, false, true, [2]float64{18, 48}
	degree := oneHot("degree", "none", "school", "college")
	degree.Actionable, degree.Mutable = false, true
	income := feature("income", "numeric")
	income.Number().Mean, income.Number().Std = 30, 10
	income.Step, income.Bounds, income.MaxChange = 5, [2]float64{10, 60}, 15
	debt := feature("debt", "numeric")
	debt.Number().Mean, debt.Number().Std, debt.Step, debt.Bounds, debt.MaxChange = 10, 6, 2, [2]float64{0, 40}, 8
	home := oneHot("home", "own", "rent", "free")
	hot(&home).Shares, home.SwitchCost = []float64{0.5, 0.3, 0.2}, 1.5
	rank := oneHot("rank", "low", "mid", "high", "top")
	hot(&rank).Ordered, rank.MaxChange, hot(&rank).Shares = true, 2, []float64{0.4, 0.3, 0.2, 0.1}
	saved := feature("saved", "thermometer")
	saved.Encoding.(*task.Thermometer).Thresholds, saved.Width, saved.MaxIncrease = []float64{10, 20, 30}, 3, 2
	fs := []task.Feature{years, age, degree, income, debt, home, rank, saved}
	rng.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
	tk := taskOf(limit, fs...)
	tk.Cost.Norm, tk.Cost.L1Ratio = norm, 0.4
	tk.Links = []task.Link{
		{From: "years", To: "age", Scale: 1.5},
		{From: "years", To: "degree", Map: []task.Pair{{From: "3", To: "school"}, {From: "6", To: "college"}}},
	}
	tk.Rules = []task.Rule{
		{Text: "debt <= 0.4 * income", Then: []task.Inequality{{Terms: []task.Term{
			{Feature: "debt", Coef: 1},
			{Feature: "income", Coef: -0.4},
		}}}},
		{
			Text: "if home = own then income >= 30", If: []task.Inequality{{Terms: []task.Term{{
				Feature: "home", Value: "own",
				Coef: -1,
			}}, Bound: -1}},
			Then: []task.Inequality{{Terms: []task.Term{{Feature: "income", Coef: -1}}, Bound: -30}},
		},
		{
			Text: "if age < 30 then rank != top", If: []task.Inequality{{
				Terms: []task.Term{{Feature: "age", Coef: 1}},
				Bound: 30, Strict: true,
			}},
			Then: []task.Inequality{{Terms: []task.Term{{Feature: "rank", Value: "top", Coef: 1}}}},
		},
		{Text: "at most 2 of income, debt, saved", AtMost: 2, Of: []string{"income", "debt", "saved"}},
	}
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

// everyAction calls do for every feasible action of the person, by trying all combinations of the single features'
// values.
func everyAction(a *constraint.Set, x []float32, do func(d []float32)) {
	d := make([]float32, a.Dim())
	var walk func(k, changed int)
	walk = func(k, changed int) {
		if k == len(a.Free()) {
			full := slices.Clone(d)
			a.Propagate(x, full)
			if a.Consistent(x, full) {
				do(full)
			}
			return
		}
		walk(k+1, changed)
		if changed == a.Limit() {
			return
		}
		u := a.Free()[k]
		for _, option := range u.Options(x) {
			u.Set(x, d, option)
			walk(k+1, changed+1)
		}
		clear(d[u.First : u.First+u.Width])
	}
	walk(0, 0)
}

func cheapestOf(t *testing.T, m Model, a *constraint.Set, x []float32, need float32) (least float64, actions int) {
	t.Helper()
	var points []float32
	var costs []float64
	everyAction(a, x, func(d []float32) {
		at := make([]float32, a.Dim())
		Point(at, x, d)
		points, costs = append(points, at...), append(costs, a.Cost(x, d))
	})
	margins := must.Get(m.Margins(context.Background(), points))(t)
	least = math.Inf(1)
	for i, v := range margins {
		if valid(v, need) {
			least = min(least, costs[i])
		}
	}
	return least, len(costs)
}

// A rule with Must holds after any action, also for those who break it as they are and change nothing that it is about:
// the solver and the enumeration agree on who has recourse, and so do the exact solvers.
func TestSolveMust(t *testing.T) {
	t.Parallel()
	repaired, possible := 0, 0
	for seed := range uint64(12) {
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
	if t.Logf("%d actions, %d of them repair a rule", possible, repaired); possible < 20 || repaired < 5 {
		t.Errorf("%d actions, %d of them repair a rule", possible, repaired)
	}
}

func solveJoint(t *testing.T, rng *rand.Rand, tk *task.Task) (m Model, a *constraint.Set, x []float32, acts []Action) {
	t.Helper()
	a = compile(t, tk)
	x = jointPeople(rng, tk, 8)
	m = newMLP(rng, -0.6, tk.Dim(), 12, 1)
	acts = must.Get(Solve(t.Context(), m, a, x, SolveOptions{Margin: 0.1}))(t)
	checkActions(t, m, a, x, acts, 0.1)
	return m, a, x, acts
}

func holdExact(t *testing.T, m Model, a *constraint.Set, x []float32, least float64) {
	t.Helper()
	acts, methods, err := Exact(t.Context(), m, a, x, ExactOptions{Margin: 0.1})
	switch {
	case err != nil:
		t.Fatal(err)
	case acts[0].Status == AlreadyFavourable:
	case math.IsInf(least, 1) && acts[0].Status != NoneExists,
		!math.IsInf(least, 1) && (acts[0].Status != Found || math.Abs(acts[0].Cost-least) > 1e-5*(1+least)):
		t.Errorf("%v (%s) at cost %v, the least cost is %v", acts[0].Status, methods[0], acts[0].Cost, least)
	}
}

func TestSolveJoint(t *testing.T) {
	t.Parallel()
	for _, norm := range []task.Norm{task.L1, task.L2, task.Mixed} {
		t.Run(string(norm), func(t *testing.T) {
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

func TestProjectJoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		tk := jointTask(rng, task.L1, 1+rng.IntN(6))
		if rng.IntN(2) == 0 {
			tk.Latent = &task.Latent{Radius: 0.5 + 4*rng.Float64()}
		}
		a := must.Get(constraint.Compile(tk))(t)
		x := jointPeople(rng, tk, 1)
		d := make([]float32, a.Dim())
		for j := range d {
			d[j] = float32(rng.NormFloat64() * 2)
		}
		a.Project(x, d)
		if err := a.Check(x, d); err != nil {
			t.Fatalf("the projection %v: %v", d, err)
		}
		again := slices.Clone(d)
		a.Project(x, again)
		if !slices.Equal(d, again) {
			t.Fatalf("projected again, %v becomes %v", d, again)
		}
	})
}

func TestGradientStepsJoint(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	tk := jointTask(rng, task.L1, 4)
	a := compile(t, tk)
	x := jointPeople(rng, tk, 200)
	m := newMLP(rng, -0.3, tk.Dim(), 12, 1)
	before, _ := m.Margins(context.Background(), x)
	deltas := must.Get(Teacher(context.Background(), m, a, x, TeacherOptions{Steps: 5}))(t)
	first := must.Get(FirstValid(context.Background(), m, a, x, FirstValidOptions{}))(t)
	refused, helped := 0, 0
	for i, act := range first {
		if err := a.Check(row(x, i, a.Dim()), act.Delta); err != nil {
			t.Errorf("first valid, person %d: %v", i, err)
		}
		d := row(deltas, i, a.Dim())
		if err := a.Check(row(x, i, a.Dim()), d); err != nil {
			t.Errorf("teacher, person %d: %v", i, err)
		}
		if before[i] > 0 {
			continue
		}
		at := make([]float32, a.Dim())
		Point(at, row(x, i, a.Dim()), d)
		after, _ := m.Margins(context.Background(), at)
		if refused++; after[0] > 0 {
			helped++
		}
	}
	if refused < 20 || helped < refused/4 {
		t.Errorf("%d of %d refused people are helped", helped, refused)
	}
}

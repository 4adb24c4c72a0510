package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

func TestExactJointLine(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, norm := range []task.Norm{task.L1, task.L2} {
		t.Run(string(norm), func(t *testing.T) {
			both := 0
			for seed := range uint64(8) {
				rng := rand.New(rand.NewPCG(seed, 21))
				fine := jointTask(rng, norm, 2+int(seed%2))
				free := *fine
				free.Features = append([]task.Feature(nil), fine.Features...)
				for i := range fine.Features {
					if fine.Features[i].Name == "income" {
						fine.Features[i].Step, free.Features[i].Step = 0.25, 0
					}
				}
				a, b := compile(t, &free), compile(t, fine)
				x := jointPeople(rng, fine, 5)
				m := drawAffine(rng, fine.Dim(), -0.8)
				got, methods, err := Exact(ctx, m, a, x, ExactOptions{})
				must.Do(t, err)
				checkActions(t, m, a, x, got, 0)
				want, _, err := Exact(ctx, plain{m}, b, x, ExactOptions{})
				must.Do(t, err)
				for i := range want {
					if want[i].Status == AlreadyFavourable {
						continue
					}
					if methods[i] != Affine || want[i].Status == Found && got[i].Status != Found {
						t.Errorf("seed %d, person %d: %v by %q, with steps %v", seed, i, got[i].Status, methods[i], want[i].Status)
					}
					if want[i].Status == Found && got[i].Status == Found {
						both++
						if got[i].Cost > want[i].Cost*(1+2e-4)+2e-4 {
							t.Errorf("seed %d, person %d: cost %.6g, with steps %.6g", seed, i, got[i].Cost, want[i].Cost)
						}
					}
				}
			}
			if both < 8 {
				t.Errorf("%d people", both)
			}
		})
	}
}

func TestExactOverride(t *testing.T) {
	t.Parallel()
	income := feature("income", "numeric")
	income.Step, income.MaxIncrease, income.Direction = 0.5, 4, task.Increase
	tk := taskOf(0, income, oneHot("job", "p", "q"))
	a := compile(t, tk)
	short, loose := tk.Features[0], tk.Features[0]
	short.MaxIncrease, loose.Step = 1, 0
	b := must.Get(a.Override([]task.Override{
		{Row: 1, Feature: 0, With: short.Action}, {Row: 20, Feature: 0, With: loose.Action},
	}))(t)
	m := &affine{w: []float64{1, 0, 0}, b: -1.75}
	x := make([]float32, 30*3)
	for i := range 30 {
		x[3*i+1] = 1
	}
	for _, model := range []Model{m, plain{m}} {
		acts, methods, err := Exact(context.Background(), model, b, x, ExactOptions{})
		must.Do(t, err)
		for i, act := range acts {
			status, delta := Found, float32(2)
			switch {
			case i == 1:
				status, delta = NoneExists, 0
			case i == 20 && model != Model(m):
				status, delta = NoneFound, 0
				if methods[i].Proved() || !strings.Contains(string(methods[i]), `"income"`) {
					t.Errorf("method %q", methods[i])
				}
			case i == 20:
				delta = 1.7501 // written to four digits after the first
			}
			if act.Status != status || math.Abs(float64(act.Delta[0]-delta)) > 1e-4 {
				t.Errorf("person %d: %v by %q, income %+g; want %v, %+g", i, act.Status, methods[i], act.Delta[0], status, delta)
			}
		}
	}
}

// Features whose changes do not add up in the features that follow them are left to the exhaustive search, where there
// is one.
func TestExactEntangled(t *testing.T) {
	t.Parallel()
	years, course := feature("years", "numeric"), feature("course", "binary")
	years.Step, years.MaxChange = 1, 3
	grade := feature("grade", "numeric")
	grade.Actionable, grade.Mutable = false, true
	tk := taskOf(0, years, course, grade)
	tk.Links = []task.Link{
		{From: "years", To: "grade", Scale: 0.5},
		{From: "course", To: "grade", Map: []task.Pair{{From: "1", To: "5"}}},
	}
	tk.Features[1].Encoding = &task.Binary{One: "1", Zero: "0"}
	a := compile(t, tk)
	m := drawAffine(rand.New(rand.NewPCG(1, 2)), 3, -1)
	m.w = []float64{0.1, 0.1, 1}
	acts, methods, err := Exact(context.Background(), m, a, make([]float32, 3), ExactOptions{})
	must.Do(t, err)
	best, _ := cheapestOf(t, m, a, make([]float32, 3), 1e-5)
	if methods[0] != Exhaustive || acts[0].Status != Found || acts[0].Cost != best {
		t.Errorf("%v at %g by %q, want %g", acts[0].Status, acts[0].Cost, methods[0], best)
	}
	tk.Features[0].Step = 0
	if _, _, err := Exact(context.Background(), m, compile(t, tk), make([]float32, 3), ExactOptions{}); err == nil ||
		!strings.Contains(err.Error(), `"grade" follows several features`) {
		t.Errorf("error %v", err)
	}
}

// A strict rule without if keeps people who fulfil it on its side: between low = 0 and high = 2 there is room for
// one step of low, and two need one of high.
func TestExactStrictRule(t *testing.T) {
	t.Parallel()
	low, high := feature("low", "numeric"), feature("high", "numeric")
	low.Step, low.Bounds, high.Step, high.Bounds = 1, [2]float64{0, 9}, 1, [2]float64{0, 9}
	tk := taskOf(0, low, high)
	tk.Rules = []task.Rule{{Text: "low < high", Then: []task.Inequality{{Terms: []task.Term{
		{Feature: "low", Coef: 1},
		{Feature: "high", Coef: -1},
	}, Strict: true}}}}
	a := compile(t, tk)
	x := []float32{0, 2}
	acts, methods, err := Exact(context.Background(), &affine{w: []float64{1, 0}, b: -1.5}, a, x, ExactOptions{})
	must.Do(t, err)
	if acts[0].Status != Found || !slices.Equal(acts[0].Point, []float32{2, 3}) {
		t.Errorf("%s (%s): %v, want low 2 and high 3", acts[0].Status, methods[0], acts[0].Point)
	}
}

func TestSolveAlongRuleGap(t *testing.T) {
	t.Parallel()
	income, debt, saved := feature("income", "numeric"), feature("debt", "numeric"), feature("saved", "numeric")
	income.Number().Mean, income.Number().Std, income.Bounds, income.MaxChange = 33000, 20000, [2]float64{0, 100000}, 30000
	debt.Number().Mean, debt.Number().Std, debt.Bounds = 15000, 10000, [2]float64{0, 60000}
	saved.Number().Mean, saved.Number().Std, saved.Bounds, saved.MaxChange = 5000, 4000, [2]float64{0, 30000}, 6000
	tk := taskOf(0, income, debt, saved)
	tk.Rules = []task.Rule{{Text: "debt <= 0.5 * income", Then: []task.Inequality{{Terms: []task.Term{{
		Feature: "debt",
		Coef:    1,
	}, {Feature: "income", Coef: -0.5}}}}}}
	for _, norm := range []task.Norm{task.L1, task.L2} {
		tk.Cost.Norm, tk.Cost.L1Ratio = norm, 0.4
		a := compile(t, tk)
		sum, worst, both, possible := 0.0, 0.0, 0, 0
		for seed := range uint64(30) {
			rng := rand.New(rand.NewPCG(seed, 11))
			m := &affine{w: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, b: -1.5}
			var x []float32
			for range 4 {
				earned := float64(10000 + rng.IntN(60000))
				x = append(x, tk.Features[0].ToInput(earned), tk.Features[1].ToInput(earned*rng.Float64()*0.65),
					tk.Features[2].ToInput(float64(rng.IntN(12000))))
			}
			acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{Margin: 0.1}))(t)
			best, _, err := Exact(context.Background(), m, a, x, ExactOptions{Margin: 0.1})
			must.Do(t, err)
			for i, act := range acts {
				if best[i].Status != Found {
					continue
				}
				if possible++; act.Status == Found {
					both++
					gap := act.Cost/best[i].Cost - 1
					sum, worst = sum+gap, max(worst, gap)
				}
			}
		}
		t.Logf("%s: %d of %d found, mean gap %.3f %%, worst %.2f %%", norm, both, possible, 100*sum/float64(both), 100*worst)
		if possible < 50 || both < possible*99/100 || sum/float64(both) > 0.02 {
			t.Errorf("%s: too far from the exact optimum", norm)
		}
	}
}

package recourse

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

// A free number under rules, links and subsets: no worse than the exhaustive optimum over fine steps of it.
func TestExactJointLine(t *testing.T) {
	t.Parallel()
	for _, norm := range []string{task.L1, task.L2} {
		both, open := 0, 0
		for seed := range repetitions(5, 8) {
			rng := rand.New(rand.NewPCG(seed, 21))
			fine := jointTask(rng, norm, 2+int(seed%2))
			free := *fine
			free.Features = slices.Clone(fine.Features)
			i := slices.IndexFunc(fine.Features, func(f task.Feature) bool { return f.Name == "income" })
			fine.Features[i].Step, free.Features[i].Step = 0.25, 0
			x := jointPeople(rng, fine, 5)
			m := drawAffine(rng, fine.Dim(), -0.8)
			got, methods := proved(t, m, compile(t, &free), x, ExactOptions{Nodes: 3000})
			want, _ := proved(t, plain{m}, compile(t, fine), x, ExactOptions{})
			for i := range want {
				if want[i].Status == AlreadyFavourable {
					continue
				}
				if !methods[i].Proved() {
					open++
					continue
				}
				if want[i].Status == Found && got[i].Status != Found {
					t.Errorf("seed %d, person %d: %v by %q, with steps %v", seed, i, got[i].Status, methods[i], want[i].Status)
				}
				if want[i].Status == Found && got[i].Status == Found {
					both++
					if got[i].Cost > want[i].Cost/(1-closeAbout)+2e-4 {
						t.Errorf("seed %d, person %d: cost %.6g, with steps %.6g", seed, i, got[i].Cost, want[i].Cost)
					}
				}
			}
		}
		if both < 8 || open > 3 {
			t.Errorf("%s: %d people, %d without proof", norm, both, open)
		}
	}
}

// What one person alone may do, or may not, is theirs alone.
func TestExactOverride(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: income, kind: numeric, step: 0.5, max_increase: 4, direction: increase}
- {name: job, kind: onehot, values: [p, q]}
`)
	short, loose := tk.Features[0].Action, tk.Features[0].Action
	short.MaxIncrease, loose.Step = 1, 0
	b := must.Get(compile(t, tk).Override([]task.Override{{Row: 1, With: short}, {Row: 20, With: loose}}))(t)
	m := &affine{w: []float64{1, 0, 0}, b: -1.75}
	x := slices.Repeat([]float32{0, 1, 0}, 30)
	for _, model := range []Model{m, plain{m}} {
		acts, methods := proved(t, model, b, x, ExactOptions{})
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
	tk := parsed(`features:
- {name: years, kind: numeric, step: 1, max_change: 3}
- {name: course, kind: binary, one: "1", zero: "0"}
- {name: bonus, kind: numeric, actionable: false}
- {name: grade, kind: numeric, actionable: false}
links:
- {from: years, to: grade, scale: 0.5}
- {from: course, to: bonus, map: {1: 5}}
- {from: bonus, to: grade, scale: 1}
`)
	a, x := compile(t, tk), make([]float32, 4)
	m := &affine{w: []float64{0.1, 0.1, 0.1, 1}, b: -1}
	acts, methods := proved(t, m, a, x, ExactOptions{})
	best, _ := cheapestOf(t, m, a, x, 1e-5)
	if methods[0] != Exhaustive || acts[0].Status != Found || acts[0].Cost != best {
		t.Errorf("%v at %g by %q, want %g", acts[0].Status, acts[0].Cost, methods[0], best)
	}
	tk.Features[0].Step = 0
	if _, _, err := Exact(t.Context(), m, compile(t, tk), x, nil, ExactOptions{}); err == nil ||
		!strings.Contains(err.Error(), `"grade" follows several features`) {
		t.Errorf("error %v", err)
	}
}

// Numbers that a rule ties to each other, under l1 and l2: the solver comes close to the exact optimum.
func TestSolveAlongRuleGap(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: income, kind: numeric, mean: 33000, std: 20000, bounds: [0, 100000], max_change: 30000}
- {name: debt, kind: numeric, mean: 15000, std: 10000, bounds: [0, 60000]}
- {name: saved, kind: numeric, mean: 5000, std: 4000, bounds: [0, 30000], max_change: 6000}
constraints: [debt <= 0.5 * income]
`)
	for _, norm := range []string{task.L1, task.L2} {
		tk.Cost.Norm = norm
		a := compile(t, tk)
		var all gaps
		possible := 0
		for seed := range repetitions(10, 30) {
			rng := rand.New(rand.NewPCG(seed, 11))
			m := drawLinear(rng, 3, 1, -1.5)
			var x []float32
			for range 4 {
				earned := float64(10000 + rng.IntN(60000))
				x = append(x, inputs(tk, earned, earned*rng.Float64()*0.65, float64(rng.IntN(12000)))...)
			}
			acts := solved(t, m, a, x, 0.1)
			best, _ := proved(t, m, a, x, ExactOptions{Margin: 0.1})
			for i, act := range acts {
				if best[i].Status != Found {
					continue
				}
				if possible++; act.Status == Found {
					all = append(all, act.Cost/best[i].Cost-1)
				}
			}
		}
		if mean, _ := all.report(t); possible < 15 || len(all) < possible*99/100 || mean > 0.02 {
			t.Errorf("%s: %d of %d found, too far from the exact optimum", norm, len(all), possible)
		}
	}
}

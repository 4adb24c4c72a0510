package recourse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/recourse/proof"
	"cfq/task"
)

// transferOf has another network that refuses everything, so that every allowed action counts.
func transferOf(t *testing.T, a *constraint.Set, w []float64, b float64, x []float32, cost float64) proof.Difference {
	t.Helper()
	f := &proof.Network{Rows: [][]float64{w}, Bias: []float64{b}}
	g := &proof.Network{Rows: [][]float64{make([]float64, len(w))}, Bias: []float64{-1}}
	pair := must.Get(proof.NewPair(f, g))(t)
	return must.Get(pair.Transfer(t.Context(), a, x, cost, 1e-3, 2000))(t)
}

// holdAction holds that the action to point is allowed at the cost, and that the bound covers its margin.
func holdAction(t *testing.T, a *constraint.Set, w []float64, b float64, x, point []float32, cost float64) {
	t.Helper()
	d := make([]float32, len(x))
	constraint.Difference(d, x, point)
	margin := b
	for j, v := range point {
		margin += w[j] * float64(v)
	}
	must.Do(t, a.Check(x, d))
	if got := transferOf(t, a, w, b, x, cost); a.Cost(x, d) > cost || got.Upper < margin || got.Upper > margin+0.01 {
		t.Errorf("an action that costs %g of %g has the margin %g, bound %g", a.Cost(x, d), cost, margin, got.Upper)
	}
}

// A part of the search that is close enough to what was found still counts.
func TestTransferTolerance(t *testing.T) {
	t.Parallel()
	all, loose := 0, 0
	for seed := range repetitions(12, 200) {
		rng := rand.New(rand.NewPCG(seed, 33))
		tk := jointTask(rng, []string{task.L1, task.L2, task.Mixed}[seed%3], 1+int(seed%4))
		a := compile(t, tk)
		f := newMLP(rng, -0.5, tk.Dim(), 12, 8, 1+2*int(seed%2))
		nets := networksOf(t, f, rounded(f, 0.5))
		pair := must.Get(proof.NewPair(nets[0], nets[1]))(t)
		for x := range slices.Chunk(jointPeople(rng, tk, 2), tk.Dim()) {
			cost := 0.5 + 2*rng.Float64()
			want := largestRefused(nets, a, x, allJoint(a, x), cost)
			for _, tolerance := range []float64{0, 0.1, 1} {
				got := must.Get(pair.Transfer(t.Context(), a, x, cost, tolerance, 5000))(t)
				if all++; got.Upper > want+tolerance+1e-3 { // out of nodes, or an action that a rule forbids
					loose++
				}
				if got.Upper < want {
					t.Errorf("seed %d, tolerance %g: between %g and %g, want %g", seed, tolerance, got.Lower, got.Upper, want)
				}
			}
		}
	}
	if loose*5 > all {
		t.Errorf("%d of %d bounds are loose", loose, all)
	}
}

// The cost of an action is that of the written values, which float32 makes less than that of whole steps.
func TestTransferAtItsOwnCost(t *testing.T) {
	t.Parallel()
	for _, norm := range []string{task.L1, task.L2, task.Mixed} {
		tk := parsed(`features:
- {name: year, kind: numeric, mean: 0, std: 100, step: 1, bounds: [0, 4000]}
- {name: size, kind: numeric, mean: 0, std: 100, step: 1, bounds: [0, 4000]}
`)
		tk.Cost.Norm, tk.Cost.L1Ratio = norm, 0.4
		a := compile(t, tk)
		for year := 1000.0; year < 1100; year++ {
			x, point, d := inputs(tk, year, 2000), inputs(tk, year+1, 2001), make([]float32, 2)
			constraint.Difference(d, x, point)
			holdAction(t, a, []float64{1, 1}, -float64(x[0])-float64(x[1]), x, point, a.Cost(x, d))
		}
	}
}

// An action may use up all of what a rule between numbers leaves.
func TestTransferUpToRules(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"a + b <= 1", "a + b < 1.000001", "{if: c >= 1, then: a + b <= 1}", "{if: a + b > 1, then: c <= 0}",
	} {
		a := compile(t, parsed(`features:
- {name: a, kind: numeric, mean: 0, std: 1, bounds: [0, 10]}
- {name: b, kind: numeric, mean: 0, std: 1, bounds: [0, 10]}
- {name: c, kind: numeric, mean: 0, std: 1, step: 1, bounds: [0, 1]}
constraints:
- `+rule+"\n"))
		holdAction(t, a, []float64{1, 1, 100}, 0, []float32{0, 0, 0}, []float32{0.5, 0.5, 1}, 10)
	}
}

// What follows a category may be on its bound, whichever way float32 rounds, and is not within steps of it.
func TestTransferOfLinks(t *testing.T) {
	t.Parallel()
	for mean := 9.0; mean < 11; mean += 0.07 {
		tk := parsed(fmt.Sprintf(`features:
- {name: degree, kind: onehot, values: [p, q]}
- {name: years, kind: numeric, mean: %g, std: 2.57, bounds: [1, 16], actionable: false}
links:
- {from: degree, to: years, map: {p: 1, q: 16}}
`, mean))
		for years := 1.0; years < 16; years++ {
			at, to := tk.Features[1].ToInput(years), tk.Features[1].ToInput(16)
			holdAction(t, compile(t, tk), []float64{0, 0, 1}, 0, []float32{1, 0, at}, []float32{0, 1, to}, 10)
		}
	}
	a := compile(t, parsed(`features:
- {name: years, kind: numeric, mean: 0, std: 1, bounds: [0, 8]}
- {name: age, kind: numeric, mean: 0, std: 1, step: 1, bounds: [0, 4], actionable: false}
links:
- {from: years, to: age, scale: 1}
`))
	for _, to := range []float32{3.9, 4.3, 4.45} {
		allowed := a.Check([]float32{0, 0}, []float32{to, to}) == nil
		got := transferOf(t, a, []float64{0, 1}, 0, []float32{0, 0}, 100)
		if allowed != (to < 4) || math.Abs(got.Upper-4) > 0.01 {
			t.Errorf("an age of %g is allowed: %v, the bound of 4 is %g", to, allowed, got.Upper)
		}
	}
}

// A rule that is broken as it is does not concern changes that leave its features alone, be it that a table moves none.
func TestTransferBesidesRules(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: years, kind: numeric, mean: 0, std: 1, step: 1, bounds: [0, 3]}
- {name: degree, kind: onehot, values: [p, q], actionable: false}
- {name: income, kind: numeric, mean: 0, std: 1, step: 1, bounds: [0, 5]}
links:
- {from: years, to: degree, map: {0: p, 4: q}}
constraints:
- {if: degree = p, then: income >= 5}
`))
	holdAction(t, a, []float64{1, 0, 0, 1}, 0, []float32{0, 1, 0, 0}, []float32{3, 1, 0, 0}, 4)
}

// The noise of a number that does not change moves nothing by a table, though the person is not as the table has it.
func TestNoiseMovesNoTable(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: years, kind: numeric, mean: 0, std: 1, step: 1, bounds: [0, 3]}
- {name: degree, kind: onehot, values: [p, q], actionable: false}
links:
- {from: years, to: degree, map: {0: p, 3: q}}
`))
	x, noise := []float32{1, 0, 1}, float32(0x1p-23)
	if a.Check(x, []float32{noise, 0, 0}) != nil || a.Check(x, []float32{noise, 1, -1}) == nil {
		t.Error("the degree changes with the noise of years, not with years")
	}
}

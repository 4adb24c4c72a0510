package recourse

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/recourse/proof"
)

// rounded returns the network with weights on a grid: a quantized twin.
func rounded(f *mlp, step float64) *mlp {
	g := *f
	g.w = nil
	for _, w := range f.w {
		g.w = append(g.w, nil)
		for _, v := range w {
			g.w[len(g.w)-1] = append(g.w[len(g.w)-1], float32(math.Round(float64(v)/step)*step))
		}
	}
	return &g
}

func networksOf(t *testing.T, models ...*mlp) (nets []*proof.Network) {
	t.Helper()
	for _, m := range models {
		n, why, err := NetworkOf(t.Context(), readable{m})
		if must.Do(t, err); why != "" {
			t.Fatal(why)
		}
		nets = append(nets, n)
	}
	return nets
}

// leastRow is the least margin of a network, by its definition.
func leastRow(n *proof.Network, x []float32) float64 {
	var values []float64
	for _, v := range x {
		values = append(values, float64(v))
	}
	least := math.Inf(1)
	for r, row := range n.Rows {
		v := n.Bias[r]
		for j, in := range values {
			v += row[j] * in
		}
		if r < n.Units {
			values = append(values, max(v, 0))
		} else {
			least = min(least, v)
		}
	}
	return least
}

// largestRefused is the largest margin above 0 in the first network of an action that costs at most so much and that
// the second one refuses.
func largestRefused(nets []*proof.Network, a *constraint.Set, x, deltas []float32, cost float64) (largest float64) {
	for d := range slices.Chunk(deltas, a.Dim()) {
		point := make([]float32, len(d))
		Point(point, x, d)
		if a.Cost(x, d) <= cost && leastRow(nets[1], point) <= 0 {
			largest = max(largest, leastRow(nets[0], point))
		}
	}
	return largest
}

// The largest margin that the twin refuses, of one and of several classes, against the enumeration of all actions.
func TestTransferAgainstEnumeration(t *testing.T) {
	t.Parallel()
	positive, nodes := 0, 0
	for seed := range repetitions(20, 200) {
		rng := rand.New(rand.NewPCG(seed, 31))
		tk := smallTask(rng, int(seed%4))
		a := compile(t, tk)
		f := newMLP(rng, -0.5, tk.Dim(), 12, 8, 1+2*int(seed%2))
		g := rounded(f, 0.5)
		nets := networksOf(t, f, g)
		pair := must.Get(proof.NewPair(nets[0], nets[1]))(t)
		for person := range slices.Chunk(randomPeople(rng, tk, 2), tk.Dim()) {
			cost := 0.5 + 2*rng.Float64()
			want := largestRefused(nets, a, person, allActions(tk, a, person), cost)
			got := must.Get(pair.Transfer(t.Context(), a, person, cost, 0, 5000))(t)
			nodes = max(nodes, got.Nodes)
			if got.Upper < want || got.Upper > want+1e-3 || want > 0 && got.Lower < want-1e-5 {
				t.Errorf("seed %d: between %g and %g, want %g", seed, got.Lower, got.Upper, want)
			}
			if want > 0 {
				positive++
				holdRefuted(t, a, nets, person, got.Refuted, want)
			}
		}
	}
	if positive < 5 || nodes > 2000 {
		t.Errorf("%d people with a difference, up to %d nodes", positive, nodes)
	}
}

func holdRefuted(t *testing.T, a *constraint.Set, nets []*proof.Network, x, point []float32, want float64) {
	t.Helper()
	d := make([]float32, len(x))
	constraint.Difference(d, x, point)
	if m, other := leastRow(nets[0], point), leastRow(nets[1], point); a.Check(x, d) != nil || other > 1e-6 ||
		math.Abs(m-want) > 1e-4 {
		t.Errorf("action %v: margins %g and %g, want %g", d, m, other, want)
	}
}

// Of numbers without steps no sampled action gets past the bound, which a sampled one comes near.
func TestTransferAlongLines(t *testing.T) {
	t.Parallel()
	open, seeds := 0, repetitions(6, 60)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 32))
		tk := numbers(4)
		tk.MaxFeatures = 1 + int(seed%4)
		a := compile(t, tk)
		f := newMLP(rng, -0.5, 4, 16, 8, 1)
		g := rounded(f, 0.2)
		if seed == 0 { // the difference is the same everywhere
			g = rounded(f, 1e-6)
			g.b = [][]float32{f.b[0], f.b[1], {f.b[2][0] - 0.05}}
		}
		x, cost := make([]float32, 4), 1+rng.Float64()
		nets := networksOf(t, f, g)
		pair := must.Get(proof.NewPair(nets[0], nets[1]))(t)
		got := must.Get(pair.Transfer(t.Context(), a, x, cost, 1e-3, 5000))(t)
		best := 0.0
		for range 4000 {
			d := make([]float32, 4)
			for range tk.MaxFeatures {
				d[rng.IntN(4)] = float32(rng.NormFloat64())
			}
			share := float32(rng.Float64() * cost / a.Cost(x, d))
			for j := range d {
				d[j] *= share
			}
			if a.Check(x, d) == nil && a.Cost(x, d) <= cost && marginOf(t, g, d) <= 0 {
				best = max(best, marginOf(t, f, d))
			}
		}
		if best > got.Upper {
			t.Errorf("seed %d: sampled %g, between %g and %g after %d nodes", seed, best, got.Lower, got.Upper, got.Nodes)
		}
		if got.Upper-max(got.Lower, 0) > 3e-3 {
			open++
		}
	}
	if open > int(seeds)/15 { // no step ends the division of numbers
		t.Errorf("%d of %d searches end with their nodes, not with their bounds", open, seeds)
	}
}

// What rounding alone lets through may have larger margins than any action: the search ends all the same.
func TestTransferWithinRounding(t *testing.T) {
	t.Parallel()
	tk := numbers(3)
	tk.Features[2].Actionable, tk.Features[2].Mutable = false, false
	a := compile(t, tk)
	f := &proof.Network{Rows: [][]float64{{1, 1, 1}}, Bias: []float64{-3000}}
	g := &proof.Network{Rows: [][]float64{{1, 0.5, 1}}, Bias: []float64{-3000.3}}
	pair := must.Get(proof.NewPair(f, g))(t)
	got := must.Get(pair.Transfer(t.Context(), a, []float32{0, 0, 3000}, 1, 1e-4, 100))(t)
	if got.Nodes >= 100 || got.Lower < 0.7 || got.Upper < 0.733 || got.Upper > 0.76 {
		t.Errorf("between %g and %g after %d nodes", got.Lower, got.Upper, got.Nodes)
	}
	if _, err := pair.Alone().Transfer(t.Context(), a, []float32{0, 0, 3000}, 1, 1e-4, 100); err == nil {
		t.Error("one network says something about two")
	}
}

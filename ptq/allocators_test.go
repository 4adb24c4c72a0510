package ptq

import (
	"context"
	"fmt"
	"testing"

	"cfq/internal/must"
)

// The optimum of the paper's objective against all assignments, and against its greedy rule; the errors of HAWQ grow
// as bit widths shrink.
func TestAllocators(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newSparse(4)
	m, tk, people := loaded(t, s.model()), sparseTask(t), s.people(300)
	for _, budget := range []float64{2.3, 3.1, 4, 6.5} {
		sums := map[Allocator]float64{}
		for _, a := range []Allocator{allocatorPaper, allocatorOptimum} {
			r := must.Get(Quantize(ctx, m, tk, people,
				mustRecipe(CFPTQPaper, fmt.Sprint("allocate.rule=", a), fmt.Sprint("allocate.budget=", budget)), Run{}))(t)
			for _, l := range r.Layers {
				sums[a] += l.Score * l.Bits
			}
			if a == allocatorOptimum {
				if best := bestSum(r.Layers, budget); sums[a] < best*(1-1e-12) {
					t.Errorf("budget %v: a sum of %v, the best is %v", budget, sums[a], best)
				}
			}
		}
		if sums[allocatorOptimum] < sums[allocatorPaper] {
			t.Errorf("budget %v: %v", budget, sums)
		}
	}
	c := must.Get(calibrate(ctx, m, tk, people, mustRecipe(CFPTQPaper, "allocate.rule=hawq"), Run{}))(t)
	defer c.Close()
	for i, e := range c.scores.layerErrors {
		for f := 1; f < len(e); f++ {
			if e[f] >= e[f-1] || e[f] <= 0 {
				t.Errorf("layer %d: errors %v", i, e)
			}
		}
	}
}

func bestSum(layers []Layer, budget float64) (best float64) {
	var weights int
	for _, l := range layers {
		weights += l.Params
	}
	var try func(i int, bits, sum float64)
	try = func(i int, bits, sum float64) {
		if bits > budget*float64(weights) {
			return
		}
		if i == len(layers) {
			best = max(best, sum)
			return
		}
		for _, b := range []float64{2, 3, 4, 8} {
			try(i+1, bits+b*float64(layers[i].Params), sum+b*layers[i].Score)
		}
	}
	try(0, 0, 0)
	return best
}

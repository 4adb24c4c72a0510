package certify_test

import (
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
)

// What is proved of models behind a step that makes their inputs is about people's numbers: a logarithm, a clipped
// number, one that falls, and categories. The models' first quantizers are in front, as they are without a step.
func TestFront(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 1))
	step := onnxio.NewFront(6, 5)
	for _, e := range []struct {
		from, to int
		v        float32
	}{{0, 0, 2}, {1, 1, 1}, {2, 2, -1.5}, {3, 3, 1}, {4, 4, 0.7}, {5, 4, 1.3}} {
		step.Matrix[e.from*5+e.to] = e.v
	}
	step.Shift[0], step.Log[0], step.Low[0] = 5, true, 1e-30
	step.Scale[0], step.Offset[0] = 1.7, -3
	step.Low[1], step.High[1] = -1, 0.5
	behind := func(g *graph.Model) *onnxio.Model {
		return must.Get(loaded(t, g).WithInputTransform(step))(t)
	}
	const n = 60
	half := make([]float32, n*6)
	for i := range n {
		for j := range 4 { // the last two are categories
			half[i*6+j] = []float32{0.002, 0.02, 0.1}[i%3]
		}
	}
	both := ways{bits: 4, act: 8}
	grid := both
	grid.channels, grid.grid = true, true
	for _, w := range []ways{grid, both, {bits: 4, weightOnly: true}} {
		f := net(rng, shape{widths: []int{5, 6, 2}, act: "Relu"})
		p := openedModels(t, behind(f), behind(quantized(t, f, w)), 1)
		must.Do(t, p.k.Check())
		points := normal(rng, n*6, 1)
		for i := range n {
			points[i*6+4], points[i*6+5] = float32(i%2), float32(1-i%2)
		}
		proofs := must.Get(p.k.Prove(t.Context(), points, half, n))(t)
		attacked := p.attack(t, points, half, n, 20, rng)
		certified, loose, _ := holds(t, "behind a step", proofs, attacked)
		refused := 0
		for _, a := range attacked {
			if a.lower <= 0 {
				refused++
			}
		}
		t.Logf("%+v: %d certified, %d refused, the bounds are loose by %.4f", w, certified, refused, loose)
		if certified+refused < n-1 || certified == 0 {
			t.Errorf("%+v: of %d boxes, %d are certified and %d have a refused input", w, n, certified, refused)
		}
	}
}

package certify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
)

// Of boxes around points, those are certified that no input of the grid makes refused: a fine raster of all inputs is
// the truth for two inputs, which it is not for the bounds. So are those of a float input, but for some near zero.
func TestShareOfRaster(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 8))
	for _, w := range []ways{
		{bits: 4, act: 8, channels: true},
		{bits: 4, act: 8, channels: true, grid: true},
		{bits: 8, act: 8, grid: true},
		{bits: 4, weightOnly: true},
	} {
		var certified, safe, total int
		for range 4 {
			f := net(rng, shape{widths: []int{2, 16, 8, 2}, act: "Relu"})
			p := opened(t, f, quantized(t, f, w), 1)
			const n, radius, steps = 30, 0.1, 60
			points, half := normal(rng, 2*n, 1), make([]float32, 2*n)
			for i := range half {
				half[i] = radius
			}
			proofs := must.Get(p.k.Prove(t.Context(), points, half, n))(t)
			for i, proof := range proofs {
				var x []float32
				for a := range steps + 1 {
					for b := range steps + 1 {
						for j, k := range []int{a, b} {
							c := points[2*i+j]
							x = append(x, within(c, radius, float64(c)+radius*(2*float64(k)/steps-1)))
						}
					}
				}
				m := must.Get(p.g.Margins(t.Context(), x))(t)
				least := math.Inf(1)
				for _, v := range m {
					least = math.Min(least, float64(v))
				}
				if float64(proof.Lower) > least {
					t.Errorf("%+v: a margin of %v was found where none is below %v", w, least, proof.Lower)
				}
				if least > 0 {
					safe++
				}
				if proof.Certified() {
					certified++
				}
				total++
			}
		}
		t.Logf("%+v: %d of %d are safe on the raster, %d certified", w, safe, total, certified)
		if safe < total/10 || safe == total || float64(certified) < float64(safe)-0.05*float64(total) {
			t.Errorf("%+v: %d of %d are safe, only %d are certified", w, safe, total, certified)
		}
	}
}

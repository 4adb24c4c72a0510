package proof

import (
	"math/rand/v2"
	"testing"
)

// Linear bounds of a unit and of its difference from its twin hold everywhere in the intervals, in every case of signs.
func TestRelaxed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	between := func(lo, hi float64) float64 {
		switch rng.IntN(4) {
		case 0:
			return lo
		case 1:
			return hi
		}
		return lo + (hi-lo)*rng.Float64()
	}
	draw := func() (lo, hi float64) {
		lo = float64(rng.IntN(5)-2) + float64(rng.IntN(2))*rng.NormFloat64()
		return lo, lo + float64(rng.IntN(3))*rng.Float64()
	}
	for range 20000 {
		b := noBounds(1, true)
		b.lo[0], b.hi[0] = draw()
		b.apartLo[0], b.apartHi[0] = draw()
		h, d := float64(rng.IntN(3)-1)*rng.Float64(), float64(rng.IntN(3)-1)*rng.Float64()
		l := b.relaxed(0, h, d)
		for range 20 {
			z, e := between(b.lo[0], b.hi[0]), between(b.apartLo[0], b.apartHi[0])
			value := h*max(0, z) + d*(max(0, z+e)-max(0, z))
			if over := l.z*z + l.apart*e + l.at - value; over < -1e-12 {
				t.Fatalf("%+v at %g and %g: %g below %g %+v", b, z, e, over, value, l)
			}
		}
	}
}

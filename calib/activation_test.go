package calib

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/quant"
)

func spreadOf(seed uint64, lo, hi float32) *Stats {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &Stats{Min: lo, Max: hi, Hist: make([]float64, histBins)}
	width := float64(hi-lo) / histBins
	for range 4000 {
		x := math.Exp(r.NormFloat64()) / 12 * float64(hi)
		if lo < 0 && r.IntN(3) == 0 {
			x = math.Exp(r.NormFloat64()/2) / 6 * float64(lo)
		}
		if x < float64(lo) {
			continue
		}
		s.Hist[min(int((x-float64(lo))/width), histBins-1)]++
	}
	return s
}

// The least squared error against all pairs of ends on a fine grid, with the error summed bin by bin.
func TestActivationSquared(t *testing.T) {
	t.Parallel()
	for seed, ends := range [][2]float32{{0, 9}, {-3, 9}, {-4, 0}, {2, 9}} {
		s := spreadOf(uint64(seed), ends[0], ends[1])
		sums := newSpread(s.Hist, float64(s.Min), float64(s.Max))
		for _, bits := range []int{2, 3, 4, 8} {
			a := Activation(s, bits)
			got, least := binError(s, a), math.Inf(1)
			if sum := sums.squaredError(a); math.Abs(sum-got) > 1e-4*got {
				t.Errorf("%v, %d bits: error %v by sums, %v bin by bin", ends, bits, sum, got)
			}
			const n = 60
			for i := range n + 1 {
				for j := range n + 1 {
					clipped := quant.FitAct(bits, min(0, ends[0])*float32(i)/n, max(0, ends[1])*float32(j)/n)
					least = min(least, sums.squaredError(clipped))
				}
			}
			if got > least*1.02 {
				t.Errorf("%v, %d bits: error %v, there is %v", ends, bits, got, least)
			}
			if ends[0] >= 0 && a.Zero != 0 {
				t.Errorf("%d bits: zero point %d behind a Relu", bits, a.Zero)
			}
		}
	}
}

// Quantizers can be written, with zero point 0 behind a Relu, also those of hardly anything.
func TestActivationKinds(t *testing.T) {
	lonely := &Stats{Max: 5, Hist: make([]float64, histBins)}
	lonely.Hist[histBins-1] = 1
	empty := &Stats{Hist: make([]float64, histBins)}
	same := &Stats{Min: 2, Max: 2, Hist: make([]float64, histBins)}
	for bits := 2; bits <= 8; bits++ {
		for i, s := range []*Stats{spreadOf(1, 0, 3), spreadOf(1, -1, 3), lonely, empty, same} {
			a := Activation(s, bits)
			if err := a.Check(); err != nil || a.Bits != bits || (s.Min >= 0 && a.Zero != 0) {
				t.Errorf("%d bits, statistics %d: %+v, %v", bits, i, a, err)
			}
			if hi := a.Scale * float32(a.QMax()-int(a.Zero)); s.Max > 0 && hi > s.Max*1.2 || hi <= 0 {
				t.Errorf("%d bits, statistics %d: reaches to %v of %v", bits, i, hi, s.Max)
			}
		}
	}
}

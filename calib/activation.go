package calib

import (
	"math"

	"cfq/quant"
)

// Activation fits the quantizer of a layer's input: the range [lo, hi] with
// lo <= 0 <= hi whose uint grid of the given bits has the least mean squared
// error over the histogram. After a Relu (no negative values) lo is 0, so that
// the zero point is 0 and the Relu is absorbed by the integer kernel.
func Activation(s *Stats, bits int) quant.Act {
	lo, hi := min(0, s.Min), max(0, s.Max)
	best, bestErr := quant.FitAct(bits, lo, hi), math.Inf(1)
	for i := 50; i >= 20; i-- {
		clip := float32(i) / 50
		a := quant.FitAct(bits, lo*clip, hi*clip)
		if e := s.squaredError(a); e < bestErr {
			best, bestErr = a, e
		}
	}
	return best
}

// squaredError sums the squared rounding and clipping errors over the histogram,
// each bin at its centre.
func (s *Stats) squaredError(a quant.Act) float64 {
	width := (float64(s.Max) - float64(s.Min)) / histBins
	var sum float64
	for b, n := range s.Hist {
		if n == 0 {
			continue
		}
		x := float64(s.Min) + (float64(b)+0.5)*width
		e := x - float64(a.Apply(float32(x)))
		sum += n * e * e
	}
	return sum
}

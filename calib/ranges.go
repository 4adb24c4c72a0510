package calib

import (
	"math"

	"cfq/quant"
)

// Range is a way of fitting the range, and with it the scale, of a quantizer.
type Range string

// The ways of fitting ranges.
const (
	MinMax Range = "minmax" // nothing is clipped
	MSE    Range = "mse"    // least squared error of the numbers themselves
	Output Range = "output" // least squared error of what the layer makes of them
)

// Rounding is a way of rounding weights to codes.
type Rounding string

// The ways of rounding weights.
const (
	Nearest Rounding = "nearest"
	GPTQ    Rounding = "gptq" // each weight makes up for the error of those before it
)

// spread tells the error of any grid over a histogram in time proportional to the
// codes, not to the bins: with sums of n, n x and n x^2 up to each bin, the
// numbers that share a code q cost sum n x^2 - 2 q sum n x + q^2 sum n.
type spread struct {
	lo, width float64
	sums      [][3]float64
}

func newSpread(hist []float64, lo, hi float64) *spread {
	s := &spread{lo: lo, width: (hi - lo) / float64(len(hist)), sums: make([][3]float64, len(hist)+1)}
	for k, n := range hist {
		x := s.lo + (float64(k)+0.5)*s.width
		s.sums[k+1] = [3]float64{s.sums[k][0] + n, s.sums[k][1] + n*x, s.sums[k][2] + n*x*x}
	}
	return s
}

// from is the first bin whose centre is x or more.
func (s *spread) from(x float64) int {
	at := math.Ceil((x-s.lo)/s.width - 0.5)
	return int(min(max(at, 0), float64(len(s.sums)-1)))
}

// squaredError sums the squared rounding and clipping errors over the histogram,
// each bin at its centre.
func (s *spread) squaredError(a quant.Act) float64 {
	scale, zero := float64(a.Scale), float64(a.Zero)
	var sum float64
	for q, from := 0, 0; q <= a.QMax(); q++ {
		to := len(s.sums) - 1
		if q < a.QMax() {
			to = s.from((float64(q) - zero + 0.5) * scale)
		}
		u, v, x := s.sums[from], s.sums[to], (float64(q)-zero)*scale
		sum += max(0, v[2]-u[2]-2*x*(v[1]-u[1])+x*x*(v[0]-u[0]))
		from = to
	}
	return sum
}

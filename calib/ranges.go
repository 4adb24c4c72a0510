package calib

import (
	"math"

	"cfq/quant"
)

// Rounding is a way of rounding weights to codes.
type Rounding string

// The ways of rounding weights.
const (
	Nearest Rounding = "nearest"
	GPTQ    Rounding = "gptq" // each weight makes up for the error of those before it
)

// spread tells the error of any grid over a histogram in time proportional to the codes, not to the bins: with sums of
// n, n x and n x^2 up to each bin, the numbers that share a code q cost sum n x^2 - 2 q sum n x + q^2 sum n.
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

// squaredError sums the squared rounding and clipping errors over the histogram, each bin at its centre.
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

// Activation fits the quantizer of a layer's input: the range [lo, hi] with lo <= 0 <= hi that a uint grid of the given
// bits covers, of the least squared error. After a Relu (no negative values) lo is 0, so that the zero point is 0 and
// the Relu is absorbed by the integer kernel; then hi is what is fitted, as the clipping parameter alpha of PACT is.
//
// Reference: docs/method.md.
func Activation(s *Stats, bits int) quant.Act {
	lo, hi := min(0, s.Min), max(0, s.Max)
	if !(hi > lo) {
		return quant.FitAct(bits, lo, hi)
	}
	return fitClips(bits, lo, hi, newSpread(s.Hist, float64(s.Min), float64(s.Max)).squaredError)
}

// Ends of a range are tried at clipRatio^i of the outermost value, i = 0 ... clipTries, fineClips to a step; where both
// ends are to be found, whole steps first and then what lies around the best.
const (
	clipRatio = 0.9
	clipTries = 40
	fineClips = 8
)

// fitClips returns the quantizer of the smallest loss, the widest of several. Both ends of the range are tried
// together, since what one end gives up makes the grid finer for the other; an end at zero stays there.
func fitClips(bits int, lo, hi float32, loss func(quant.Act) float64) quant.Act {
	best := quant.FitAct(bits, lo, hi)
	smallest, bestLo, bestHi := math.Inf(1), 0, 0
	try := func(i, j int) { // in 1/fineClips of a step
		clip := func(n int) float32 { return float32(math.Pow(clipRatio, float64(n)/fineClips)) }
		a := quant.FitAct(bits, lo*clip(i), hi*clip(j))
		if e := loss(a); e < smallest {
			best, smallest, bestLo, bestHi = a, e, i, j
		}
	}
	around := func(from, to, stride int) (lows, highs [2]int) {
		bounds := func(end float32, at int) [2]int {
			if end == 0 {
				return [2]int{0, 0}
			}
			return [2]int{max(0, at+from*stride), min(clipTries*fineClips, at+to*stride)}
		}
		return bounds(lo, bestLo), bounds(hi, bestHi)
	}
	scan := func(from, to, stride int) {
		lows, highs := around(from, to, stride)
		for i := lows[0]; i <= lows[1]; i += stride {
			for j := highs[0]; j <= highs[1]; j += stride {
				try(i, j)
			}
		}
	}
	if lo == 0 || hi == 0 {
		scan(0, clipTries*fineClips, 1)
		return best
	}
	scan(0, clipTries, fineClips)
	scan(-fineClips+1, fineClips-1, 1)
	return best
}

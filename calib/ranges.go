package calib

import (
	"math"

	"cfq/quant"
)

// Range is a way of fitting the range, and with it the scale, of a quantizer.
type Range string

// The ways of fitting ranges.
const (
	MinMax     Range = "minmax"
	Percentile Range = "percentile"
	MSE        Range = "mse"
	Entropy    Range = "entropy"
	Output     Range = "output"
	Logits     Range = "logits"
)

// Rounding is a way of rounding weights to codes.
type Rounding string

// The ways of rounding weights.
const (
	Nearest  Rounding = "nearest"
	GPTQ     Rounding = "gptq"     // each weight makes up for the error of those before it
	AdaRound Rounding = "adaround" // up or down, learned by gradient
)

// RangeDoc says what a way of fitting ranges does.
type RangeDoc struct {
	Name Range
	Doc  string
}

// Ranges is the table of the ways of fitting ranges, for weights and activations alike.
func Ranges() []RangeDoc {
	return []RangeDoc{
		{MinMax, "nothing is clipped"},
		{Percentile, "the outer values are clipped: all but 99.99 % lie within"},
		{MSE, "least squared error of the numbers themselves"},
		{Entropy, "least divergence of the distribution after from that before"},
		{Output, "least squared error of what the layer makes of them (the paper's layerwise objective)"},
		{Logits, "the same, outputs weighted by how the margin depends on them"},
	}
}

type bins struct {
	lo, width float64
	n         int
}

func binsOf(n int, lo, hi float64) bins { return bins{lo: lo, width: (hi - lo) / float64(n), n: n} }

// centre is what all numbers of bin b are taken for.
func (b bins) centre(k int) float64 { return b.lo + (float64(k)+0.5)*b.width }

func (b bins) from(x float64) int {
	at := math.Ceil((x-b.lo)/b.width - 0.5)
	return int(min(max(at, 0), float64(b.n)))
}

// spread tells the error of any grid over a histogram in time proportional to the
// codes, not to the bins: with sums of n, n x and n x^2 up to each bin, the
// numbers that share a code q cost sum n x^2 - 2 q sum n x + q^2 sum n.
type spread struct {
	bins
	sums [][3]float64
}

func newSpread(hist []float64, lo, hi float64) *spread {
	s := &spread{bins: binsOf(len(hist), lo, hi), sums: make([][3]float64, len(hist)+1)}
	for k, n := range hist {
		x := s.centre(k)
		s.sums[k+1] = [3]float64{s.sums[k][0] + n, s.sums[k][1] + n*x, s.sums[k][2] + n*x*x}
	}
	return s
}

// squaredError sums the squared rounding and clipping errors over the histogram,
// each bin at its centre.
func (s *spread) squaredError(a quant.Act) float64 {
	scale, zero := float64(a.Scale), float64(a.Zero)
	var sum float64
	for q, from := 0, 0; q <= a.QMax(); q++ {
		to := s.n
		if q < a.QMax() {
			to = s.from((float64(q) - zero + 0.5) * scale)
		}
		u, v, x := s.sums[from], s.sums[to], (float64(q)-zero)*scale
		sum += max(0, v[2]-u[2]-2*x*(v[1]-u[1])+x*x*(v[0]-u[0]))
		from = to
	}
	return sum
}

// entropy tells the divergence of a grid's distribution from a histogram.
//
// As in TensorRT's calibration, P is the histogram within the grid's range, what
// lies outside added to its outermost bins; Q has, for each code, the weight of
// its bins before that, spread evenly over those of its bins that are not empty
// in P. Both are scaled to 1; the divergence is sum P log(P/Q). The range is that
// in which nothing is farther than half a step from a code. Zeros count nothing.
type entropy struct {
	bins
	hist []float64
	// Sums up to each bin: of the weight, of n log n, and of bins that are not empty.
	weight, log, full []float64
}

func newEntropy(hist []float64, lo, hi float64) *entropy {
	n := len(hist) + 1
	e := &entropy{
		bins: binsOf(len(hist), lo, hi), hist: hist, weight: make([]float64, n), log: make([]float64, n),
		full: make([]float64, n),
	}
	for k, v := range hist {
		e.weight[k+1], e.log[k+1], e.full[k+1] = e.weight[k]+v, e.log[k]+xlogx(v), e.full[k]
		if v > 0 {
			e.full[k+1]++
		}
	}
	return e
}

func xlogx(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return x * math.Log(x)
}

func (e *entropy) divergence(a quant.Act) float64 {
	return e.of(float64(a.Scale), -int(a.Zero), a.QMax()-int(a.Zero))
}

// of is the divergence of the grid scale x (lowest ... highest). A grid of which an
// outermost code has nothing but what is clipped to it is not comparable: infinite.
func (e *entropy) of(scale float64, lowest, highest int) float64 {
	first := e.from((float64(lowest) - 0.5) * scale)
	end := e.from((float64(highest) + 0.5) * scale)
	if first >= end {
		return math.Inf(1)
	}
	below, above := e.weight[first], e.weight[e.n]-e.weight[end]
	total := e.weight[e.n]
	inside := total - below - above
	if !(inside > 0) {
		return math.Inf(1)
	}
	// P log P: only the outermost bins differ from the histogram.
	sum := e.log[end] - e.log[first]
	low, high := e.hist[first], e.hist[end-1]
	if first == end-1 {
		sum += xlogx(low+below+above) - xlogx(low)
	} else {
		sum += xlogx(low+below) - xlogx(low) + xlogx(high+above) - xlogx(high)
	}
	for q, from := lowest, first; q <= highest && from < end; q++ {
		to := end
		if q < highest {
			to = min(end, e.from((float64(q)+0.5)*scale))
		}
		q0, full := e.weight[to]-e.weight[from], e.full[to]-e.full[from]
		p := q0
		if from == first && to > from {
			if p += below; below > 0 && low == 0 {
				full++
			}
			below = 0
		}
		if to == end && to > from {
			if p += above; above > 0 && high == 0 && !(first == end-1 && full > 0) {
				full++
			}
			above = 0
		}
		from = to
		if p <= 0 {
			continue
		}
		if q0 <= 0 {
			return math.Inf(1)
		}
		sum -= p * math.Log(q0/full*total/inside)
	}
	return sum / total
}

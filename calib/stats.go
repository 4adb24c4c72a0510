package calib

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"cfq/quant"
)

// Stats describes the input h of one layer over a calibration set. All sums count
// a row as often as its weight says; their size does not depend on the rows.
type Stats struct {
	// Gram is E[h h^T], In x In, row-major, and Mean E[h]. For a layer that the input
	// feeds, h is what Input.Reads gives; for a convolution, a patch of its input, and
	// the moments of its groups follow one another.
	Gram, Mean []float64
	// Min and Max of all elements of h, and how they are spread between: Hist holds
	// their weight in histBins equal bins of [Min, Max], Zeros the weight of those that
	// are exactly 0 (which lies on every grid) and in no bin.
	Min, Max float32
	Zeros    float64
	Hist     []float64
	// OutputHist is Hist with element h_i counting ||W_:,i||^2 times: what an error of
	// it does to the layer's outputs. One histogram serves for all channels, since they
	// share a quantizer.
	OutputHist []float64

	// What is computed for CollectOptions.Logits, else nil. LogitGram and LogitMean are
	// moments of h with each row counting by the squared gradient of the margin by the
	// layer's outputs; in LogitHist, h_i counts by that of the margin by h_i.
	LogitGram, LogitMean, LogitHist []float64
}

const histBins = 4096

func newStats(l quant.LayerInfo, o CollectOptions) Stats {
	moments := func() (gram, mean []float64) { return make([]float64, l.In*l.In), make([]float64, l.In) }
	s := Stats{Min: float32(math.Inf(1)), Max: float32(math.Inf(-1)), Hist: make([]float64, histBins), OutputHist: make([]float64, histBins)}
	s.Gram, s.Mean = moments()
	if o.Logits {
		s.LogitGram, s.LogitMean = moments()
		s.LogitHist = make([]float64, histBins)
	}
	s.forGroups(l)
	return s
}

// count adds values, rows x len(costs), to the histograms; by is the margin's
// gradient by them, or nil.
func (s *Stats) count(v, by []float32, weights, costs []float64) {
	width := float64(s.Max) - float64(s.Min)
	size := len(costs)
	for k, x := range v {
		w := weights[k/size]
		if x == 0 || width <= 0 {
			s.Zeros += w
			continue
		}
		b := min(int((float64(x)-float64(s.Min))/width*histBins), histBins-1)
		s.Hist[b] += w
		s.OutputHist[b] += w * costs[k%size]
		if by != nil {
			g := float64(by[k])
			s.LogitHist[b] += w * g * g
		}
	}
}

// moments adds the weighted sums of h and h^T h, and returns the sum of the
// weights; h is overwritten. The general product is used for a symmetric result
// because gonum computes it in blocks and on all cores, and Syrk on one.
func moments(gram, mean, h, weights []float64) float64 {
	k := len(mean)
	var total float64
	for r, w := range weights {
		row := h[r*k : (r+1)*k]
		total += w
		if w == 1 {
			floats.Add(mean, row)
			continue
		}
		floats.AddScaled(mean, w, row)
		floats.Scale(math.Sqrt(w), row)
	}
	m := blas64.General{Rows: len(weights), Cols: k, Stride: k, Data: h}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, m, m, 1, blas64.General{Rows: k, Cols: k, Stride: k, Data: gram})
	return total
}

// finish turns sums into means over rows of the weights given. Where the margin
// depends on the layer nowhere, its rows count as they do without gradients.
func (s *Stats) finish(weight, logitWeight float64) {
	divide(s.Gram, s.Mean, weight)
	if s.LogitGram == nil {
		return
	}
	if logitWeight > 0 {
		divide(s.LogitGram, s.LogitMean, logitWeight)
	} else {
		copy(s.LogitGram, s.Gram)
		copy(s.LogitMean, s.Mean)
	}
	if floats.Sum(s.LogitHist) == 0 {
		copy(s.LogitHist, s.OutputHist)
	}
}

// divide divides sums by the weight of their terms, and makes the second moments
// symmetric to the bit.
func divide(gram, first []float64, weight float64) {
	if !(weight > 0) {
		weight = 1
	}
	floats.Scale(1/weight, gram)
	floats.Scale(1/weight, first)
	n := len(first)
	for i := range n {
		for j := range i {
			gram[i*n+j] = gram[j*n+i]
		}
	}
}

// moments returns the second moments and the means by which ranges of the kind, and
// the rounding that goes with them, minimise the error.
func (s *Stats) moments(kind Range) (gram, mean []float64) {
	if kind == Logits && s.LogitGram != nil {
		return s.LogitGram, s.LogitMean
	}
	return s.Gram, s.Mean
}

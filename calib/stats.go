package calib

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"cfq/quant"
)

// Stats describes the input h of one layer over a calibration set. Its size does not depend on the rows.
type Stats struct {
	Moments
	// Min and Max of all elements of h, and how they are spread between: Hist holds their number in histBins equal bins
	// of [Min, Max], but for those that are exactly 0, which lies on every grid.
	Min, Max float32
	Hist     []float64
}

// Moments are Gram = E[h h^T], In x In, row-major, and Mean = E[h], or the sums that become
// them. For a layer that the input feeds, h is what Input.Reads gives; for a convolution,
// a patch of its input, and the moments of its groups follow one another.
type Moments struct{ Gram, Mean []float64 }

const histBins = 4096

func newStats(l quant.LayerInfo) Stats {
	s := emptyStats()
	n := groups(l) * l.In
	s.Moments = Moments{make([]float64, n*l.In), make([]float64, n)}
	return s
}

func groups(l quant.LayerInfo) int {
	if l.Conv == nil {
		return 1
	}
	return l.Conv.Group
}

func emptyStats() Stats {
	return Stats{Min: float32(math.Inf(1)), Max: float32(math.Inf(-1)), Hist: make([]float64, histBins)}
}

// count adds values to the histogram.
func (s *Stats) count(v []float32) {
	width := float64(s.Max) - float64(s.Min)
	for _, x := range v {
		if x != 0 && width > 0 {
			s.Hist[min(int((float64(x)-float64(s.Min))/width*histBins), histBins-1)]++
		}
	}
}

// add adds h^T h. The general product is used for a symmetric result because gonum computes it in blocks and on all
// cores, and Syrk on one.
func (m Moments) add(h []float64) {
	k := len(m.Mean)
	rows := blas64.General{Rows: len(h) / k, Cols: k, Stride: k, Data: h}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, rows, rows, 1, blas64.General{Rows: k, Cols: k, Stride: k, Data: m.Gram})
}

// divide divides sums by the number of their terms, and makes the second moments symmetric to the bit.
func (m Moments) divide(terms int) {
	floats.Scale(1/float64(max(1, terms)), m.Gram)
	floats.Scale(1/float64(max(1, terms)), m.Mean)
	n := len(m.Mean)
	for i := range n {
		for j := range i {
			m.Gram[i*n+j] = m.Gram[j*n+i]
		}
	}
}

// Join gives all of several statistics the weighted mean of their moments.
func Join(stats []*Stats, weights []float64) {
	mean := func(of func(s *Stats) []float64) {
		sum := make([]float64, len(of(stats[0])))
		for k, s := range stats {
			floats.AddScaled(sum, weights[k]/floats.Sum(weights), of(s))
		}
		for _, s := range stats {
			copy(of(s), sum)
		}
	}
	mean(func(s *Stats) []float64 { return s.Gram })
	mean(func(s *Stats) []float64 { return s.Mean })
}

func (m Moments) group(g, groups int) Moments {
	cut := func(v []float64) []float64 {
		n := len(v) / groups
		return v[g*n : (g+1)*n : (g+1)*n]
	}
	return Moments{cut(m.Gram), cut(m.Mean)}
}

package calib

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"cfq/classifier"
	"cfq/quant"
)

// Stats describes the input h of one layer over a calibration set.
type Stats struct {
	// Gram is E[h h^T], In x In, row-major. For a layer that the input feeds, h are
	// the columns of the integer input.
	Gram []float64
	Mean []float64 // E[h], In
	// Min and Max of all elements of h, and how they are spread between.
	Min, Max float32
	Hist     []float64 // counts over histBins equal bins of [Min, Max]
}

const histBins = 4096

// reads returns what a layer's integer kernel reads: v itself, or, for a layer
// that the input feeds, its codes times the grid's scale.
func reads(v []float32, rows int, l quant.LayerInfo, input *quant.Input) []float64 {
	if input == nil || l.Input != input.Value {
		h := make([]float64, len(v))
		for k, x := range v {
			h[k] = float64(x)
		}
		return h
	}
	codes := input.Codes(v, len(v)/rows)
	h := make([]float64, len(codes))
	for k, q := range codes {
		h[k] = float64(q) * float64(input.Scale)
	}
	return h
}

// Collect runs the set through the classifier of the canonical graph twice
// (ranges, then sums) and returns the statistics of each layer's input. layers are
// widened already where input, the layout of the model's input (or nil), feeds them.
func Collect(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, input *quant.Input) ([]Stats, error) {
	stats := make([]Stats, len(layers))
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Input
		stats[i] = Stats{Gram: make([]float64, l.In*l.In), Mean: make([]float64, l.In), Min: float32(math.Inf(1)), Max: float32(math.Inf(-1)), Hist: make([]float64, histBins)}
	}
	probe := classifier.Probe{Values: names}
	err := c.Observe(ctx, set.X, probe, func(_, _ int, values, _ [][]float32) error {
		for i, v := range values {
			s := &stats[i]
			for _, x := range v {
				s.Min, s.Max = min(s.Min, x), max(s.Max, x)
			}
			if !(s.Max-s.Min < math.MaxFloat32) { // also when one of them is not a number
				return fmt.Errorf("the input of layer %q is not finite on these rows (%v to %v)", layers[i].Node, s.Min, s.Max)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ranges of the layers: %w", err)
	}
	err = c.Observe(ctx, set.X, probe, func(_, rows int, values, _ [][]float32) error {
		for i, v := range values {
			stats[i].count(v)
			stats[i].add(reads(v, rows, layers[i], input), rows)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("statistics of the layers: %w", err)
	}
	for i := range stats {
		floats.Scale(1/float64(set.Rows()), stats[i].Gram)
		floats.Scale(1/float64(set.Rows()), stats[i].Mean)
	}
	return stats, nil
}

func (s *Stats) count(v []float32) {
	width := float64(s.Max) - float64(s.Min)
	if width <= 0 {
		return
	}
	for _, x := range v {
		b := int((float64(x) - float64(s.Min)) / width * histBins)
		s.Hist[min(b, histBins-1)]++
	}
}

// add accumulates h and h^T h. The general product is used for a symmetric result
// because gonum computes it in blocks and on all cores, and Syrk on one.
func (s *Stats) add(h []float64, rows int) {
	k := len(h) / rows
	for r := range rows {
		floats.Add(s.Mean, h[r*k:(r+1)*k])
	}
	m := blas64.General{Rows: rows, Cols: k, Stride: k, Data: h}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, m, m, 1, blas64.General{Rows: k, Cols: k, Stride: k, Data: s.Gram})
}

package calib

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"cfq/quant"
)

// WeightOptions say how weights become codes.
type WeightOptions struct {
	PerTensor bool // one scale for the layer instead of one per output channel
	// Range is one of Ranges, the way of fitting the scales (Output). With Logits
	// the rounding, too, minimises the error by how the margin depends on the outputs.
	Range Range
	// Rounding is Nearest, GPTQ or AdaRound (Nearest). With the latter two the
	// bias takes up what the codes do to the mean of the outputs.
	Rounding Rounding
	Vary     Variation // how the fit departs from the best one
	Workers  int       // rows fitted at once (1); no result depends on it
}

// corrects says whether codes and bias are learned, not just rounded.
func (o WeightOptions) corrects() bool { return o.Rounding == GPTQ || o.Rounding == AdaRound }

// FitWeights fits the weights of a layer (in the coordinates of s.Gram) in each of
// the formats: the scales, and unless weights are rounded to the nearest the codes
// and the bias. By default the scales minimise the reconstruction error of the
// layer's outputs over clipping thresholds,
// E||(W - dq(q(W))) h||^2 = sum over rows r of e_r^T Gram e_r.
// The paper leaves the choice of objective to the backend (eq. cfptq_calibration);
// the error of the weights themselves would clip rare but wide columns.
func FitWeights(ctx context.Context, l quant.LayerInfo, s *Stats, formats []quant.Format, o WeightOptions) ([]quant.Layer, error) {
	if l.Conv != nil && l.Conv.Group > 1 {
		return fitGroups(ctx, l, s, formats, o)
	}
	w, err := newWeightFit(l, s, o)
	if err != nil {
		return nil, fmt.Errorf("layer %q: %w", l.Node, err)
	}
	fits := make([]quant.Layer, 0, len(formats))
	for _, f := range formats {
		fit := quant.Layer{Node: l.Node, Bits: f.Bits, Scales: w.scales(ctx, f)}
		o.Vary.scales(l.Node, fit.Scales)
		if o.corrects() || o.Vary.Rounding > 0 {
			w.assign(ctx, &fit, f)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fits = append(fits, fit)
	}
	return fits, nil
}

// weightFit is one run of FitWeights.
type weightFit struct {
	l    quant.LayerInfo
	o    WeightOptions
	mean []float64
	// search rounds while scales are looked for, final with the scale found.
	search, final rounding
}

func newWeightFit(l quant.LayerInfo, s *Stats, o WeightOptions) (*weightFit, error) {
	gram, mean := s.moments(o.Range)
	w := &weightFit{l: l, o: o, mean: mean, final: nearest(gram, l.In)}
	if !o.corrects() {
		w.search = searcher(gram, l.In)
		return w, nil
	}
	c, err := newCovariance(gram, mean)
	if err != nil {
		return nil, err
	}
	w.search = c.compensated
	if w.final = c.polished; o.Rounding == AdaRound {
		w.final = c.adaptive
	}
	return w, nil
}

// scales fits the scales.
func (w *weightFit) scales(ctx context.Context, f quant.Format) []float32 {
	if w.o.PerTensor {
		return []float32{w.scale(0, w.l.Out, f, w.o.Workers)}
	}
	scales := make([]float32, w.l.Out)
	parallel(ctx, w.o.Workers, w.l.Out, func(r int) { scales[r] = w.scale(r, r+1, f, 1) })
	return scales
}

// assign fills in the codes and, where those are learned, the bias that takes up
// what they do to the mean of the outputs.
func (w *weightFit) assign(ctx context.Context, fit *quant.Layer, f quant.Format) {
	l := w.l
	fit.Codes = make([]int8, len(l.W))
	if w.o.corrects() {
		fit.Bias = make([]float32, l.Out)
	}
	parallel(ctx, w.o.Workers, l.Out, func(r int) {
		scale := fit.Scales[r%len(fit.Scales)]
		row, codes := l.Row(r), fit.Codes[r*l.In:(r+1)*l.In]
		w.final(row, scale, f, codes, w.o.Vary.dither(l.Node, r), unlimited)
		if !w.o.corrects() {
			return
		}
		shift := 0.0
		for j, v := range row {
			shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * w.mean[j]
		}
		fit.Bias[r] = float32(float64(l.B[r]) + shift)
	})
}

// parallel calls f for 0..n-1, workers at once, until ctx is done; every call
// writes its own result, so the outcome does not depend on their number.
func parallel(ctx context.Context, workers, n int, f func(int)) {
	if workers <= 1 {
		for i := 0; i < n && ctx.Err() == nil; i++ {
			f(i)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait() // f has no errors
}

package calib

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"

	"cfq/quant"
)

// Clipping thresholds are tried from clipLeast of the largest weight to all of
// it, clipSteps of them, first every clipStride-th and then those around the best.
const (
	clipSteps  = 60
	clipStride = 5
	clipLeast  = 0.25
)

// idleScale is the scale of a row of zeros. It is also the unit of the row's bias,
// so it is small.
const idleScale = 1e-4

// WeightOptions say how weights become codes.
type WeightOptions struct {
	PerTensor bool // one scale for the layer instead of one per output channel
	// Compensate rounds each weight so as to make up for the error of those before
	// it, and corrects the bias; see compensation. Otherwise each is rounded to the
	// nearest code and the bias stays.
	Compensate bool
	Vary       Variation // how the fit departs from the best one
	Workers    int       // rows fitted at once (1); no result depends on it
}

// FitWeights fits the weights of a layer (in the coordinates of s.Gram) in each of
// the formats: the scales, and with Compensate the codes and the bias. The scales
// minimise the reconstruction error of the layer's outputs,
// E||(W - dq(q(W))) h||^2 = sum over rows r of e_r^T Gram e_r,
// over clipping thresholds. The paper leaves the choice of objective to the
// backend (eq. cfptq_calibration); the error of the weights themselves would clip
// rare but wide columns.
func FitWeights(ctx context.Context, l quant.LayerInfo, s *Stats, formats []quant.Format, o WeightOptions) ([]quant.Layer, error) {
	round := nearest(s.Gram, l.In)
	if o.Compensate {
		var err error
		if round, err = compensation(s, l.In); err != nil {
			return nil, fmt.Errorf("layer %q: %w", l.Node, err)
		}
	}
	var fits []quant.Layer
	for _, f := range formats {
		fit := quant.Layer{Node: l.Node, Bits: f.Bits}
		if o.PerTensor {
			fit.Scales = []float32{bestScale(l.W, l.In, f, round, o.Workers)}
		} else {
			fit.Scales = make([]float32, l.Out)
			parallel(ctx, o.Workers, l.Out, func(r int) {
				fit.Scales[r] = bestScale(l.Row(r), l.In, f, round, 1)
			})
		}
		o.Vary.scales(l.Node, fit.Scales)
		if o.Compensate || o.Vary.Rounding > 0 {
			assign(ctx, &fit, l, s, f, round, o)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fits = append(fits, fit)
	}
	return fits, nil
}

// assign fills in the codes and, with Compensate, the bias that takes up what they
// do to the mean of the outputs.
func assign(ctx context.Context, fit *quant.Layer, l quant.LayerInfo, s *Stats, f quant.Format, round rounding, o WeightOptions) {
	fit.Codes = make([]int8, len(l.W))
	if o.Compensate {
		fit.Bias = make([]float32, l.Out)
	}
	parallel(ctx, o.Workers, l.Out, func(r int) {
		scale := fit.Scales[r%len(fit.Scales)]
		w, codes := l.Row(r), fit.Codes[r*l.In:(r+1)*l.In]
		round(w, scale, f, codes, o.Vary.dither(l.Node, r))
		if !o.Compensate {
			return
		}
		shift := 0.0
		for j, v := range w {
			shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * s.Mean[j]
		}
		fit.Bias[r] = float32(float64(l.B[r]) + shift)
	})
}

// rounding rounds one row of weights with a scale into codes (nil: only the
// error is wanted) and returns the reconstruction error of the row's output. What
// by returns is added to each code before it is rounded; nil adds nothing.
type rounding func(w []float32, scale float32, f quant.Format, codes []int8, by dither) float64

// nearest rounds every weight to the nearest code; its error is e^T Gram e.
func nearest(gram []float64, in int) rounding {
	return func(w []float32, scale float32, f quant.Format, codes []int8, by dither) float64 {
		e := make([]float64, in)
		for j, v := range w {
			q := f.Quantize(by.move(v, scale), scale)
			if codes != nil {
				codes[j] = q
			}
			e[j] = float64(v) - float64(quant.Dequantize(q, scale))
		}
		var sum float64
		for j, v := range e {
			if v != 0 {
				sum += v * floats.Dot(e, gram[j*in:(j+1)*in])
			}
		}
		return sum
	}
}

// bestScale tries the clipping thresholds on all rows of w together.
func bestScale(w []float32, in int, f quant.Format, round rounding, workers int) float32 {
	var largest float32
	for _, v := range w {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return idleScale
	}
	scale := func(i int) float32 {
		clip := clipLeast + (1-clipLeast)*float64(i)/clipSteps
		return float32(clip * float64(largest) / float64(f.QMax))
	}
	tried := make([]float64, clipSteps+1)
	for i := range tried {
		tried[i] = math.Inf(1)
	}
	try := func(from, to, stride int) {
		n := (to-from)/stride + 1
		parallel(context.Background(), workers, n, func(k int) {
			i := from + k*stride
			tried[i] = 0
			for r := 0; r < len(w); r += in {
				tried[i] += round(w[r:r+in], scale(i), f, nil, nil)
			}
		})
	}
	try(0, clipSteps, clipStride)
	best := floats.MinIdx(tried)
	try(max(0, best-clipStride+1), min(clipSteps, best+clipStride-1), 1)
	return scale(floats.MinIdx(tried))
}

// parallel calls f for 0..n-1, workers at once, until ctx is done; every call
// writes its own result, so the outcome does not depend on their number.
func parallel(ctx context.Context, workers, n int, f func(int)) {
	var group errgroup.Group
	group.SetLimit(max(1, workers))
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait() // f has no errors
}

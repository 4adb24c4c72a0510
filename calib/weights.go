package calib

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"cfq/quant"
)

// clipSteps is how many clipping thresholds are tried for a scale, evenly from
// clipLeast of the largest weight to all of it.
const (
	clipSteps = 60
	clipLeast = 0.25
)

// WeightOptions say how weights become codes.
type WeightOptions struct {
	PerTensor bool // one scale for the layer instead of one per output channel
	// Compensate rounds each weight so as to make up for the error of those before
	// it, and corrects the bias; see compensation. Otherwise each is rounded to the
	// nearest code and the bias stays.
	Compensate bool
}

// FitWeights fits the weights of a layer (in the coordinates of s.Gram) in a
// format: the scales, and with Compensate the codes and the bias. The scales
// minimise the reconstruction error of the layer's outputs,
// E||(W - dq(q(W))) h||^2 = sum over rows r of e_r^T Gram e_r,
// over clipping thresholds. The paper leaves the choice of objective to the
// backend (eq. cfptq_calibration); the error of the weights themselves would clip
// rare but wide columns.
func FitWeights(l quant.LayerInfo, s *Stats, f quant.Format, o WeightOptions) quant.Layer {
	fit := quant.Layer{Node: l.Node, Bits: f.Bits}
	round := nearest(s.Gram, l.In)
	if o.Compensate {
		fit.Codes = make([]int8, len(l.W))
		round = compensation(s, l.In)
	}
	if o.PerTensor {
		fit.Scales = []float32{bestScale(l.W, l.In, f, round)}
	} else {
		fit.Scales = make([]float32, l.Out)
		parallel(l.Out, func(r int) {
			fit.Scales[r] = bestScale(l.Row(r), l.In, f, round)
		})
	}
	if !o.Compensate {
		return fit
	}
	fit.Bias = make([]float32, l.Out)
	parallel(l.Out, func(r int) {
		scale := fit.Scales[r%len(fit.Scales)]
		w, codes := l.Row(r), fit.Codes[r*l.In:(r+1)*l.In]
		round(w, scale, f, codes)
		shift := 0.0
		for j, v := range w {
			shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * s.Mean[j]
		}
		fit.Bias[r] = float32(float64(l.B[r]) + shift)
	})
	return fit
}

// rounding rounds one row of weights with a scale into codes (nil: only the
// error is wanted) and returns the reconstruction error of the row's output.
type rounding func(w []float32, scale float32, f quant.Format, codes []int8) float64

// nearest rounds every weight to the nearest code; its error is e^T Gram e.
func nearest(gram []float64, in int) rounding {
	return func(w []float32, scale float32, f quant.Format, codes []int8) float64 {
		e := make([]float64, in)
		for j, v := range w {
			q := f.Quantize(v, scale)
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
func bestScale(w []float32, in int, f quant.Format, round rounding) float32 {
	var largest float32
	for _, v := range w {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return 1
	}
	scale := func(i int) float32 {
		clip := clipLeast + (1-clipLeast)*float64(i)/clipSteps
		return float32(clip * float64(largest) / float64(f.QMax))
	}
	tried := make([]float64, clipSteps+1)
	try := func(i int) {
		for r := 0; r < len(w); r += in {
			tried[i] += round(w[r:r+in], scale(i), f, nil)
		}
	}
	if len(w) > in {
		parallel(len(tried), try)
	} else {
		for i := range tried {
			try(i)
		}
	}
	return scale(floats.MinIdx(tried))
}

// parallel calls f for 0..n-1 on all cores; every call writes its own result, so
// the outcome does not depend on their number.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers() {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

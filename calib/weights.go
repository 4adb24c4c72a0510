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

// WeightScales fits the scales of a layer's weights (Out x In, in the coordinates
// of s.Gram) at a width: one per output channel, or a single one. Each minimises
// the reconstruction error of the layer's outputs,
// E||(W - dq(q(W))) h||^2 = sum over rows r of e_r^T Gram e_r,
// over clipping thresholds. The paper leaves the choice of objective to the
// backend (eq. cfptq_calibration); the error of the weights themselves would clip
// rare but wide columns.
func WeightScales(w []float32, out, in int, s *Stats, f quant.Format, perChannel bool) []float32 {
	if !perChannel {
		return []float32{bestScale(w, in, s.Gram, f)}
	}
	scales := make([]float32, out)
	parallel(out, func(r int) {
		scales[r] = bestScale(w[r*in:(r+1)*in], in, s.Gram, f)
	})
	return scales
}

// bestScale tries the clipping thresholds on all rows of w together.
func bestScale(w []float32, in int, gram []float64, f quant.Format) float32 {
	var largest float32
	for _, v := range w {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return 1
	}
	tried := make([]float64, clipSteps+1)
	scale := func(i int) float32 {
		clip := clipLeast + (1-clipLeast)*float64(i)/clipSteps
		return float32(clip * float64(largest) / float64(f.QMax))
	}
	try := func(i int) { tried[i] = Reconstruction(w, in, gram, scale(i), f) }
	if len(w) > in {
		parallel(len(tried), try)
	} else {
		for i := range tried {
			try(i)
		}
	}
	return scale(floats.MinIdx(tried))
}

// Reconstruction returns sum over rows r of e_r^T Gram e_r for e = w - dq(q(w)).
func Reconstruction(w []float32, in int, gram []float64, scale float32, f quant.Format) float64 {
	e := make([]float64, in)
	var sum float64
	for r := 0; r < len(w); r += in {
		for j, v := range w[r : r+in] {
			e[j] = float64(v) - float64(quant.Dequantize(f.Quantize(v, scale), scale))
		}
		for j, v := range e {
			if v != 0 {
				sum += v * floats.Dot(e, gram[j*in:(j+1)*in])
			}
		}
	}
	return sum
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

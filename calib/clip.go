package calib

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"cfq/quant"
)

// Clipping thresholds are tried from all of the largest weight down to clipLeast
// of it, clipSteps of them in a geometric row: all of them for small layers,
// otherwise every clipStride-th at first and then those around the best. The error
// jumps up and down with the threshold, so few coarse ones would miss the best.
const (
	clipSteps  = 240
	clipStride = 4
	clipLeast  = 0.1
)

// stride is how many thresholds are left out at first, for in inputs of a layer.
func stride(in int) int { return min(clipStride, 1+(in-1)/16) }

// idleScale is the scale of a row of zeros. It is also the unit of the row's bias,
// so it is small.
const idleScale = 1e-4

// scale fits the common scale of the rows from ... to-1 as Range says.
func (w *weightFit) scale(from, to int, f quant.Format, workers int) float32 {
	rows := w.l.W[from*w.l.In : to*w.l.In]
	least, most := slices.Min(rows), slices.Max(rows)
	largest := max(-least, most)
	if largest == 0 {
		return idleScale
	}
	clipped := func(i int) float32 {
		return float32(math.Pow(clipLeast, float64(i)/clipSteps) * float64(largest) / float64(f.QMax))
	}
	var loss func(scale float32, limit float64) float64
	switch w.o.Range {
	case MinMax:
		return max(most/float32(f.QMax), least/float32(f.QMin))
	case Percentile:
		if t := percentile(rows, kept); t > 0 {
			return t / float32(f.QMax)
		}
		return clipped(0) // hardly anything but zeros
	case MSE:
		loss = func(scale float32, _ float64) float64 { return squaredError(rows, scale, f) }
	case Entropy:
		e := smooth(rows, float64(largest))
		loss = func(scale float32, _ float64) float64 { return e.of(float64(scale), f.QMin, f.QMax) }
	default:
		loss = func(scale float32, limit float64) float64 {
			var sum float64
			for r := from; r < to && sum <= limit; r++ {
				sum += w.search(w.l.Row(r), scale, f, nil, nil, limit-sum)
			}
			return sum
		}
	}
	return clipped(leastOf(workers, stride(w.l.In), func(i int, limit float64) float64 { return loss(clipped(i), limit) }))
}

// leastOf returns the threshold of the least loss. A loss may stop at anything
// above the limit, the least that is known; it is known from the round before, so that the
// result does not depend on the workers.
func leastOf(workers, stride int, loss func(i int, limit float64) float64) int {
	tried := make([]float64, clipSteps+1)
	for i := range tried {
		tried[i] = math.Inf(1)
	}
	try := func(from, to, stride int) int {
		limit := slices.Min(tried)
		parallel(context.Background(), workers, (to-from)/stride+1, func(k int) {
			i := from + k*stride
			if math.IsInf(tried[i], 1) {
				tried[i] = loss(i, limit)
			}
			if workers <= 1 { // one after the other
				limit = min(limit, tried[i])
			}
		})
		return floats.MinIdx(tried)
	}
	best := try(0, clipSteps, stride)
	return try(max(0, best-stride+1), min(clipSteps, best+stride-1), 1)
}

// percentile returns the magnitude below which the share p of the weights lies:
// between the k-th and the next of n in ascending order where p (n-1) lies between
// k and k+1, in proportion. Of few weights it is thus a little less than the largest.
func percentile(w []float32, p float64) float32 {
	sorted := make([]float64, len(w))
	for i, v := range w {
		sorted[i] = math.Abs(float64(v))
	}
	slices.Sort(sorted)
	at := p * float64(len(w)-1)
	k := int(at)
	if k+1 >= len(w) {
		return float32(sorted[len(w)-1])
	}
	return float32(sorted[k] + (at-float64(k))*(sorted[k+1]-sorted[k]))
}

// squaredError is that of weights rounded to the nearest.
func squaredError(w []float32, scale float32, f quant.Format) float64 {
	var sum float64
	for _, v := range w {
		e := float64(v) - float64(quant.Dequantize(f.Quantize(v, scale), scale))
		sum += e * e
	}
	return sum
}

// weightBins is the number of bins of weights' histograms.
const weightBins = 2048

// smooth makes the histogram of weights between -largest and largest. A row of a
// hundred weights would leave nearly all bins empty, and its divergence would see
// nothing but what is clipped: so each weight is a triangle around itself, whose
// standard deviation is Silverman's 1.06 sigma n^(-1/5). Zeros count nothing.
func smooth(w []float32, largest float64) *entropy {
	values := make([]float64, 0, len(w))
	for _, v := range w {
		if v != 0 {
			values = append(values, float64(v))
		}
	}
	hist := make([]float64, weightBins)
	b := binsOf(weightBins, -largest, largest)
	spread := 1.06 * stat.PopStdDev(values, nil) * math.Pow(float64(len(values)), -0.2)
	half := max(math.Sqrt(6)*spread, b.width) // a triangle's deviation is its half base by the root of 6
	for _, v := range values {
		for k := b.from(v - half); k < b.from(v+half); k++ {
			hist[k] += 1 - math.Abs(b.centre(k)-v)/half
		}
	}
	return newEntropy(hist, -largest, largest)
}

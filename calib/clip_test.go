package calib

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/quant"
)

// unit are statistics of inputs that do not correlate and have mean 0.
func unit(in int) *Stats {
	s := &Stats{Moments: Moments{make([]float64, in*in), make([]float64, in)}}
	for j := range in {
		s.Gram[j*in+j] = 1
	}
	return s
}

// Weights so small that their scale would be denormal are zeros.
func TestIdleWeights(t *testing.T) {
	for _, f := range quant.Formats() {
		for _, w := range [][]float32{{4e-40, -9e-31, 0}, {0, 0, 0}} {
			l := quant.LayerInfo{Node: "n", In: 3, Out: 1, W: w, B: []float32{0}}
			got := fitOne(t, l, unit(3), f, WeightOptions{})
			if got.Scales[0] != idleScale || slices.ContainsFunc(got.Codes, func(c int8) bool { return c != 0 }) {
				t.Errorf("%d bits: scale %v, codes %v", f.Bits, got.Scales[0], got.Codes)
			}
		}
	}
}

// Scales that are searched for are the best of all thresholds there are to try, the
// loss written out; of all numbers, at least nearly the best: the loss is jumpy. For a
// row and for all rows together, for small layers, of which each threshold is tried, and a large one.
func TestSearchedScales(t *testing.T) {
	t.Parallel()
	for _, size := range []struct {
		out, in         int
		ofGrid, ofDense float64
	}{{3, 9, 1 + 1e-6, 1.35}, {2, 80, 1.03, 1.2}} {
		l, s := layerOf(size.out, size.in)
		r := rand.New(rand.NewPCG(2, 2))
		for k := range l.W { // heavy tails, so that clipping pays
			l.W[k] *= float32(math.Exp(r.NormFloat64()))
		}
		for name, s := range map[string]*Stats{"unit": unit(l.In), "drawn": s} {
			loss := func(rows []float32, scale float32, f quant.Format) float64 {
				var sum float64
				for r := 0; r < len(rows); r += l.In {
					e := make([]float64, l.In)
					for j := range e {
						w := rows[r+j]
						e[j] = float64(w) - float64(quant.Dequantize(f.Quantize(w, scale), scale))
					}
					for i, v := range e {
						for j := range e {
							sum += v * e[j] * s.Gram[i*l.In+j]
						}
					}
				}
				return sum
			}
			for _, f := range quant.Formats() {
				for _, o := range []WeightOptions{{}, {PerTensor: true, Workers: 3}} {
					fit := fitOne(t, l, s, f, o)
					for k, scale := range fit.Scales {
						rows := l.Row(k)
						if o.PerTensor {
							rows = l.W
						}
						top := float64(max(slices.Max(rows), -slices.Min(rows))) / float64(f.QMax)
						grid, dense := math.Inf(1), math.Inf(1)
						for n := range clipSteps + 1 {
							grid = min(grid, loss(rows, float32(math.Pow(clipMin, float64(n)/clipSteps)*top), f))
						}
						for n := 500; n <= 10000; n += 20 - 16*(f.Bits/8) { // of 8 bits the loss is jumpiest
							dense = min(dense, loss(rows, float32(top*float64(n)/10000), f))
						}
						got := loss(rows, scale, f)
						if got > grid*size.ofGrid || got > dense*size.ofDense {
							t.Errorf("%s, %d inputs, %d bits, per tensor %v: error %v, of all tried %v, of all %v", name, l.In, f.Bits,
								o.PerTensor, got, grid, dense)
						}
					}
				}
			}
		}
	}
}

func TestFitWeightsWorkers(t *testing.T) {
	t.Parallel()
	l, s := layerOf(5, 14)
	for _, rounding := range []Rounding{"", Nearest, GPTQ} {
		for _, tensor := range []bool{false, true} {
			o := WeightOptions{Rounding: rounding, PerTensor: tensor, Vary: Variation{Seed: 1, Jitter: 0.01}}
			var fits [2][]quant.Layer
			for i := range fits {
				o.Workers = 1 + 3*i
				fits[i] = must.Get(FitWeights(context.Background(), l, s, quant.Formats(), o))(t)
			}
			if d := cmp.Diff(fits[0], fits[1]); d != "" {
				t.Errorf("%s: depends on workers: %s", rounding, d)
			}
			for _, fit := range fits[0] {
				if len(fit.Scales) != map[bool]int{false: l.Out, true: 1}[tensor] || (fit.Bias != nil) != o.corrects() {
					t.Errorf("%s: %d scales, bias %v", rounding, len(fit.Scales), fit.Bias)
				}
			}
		}
	}
}

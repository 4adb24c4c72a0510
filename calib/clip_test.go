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

func TestPercentile(t *testing.T) {
	// Sorted 1 2 3 4; a half of the way from the first to the last lies between 2 and 3.
	must.Same(t, 2.5, percentile([]float32{-4, 1, 3, 2}, 0.5))
	w := make([]float32, 10001)
	for k := range w {
		w[k] = float32(k)
	}
	must.Same(t, 9999, percentile(w, kept))
	// Eleven weights: 0.9999 x 10 = 9.999, so a thousandth of the gap 5 to 7 is missing.
	l := quant.LayerInfo{Node: "n", In: 11, Out: 1, W: []float32{5, 1, 1, 1, 1, 1, 1, 1, 1, 1, -7}, B: []float32{0}}
	s := unit(11)
	f := quant.Formats()[2]
	got := fitOne(t, l, s, f, WeightOptions{Range: Percentile}).Scales[0]
	must.Near(t, (7-0.001*2)/7, float64(got), 1e-6)
	l.W = make([]float32, 11)
	l.W[3] = 2
	if got := fitOne(t, l, s, f, WeightOptions{Range: Percentile, PerTensor: true}).Scales[0]; got < 0.28 {
		t.Errorf("of zeros and a two the scale is %v", got)
	}
}

// unit are statistics of inputs that do not correlate and have mean 0.
func unit(in int) *Stats {
	s := &Stats{Moments: Moments{make([]float64, in*in), make([]float64, in)}}
	for j := range in {
		s.Gram[j*in+j] = 1
	}
	return s
}

// Nothing is clipped, and a finer scale would clip.
func TestMinMax(t *testing.T) {
	f := quant.Formats()[1] // -4 to 3
	for _, tt := range []struct {
		w    []float32
		want float32
	}{
		{[]float32{3, -1, 0}, 1},
		{[]float32{3, -8, 0}, 2}, // -4 is the code of -8
		{[]float32{-4, -1, 0}, 1},
		{[]float32{0, 0, 0}, idleScale},
	} {
		l := quant.LayerInfo{Node: "n", In: 3, Out: 1, W: tt.w, B: []float32{0}}
		must.Same(t, tt.want, fitOne(t, l, unit(3), f, WeightOptions{Range: MinMax}).Scales[0])
	}
}

// Weights so small that their scale would be denormal are zeros, however the scale is chosen.
func TestIdleWeights(t *testing.T) {
	for _, kind := range []Range{MinMax, Percentile, MSE, Entropy, Output} {
		for _, f := range quant.Formats() {
			l := quant.LayerInfo{Node: "n", In: 3, Out: 1, W: []float32{4e-40, -9e-31, 0}, B: []float32{0}}
			got := fitOne(t, l, unit(3), f, WeightOptions{Range: kind})
			if got.Scales[0] != idleScale || slices.ContainsFunc(got.Codes, func(c int8) bool { return c != 0 }) {
				t.Errorf("%v, %d bits: scale %v, codes %v", kind, f.Bits, got.Scales[0], got.Codes)
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
	}{{3, 9, 1 + 1e-6, 1.35}, {2, 150, 1.03, 1.2}} {
		l, s := layerOf(size.out, size.in)
		r := rand.New(rand.NewPCG(2, 2))
		for k := range l.W { // heavy tails, so that clipping pays
			l.W[k] *= float32(math.Exp(r.NormFloat64()))
		}
		for kind, m := range map[Range][]float64{MSE: unit(l.In).Gram, Output: s.Gram} {
			loss := func(rows []float32, scale float32, f quant.Format) float64 {
				var sum float64
				for r := 0; r < len(rows); r += l.In {
					e := make([]float64, l.In)
					for j := range e {
						w := rows[r+j]
						e[j] = float64(w) - float64(quant.Dequantize(f.Quantize(w, scale), scale))
					}
					for i, v := range e {
						if v != 0 && kind == MSE {
							sum += v * v
						} else if v != 0 {
							for j := range e {
								sum += v * e[j] * m[i*l.In+j]
							}
						}
					}
				}
				return sum
			}
			for _, f := range quant.Formats() {
				for _, o := range []WeightOptions{{Range: kind}, {Range: kind, PerTensor: true, Workers: 3}} {
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
						for n := 500; n <= 10000; n += 10 - 9*(f.Bits/8) { // of 8 bits the loss is jumpiest
							dense = min(dense, loss(rows, float32(top*float64(n)/10000), f))
						}
						got := loss(rows, scale, f)
						if got > grid*size.ofGrid || got > dense*size.ofDense {
							t.Errorf("%s, %d inputs, %d bits, per tensor %v: error %v, of all tried %v, of all %v", kind, l.In, f.Bits,
								o.PerTensor, got, grid, dense)
						}
					}
				}
			}
		}
	}
}

// The scale of the kind Entropy has a divergence, P and Q written out, that no
// other threshold beats; a few far weights are clipped at 3 bits.
func TestEntropyScale(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	l := quant.LayerInfo{Node: "n", In: 600, Out: 1, W: make([]float32, 600), B: []float32{0}}
	for k := range l.W {
		l.W[k] = float32(r.NormFloat64())
	}
	l.W[17] = 12
	s := unit(600)
	e := smooth(l.W, 12)
	var total float64
	for _, n := range e.hist {
		total += n
	}
	if mean := total * e.width; math.Abs(mean/600-1.06*1.1*math.Pow(600, -0.2)*math.Sqrt(6)) > 0.1 {
		t.Errorf("the triangles hold %v per weight", mean/600) // a base of 2 half, a height of 1
	}
	for _, f := range quant.Formats()[:3] {
		scale := float64(fitOne(t, l, s, f, WeightOptions{Range: Entropy}).Scales[0])
		got := naiveDivergence(e.hist, -12, 12, scale, f.QMin, f.QMax)
		least := math.Inf(1)
		for n := 100; n <= 1000; n++ {
			least = min(least, naiveDivergence(e.hist, -12, 12, 12*float64(n)/1000/float64(f.QMax), f.QMin, f.QMax))
		}
		if got > least*1.02+1e-9 {
			t.Errorf("%d bits: divergence %v, there is %v", f.Bits, got, least)
		}
		if f.Bits == 3 && scale*float64(f.QMax) > 6 {
			t.Errorf("3 bits: the far weight is not clipped, scale %v", scale)
		}
	}
}

func TestFitWeightsWorkers(t *testing.T) {
	t.Parallel()
	l, s := layerOf(5, 14)
	s.Logits.Gram, s.Logits.Mean = slices.Clone(s.Gram), slices.Clone(s.Mean)
	for j := range l.In {
		s.Logits.Gram[j*l.In+j] *= 1 + float64(j)
	}
	kinds := append(Ranges(), RangeDoc{})
	for _, k := range kinds {
		for _, rounding := range []Rounding{"", Nearest, GPTQ, AdaRound} {
			for _, tensor := range []bool{false, true} {
				o := WeightOptions{Range: k.Name, Rounding: rounding, PerTensor: tensor, Vary: Variation{Seed: 1, Jitter: 0.01}}
				var fits [2][]quant.Layer
				for i := range fits {
					o.Workers = 1 + 3*i
					var err error
					if fits[i], err = FitWeights(context.Background(), l, s, quant.Formats(), o); err != nil {
						t.Fatal(err)
					}
				}
				if d := cmp.Diff(fits[0], fits[1]); d != "" {
					t.Errorf("%s, %s: depends on workers: %s", k.Name, rounding, d)
				}
				for _, fit := range fits[0] {
					if len(fit.Scales) != map[bool]int{false: l.Out, true: 1}[tensor] || (fit.Bias != nil) != o.corrects() {
						t.Errorf("%s, %s: %d scales, bias %v", k.Name, rounding, len(fit.Scales), fit.Bias)
					}
				}
			}
		}
	}
}

package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
)

func layerOf(out, in int) (quant.LayerInfo, *Stats) {
	rng := rand.New(rand.NewPCG(7, 8))
	l := quant.LayerInfo{Node: "fc", In: in, Out: out, W: make([]float32, in*out), B: make([]float32, out)}
	for i := range l.W {
		l.W[i] = float32(rng.NormFloat64())
	}
	s := &Stats{Moments: Moments{make([]float64, in*in), make([]float64, in)}}
	const rows = 300
	for range rows {
		h, common := make([]float64, in), rng.NormFloat64()
		for j := range h {
			h[j] = common + rng.NormFloat64() + 1
			s.Mean[j] += h[j] / rows
		}
		for i := range h {
			for j := range h {
				s.Gram[i*in+j] += h[i] * h[j] / rows
			}
		}
	}
	return l, s
}

// Codes rounded by chance are one of the two next to the number, and right on average.
func TestStochasticRounding(t *testing.T) {
	t.Parallel()
	l, s := layerOf(3, 5)
	f := must.Get(quant.FormatOf(8, false))(t)
	const seeds = 600
	sum := make([]float64, len(l.W))
	var plain quant.Layer
	for seed := range seeds {
		fit := fitOne(t, l, s, f, WeightOptions{Vary: Variation{Seed: uint64(seed), Rounding: 1}})
		if seed == 0 {
			plain = fitOne(t, l, s, f, WeightOptions{})
		}
		must.Same(t, plain.Scales, fit.Scales)
		for i, q := range fit.Codes {
			at := float64(l.W[i] / fit.Scales[i/l.In])
			if d := math.Abs(float64(q) - at); d >= 1.0001 && math.Abs(at) < 127 {
				t.Fatalf("weight %d: code %d for %v", i, q, at)
			}
			sum[i] += float64(q) - math.Min(math.Max(at, -128), 127)
		}
	}
	for i, v := range sum {
		if mean := v / seeds; math.Abs(mean) > 4*0.5/math.Sqrt(seeds) {
			t.Errorf("weight %d: codes are off by %v on average", i, mean)
		}
	}
}

// A variation follows from seed, layer and row alone; jitter stays in its band; codes by GPTQ still fit the
// layer's outputs better than chance alone.
func TestVariation(t *testing.T) {
	l, s := layerOf(4, 12)
	f := must.Get(quant.FormatOf(4, false))(t)
	best := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ})
	vary := Variation{Seed: 5, Rounding: 1, Jitter: 0.05}
	one := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Vary: vary, Workers: 1})
	four := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Vary: vary, Workers: 4})
	must.Same(t, one, four)
	vary.Seed++
	if other := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Vary: vary}); slices.Equal(other.Codes, one.Codes) ||
		slices.Equal(other.Scales, one.Scales) {
		t.Error("another seed gives the same codes or scales")
	}
	renamed := l
	renamed.Node = "other"
	if other := fitOne(t, renamed, s, f,
		WeightOptions{
			Rounding: GPTQ,
			Vary:     Variation{Seed: 5, Rounding: 1, Jitter: 0.05},
		}); slices.Equal(other.Scales, one.Scales) {
		t.Error("two layers have the same jitter")
	}
	for i, v := range one.Scales {
		if r := math.Abs(float64(v/best.Scales[i]) - 1); r > 0.0501 || r == 0 {
			t.Errorf("scale %d changes by %v of itself", i, r)
		}
	}
	a := quant.Act{Bits: 8, Scale: 0.5, Zero: 7}
	if b := vary.Clip("fc", a); b.Zero != 7 || b.Scale == a.Scale || math.Abs(float64(b.Scale)/0.5-1) > 0.0501 {
		t.Errorf("clip %+v", b)
	}
	must.Same(t, a, (Variation{Seed: 9}).Clip("fc", a))
	// The output's mean squared error: e^T Gram e with the bias free.
	marginError := func(fit quant.Layer) float64 {
		sum := 0.0
		for o := range l.Out {
			e := make([]float64, l.In)
			for j := range e {
				e[j] = float64(l.W[o*l.In+j]) - float64(quant.Dequantize(fit.Codes[o*l.In+j], fit.Scales[o]))
			}
			for i := range e {
				for j := range e {
					sum += e[i] * e[j] * (s.Gram[i*l.In+j] - s.Mean[i]*s.Mean[j])
				}
			}
		}
		return sum
	}
	var gptq, chance float64
	for seed := range uint64(20) {
		v := Variation{Seed: seed, Rounding: 1}
		gptq += marginError(fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Vary: v})) / 20
		chance += marginError(fitOne(t, l, s, f, WeightOptions{Vary: v})) / 20
	}
	if !(marginError(best) < gptq && gptq < chance) {
		t.Errorf("margin error %v at best, %v by chance and gptq, %v by chance", marginError(best), gptq, chance)
	}
}

func TestBatch(t *testing.T) {
	s := &Set{Dim: 2, Factual: 3, Recourse: 2, X: []float32{0, 0, 1, 10, 2, 20, 3, 30, 4, 40}}
	seen := map[float32]bool{}
	for seed := range uint64(30) {
		b := s.Batch(4, seed)
		if b.Rows() != 4 || len(b.X) != 8 {
			t.Fatalf("%d rows", b.Rows())
		}
		must.Same(t, s.Batch(4, seed).X, b.X)
		for i := 0; i < len(b.X); i += 2 {
			must.Same(t, 10*b.X[i], b.X[i+1])
			seen[b.X[i]] = true
		}
	}
	must.Same(t, 5, len(seen))
	must.Same(t, 5, s.Batch(100, 1).Rows())
}

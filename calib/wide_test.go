package calib

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"cfq/internal/must"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// TestWide: rows of a wide layer that are rounded many at once, in single precision, have the error of those that are
// rounded one by one, and scales that are looked for by single weights are nearly as good as those of a full search.
func TestWide(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	const in, out, points = 300, 70, 900
	rng := rand.New(rand.NewPCG(5, 1))
	m := Moments{Gram: make([]float64, in*in), Mean: make([]float64, in)}
	h, base := make([]float64, points*in), make([]float64, points*20)
	for i := range base {
		base[i] = rng.NormFloat64()
	}
	for r := range points {
		for j := range in { // correlated, behind a Relu
			h[r*in+j] = max(0, base[r*20+j%20]+0.5*rng.NormFloat64())
		}
	}
	for r := range points {
		floats.Add(m.Mean, h[r*in:(r+1)*in])
	}
	m.add(h)
	m.divide(points)
	l := quant.LayerInfo{Node: "wide", In: in, Out: out, W: make([]float32, in*out), B: make([]float32, out)}
	for i := range l.W {
		l.W[i] = float32(rng.NormFloat64())
	}
	c := must.Get(newCovariance(m))(t)
	for _, f := range quant.FormatsFor(false) {
		fits := must.Get(FitWeights(t.Context(), l, &Stats{Moments: m}, []quant.Format{f}, WeightOptions{
			Rounding: GPTQ, Engine: eng, Workers: 2,
		}))(t)
		var wide, same, full float64
		codes := make([]int8, in)
		one := &weightFit{l: l, o: WeightOptions{Rounding: GPTQ}, search: c.gptq}
		for r := range out {
			wide += errorOf(c, l.Row(r), fits[0].Scales[r], fits[0].Codes[r*in:(r+1)*in])
			same += c.polished(l.Row(r), fits[0].Scales[r], f, codes, nil, unlimited)
			full += c.polished(l.Row(r), one.scale(r, r+1, f, 1), f, codes, nil, unlimited)
		}
		t.Logf("%d bits: error %.4g, row by row %.4g, with a full search %.4g", f.Bits, wide, same, full)
		if wide > 1.05*same {
			t.Errorf("%d bits: error %v, want %v as row by row", f.Bits, wide, same)
		}
		if wide > 1.25*full {
			t.Errorf("%d bits: error %v, with a full search %v", f.Bits, wide, full)
		}
	}
}

// The products of a wide layer's input keep the variance of columns far from 0, and of one that is always the same.
func TestWideFarFromZero(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	const width, rows = 6, 500
	p := must.Get(newProduct(eng, true))(t)
	defer p.session.Close()
	rng := rand.New(rand.NewPCG(3, 3))
	far := []float64{0, 1, -30, 1000, 5e4, 7}
	h := make([]float64, rows*width)
	for i := range h {
		if j := i % width; j < width-1 {
			h[i] = far[j] + rng.NormFloat64()
		} else {
			h[i] = far[j]
		}
	}
	want, got := make([]float64, width*width), make([]float64, width*width)
	mean := make([]float64, width)
	for i := range rows {
		row := h[i*width : (i+1)*width]
		floats.AddScaled(mean, 1./rows, row)
		for a, x := range row {
			floats.AddScaled(want[a*width:(a+1)*width], x, row)
		}
	}
	must.Do(t, p.addGram(t.Context(), got, h, width))
	for i, w := range want { // what counts are the covariances
		shift := rows * mean[i/width] * mean[i%width]
		if d := (got[i] - shift) - (w - shift); math.Abs(d) > 1e-3*rows {
			t.Errorf("columns %d and %d: covariance %v, want %v", i/width, i%width, (got[i]-shift)/rows, (w-shift)/rows)
		}
	}
}

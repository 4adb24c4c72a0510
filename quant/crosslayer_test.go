package quant_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// uneven makes a layer whose rows differ in width a thousandfold.
func (b *builder) uneven(x string, in, out int64) string {
	w := b.random("w", out, in)
	t := b.G.Init(w)
	v, _ := t.Floats()
	for k := range v {
		v[k] *= float32(math.Pow(10, 3*b.rng.Float64()))
		if int64(k)/in == 2 { // a row all of one size
			v[k] = 50
		}
	}
	t.Raw = graph.FromFloats("", v).Raw
	return b.Op("Gemm", []string{x, w, b.random("b", out)}, graph.IntAttr("transB", 1))
}

// The network computes the same in ONNX Runtime, and the channels of every pair
// that can be equalized, and of no other, are equally wide on both sides.
func TestEqualize(t *testing.T) {
	eng := orttest.Need(t)
	for _, tt := range []struct {
		name  string
		pairs int
		build func(b *builder) string
	}{
		{"chain", 3, func(b *builder) string {
			h := b.Op("Relu", []string{b.uneven("x", 6, 5)})
			h = b.Op("LeakyRelu", []string{b.uneven(h, 5, 7)}, graph.FloatAttr("alpha", 0.1))
			h = b.Op("PRelu", []string{b.uneven(h, 7, 4), b.random("slope", 4)})
			return b.uneven(h, 4, 3)
		}},
		{"no activation and two of them", 2, func(b *builder) string {
			h := b.uneven(b.uneven("x", 6, 5), 5, 4)
			return b.uneven(b.Op("LeakyRelu", []string{b.Op("Relu", []string{h})}), 4, 3)
		}},
		{"not homogeneous", 0, func(b *builder) string {
			h := b.Op("Tanh", []string{b.uneven("x", 6, 5)})
			h = b.Op("Clip", []string{b.uneven(h, 5, 4), "", b.Const(graph.FromFloats("six", []float32{6}))})
			return b.uneven(h, 4, 3)
		}},
		{"two readers", 1, func(b *builder) string {
			h := b.Op("Relu", []string{b.uneven("x", 6, 5)})
			y := b.Op("Relu", []string{b.uneven(h, 5, 4)})
			return b.Op("Concat", []string{b.uneven(y, 4, 3), h}, graph.IntAttr("axis", 1))
		}},
		{"shared weights", 0, func(b *builder) string {
			w := b.random("w", 6, 6)
			h := b.Op("Gemm", []string{"x", w}, graph.IntAttr("transB", 1))
			h = b.Op("Gemm", []string{b.Op("Relu", []string{h}), w}, graph.IntAttr("transB", 1))
			return b.uneven(b.Op("Tanh", []string{h}), 6, 3)
		}},
		{"the value is its own slope", 0, func(b *builder) string {
			h := b.uneven("x", 6, 5)
			return b.uneven(b.Op("PRelu", []string{h, h}), 5, 3)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := model(form{build: tt.build})
			before := must.Get(codec.Marshal(m))(t)
			got, done, err := quant.CrossLayerEqualize(m)
			must.Do(t, err)
			if after, _ := codec.Marshal(m); !bytes.Equal(after, before) {
				t.Error("the given model has changed")
			}
			must.Same(t, tt.pairs, len(done))
			same(t, eng, m, got, 40, 6)
			layers := must.Get(quant.FindLayers(got))(t)
			for i := range len(layers) - 1 {
				pair := fmt.Sprintf("%q and %q", layers[i].Node, layers[i+1].Node)
				if !strings.Contains(strings.Join(done, "\n"), pair) {
					continue
				}
				rows, columns := widths(layers[i]), columnWidths(layers[i+1])
				for c := range rows {
					if math.Abs(math.Log(rows[c]/columns[c])) > 1e-4 {
						t.Errorf("%s, channel %d: the row is %v wide, the column %v", pair, c, rows[c], columns[c])
					}
				}
			}
			if _, again, _ := quant.CrossLayerEqualize(got); len(again) != 0 && tt.pairs < 2 {
				t.Errorf("equalized twice: %q", again)
			}
		})
	}
}

func widths(l quant.LayerInfo) []float64 {
	out := make([]float64, l.Out)
	for k, w := range l.W {
		out[k/l.In] = max(out[k/l.In], math.Abs(float64(w)))
	}
	return out
}

func columnWidths(l quant.LayerInfo) []float64 {
	out := make([]float64, l.In)
	for k, w := range l.W {
		out[k%l.In] = max(out[k%l.In], math.Abs(float64(w)))
	}
	return out
}

func TestEqualizeByHand(t *testing.T) {
	m := model(form{build: func(b *builder) string {
		h := b.Op("Gemm", []string{
			"x", b.Const(graph.FromFloats("a", []float32{4, -8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2, 6)),
			b.Const(graph.FromFloats("c", []float32{12, 5}, 2)),
		}, graph.IntAttr("transB", 1))
		h = b.Op("Relu", []string{h})
		return b.Op("Gemm", []string{h, b.Const(graph.FromFloats("d", []float32{2, 3, -1, 7}, 2, 2))},
			graph.IntAttr("transB", 1))
	}})
	got, done, err := quant.CrossLayerEqualize(m)
	if err != nil || len(done) != 1 || !strings.HasSuffix(done[0], "1 of 2 channels") {
		t.Fatalf("%q, %v", done, err)
	}
	inits := map[string][]float32{}
	for _, i := range got.Graph.Inits {
		v := must.Get(i.Floats())(t)
		inits[i.Name] = v
	}
	// s = sqrt(8/2) = 2.
	for name, want := range map[string][]float32{"a": {2, -4}, "c": {6, 5}, "d": {4, 3, -2, 7}} {
		for k, w := range want {
			if math.Abs(float64(inits[name][k]-w)) > 1e-6 {
				t.Errorf("%s is %v, want %v", name, inits[name], want)
				break
			}
		}
	}
}

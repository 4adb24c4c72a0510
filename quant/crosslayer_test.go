package quant_test

import (
	"bytes"
	"cmp"
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
			got, done, err := quant.CrossLayerEqualize(m, true)
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
			if _, again, _ := quant.CrossLayerEqualize(got, true); len(again) != 0 && tt.pairs < 2 {
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
	got, done, err := quant.CrossLayerEqualize(m, true)
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

// stretch multiplies a row of the first layer by 2^-k and the weights of the second that read it by 2^k; inner numbers
// of a channel are next to each other, 0: all that there are.
func stretch(t *testing.T, m *graph.Model, a, b quant.LayerInfo, channel, k, inner int) *graph.Model {
	t.Helper()
	m = m.Clone()
	change := func(name string, in func(i int) bool, k int) {
		w := m.Graph.Init(name)
		v := must.Get(w.Floats())(t)
		for i := range v {
			if in(i) {
				v[i] *= float32(math.Exp2(float64(k)))
			}
		}
		w.Raw = graph.FromFloats("", v).Raw
	}
	change(a.Weight, func(i int) bool { return i/a.In == channel }, -k)
	change(a.Bias, func(i int) bool { return i == channel }, -k)
	groups := 1
	if b.Conv != nil {
		groups = b.Conv.Group
	}
	each := a.Out / groups // channels of a group
	inner = cmp.Or(inner, b.In/each)
	change(b.Weight, func(i int) bool { return i/b.In/(b.Out/groups)*each+i%b.In/inner%each == channel }, k)
	return m
}

// A channel whose row and column differ very much is equalized by powers of two, where that is exact, and nowhere else.
func TestUnevenChannels(t *testing.T) {
	eng := orttest.Need(t)
	relu := func(b *builder, h string) string { return b.Op("Relu", []string{h}) }
	conv := func(b *builder, x string, group int64, dims ...int64) string {
		return b.Op("Conv", []string{x, b.random("w", dims...), b.random("b", dims[0])}, graph.IntAttr("group", group),
			graph.IntsAttr("pads", 1, 1))
	}
	between := func(op string) func(*builder) string {
		return func(b *builder) string { return b.gemm(b.Op(op, []string{b.gemm("x", 6, 6)}), 6, 2) }
	}
	reduced := func(op string, keep int64) func(*builder) string {
		return func(b *builder) string {
			h := relu(b, conv(b, b.tokens("x", -1, 2, 3), 1, 4, 2, 3))
			axes := b.Const(graph.FromInts("axes", []int64{-1}, 1))
			h = b.Op(op, []string{h, axes}, graph.IntAttr("keepdims", keep))
			return b.gemm(b.Op("Flatten", []string{h}), 4, 2)
		}
	}
	for _, tt := range []struct {
		name  string
		first int // the first layer of the pair
		inner int // see stretch
		exact bool
		build func(b *builder) string
	}{
		{"relu", 0, 0, true, between("Relu")},
		{"tanh", 0, 0, false, between("Tanh")},
		{"clip below", 0, 0, true, func(b *builder) string {
			zero := b.Const(graph.FromFloats("zero", []float32{0}))
			return b.gemm(b.Op("Max", []string{b.Op("Clip", []string{b.gemm("x", 6, 6), zero}), zero}), 6, 2)
		}},
		{"clip above", 0, 0, false, func(b *builder) string {
			zero := b.Const(graph.FromFloats("zero", []float32{0}))
			one := b.Const(graph.FromFloats("one", []float32{1}))
			return b.gemm(b.Op("Clip", []string{b.gemm("x", 6, 6), zero, one}), 6, 2)
		}},
		{"mean of places", 0, 0, true, reduced("ReduceMean", 0)},
		{"sum of places", 0, 0, true, reduced("ReduceSum", 1)},
		{"a chain, its end", 1, 0, true, func(b *builder) string {
			return b.gemm(relu(b, b.gemm(relu(b, b.gemm("x", 6, 8)), 8, 5)), 5, 2)
		}},
		{"convolution to groups", 0, 0, true, func(b *builder) string {
			h := relu(b, conv(b, b.tokens("x", -1, 2, 3), 1, 4, 2, 3))
			return b.gemm(b.Op("Flatten", []string{relu(b, conv(b, h, 2, 6, 2, 3))}), 18, 2)
		}},
		{"convolution, pooled and flattened", 0, 0, true, func(b *builder) string {
			h := relu(b, conv(b, b.tokens("x", -1, 2, 3), 1, 4, 2, 3))
			h = b.Op("MaxPool", []string{h}, graph.IntsAttr("kernel_shape", 2))
			return b.gemm(b.tokens(h, -1, 8), 8, 2)
		}},
		{"channels last", 0, 1, true, func(b *builder) string {
			h := relu(b, conv(b, b.tokens("x", -1, 2, 3), 1, 4, 2, 3))
			h = b.Op("Transpose", []string{h}, graph.IntsAttr("perm", 0, 2, 1))
			return b.gemm(b.Op("Flatten", []string{h}), 12, 2)
		}},
		{"mean of tokens", 0, 0, true, func(b *builder) string {
			h := relu(b, b.tokens(b.gemm(b.tokens("x", -1, 3), 3, 4), -1, 2, 4))
			axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
			return b.gemm(b.Op("ReduceMean", []string{h, axes}, graph.IntAttr("keepdims", 0)), 4, 2)
		}},
		{"mean of channels", 0, 0, false, func(b *builder) string {
			h := relu(b, b.tokens(b.gemm(b.tokens("x", -1, 3), 3, 2), -1, 2, 2))
			axes := b.Const(graph.FromInts("axes", []int64{2}, 1))
			return b.gemm(b.Op("ReduceMean", []string{h, axes}, graph.IntAttr("keepdims", 0)), 2, 2)
		}},
		{"positions become rows", 0, 0, false, func(b *builder) string {
			h := relu(b, conv(b, b.tokens("x", -1, 2, 3), 1, 4, 2, 3))
			return b.Op("Flatten", []string{b.tokens(b.gemm(b.tokens(h, -1, 4), 4, 2), -1, 6)})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := model(form{build: tt.build})
			layers := must.Get(quant.FindLayers(m))(t)
			if got, done, err := quant.CrossLayerEqualize(m, false); got != m || done != nil || err != nil {
				t.Fatalf("an ordinary network: %q, %v", done, err)
			}
			for _, k := range []int{20, 10, -20, 7} {
				uneven := stretch(t, m, layers[tt.first], layers[tt.first+1], 1, k, tt.inner)
				got, done, err := quant.CrossLayerEqualize(uneven, false)
				must.Do(t, err)
				if !tt.exact {
					if got != uneven {
						t.Errorf("2^%d: %q", k, done)
					}
					continue
				}
				must.Same(must.In(t, k), 1, len(done))
				same(t, eng, m, got, 40, 6)
				for i, l := range must.Get(quant.FindLayers(got))(t) {
					for o, w := range widths(l) {
						if r := w / widths(layers[i])[o]; r > 16 || r < 1./16 {
							t.Errorf("2^%d: row %d of %q is %v times as wide as before", k, o, l.Node, r)
						}
					}
				}
			}
		})
	}
}

// A unit without a row or without a column has no effect, and no weight of its other side takes bits from others.
func TestUnevenDeadChannels(t *testing.T) {
	rows, columns := []float32{1, 0, 1, 1e6, 1, 2e-9}, []float32{1, 1e6, -2, 0, 0, 3}
	m := model(form{build: func(b *builder) string {
		v := make([]float32, 36)
		for i, r := range rows {
			v[6*i] = r
		}
		h := b.Op("Gemm", []string{"x", b.Const(graph.FromFloats("w", v, 6, 6))}, graph.IntAttr("transB", 1))
		return b.Op("Gemm", []string{b.Op("Relu", []string{h}), b.Const(graph.FromFloats("v", columns, 1, 6))},
			graph.IntAttr("transB", 1))
	}})
	got, done, err := quant.CrossLayerEqualize(m, false)
	must.Do(t, err)
	must.Same(t, 1, len(done))
	layers := must.Get(quant.FindLayers(got))(t)
	if a, b := widths(layers[0]), columnWidths(layers[1]); a[1] != 0 || b[1] > 4 || a[3] > 4 || b[3] != 0 ||
		a[0] != 1 || b[0] != 1 || a[5] > 1e-8 || b[5] != 3 {
		t.Errorf("rows %v, columns %v", a, b)
	}
}

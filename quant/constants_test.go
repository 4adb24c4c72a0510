package quant_test

import (
	"math"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// expressions compute the matrix w, 6 x 4, of constants.
func expressions() map[string]func(b *builder, w []float32) string {
	scaled := func(w []float32, by, plus float32) []float32 {
		out := make([]float32, len(w))
		for i, v := range w {
			out[i] = by*v + plus
		}
		return out
	}
	c := func(b *builder, v []float32, dims ...int64) string { return b.Const(graph.FromFloats("c", v, dims...)) }
	ints := func(b *builder, v ...int64) string { return b.Const(graph.FromInts("i", v, int64(len(v)))) }
	two := func(b *builder) string { return c(b, []float32{2}, 1) }
	last := func(b *builder, out ...string) string { // of several outputs
		halves := []string{b.Name("s"), b.Name("s")}
		b.Append(&graph.Node{Op: "Split", Inputs: []string{out[0], ints(b, 6, 6)}, Outputs: halves})
		return b.G.Nodes[len(b.G.Nodes)-1].Outputs[1]
	}
	return map[string]func(b *builder, w []float32) string{
		"Slice": func(b *builder, w []float32) string {
			both := append(scaled(w, 3, 1), w...)
			return b.Op("Slice", []string{c(b, both, 12, 4), ints(b, 6), ints(b, 12), ints(b, 0)})
		},
		"Split": func(b *builder, w []float32) string { return last(b, c(b, append(scaled(w, 3, 1), w...), 12, 4)) },
		"Where": func(b *builder, w []float32) string {
			all := b.Op("Not", []string{b.Const(&graph.Tensor{Name: "m", DType: graph.Bool, Raw: []byte{0}, Dims: []int64{1}})})
			return b.Op("Where", []string{all, c(b, w, 6, 4), two(b)})
		},
		"Expand": func(b *builder, w []float32) string {
			return b.Op("Div", []string{c(b, scaled(w, 2, 0), 6, 4), b.Op("Expand", []string{two(b), ints(b, 6, 4)})})
		},
		"Tanh": func(b *builder, w []float32) string {
			v := make([]float32, len(w))
			for i := range w {
				v[i] = float32(math.Atanh(float64(w[i])))
			}
			return b.Op("Tanh", []string{c(b, v, 6, 4)})
		},
		"weight normalization": func(b *builder, w []float32) string {
			norm := func(v string) string {
				return b.Op("ReduceL2", []string{v, ints(b, 1)})
			}
			v := c(b, scaled(w, 2, 0), 6, 4)
			return b.Op("Mul", []string{b.Op("Div", []string{v, norm(v)}), norm(c(b, w, 6, 4))})
		},
		"W + A·B": func(b *builder, w []float32) string {
			ones := []float32{1, 1, 1, 1, 1, 1}
			low := b.Op("MatMul", []string{c(b, ones, 6, 1), c(b, ones[:4], 1, 4)})
			return b.Op("Add", []string{c(b, scaled(w, 1, -2), 6, 4), b.Op("Mul", []string{low, two(b)})})
		},
		"Transpose": func(b *builder, w []float32) string {
			turned := make([]float32, len(w))
			for i, v := range w {
				turned[i%4*6+i/4] = v
			}
			return b.Op("Transpose", []string{b.Op("Identity", []string{c(b, turned, 4, 6)})})
		},
		"float16": func(b *builder, w []float32) string {
			half := b.Const(graph.FromNumbers("h", graph.Float16, w, 1, 6, 4))
			return b.Op("Cast", []string{b.Op("Squeeze", []string{half, ints(b, 0)})}, graph.IntAttr("to", int64(graph.Float)))
		},
	}
}

// TestConstantExpressions: weights that the graph computes of constants are those of a layer as if they were stored.
func TestConstantExpressions(t *testing.T) {
	eng := orttest.Need(t)
	w := make([]float32, 24)
	for i := range w {
		w[i] = float32(i*7%24-11) / 16 // float16 has them
	}
	for name, expression := range expressions() {
		m := model(form{build: func(b *builder) string {
			h := b.Op("MatMul", []string{"x", expression(b, w)})
			return b.gemm(b.Op("Relu", []string{h}), 4, 2)
		}})
		opened := must.Get(onnxio.FromGraph(t.Context(), m, eng))(must.In(t, name))
		c := must.Get(opened.Canonical())(must.In(t, name))
		layers := must.Get(quant.FindLayers(c.Graph()))(t)
		if len(layers) != 2 || layers[0].Fixed != "" || layers[1].Fixed != "" {
			t.Errorf("%s: layers %+v", name, layers)
			continue
		}
		for i, v := range w { // layers have them transposed
			must.Near(must.In(t, name), v, layers[0].W[i%4*6+i/4], 1e-6)
		}
		same(t, eng, m, c.Graph(), 7, 6)
		if opened.File().Graph.Nodes[0].Op != m.Graph.Nodes[0].Op {
			t.Errorf("%s: the file is not as it was", name)
		}
	}
}

// TestAllWeightsAreListed: what stays in float is named, whatever reads it.
func TestAllWeightsAreListed(t *testing.T) {
	for want, build := range map[string]func(b *builder) string{
		"weights of ConvTranspose are not quantized": func(b *builder) string {
			h := b.Op("ConvTranspose", []string{b.tokens("x", -1, 6, 1), b.random("w", 6, 4, 1)})
			return b.gemm(b.Op("Flatten", []string{h}), 4, 2)
		},
		"its weights are computed from others": func(b *builder) string {
			w := b.Op("Add", []string{b.random("w", 6, 4), b.random("c", 1)}) // that nothing has folded
			return b.gemm(b.Op("MatMul", []string{"x", w}), 4, 2)
		},
		quant.Coded: func(b *builder) string {
			codes := b.Const(&graph.Tensor{Name: "q", DType: graph.Int8, Dims: []int64{6, 4}, Raw: make([]byte, 24)})
			w := b.Op("Cast", []string{codes}, graph.IntAttr("to", int64(graph.Float)))
			return b.gemm(b.Op("MatMul", []string{"x", b.Op("Mul", []string{w, b.random("s", 1, 4)})}), 4, 2)
		},
	} {
		layers := must.Get(quant.FindLayers(model(form{build: build})))(t)
		fixed := 0
		for _, l := range layers {
			if l.Fixed == want && l.Params() >= 24 {
				fixed++
			}
		}
		if fixed != 1 {
			t.Errorf("%s: layers %+v", want, layers)
		}
	}
}

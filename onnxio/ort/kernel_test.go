package ort_test

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestSelfTest(t *testing.T) {
	o := orttest.Need(t)
	for level := ort.All; level <= ort.Disabled; level++ {
		o.Level = level
		if err := ort.SelfTest(t.Context(), o); err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
	o.Threads = 2
	if err := ort.SelfTest(t.Context(), o); err != nil {
		t.Errorf("two threads: %v", err)
	}
}

func TestOptimized(t *testing.T) {
	o := orttest.Need(t)
	onnx := must.Get(codec.Marshal(quantizedGemm()))(t)
	for _, c := range []struct {
		level   ort.Level
		op, not string
	}{
		{ort.All, "QGemm", "Gemm"},
		{ort.Extended, "QGemm", "Gemm"},
		{ort.Basic, "Gemm", "QGemm"},
		{ort.Disabled, "Gemm", "QGemm"},
	} {
		o.Level = c.level
		m, err := ort.Optimized(onnx, o)
		if err != nil {
			t.Errorf("%s: %v", c.level, err)
			continue
		}
		has := func(op string) bool {
			return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == op })
		}
		if !has(c.op) || has(c.not) {
			var ops []string
			for _, n := range m.Graph.Nodes {
				ops = append(ops, n.Op)
			}
			t.Errorf("%s: the graph holds %v", c.level, ops)
		}
	}
}

func quantizedGemm() *graph.Model {
	in, out := []graph.Value{value("x", graph.Float, rows(2))}, []graph.Value{value("y", graph.Float, rows(2))}
	m := build(in, out, func(b *graph.Builder) {
		xs := b.Const(graph.FromFloats("xs", []float32{0.5}))
		xz := b.Const(&graph.Tensor{Name: "xz", DType: graph.Uint8, Raw: []byte{7}})
		x := b.Op("QuantizeLinear", []string{"x", xs, xz})
		x = b.Op("DequantizeLinear", []string{x, xs, xz})
		codes := b.Const(&graph.Tensor{Name: "w", DType: graph.Int8, Dims: []int64{2, 2}, Raw: []byte{1, 2, 3, 4}})
		ws := b.Const(graph.FromFloats("ws", []float32{0.25}))
		wz := b.Const(&graph.Tensor{Name: "wz", DType: graph.Int8, Raw: []byte{0}})
		w := b.Op("DequantizeLinear", []string{codes, ws, wz})
		bs := b.Const(graph.FromFloats("bs", []float32{0.125}))
		bz := b.Const(&graph.Tensor{Name: "bz", DType: graph.Int32, Raw: make([]byte, 4)})
		bias := b.Op("DequantizeLinear", []string{b.Const(graph.FromInt32s("b", []int32{5, 6}, 2)), bs, bz})
		b.Append(node("Gemm", []string{x, w, bias}, "y"))
	})
	return m
}

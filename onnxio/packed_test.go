package onnxio_test

import (
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

func TestPackedValues(t *testing.T) {
	e := orttest.Need(t)
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	g := &graph.Graph{
		Name: "packed", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(3)}},
		Outputs: []graph.Value{
			{Name: "y", DType: graph.Float, Shape: rows(2)},
			{Name: "codes", DType: graph.Int4, Shape: graph.Fixed(3, 2)},
		},
		Inits: []*graph.Tensor{
			{Name: "codes", DType: graph.Int4, Dims: []int64{3, 2}, Raw: []byte{0x21, 0x43, 0xe5}},
			graph.FromFloats("s", []float32{0.5}),
			{Name: "z", DType: graph.Int4, Raw: []byte{0}, Dims: []int64{}},
			graph.FromFloats("w", []float32{1, -2, 3, .5}, 2, 2),
		},
		Nodes: []*graph.Node{
			node("DequantizeLinear", "codes s z", "first"), node("MatMul", "x first", "h"),
			node("QuantizeLinear", "w s z", "q"),
			node("DequantizeLinear", "q s z", "second"), node("MatMul", "h second", "y"),
		},
	}
	m, err := onnxio.FromGraph(t.Context(), &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}, e)
	must.Do(t, err)
	if logits, n := m.Head(); logits != "y" || n != 2 {
		t.Errorf("logits %q, %d", logits, n)
	}
}

func node(op, in, out string) *graph.Node {
	return &graph.Node{Op: op, Inputs: strings.Fields(in), Outputs: strings.Fields(out)}
}

package onnxio_test

import (
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

func TestHugeFixedBatch(t *testing.T) {
	g := &graph.Graph{
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Fixed(1<<16+1, 2)}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
		Nodes:   []*graph.Node{{Op: "Softmax", Inputs: []string{"x"}, Outputs: []string{"y"}}},
	}
	m := &graph.Model{IRVersion: 9, Opsets: []graph.Opset{{Version: 18}}, Graph: g}
	must.Fail(t, must.Err(onnxio.FromGraph(t.Context(), m, ort.Options{})), "takes exactly 65537 rows")
}

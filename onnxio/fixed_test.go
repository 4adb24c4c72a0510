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

func TestBakedBatch(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		fixed int
	}{{[]int64{1, 4}, 1}, {[]int64{4}, 1}, {[]int64{3, 4}, 3}, {[]int64{-1, 4}, 0}} {
		g := &graph.Graph{
			Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 4}}}},
			Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
			Inits: []*graph.Tensor{
				graph.FromInts("s", c.shape, int64(len(c.shape))), graph.FromInts("back", []int64{-1, 4}, 2),
			},
		}
		b := graph.NewBuilder(g, "")
		rows := b.Op("Reshape", []string{b.Op("Reshape", []string{"x", "s"}), "back"})
		b.Append(&graph.Node{Op: "Softmax", Inputs: []string{rows}, Outputs: []string{"y"}})
		m := &graph.Model{IRVersion: 9, Opsets: []graph.Opset{{Version: 18}}, Graph: g}
		must.Same(t, c.fixed, must.Get(onnxio.FromGraph(t.Context(), m, ort.Options{}))(t).Fixed())
	}
}

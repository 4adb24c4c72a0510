package onnxio

import (
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// TestScalesNumbers: a graph scales numbers where it shifts or scales them before a layer; a bias behind a layer, and
// the product that makes a token of each number, are no scaling.
func TestScalesNumbers(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	row := func(b *graph.Builder, v ...float32) string {
		return b.Const(graph.FromFloats("c", v, 1, int64(len(v))))
	}
	for name, c := range map[string]struct {
		before func(b *graph.Builder) string
		want   bool
	}{
		"as they are": {func(*graph.Builder) string { return "x" }, false},
		"standardised": {func(b *graph.Builder) string {
			return b.Op("Div", []string{b.Op("Sub", []string{"x", row(b, 40, 2)}), row(b, 12, 3)})
		}, true},
		"imputed and scaled": {func(b *graph.Builder) string {
			x := b.Op("Where", []string{b.Op("IsNaN", []string{"x"}), row(b, 1, 2), "x"})
			return b.Op("Mul", []string{x, row(b, .5, .25)})
		}, true},
		"tokens": {func(b *graph.Builder) string {
			axis := b.Const(graph.FromInts("axis", []int64{2}, 1))
			x := b.Op("Mul", []string{b.Op("Unsqueeze", []string{"x", axis}), row(b, 1, 2, 3)})
			return b.Op("ReduceSum", []string{x, axis}, graph.IntAttr("keepdims", 0))
		}, false},
	} {
		b := graph.NewBuilder(&graph.Graph{Name: "g"}, "")
		b.G.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}}
		w := b.Const(graph.FromFloats("w", []float32{1, -1, 2, 1}, 2, 2))
		z := b.Op("Gemm", []string{c.before(b), w, row(b, .5, -.5)})
		b.G.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
		m := must.Get(FromGraph(t.Context(), &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: b.G},
			ort.Options{}))(t)
		if m.ScalesNumbers() != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

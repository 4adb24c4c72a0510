package onnxio

import (
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// imputes makes a model of four numbers: of the first, NaN is put to 42 before it is scaled, of the second to -1.5
// afterwards; of the third, NaN has an input of its own; the fourth has no number for it, though it is lost in a Relu.
func imputes() *graph.Model {
	b := graph.NewBuilder(&graph.Graph{Name: "g"}, "")
	b.G.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 4}}}}
	list := func(v ...float32) string { return b.Const(graph.FromFloats("c", v, int64(len(v)))) }
	column := func(i int64) string {
		return b.Op("Gather", []string{"x", b.Const(graph.FromInts("i", []int64{i}, 1))}, graph.IntAttr("axis", 1))
	}
	fill := func(x string, v float32) string {
		return b.Op("Where", []string{b.Op("IsNaN", []string{x}), list(v), x})
	}
	scaled := func(x string) string {
		return b.Op("Div", []string{b.Op("Sub", []string{x, list(40)}), list(12.5)})
	}
	third := column(2)
	flag := b.Op("Cast", []string{b.Op("IsNaN", []string{third})}, graph.IntAttr("to", int64(graph.Float)))
	parts := []string{
		scaled(fill(column(0), 42)), fill(scaled(column(1)), -1.5), fill(third, 7), flag,
		b.Op("Relu", []string{b.Op("Mul", []string{scaled(column(3)), list(-1)})}),
	}
	z := b.Op("Concat", parts, graph.IntAttr("axis", 1))
	w := b.Const(graph.FromFloats("w", []float32{1, -1, 2, 1, .5, -1, .25, .75, 1, -.5}, 5, 2))
	z = b.Op("Gemm", []string{z, w})
	b.G.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: b.G}
}

func TestImputed(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	m := must.Get(FromGraph(t.Context(), imputes(), ort.Options{}))(t)
	have := must.Get(m.Imputed(t.Context()))(t)
	nan := math.NaN()
	for i, want := range []float64{42, 40 - 1.5*12.5, nan, nan} {
		if math.Abs(have[i]-want) > 1e-5 || math.IsNaN(have[i]) != math.IsNaN(want) {
			t.Errorf("input %d: %v, want %v", i, have[i], want)
		}
	}
}

// TestImputedIndex: a model that looks a code up in a table refuses NaN, which says nothing about other inputs.
func TestImputedIndex(t *testing.T) {
	t.Parallel()
	m := imputes()
	b := graph.NewBuilder(m.Graph, "")
	code := b.Op("Gather", []string{"x", b.Const(graph.FromInts("i", []int64{2}))}, graph.IntAttr("axis", 1))
	code = b.Op("Cast", []string{code}, graph.IntAttr("to", int64(graph.Int64)))
	table := b.Const(graph.FromFloats("table", []float32{1, 2, 3, -1, .5, 0}, 3, 2))
	z := b.Op("Add", []string{m.Graph.Outputs[0].Name, b.Op("Gather", []string{table, code})})
	m.Graph.Outputs[0].Name = z
	opened := must.Get(FromGraph(t.Context(), m, orttest.Need(t)))(t)
	have, err := opened.Imputed(t.Context())
	if err != nil || have[0] != 42 || !math.IsNaN(have[2]) {
		t.Errorf("%v, %v", have, err)
	}
}

// TestImputedCount: a value whose size depends on the numbers, here the list of columns of zeros, is no reason to fail.
func TestImputedCount(t *testing.T) {
	t.Parallel()
	m := imputes()
	b, before := graph.NewBuilder(m.Graph, ""), len(m.Graph.Nodes)
	sum := b.Op("ReduceSum", []string{"x", b.Const(graph.FromInts("i", []int64{0}, 1))}, graph.IntAttr("keepdims", 0))
	none := b.Op("Not", []string{b.Op("Cast", []string{sum}, graph.IntAttr("to", int64(graph.Bool)))})
	b.Op("Cast", []string{b.Op("NonZero", []string{none})}, graph.IntAttr("to", int64(graph.Float)))
	m.Graph.Nodes = slices.Concat(m.Graph.Nodes[before:], m.Graph.Nodes[:before])
	opened := must.Get(FromGraph(t.Context(), m, orttest.Need(t)))(t)
	must.Same(t, 42, must.Get(opened.Imputed(t.Context()))(t)[0])
}

// TestImputedNowhere: what a maximum that skips NaN makes of a window of nothing else is no number that stands for one.
func TestImputedNowhere(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	b := graph.NewBuilder(&graph.Graph{Name: "g"}, "")
	b.G.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 4}}}}
	ints := func(v ...int64) string { return b.Const(graph.FromInts("i", v, int64(len(v)))) }
	z := b.Op("Mul", []string{"x", b.Const(graph.FromFloats("c", []float32{-1e-3}, 1))})
	z = b.Op("Reshape", []string{z, ints(-1, 1, 4)})
	z = b.Op("MaxPool", []string{z}, graph.IntsAttr("kernel_shape", 1))
	z = b.Op("Reshape", []string{b.Op("Relu", []string{z}), ints(-1, 4)})
	z = b.Op("MatMul", []string{z, b.Const(graph.FromFloats("w", []float32{1, -1, 2, 1, 3, 1, -1, 2}, 4, 2))})
	b.G.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: b.G}
	low := must.Get(FromGraph(t.Context(), m, ort.Options{}))(t)
	have := must.Get(low.Imputed(t.Context()))(t)
	for i, v := range have {
		if !math.IsNaN(v) {
			t.Errorf("input %d: %v", i, v)
		}
	}
}

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
		must.Same(must.In(t, name), c.want, m.ScalesNumbers())
	}
}

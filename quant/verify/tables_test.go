package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

func embedded() *graph.Model {
	b := newNet(3)
	b.G.Inputs[0].Name = "num"
	b.G.Inputs = append(b.G.Inputs, graph.Value{
		Name: "cat", DType: graph.Int64, Shape: graph.Shape{b.G.Inputs[0].Shape[0], {Size: 2}},
	})
	look := func(column, k, dim int64) string {
		at := b.Op("Gather", []string{"cat", b.Const(graph.FromInts("at", []int64{column}))}, graph.IntAttr("axis", 1))
		return b.Op("Gather", []string{b.random(k, dim), at})
	}
	large, small := look(0, 3000, 8), look(1, 5, 3)
	h := b.Op("Relu", []string{b.Op("MatMul", []string{
		b.Op("Concat", []string{"num", large, small}, graph.IntAttr("axis", 1)), b.random(14, 6),
	})})
	return b.model(b.Op("Add", []string{
		b.Op("MatMul", []string{h, b.random(6, 2)}), b.Op("MatMul", []string{large, b.random(8, 2)}),
	}))
}

// TestTables: what is written of an embedding is a table of few bits, which stands as one constant in the graph that
// runs and is looked up; it computes what the plan's model does, and opens as the original does.
func TestTables(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	full := must.Get(onnxio.FromGraph(t.Context(), embedded(), ort.Options{}))(t)
	c := must.Get(full.Canonical())(t)
	x := categories(c, 256)
	for _, bits := range []int{2, 3, 4, 8, mixed} {
		p := planFor(t, c.Graph(), ort.Options{}, graph.FromFloats(c.Input().Name, x, 256, int64(c.Dim())), bits)
		tables := c.Tables()
		layers := must.Get(quant.FindLayers(c.Graph()))(t)
		for i := range layers {
			p.Layers[i].Act = nil
		}
		lowered := must.Get(qdq.Write(c.Graph(), p, qdq.Options{Size: func(m *graph.Model) int {
			b, _ := codec.Marshal(m)
			return len(b)
		}}))(t)
		file := c.Restored(lowered)
		in := must.Get(c.FileFeed(x))(t)
		onnx := must.Get(codec.Marshal(file))(t)
		r := must.Get(verify.Check(t.Context(), onnx, verify.Options{Plan: p, Probes: in}))(t)
		must.Do(must.In(t, bits), r.Err())
		for i, l := range r.Layers {
			if want := tables[layers[i].Input]; (l.Kernel == "Gather") != want {
				t.Errorf("%d bits: layer %q runs as %s, a table: %v", bits, l.Node, l.Kernel, want)
			}
		}
		want := orttest.Run(t, lowered, ort.Options{}, c.Feed(x))[0]
		got := orttest.Run(t, file, ort.Options{}, in...)[0]
		must.Same(must.In(t, bits), want.Raw, got.Raw)
		described(t, onnx, bits)
	}
}

func categories(m *onnxio.Model, rows int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, rows*m.Dim())
	for i := range rows {
		for _, c := range m.Columns() {
			if at := x[i*m.Dim()+c.First:]; c.Values == nil {
				at[0] = float32(rng.NormFloat64())
			} else {
				at[rng.IntN(len(c.Values))] = 1
			}
		}
	}
	return x
}

func described(t *testing.T, onnx []byte, bits int) {
	t.Helper()
	m := must.Get(onnxio.FromGraph(t.Context(), must.Get(codec.Read(onnx, ""))(t), ort.Options{}))(must.In(t, bits))
	layers := must.Get(qdq.LayersOf(m))(t)
	var have []string
	for _, l := range layers {
		if l.Table {
			have = append(have, fmt.Sprintf("%s %d x %d", l.Op, l.In, l.Out))
		}
		if l.IsFloat() || bits != mixed && l.Bits > float64(max(bits, 4)) {
			t.Errorf("%d bits: %q is stored as %s", bits, l.Node, l.Container)
		}
	}
	if want := []string{"Gather 3000 x 8", "Gather 5 x 3"}; !slices.Equal(have, want) || len(layers) != 5 {
		t.Errorf("%d bits: %q of %d layers, want %q of 5", bits, have, len(layers), want)
	}
}

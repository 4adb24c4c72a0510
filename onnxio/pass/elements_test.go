package pass_test

import (
	"context"
	"math"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
)

func typed(of graph.DType) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: of, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 3}}}}
	b := graph.NewBuilder(m.Graph, "")
	number := func(v []float64, dims ...int64) *graph.Tensor { return graph.FromNumbers("c", of, v, dims...) }
	h := b.Op("MatMul", []string{"x", b.Const(number([]float64{1, -2, 0.5, 0.25, 1, 3}, 3, 2))})
	two := b.Op("Constant", nil, graph.TensorAttr("value", number([]float64{2, -1}, 2)))
	h = b.Op("Add", []string{b.Op("Tanh", []string{h}), two})
	whole := b.Op("Cast", []string{b.Op("Sign", []string{h})}, graph.IntAttr("to", int64(graph.Int32)))
	h = b.Op("Add", []string{h, b.Op("Cast", []string{whole}, graph.IntAttr("to", int64(of)))})
	one := graph.TensorAttr("value", number([]float64{1}, 1))
	ones := b.Op("ConstantOfShape", []string{b.Op("Shape", []string{h})}, one)
	z := b.Op("Mul", []string{b.Op("Add", []string{h, ones}), b.Const(number([]float64{1, -1}, 1, 2))})
	m.Graph.Outputs = []graph.Value{{Name: z, DType: of, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}}
	return m
}

func TestElementTypes(t *testing.T) {
	engine, ctx := orttest.Need(t), context.Background()
	x := []float32{1, -0.5, 2, 0, 0.25, -3}
	run := func(m *graph.Model, in *graph.Tensor) []float64 {
		t.Helper()
		return must.Get(orttest.Run(t, m, engine, in)[0].Doubles())(t)
	}
	want := run(typed(graph.Float), graph.FromFloats("x", x, 2, 3))
	for _, of := range []graph.DType{graph.Float16, graph.BFloat16, graph.Double, graph.Float} {
		t.Run(of.String(), func(t *testing.T) {
			given := typed(of)
			if of == graph.BFloat16 { // which ONNX Runtime's CPU hardly computes in
				must.Fail(t, must.Err(onnxio.FromGraph(ctx, given, engine)), `node "n_MatMul"`)
				return
			}
			m := must.Get(onnxio.FromGraph(ctx, given, engine))(t)
			must.Same(t, graph.Float, m.Input().DType)
			must.Same(t, given.Graph, m.File().Graph)
			for i, v := range run(m.Graph(), m.Feed(x)) {
				if !(math.Abs(v-want[i]) < 1e-5) {
					t.Fatalf("%v, want %v", v, want[i])
				}
			}
			back := m.Restored(m.Graph())
			if a, b := back.Graph.Inputs[0], back.Graph.Outputs[0]; a.DType != of || b.DType != of || a.Name != "x" ||
				b.Name != given.Graph.Outputs[0].Name {
				t.Errorf("input %+v, output %+v", a, b)
			}
			in := must.Get(m.FileFeed(x))(t)
			must.Same(t, of, in[0].DType)
			wide := back.Clone() // a program can be given no numbers of 16 bits
			b := graph.NewBuilder(wide.Graph, "test.")
			y := b.Op("Cast", []string{wide.Graph.Outputs[0].Name}, graph.IntAttr("to", int64(graph.Float)))
			wide.Graph.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
			for i, v := range run(wide, in[0]) {
				if !(math.Abs(v-want[i]) < 0.02) {
					t.Fatalf("the file says %v, want %v", v, want[i])
				}
			}
			must.Get(onnxio.FromGraph(ctx, back, engine))(t)
		})
	}
}

// TestStoredElements: numbers that are stored in few bytes and read by a Cast alone stay as they are stored.
func TestStoredElements(t *testing.T) {
	m := typed(graph.Float)
	b := graph.NewBuilder(m.Graph, "")
	half := b.Const(graph.FromNumbers("h", graph.Float16, []float64{1, 2}, 2))
	z := b.Op("Mul", []string{
		m.Graph.Outputs[0].Name, b.Op("Cast", []string{half}, graph.IntAttr("to", int64(graph.Float))),
	})
	m.Graph.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
	got := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	for _, g := range []*graph.Model{got.File(), got.Graph(), got.Restored(m)} {
		must.Same(t, m.Graph, g.Graph)
	}
}

func TestDoubleStays(t *testing.T) {
	m := typed(graph.Double)
	m.Graph.Nodes[0] = &graph.Node{Op: "ReduceMax", Inputs: []string{"x"}, Outputs: m.Graph.Nodes[0].Outputs}
	if p := (&pass.ElementTypes{}).Pass(); p.Needed(m) {
		t.Error("the model is converted")
	}
}

package quant_test

import (
	"strings"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"cfq/quant"
)

func fixedModel() *graph.Model {
	m := model(form{build: func(b *builder) string {
		return b.Op("MatMul", []string{"x", b.random("plain", 6, 2)})
	}})
	b := &builder{graph.NewBuilder(m.Graph, "f"), nil}
	zeros := func(name string, t graph.DType, dims ...int64) string {
		n := 1
		for _, d := range dims {
			n *= int(d)
		}
		return b.Const(&graph.Tensor{Name: name, DType: t, Dims: dims, Raw: make([]byte, t.RawSize(n))})
	}
	out := func(name, op string, inputs []string, attrs ...graph.Attr) {
		b.Append(&graph.Node{Name: name, Op: op, Inputs: inputs, Outputs: []string{name + "_y"}, Attrs: attrs})
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: name + "_y"})
	}
	transB := graph.IntAttr("transB", 1)
	m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: "x3", DType: graph.Float, Shape: graph.Fixed(1, 4, 6)},
		graph.Value{Name: "d", DType: graph.Double, Shape: graph.Fixed(1, 6)})
	out("rank3", "MatMul", []string{"x3", zeros("w", graph.Float, 6, 5)})
	out("batch", "MatMul", []string{"x3", zeros("w", graph.Float, 2, 6, 5)})
	out("vector", "MatMul", []string{"x", zeros("w", graph.Float, 6)})
	out("double", "MatMul", []string{"d", zeros("w", graph.Double, 6, 5)})
	out("rowbias", "Gemm", []string{"x", zeros("w", graph.Float, 5, 6), zeros("b", graph.Float, 3, 1)}, transB)
	out("computed", "Gemm",
		[]string{"x", zeros("w", graph.Float, 6, 5), b.Op("Exp", []string{zeros("b", graph.Float, 5)})})
	half := b.Op("Cast", []string{zeros("w", graph.Float16, 6, 3)}, graph.IntAttr("to", int64(graph.Float)))
	out("half", "MatMul", []string{"x", half})
	out("left", "MatMul", []string{zeros("w", graph.Float, 7, 4), "x3"})
	out("activations", "MatMul", []string{"x3", b.Op("Transpose", []string{"x3"}, graph.IntsAttr("perm", 0, 2, 1))})
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{Op: "MatMul", Inputs: []string{"x3", zeros("w", graph.Float, 6, 1)}, Outputs: []string{"nameless"}})
	return m
}

func TestFixedLayers(t *testing.T) {
	m := fixedModel()
	m.Graph.Inits[0].Extra = []byte{14 << 3, 0} // data_location: DEFAULT, as onnx writes once data were external
	c, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(c))(t)
	want := []struct {
		node, fixed string
		in, out     int
	}{
		{"n_MatMul", "", 6, 2},
		{"rank3", "", 6, 5},
		{"batch", "3 dimensions", 6, 10},
		{"vector", "1 dimensions", 6, 1},
		{"double", "double", 6, 5},
		{"rowbias", "shape [3 1]", 6, 5},
		{"computed", "is computed", 6, 5},
		{"half", "float16", 6, 3},
		{"left", "", 4, 7},
		{"Gemm", "", 6, 1},
	}
	must.Same(t, len(want), len(layers))
	for i, w := range want {
		l := layers[i]
		if l.Node != w.node || l.In != w.in || l.Out != w.out || l.Params() != w.in*w.out {
			t.Errorf("layer %d is %q, %d x %d, want %+v", i, l.Node, l.Out, l.In, w)
		}
		if (l.Fixed == "") != (w.fixed == "") || !strings.Contains(l.Fixed, w.fixed) {
			t.Errorf("%s: fixed %q, want %q", w.node, l.Fixed, w.fixed)
		}
		if (l.W == nil) != (l.Fixed != "") || (l.B == nil) != (l.Fixed != "") {
			t.Errorf("%s: %d weights, %d biases", w.node, len(l.W), len(l.B))
		}
		if c.Graph.Producers()[l.Output] == nil || l.Input == "" || l.Weight == "" {
			t.Errorf("%s: values %+v", w.node, l)
		}
	}
}

func TestFindLayersOfNothing(t *testing.T) {
	m := &graph.Model{Graph: &graph.Graph{}}
	must.Same(t, 0, len(must.Get(quant.FindLayers(m))(t)))
}

// TestDoublingChains: a value that is read twice by each node of a chain is not followed 2^n times.
func TestDoublingChains(t *testing.T) {
	for _, op := range []string{"Add", "Mul"} {
		m := model(form{build: func(b *builder) string {
			h := b.Op("Relu", []string{"x"})
			for range 60 {
				h = b.Op(op, []string{h, h})
			}
			return b.Op("MatMul", []string{h, b.random("w", 6, 2)})
		}})
		done := make(chan error, 1)
		go func() {
			_, _, err := pass.Canonical(m, nil)
			done <- err
		}()
		select {
		case err := <-done:
			must.Do(t, err)
		case <-time.After(time.Minute):
			t.Fatalf("a chain of 60 %s nodes takes more than a minute", op)
		}
	}
}

func TestQuantized(t *testing.T) {
	for _, op := range append(autodiff.Operators(), autodiff.Operator{Name: "LSTM"}) {
		layer := quant.IsLayer(&graph.Node{Op: op.Name, Outputs: []string{"y"}})
		if want := layer || op.Name == "Gather"; (quant.Quantized(op.Name) != "") != want {
			t.Errorf("%s: %q, a layer: %v", op.Name, quant.Quantized(op.Name), layer)
		}
	}
}

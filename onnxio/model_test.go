package onnxio_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
)

func TestLoad(t *testing.T) {
	m := must.Get(onnxio.Load(t.Context(), filepath.Join("..", "testdata", "loans", "model.onnx"), orttest.Need(t)))(t)
	if m.Dim() == 0 || m.Fixed() != 0 || m.Classes() != 2 {
		t.Errorf("%d inputs, batch %d, %d classes", m.Dim(), m.Fixed(), m.Classes())
	}
	first := must.Get(m.Canonical())(t)
	if must.Get(m.Canonical())(t) != first {
		t.Error("the canonical form is made twice")
	}
	must.Fail(t, must.Err(onnxio.Load(t.Context(), filepath.Join("..", "testdata", "no.onnx"), orttest.Need(t))), "")
}

// TestNewerVersions: a model of newer versions than ONNX Runtime knows is read where none of its operators is new.
func TestNewerVersions(t *testing.T) {
	eng := orttest.Need(t)
	for _, c := range []struct{ opset, ir int64 }{{26, 13}, {27, 13}, {28, 14}, {17, 14}} {
		g := must.Get(codec.ReadFile(filepath.Join("..", "testdata", "loans", "model.onnx")))(t)
		g.SetOpset("", c.opset)
		g.IRVersion = c.ir
		m := must.Get(onnxio.FromGraph(t.Context(), g, eng))(must.In(t, c))
		must.Same(t, min(c.opset, 25), m.File().Opset(""))
		must.Same(t, c.opset, g.Opset(""))
		g.Graph.Nodes[1].Op = "CumProd" // of set 26: not lowered
		must.Same(t, c.opset, pass.Current(g).Opset(""))
	}
}

func TestCanonicalTypes(t *testing.T) {
	options := orttest.Need(t)
	build := func(opset int64, shape graph.Shape, make func(b *graph.Builder,
		w func(name string, dims ...int64) string) string,
	) *graph.Model {
		m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: opset}}, Graph: &graph.Graph{Name: "g"}}
		m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}
		b := graph.NewBuilder(m.Graph, "")
		w := func(name string, dims ...int64) string {
			n := int64(1)
			for _, d := range dims {
				n *= d
			}
			return b.Const(graph.FromFloats(name, make32(int(n)), dims...))
		}
		m.Graph.Outputs = []graph.Value{{Name: make(b, w), DType: graph.Float}}
		return m
	}
	rows := graph.Dim{Size: -1, Param: "N"}
	for name, m := range map[string]*graph.Model{
		"pool in front of an activation": build(17, graph.Shape{rows, {Size: 1}, {Size: 8}},
			func(b *graph.Builder, w func(string, ...int64) string) string {
				h := b.Op("Conv", []string{"x", w("w", 2, 1, 3)})
				h = b.Op("Relu", []string{b.Op("MaxPool", []string{h}, graph.IntsAttr("kernel_shape", 2),
					graph.IntsAttr("strides", 2))})
				return b.Op("Gemm", []string{b.Op("Flatten", []string{h}), w("v", 6, 2)})
			}),
		"transposed input": build(17, graph.Shape{rows, {Size: 3}},
			func(b *graph.Builder, w func(string, ...int64) string) string {
				h := b.Op("Transpose", []string{b.Op("MatMul", []string{"x", w("w", 3, 4)})})
				return b.Op("Gemm", []string{h, w("v", 4, 2)}, graph.IntAttr("transA", 1))
			}),
		"old softmax": build(11, graph.Shape{rows, {Size: 3}},
			func(b *graph.Builder, w func(string, ...int64) string) string {
				h := b.Op("Add", []string{b.Op("MatMul", []string{"x", w("w", 3, 4)}), w("b", 4)})
				return b.Op("Softmax", []string{h})
			}),
	} {
		loaded := must.Get(onnxio.FromGraph(t.Context(), m, options))(t)
		c := must.Get(loaded.Canonical())(t)
		measured := must.Get(onnxio.FromGraph(t.Context(), c.Graph(), options))(t)
		for _, n := range c.Graph().Graph.Nodes {
			for _, o := range n.Outputs {
				if diff := cmp.Diff(measured.Types()[o], c.Types()[o]); diff != "" {
					t.Errorf("%s: %s of %s: %s", name, o, n.Label(), diff)
				}
			}
		}
	}
}

func make32(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%7) - 3
	}
	return v
}

func TestValuesTooLarge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op   string
		dims []int64
	}{
		"large":                {"Expand", []int64{1 << 16, 1 << 12, 3, 4}},
		"beyond int64":         {"Expand", []int64{1 << 40, 1 << 40, 3, 4}},
		"repeated":             {"Tile", []int64{1, 1 << 26}},
		"repeated, with batch": {"Tile", []int64{1 << 28, 1}},
	} {
		dims := c.dims
		b := graph.NewBuilder(&graph.Graph{
			Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 4}}}},
		}, "")
		b.Append(&graph.Node{
			Op: c.op, Name: "blow", Inputs: []string{"x", b.Const(graph.FromInts("to", dims, int64(len(dims))))},
			Outputs: []string{"y"},
		})
		b.G.Outputs = []graph.Value{{Name: "y", DType: graph.Float}}
		m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: b.G}
		_, err := onnxio.FromGraph(t.Context(), m, orttest.Need(t))
		if err == nil || !strings.Contains(err.Error(), "blow") || !strings.Contains(err.Error(), "makes a value of shape") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrokenFile(t *testing.T) {
	options := orttest.Need(t)
	m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{
		{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "n"}, {Size: 2}}},
		{Name: "code", DType: graph.Int64, Shape: graph.Shape{{Size: -1, Param: "n"}}},
	}
	b := graph.NewBuilder(m.Graph, "")
	z := b.Op("MatMul", []string{b.Op("Erfc", []string{"x"}), b.Const(graph.FromFloats("w", make32(4), 2, 2))})
	m.Graph.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
	_, err := onnxio.FromGraph(t.Context(), m, options)
	var refused *refuse.Refusal
	if !errors.As(err, &refused) {
		t.Fatalf("%v, want a refusal", err)
	}
	for _, want := range []string{"ONNX Runtime does not load", "registered for Erfc", "; instead, ", "; besides, "} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("no %q in one line: %v", want, err)
		}
	}
}

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

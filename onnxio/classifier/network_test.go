package classifier

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// straightLine is margin = w x + b over three inputs, in several forms.
func straightLine(form string) *graph.Model {
	g := &graph.Graph{
		Name:   "line",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 3}}}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 3), // logits 0 and 1: margin 2, 0.25, 1
			graph.FromFloats("wt", []float32{1, 3, 0.25, 0.5, -2, -1}, 3, 2),
			graph.FromFloats("b", []float32{0.5, -1}, 2),
			graph.FromFloats("mean", []float32{1, 2, 4}, 1, 3), graph.FromFloats("std", []float32{2, 4, 0.5}, 1, 3),
		},
	}
	add := func(op string, in []string, out string, attrs ...graph.Attr) {
		g.Nodes = append(g.Nodes, &graph.Node{Op: op, Name: out, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	gemm := func(in string) { add("Gemm", []string{in, "w", "b"}, "z", graph.IntAttr("transB", 1)) }
	switch form {
	case "gemm":
		gemm("x")
	case "softmax":
		gemm("x")
		add("Softmax", []string{"z"}, "p", graph.IntAttr("axis", 1))
	case "scaler":
		add("Sub", []string{"x", "mean"}, "c")
		add("Div", []string{"c", "std"}, "s")
		add("MatMul", []string{"s", "wt"}, "m")
		add("Add", []string{"m", "b"}, "z")
	case "conv":
		g.Inits = append(g.Inits, graph.FromInts("image", []int64{-1, 1, 3}, 3),
			graph.FromFloats("kernel", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 1, 3))
		add("Reshape", []string{"x", "image"}, "i")
		add("Conv", []string{"i", "kernel", "b"}, "c")
		add("GlobalAveragePool", []string{"c"}, "p")
		add("Flatten", []string{"p"}, "z")
	case "relu":
		add("Relu", []string{"x"}, "r")
		gemm("r")
	case "square":
		add("Mul", []string{"x", "x"}, "q")
		gemm("q")
	case "inverse":
		add("Div", []string{"std", "x"}, "q")
		gemm("q")
	case "integers":
		add("Cast", []string{"x"}, "i", graph.IntAttr("to", int64(graph.Int64)))
		add("Cast", []string{"i"}, "f", graph.IntAttr("to", int64(graph.Float)))
		gemm("f")
	}
	last := g.Nodes[len(g.Nodes)-1].Outputs[0]
	g.Outputs = []graph.Value{{Name: last, DType: graph.Float}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
}

func TestAffine(t *testing.T) {
	e := orttest.Need(t)
	zero := 0
	for _, tt := range []struct {
		form   string
		target *int
		w      []float32
		b      float64
	}{
		{"gemm", nil, []float32{2, 0.25, 1}, -1.5},
		{"gemm", &zero, []float32{-2, -0.25, -1}, 1.5},
		{"softmax", nil, []float32{2, 0.25, 1}, -1.5},
		{"scaler", nil, []float32{1, 0.0625, 2}, -1.5 - 1 - 0.125 - 8},
		{"conv", nil, []float32{2, 0.25, 1}, -1.5},
		{"relu", nil, nil, 0},
		{"square", nil, nil, 0},
		{"inverse", nil, nil, 0},
		{"integers", nil, nil, 0},
	} {
		c, err := Open(context.Background(), straightLine(tt.form), e, Options{Target: tt.target})
		if err != nil {
			t.Fatalf("%s: %v", tt.form, err)
		}
		defer c.Close()
		w, b, ok, err := c.Affine(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", tt.form, err)
		}
		if ok != (tt.w != nil) || !slices.Equal(w, tt.w) || math.Abs(b-tt.b) > 1e-5 {
			t.Errorf("%s: w %v, b %v, affine %v; want %v, %v", tt.form, w, b, ok, tt.w, tt.b)
		}
	}
}

// Three classes have a margin with a maximum in it, however linear the logits are.
func TestAffineThreeClasses(t *testing.T) {
	e := orttest.Need(t)
	m := straightLine("gemm")
	m.Graph.Inits[0] = graph.FromFloats("w", make([]float32, 9), 3, 3)
	m.Graph.Inits[2] = graph.FromFloats("b", make([]float32, 3), 3)
	c, err := Open(context.Background(), m, e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, ok, err := c.Affine(context.Background()); ok || err != nil {
		t.Errorf("affine %v, %v", ok, err)
	}
}

// The exported models: a logistic regression is affine, a network is not.
func TestAffineOnRealModels(t *testing.T) {
	e := orttest.Need(t)
	dir := realdata.Dir(t, "models", "german")
	for name, want := range map[string]bool{"logreg-s0.onnx": true, "mlp2-s0.onnx": false} {
		m, err := codec.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(context.Background(), m, e, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w, _, ok, err := c.Affine(context.Background())
		if err != nil || ok != want || ok && len(w) != c.Dim() {
			t.Errorf("%s: affine %v with %d weights, %v; want %v", name, ok, len(w), err, want)
		}
	}
}

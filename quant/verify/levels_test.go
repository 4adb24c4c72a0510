package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/verify"
)

func problems(r *verify.Report, want string) (found []string) {
	for _, p := range r.Problems {
		if strings.Contains(p, want) {
			found = append(found, p)
		}
	}
	return found
}

func TestNotANumber(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	b := graph.NewBuilder(m.Graph, "")
	root := b.Op("Sqrt", []string{"x"}) // NaN below zero
	m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: root, DType: graph.Float})
	const rows, dim = 50, 8
	for _, at := range []int{0, rows / 2, rows - 1, -1} {
		v := make([]float32, rows*dim)
		for i := range v {
			v[i] = float32(i%17) / 8
		}
		if at >= 0 {
			v[at*dim+3] = -1
		}
		x := graph.FromFloats("x", v, rows, dim)
		p := planFor(t, deep("Relu", "Softmax", 8, 16, 16, 2), eng, x, 4)
		r := check(t, write(t, m, p), verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
		want := 1
		if at < 0 {
			want = 0
		}
		if r.Levels.NaN != want || len(problems(r, "not a number")) != want {
			t.Errorf("row %d is not a number: %+v, %q", at, r.Levels, r.Problems)
		}
		must.Get(json.Marshal(r))(must.In(t, at))
	}
}

func TestInfinity(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	b := graph.NewBuilder(m.Graph, "")
	root := b.Op("Reciprocal", []string{b.Op("Abs", []string{"x"})})
	m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: root, DType: graph.Float})
	x := graph.FromFloats("x", append(make([]float32, 8), 1, 2, 3, 4, 5, 6, 7, 8), 2, 8)
	p := planFor(t, deep("Relu", "Softmax", 8, 16, 16, 2), eng, x, 4)
	r := check(t, write(t, m, p), verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
	if r.Err() != nil || r.Levels.NaN != 0 {
		t.Errorf("%+v, %q", r.Levels, r.Problems)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	b := graph.NewBuilder(m.Graph, "")
	m.Graph.Outputs = []graph.Value{{
		Name:  b.Op("ArgMax", []string{m.Graph.Outputs[0].Name}, graph.IntAttr("axis", 1)),
		DType: graph.Int64,
	}}
	x := probe(m, 400)
	p := planFor(t, deep("Relu", "Softmax", 8, 16, 16, 2), eng, x, 4)
	good := write(t, m, p)
	o := verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}}
	if r := check(t, good, o); r.Err() != nil {
		t.Fatalf("the good file: %q", r.Problems)
	}
	bad := good.Clone()
	by := bad.Graph.Producers()
	bad.Graph.Inits = append(bad.Graph.Inits, graph.FromFloats("wrong", []float32{1, 1}, 2))
	by[by["h3"].Inputs[2]].Inputs[1] = "wrong"
	r := check(t, bad, o)
	if len(problems(r, "another class")) != 1 || r.Levels.Flipped <= 8 {
		t.Errorf("%+v, %q", r.Levels, r.Problems)
	}
}

func TestEmptyBias(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	for _, n := range m.Graph.Nodes {
		if n.Name == "layer1" {
			n.Inputs[2] = ""
		}
	}
	x := probe(m, 100)
	p := planFor(t, m, eng, x, 8)
	p.Layers[0] = quant.Layer{Node: "layer1", Float: true}
	q := write(t, m, p)
	if first := q.Graph.Producers()["h1"]; len(first.Inputs) != 3 || first.Inputs[2] != "" {
		t.Fatalf("the layer has the inputs %q", first.Inputs)
	}
	r := check(t, q, verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
	if r.Err() != nil {
		t.Errorf("%q", r.Problems)
	}
}

func TestKernel(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Nodes: []*graph.Node{
		{Name: "fused b", Op: "FusedGemm", Outputs: []string{"w"}},
		{Name: "a", Op: "QGemm", Outputs: []string{"v"}},
		{Name: "fused a", Op: "Gemm", Outputs: []string{"u"}},
		{Name: "other", Op: "QLinearMatMul", Outputs: []string{"y"}},
		{Op: "Relu", Outputs: []string{"t", ""}},
	}}
	for _, c := range []struct{ name, output, want string }{
		{"a", "v", "QGemm"},
		{"b", "", "FusedGemm"},
		{"c", "y", "QLinearMatMul"},
		{"", "y", "QLinearMatMul"},
		{"d", "z", ""},
		{"", "", ""},
	} {
		got := ""
		if n := verify.Kernels(g)(c.name, c.output); n != nil {
			got = n.Op
		}
		must.Same(t, c.want, got)
	}
}

package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

func mlp() *graph.Graph {
	return &graph.Graph{
		Name:    "mlp",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w", []float32{1, 2, 3, 4}, 2, 2),
			graph.FromFloats("b", []float32{0, 1}, 2),
		},
		Nodes: []*graph.Node{
			{
				Name: "fc", Op: "Gemm", Inputs: []string{"x", "w", "b"}, Outputs: []string{"h"},
				Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
			},
			{Op: "Clip", Inputs: []string{"h", "", ""}, Outputs: []string{"y"}},
		},
	}
}

func TestCheck(t *testing.T) {
	must.Do(t, mlp().Check())
	for _, c := range []struct {
		want   string
		damage func(*graph.Graph)
	}{
		{`input "x" is listed twice`, func(g *graph.Graph) { g.Inputs = append(g.Inputs, g.Inputs[0]) }},
		{`initializer "w" is defined twice`, func(g *graph.Graph) { g.Inits = append(g.Inits, g.Inits[0]) }},
		{
			`Clip node "h" defines "h", which is defined already`,
			func(g *graph.Graph) { g.Nodes[1].Outputs = []string{"h"} },
		},
		{`Gemm node "fc" defines "x"`, func(g *graph.Graph) { g.Nodes[0].Outputs = []string{"x"} }},
		{`Gemm node "fc" uses "gone", which nothing defines`, func(g *graph.Graph) { g.Nodes[0].Inputs[1] = "gone" }},
		{`Gemm node "fc" uses "y" before Clip node "y"`, func(g *graph.Graph) { g.Nodes[0].Inputs[0] = "y" }},
		{`Gemm node "fc" uses "h" before Gemm node "fc"`, func(g *graph.Graph) { g.Nodes[0].Inputs[0] = "h" }},
		{"out of order", func(g *graph.Graph) { g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0] }},
		{`graph output "z" is defined by nothing`, func(g *graph.Graph) { g.Outputs[0].Name = "z" }},
		{
			`"w" is float[2 2], 16 bytes, but holds 15 bytes`,
			func(g *graph.Graph) { g.Inits[0].Raw = g.Inits[0].Raw[:15] },
		},
		{`"w" has the negative dimension -2`, func(g *graph.Graph) { g.Inits[0].Dims[1] = -2 }},
		{"absurd shape", func(g *graph.Graph) { g.Inits[0].Dims = []int64{1 << 40, 1 << 40, 0} }},
		{"\ngraph output", func(g *graph.Graph) { g.Nodes[0].Inputs[1] = "gone"; g.Outputs[0].Name = "z" }},
	} {
		g := mlp()
		c.damage(g)
		must.Fail(t, g.Check(), c.want)
	}
}

func TestCheckAllowsDefaults(t *testing.T) {
	g := mlp() // up to IR version 3, initializers are inputs too
	g.Inputs = append(g.Inputs, graph.Value{Name: "w"}, graph.Value{Name: "b"})
	must.Do(t, g.Check())
	if in := g.DataInputs(); len(in) != 1 || in[0].Name != "x" {
		t.Errorf("data inputs %v, want x alone", in)
	}
}

func TestCheckBoundsItsMessage(t *testing.T) {
	g := &graph.Graph{}
	for i := range 1000 {
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: strings.Repeat("n", 10000), Op: "Add", Inputs: []string{"gone"},
			Outputs: []string{fmt.Sprint("v", i)},
		})
	}
	err := g.Check()
	if err == nil || !strings.Contains(err.Error(), "and 980 errors more") || len(err.Error()) > 10000 {
		t.Errorf("message of %d bytes: %.300s", len(err.Error()), err)
	}
}

func TestTensorCheckStrings(t *testing.T) {
	s := graph.Tensor{Name: "s", DType: graph.String, Dims: []int64{2}, Strings: [][]byte{[]byte("a")}}
	must.Fail(t, s.Check(), "")
	s.Strings = append(s.Strings, nil)
	must.Do(t, s.Check())
}

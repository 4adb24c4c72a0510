package ort

import (
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

func TestNeeded(t *testing.T) {
	node := func(op, in string, outs ...string) *graph.Node {
		return &graph.Node{Op: op, Inputs: []string{in, "", "w_" + op}, Outputs: outs}
	}
	model := func(outputs ...string) *graph.Model {
		g := &graph.Graph{
			Inputs: []graph.Value{{Name: "x"}, {Name: "w_Listed"}},
			Nodes: []*graph.Node{
				node("First", "x", "a", "a2"), node("Dead", "a", "b"), node("Second", "a2", "c"),
				node("DeadToo", "b", "d"), node("Third", "c", "", "e"),
			},
		}
		for _, w := range []string{"w_First", "w_Dead", "w_Second", "w_DeadToo", "w_Third", "w_Listed", "w_Output"} {
			g.Inits = append(g.Inits, &graph.Tensor{Name: w})
		}
		for _, o := range outputs {
			g.Outputs = append(g.Outputs, graph.Value{Name: o})
		}
		return &graph.Model{Graph: g}
	}
	ops := func(m *graph.Model) (out []string) {
		for _, n := range m.Graph.Nodes {
			out = append(out, n.Op)
		}
		for _, w := range m.Graph.Inits {
			out = append(out, w.Name)
		}
		return out
	}
	m := model("e", "w_Output")
	all := ops(m)
	got := ops(needed(m))
	must.Same(t, []string{"First", "Second", "Third", "w_First", "w_Second", "w_Third", "w_Output"}, got)
	must.Same(t, all, ops(m))
	for _, kind := range []graph.AttrKind{graph.AttrGraph, graph.AttrGraphs} {
		m.Graph.Nodes[4].Attrs = []graph.Attr{{Name: "body", Kind: kind}}
		must.Same(must.In(t, kind), all, ops(needed(m)))
	}
}

func TestPinned(t *testing.T) {
	for row := range strings.Lines(releases) {
		platform, _, _ := strings.Cut(row, ",")
		r := must.Get(pinnedFor(platform))(t)
		if r.Platform != platform || len(r.SHA256) != 64 || !strings.HasPrefix(r.Member, "package/") ||
			!strings.HasSuffix(r.Member, "/"+r.Name) {
			t.Errorf("%s: %+v is not well formed", r.Platform, r)
		}
	}
	_, err := pinnedFor("darwin/amd64")
	for _, w := range []string{"no library for darwin/amd64", LibEnv} {
		must.Fail(t, err, w)
	}
}

// TestLargeGraph reads each value of a chain once more behind it, as a gradient does.
func TestLargeGraph(t *testing.T) {
	g := &graph.Graph{
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Fixed(1)}},
		Inits:   []*graph.Tensor{graph.FromFloats("one", []float32{1})},
		Outputs: []graph.Value{{Name: "sum"}},
	}
	b := graph.NewBuilder(g, "")
	values := []string{"x"}
	for range LargeGraph / 2 {
		values = append(values, b.Op("Add", []string{values[len(values)-1], "one"}))
	}
	for i, v := range values {
		values[i] = b.Op("Neg", []string{v})
	}
	b.Append(&graph.Node{Op: "Sum", Inputs: values, Outputs: []string{"sum"}})
	m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 18}}, Graph: g}
	must.Same(t, "neg", needed(m).Graph.Nodes[1].Outputs[0])
	s := must.Get(Open(m, Options{}))(t)
	defer s.Close()
	out := must.Get(s.Run(t.Context(), []*graph.Tensor{graph.FromFloats("x", []float32{0}, 1)}))(t)
	must.Same(t, []float32{-1000 * 1001 / 2}, must.Get(out[0].Floats())(t))
}

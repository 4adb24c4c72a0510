package ort

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
	if d := cmp.Diff([]string{"First", "Second", "Third", "w_First", "w_Second", "w_Third", "w_Listed", "w_Output"},
		got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(all, ops(m)); d != "" {
		t.Errorf("the model was changed:\n%s", d)
	}
	for _, kind := range []graph.AttrKind{graph.AttrGraph, graph.AttrGraphs} {
		m.Graph.Nodes[4].Attrs = []graph.Attr{{Name: "body", Kind: kind}}
		if d := cmp.Diff(all, ops(needed(m))); d != "" {
			t.Errorf("with subgraphs in an attribute of kind %d:\n%s", kind, d)
		}
	}
}

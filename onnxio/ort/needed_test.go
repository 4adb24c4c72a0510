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

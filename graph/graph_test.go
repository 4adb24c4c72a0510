package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/graph"
)

func TestOpset(t *testing.T) {
	m := &graph.Model{Opsets: []graph.Opset{{Domain: "com.example", Version: 3}, {Domain: "ai.onnx", Version: 17}}}
	if m.Opset("") != 17 || m.Opset("ai.onnx") != 17 || m.Opset("com.example") != 3 || m.Opset("other") != 0 {
		t.Errorf("opsets of %v", m.Opsets)
	}
	m.SetOpset("", 18)
	m.SetOpset("other", 1)
	want := []graph.Opset{{Domain: "com.example", Version: 3}, {Domain: "ai.onnx", Version: 18}, {Domain: "other", Version: 1}}
	if diff := cmp.Diff(want, m.Opsets); diff != "" {
		t.Error(diff)
	}
}

func TestMeta(t *testing.T) {
	var m graph.Model
	m.SetMeta("a", "1")
	m.SetMeta("b", "2")
	m.SetMeta("a", "3")
	if diff := cmp.Diff([]graph.Meta{{Key: "a", Value: "3"}, {Key: "b", Value: "2"}}, m.Metadata); diff != "" {
		t.Error(diff)
	}
	if _, ok := m.Meta("c"); ok {
		t.Error("a missing entry is there")
	}
}

// TestClone changes everything that Clone says may be changed and looks whether
// the original notices.
func TestClone(t *testing.T) {
	build := func() *graph.Model {
		return &graph.Model{
			Opsets:    []graph.Opset{{Version: 17}},
			Metadata:  []graph.Meta{{Key: "k", Value: "v"}},
			Functions: []*graph.Function{{Name: "f", Nodes: []*graph.Node{{Op: "Relu", Inputs: []string{"a"}, Outputs: []string{"b"}}}}},
			Graph:     mlp(),
		}
	}
	m := build()
	c := m.Clone()
	c.Opsets[0].Version = 18
	c.Metadata[0].Value = "w"
	c.Functions[0].Nodes[0].Op = "Elu"
	c.Functions[0].Name = "g"
	c.Graph.Inputs[0].Name = "u"
	c.Graph.Outputs[0].Name = "u"
	c.Graph.Inits[0].Name = "u"
	c.Graph.Nodes[0].Inputs[0] = "u"
	c.Graph.Nodes[0].Outputs[0] = "u"
	c.Graph.Nodes[0].Attrs[0].I = 0
	c.Graph.Nodes[1] = nil
	if diff := cmp.Diff(build(), m); diff != "" {
		t.Errorf("the original changed:\n%s", diff)
	}
}

func TestNodeAccessors(t *testing.T) {
	n := &graph.Node{Inputs: []string{"a", ""}, Attrs: []graph.Attr{
		graph.IntAttr("i", 7), graph.FloatAttr("f", .5), graph.IntsAttr("is", 1, 2), graph.StringAttr("s", "text"),
		graph.TensorAttr("t", graph.FromInts("", []int64{4})),
	}}
	if n.Int("i", 0) != 7 || n.Int("none", 3) != 3 || n.Float("f", 0) != .5 || n.Float("none", 2) != 2 || len(n.Ints("is")) != 2 || n.Ints("none") != nil {
		t.Error("attribute values")
	}
	if string(n.Attr("s").S) != "text" || n.Attr("t").T.Len() != 1 || n.Attr("none") != nil {
		t.Error("attributes")
	}
	if n.Input(0) != "a" || n.Input(1) != "" || n.Input(2) != "" {
		t.Error("inputs")
	}
}

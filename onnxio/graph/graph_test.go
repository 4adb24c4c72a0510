package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/onnxio/graph"
)

func TestOpset(t *testing.T) {
	m := &graph.Model{Opsets: []graph.Opset{{Domain: "com.example", Version: 3}, {Domain: "ai.onnx", Version: 17}}}
	if m.Opset("") != 17 || m.Opset("ai.onnx") != 17 || m.Opset("com.example") != 3 || m.Opset("other") != 0 {
		t.Errorf("opsets of %v", m.Opsets)
	}
	m.SetOpset("", 18)
	m.SetOpset("other", 1)
	want := []graph.Opset{{Domain: "com.example", Version: 3}, {Domain: "ai.onnx", Version: 18}, {Domain: "other",
		Version: 1}}
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

func TestClone(t *testing.T) {
	build := func() *graph.Model {
		return &graph.Model{
			Opsets:    []graph.Opset{{Version: 17}},
			Metadata:  []graph.Meta{{Key: "k", Value: "v"}},
			Functions: []*graph.Function{{Name: "f", Nodes: []*graph.Node{{Op: "Relu"}}}},
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

func TestSort(t *testing.T) {
	op := func(name string, inputs ...string) *graph.Node {
		return &graph.Node{Op: "Sum", Name: name, Inputs: inputs, Outputs: []string{name}}
	}
	for name, tt := range map[string]struct {
		nodes []*graph.Node
		want  string
		bad   bool
	}{
		"in order": {[]*graph.Node{op("a", "x"), op("c", "x"), op("b", "a")}, "acb", false},
		"out of order": {
			[]*graph.Node{op("d", "b", "c"), op("b", "a"), op("c", "a", "x"), op("a", "x"), op("e", "x", "d")}, "abcde", false,
		},
		"cycle": {[]*graph.Node{op("a", "b"), op("b", "a")}, "", true},
	} {
		g := &graph.Graph{Inputs: []graph.Value{{Name: "x"}}, Nodes: tt.nodes}
		g.Sort()
		order := ""
		for _, n := range g.Nodes {
			order += n.Name
		}
		if err := g.Check(); (err != nil) != tt.bad || !tt.bad && order != tt.want {
			t.Errorf("%s: %s, %v", name, order, err)
		}
	}
}

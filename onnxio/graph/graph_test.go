package graph_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

func TestOpset(t *testing.T) {
	m := &graph.Model{
		Opsets: []graph.Opset{{Domain: "com.example", Version: 3}, {Domain: "ai.onnx", Version: 17}, {Version: 17}},
	}
	if m.Opset("") != 17 || m.Opset("ai.onnx") != 17 || m.Opset("com.example") != 3 || m.Opset("other") != 0 {
		t.Errorf("opsets of %v", m.Opsets)
	}
	m.SetOpset("", 18)
	m.SetOpset("other", 1)
	want := []graph.Opset{
		{Domain: "com.example", Version: 3},
		{Domain: "ai.onnx", Version: 18},
		{Version: 18},
		{Domain: "other", Version: 1},
	}
	must.Same(t, want, m.Opsets)
}

func TestMeta(t *testing.T) {
	var m graph.Model
	m.SetMeta("a", "1")
	m.SetMeta("b", "2")
	m.SetMeta("a", "3")
	must.Same(t, []graph.Meta{{Key: "a", Value: "3"}, {Key: "b", Value: "2"}}, m.Metadata)
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
	must.Same(t, build(), m)
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

func TestSchedule(t *testing.T) {
	g := &graph.Graph{Inputs: []graph.Value{{Name: "x"}}, Nodes: []*graph.Node{
		{Op: "Relu", Inputs: []string{"x"}, Outputs: []string{"a", ""}},
		{Op: "Relu", Inputs: []string{"a"}, Outputs: []string{"b"}},
		{Op: "Relu", Inputs: []string{"b"}, Outputs: []string{"c"}},
		{Op: "Abs", Inputs: []string{"b"}, Outputs: []string{"e"}},
		{Op: "Mul", Inputs: []string{"a", "", "a"}, Outputs: []string{"d"}},
	}}
	g.Schedule()
	must.Do(t, g.Check())
	order := ""
	for _, n := range g.Nodes {
		order += n.Outputs[0]
	}
	must.Same(t, "abdce", order)
}

func TestBuilder(t *testing.T) {
	g := mlp()
	b := graph.NewBuilder(g, "q_")
	y := b.Op("Mul", []string{"y", b.Const(graph.FromFloats("two", []float32{2}))})
	if y != "q_mul" || g.Nodes[2].Name != "q_n_Mul" || g.Init("q_two") == nil {
		t.Errorf("names: %q, %q", y, g.Nodes[2].Name)
	}
	must.Same(t, "q_mul_1", b.Op("Mul", []string{y, y}))
	b.Append(&graph.Node{Name: "own", Op: "Split", Inputs: []string{y}, Outputs: []string{"q_split", ""}})
	must.Same(t, "q_split_1", b.Name("split"))
	must.Do(t, g.Check())
}

func TestBuilderNames(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "a_1", "a_2", "a_1_1", "b", "n_A", "n_A_1"})
	rapid.Check(t, func(t *rapid.T) {
		g := &graph.Graph{}
		taken := rapid.SliceOfDistinct(names, rapid.ID[string]).Draw(t, "taken")
		for i, name := range taken {
			switch i % 3 {
			case 0:
				g.Inputs = append(g.Inputs, graph.Value{Name: name})
			case 1:
				g.Inits = append(g.Inits, graph.FromFloats(name, []float32{0}))
			default:
				g.Nodes = append(g.Nodes, &graph.Node{Op: "A", Outputs: []string{name}})
			}
		}
		b := graph.NewBuilder(g, "")
		for range 10 {
			var name string
			if rapid.Bool().Draw(t, "op") {
				name = b.Op("A", nil)
			} else {
				name = b.Name(names.Draw(t, "hint"))
			}
			if slices.Contains(taken, name) {
				t.Fatalf("%q is given twice", name)
			}
			taken = append(taken, name)
		}
	})
}

func TestNodeAccessors(t *testing.T) {
	n := &graph.Node{Inputs: []string{"a", ""}, Attrs: []graph.Attr{
		graph.IntAttr("i", 7), graph.FloatAttr("f", .5), graph.IntsAttr("is", 1, 2), graph.StringAttr("s", "text"),
		graph.TensorAttr("t", graph.FromInts("", []int64{4})),
	}}
	if n.Int("i", 0) != 7 || n.Int("none", 3) != 3 || n.Float("f", 0) != .5 || n.Float("none", 2) != 2 ||
		len(n.Ints("is")) != 2 || n.Ints("none") != nil {
		t.Error("attribute values")
	}
	if string(n.Attr("s").S) != "text" || n.Attr("t").T.Len() != 1 || n.Attr("none") != nil {
		t.Error("attributes")
	}
	if n.Input(0) != "a" || n.Input(1) != "" || n.Input(2) != "" {
		t.Error("inputs")
	}
}

func TestNodeIs(t *testing.T) {
	for domain, want := range map[string]bool{"": true, "ai.onnx": true, "ai.onnx.ml": false, "com.example": false} {
		n := &graph.Node{Op: "Relu", Domain: domain}
		if n.Is("Relu") != want || n.Standard() != want || n.Is("Elu") {
			t.Errorf("Relu of domain %q", domain)
		}
	}
}

func TestConstant(t *testing.T) {
	tensor := graph.FromInts("t", []int64{4}, 1)
	floats := graph.Attr{Name: "value_floats", Kind: graph.AttrFloats, Floats: []float32{1, 2}}
	for name, c := range map[string]struct {
		attr graph.Attr
		want *graph.Tensor
	}{
		"value":                {graph.TensorAttr("value", tensor), tensor},
		"value_float":          {graph.FloatAttr("value_float", .5), graph.FromFloats("", []float32{.5})},
		"value_floats":         {floats, graph.FromFloats("", []float32{1, 2}, 2)},
		"value_int":            {graph.IntAttr("value_int", -3), graph.FromInts("", []int64{-3})},
		"value_ints":           {graph.IntsAttr("value_ints", 1, 2), graph.FromInts("", []int64{1, 2}, 2)},
		"no numbers":           {graph.IntsAttr("value_ints"), graph.FromInts("", nil, 0)},
		"string":               {graph.StringAttr("value_string", "s"), nil},
		"sparse":               {graph.Attr{Name: "sparse_value", Kind: 11}, nil},
		"function's attribute": {graph.Attr{Name: "value_float", Kind: graph.AttrFloat, Ref: "alpha"}, nil},
		"function's tensor":    {graph.Attr{Name: "value", Kind: graph.AttrTensor, Ref: "table"}, nil},
	} {
		n := &graph.Node{Op: "Constant", Outputs: []string{"c"}, Attrs: []graph.Attr{c.attr}}
		got := n.Constant()
		must.Same(must.In(t, name), c.want, got)
		if got != nil {
			if got.Name = "mine"; got.Check() != nil || tensor.Name != "t" {
				t.Errorf("%s: the value is unsound, or the node's own", name)
			}
		}
		n.Op = "Relu"
		if n.Constant() != nil {
			t.Errorf("%s: a Relu has a value", name)
		}
	}
}

func TestHasGraphs(t *testing.T) {
	for kind, want := range map[graph.AttrKind]bool{graph.AttrGraph: true, graph.AttrGraphs: true, 13: false} {
		n := &graph.Node{Op: "If", Attrs: []graph.Attr{graph.IntAttr("i", 1), {Name: "body", Kind: kind}}}
		must.Same(must.In(t, kind), want, n.HasGraphs())
	}
}

func TestShapeText(t *testing.T) {
	s := graph.Shape{{Size: -1, Param: "N"}, {Size: 3}, {Size: -1}, {Size: -1, Param: "a b"}, {Size: -1, Param: "\n"}}
	must.Same(t, `float[N,3,?,"a b","\n"]`, graph.Type{DType: graph.Float, Shape: s}.String())
	must.Same(t, "*", graph.Shape(nil).String())
}

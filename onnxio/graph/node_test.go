package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/onnxio/graph"
)

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
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
		if n.HasGraphs() != want {
			t.Errorf("attribute of kind %d: %v, want %v", kind, !want, want)
		}
	}
}

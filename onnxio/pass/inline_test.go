package pass_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
)

func resolved(m *graph.Model) (*graph.Model, error) {
	p, c := pass.Inlining(), m.Clone()
	if !p.Needed(m) {
		return m, nil
	}
	return c, p.Apply(c, nil)
}

func field(number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

func subgraph(t testing.TB, name string, g *graph.Graph) graph.Attr {
	t.Helper()
	data := must.Get(codec.Marshal(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}))(t)
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeField(data)
		if number == 7 && typ == protowire.BytesType { // ModelProto.graph
			_, _, tag := protowire.ConsumeTag(data)
			body, _ := protowire.ConsumeBytes(data[tag:n])
			return graph.Attr{Name: name, Kind: graph.AttrGraph, Extra: field(6, body)}
		}
		data = data[n:]
	}
	t.Fatal("no graph")
	return graph.Attr{}
}

func body(outputs string, nodes ...*graph.Node) *graph.Graph {
	g := &graph.Graph{Name: "body", Nodes: nodes}
	for o := range strings.FieldsSeq(outputs) {
		g.Outputs = append(g.Outputs, graph.Value{Name: o, DType: graph.Float})
	}
	return g
}

func choice(t testing.TB, cond, out string, yes, no *graph.Graph) *graph.Node {
	return node("If", cond, out, subgraph(t, "then_branch", yes), subgraph(t, "else_branch", no))
}

func of(d string, n *graph.Node) *graph.Node { n.Domain = d; return n }

func ref(name, of string, kind graph.AttrKind) graph.Attr {
	return graph.Attr{Name: name, Ref: of, Kind: kind}
}

func function(name, in, out string, nodes ...*graph.Node) *graph.Function {
	return &graph.Function{
		Name: name, Domain: "f", Inputs: strings.Fields(in), Outputs: strings.Fields(out), Nodes: nodes,
		Opsets: []graph.Opset{{Version: 17}, {Domain: "f", Version: 1}},
	}
}

func whole(functions []*graph.Function, inits []*graph.Tensor, nodes ...*graph.Node) *graph.Model {
	s := small{opset: 17, dims: []int64{2, 3}, inits: inits, nodes: nodes}
	m := s.model()
	m.IRVersion, m.Opsets, m.Functions = 10, append(m.Opsets, graph.Opset{Domain: "f", Version: 1}), functions
	return m
}

func yes(name string, v byte) *graph.Tensor {
	return &graph.Tensor{Name: name, DType: graph.Bool, Raw: []byte{v}}
}

func resolvable(t testing.TB) map[string]*graph.Model {
	leaky := function("Leaky", "p", "q", node("LeakyRelu", "p", "h", ref("alpha", "slope", graph.AttrFloat)),
		node("Neg", "h", "q"))
	leaky.Attrs = []string{"slope"}
	twice := function("Twice", "p k", "q r", of("f", node("Leaky", "p", "h", ref("slope", "steep", graph.AttrFloat))),
		of("f", node("Leaky", "h", "q", graph.FloatAttr("slope", 0.25))), node("Add", "k p", "r"))
	twice.Attrs = []string{"steep"}
	preset := function("Preset", "p", "q", node("LeakyRelu", "p", "q", ref("alpha", "slope", graph.AttrFloat)))
	preset.Extra = field(11, slices.Concat(field(1, []byte("slope")),
		protowire.AppendFixed32(protowire.AppendTag(nil, 2, protowire.Fixed32Type), 0x3f000000), // 0.5
		protowire.AppendVarint(protowire.AppendTag(nil, 20, protowire.VarintType), 1)))
	overloaded := func(name string, op string) *graph.Function {
		f := function("Same", "p", "q", node(op, "p", "q"))
		f.Extra = field(13, []byte(name))
		return f
	}
	calls := func(overload, in, out string) *graph.Node {
		n := of("f", node("Same", in, out))
		n.Extra = field(8, []byte(overload))
		return n
	}
	local := body("s", node("Mul", "w k", "s"))
	local.Inits = []*graph.Tensor{floats("k", []float32{3}, 1)}
	same := body("s", node("Identity", "w", "s"))
	nested := body("q", choice(t, "no", "q", body("q", node("Abs", "w", "q")), same))
	slope := graph.FloatAttr
	return map[string]*graph.Model{
		"nested functions": whole([]*graph.Function{leaky, twice}, nil,
			of("f", node("Twice", "x x", "q r", slope("steep", 0.5))),
			of("f", node("Twice", "q r", "s u", slope("steep", 2))), node("Add", "s u", "y")),
		"default of an attribute": whole([]*graph.Function{preset}, nil, of("f", node("Preset", "x", "h")),
			of("f", node("Preset", "h", "y", slope("slope", 0.1)))),
		"overloads": whole([]*graph.Function{overloaded("a", "Neg"), overloaded("b", "Abs")}, nil, calls("a", "x", "h"),
			calls("b", "h", "y")),
		"a constant condition": whole(nil, []*graph.Tensor{yes("c", 1)}, node("Neg", "x", "w"),
			choice(t, "c", "y", local, same)),
		"the other branch": whole(nil, []*graph.Tensor{yes("c", 0)}, node("Neg", "x", "w"),
			choice(t, "c", "y", local, same)),
		"branches in one another": whole(nil, []*graph.Tensor{yes("c", 1), yes("no", 0)}, node("Neg", "x", "w"),
			choice(t, "c", "y", nested, same)),
		"a condition on sizes": whole(nil, []*graph.Tensor{
			graph.FromInts("last", []int64{1}), graph.FromInts("three", []int64{3}),
		}, node("Neg", "x", "w"), node("Shape", "w", "shape"), node("Gather", "shape last", "n"),
			node("Equal", "n three", "c"),
			choice(t, "c", "y", local, same)),
		"a condition of conditions": whole(nil, []*graph.Tensor{yes("t", 1), graph.FromInts("three", []int64{3})},
			node("Neg", "x", "w"), node("Size", "w", "n"), node("Less", "n three", "a"), node("Not", "a", "b"),
			node("And", "t b", "c"), choice(t, "c", "y", local, same)),
		"a branch in a function": whole([]*graph.Function{function("Branch", "p c", "q", node("Neg", "p", "w"),
			choice(t, "c", "q", local, same))}, []*graph.Tensor{yes("c", 1)}, of("f", node("Branch", "x c", "h")),
			of("f", node("Branch", "h c", "y"))),
	}
}

func TestResolve(t *testing.T) {
	o := orttest.Need(t)
	in := floats("x", []float32{1, -2, 3, -.5, .25, -4}, 2, 3)
	for name, m := range resolvable(t) {
		t.Run(name, func(t *testing.T) {
			before := m.Graph.Clone()
			got := must.Get(resolved(m))(t)
			if len(got.Functions) > 0 || slices.ContainsFunc(got.Graph.Nodes, (*graph.Node).HasGraphs) ||
				len(m.Functions) > 0 && got.Opset("f") != 0 {
				t.Error("not resolved")
			}
			must.Same(t, before, m.Graph.Clone())
			if !same(run(t, got, in, o), run(t, m, in, o)) {
				t.Error("other results")
			}
		})
	}
}

func TestResolveAtShape(t *testing.T) {
	m := resolvable(t)["a condition on sizes"]
	m.Graph.Inputs[0].Shape[0] = graph.Dim{Size: -1, Param: "N"}
	must.Get(resolved(m))(t)
	m.Graph.Inits[0] = graph.FromInts("last", []int64{0}) // the batch
	_, err := resolved(m)
	must.Fail(t, err, `If node "y": its condition "c" is not constant`)
}

func TestResolveKeeps(t *testing.T) {
	own := function("Unpack", "p", "q", node("Neg", "p", "q"))
	own.Domain = pass.FunctionDomain
	m := whole([]*graph.Function{own}, nil, of(pass.FunctionDomain, node("Unpack", "x", "y")))
	must.Same(t, m, must.Get(resolved(m))(t))
	m.Functions = append(m.Functions, function("Abs", "p", "q", node("Abs", "p", "q")))
	m.Graph.Nodes = []*graph.Node{of(pass.FunctionDomain, node("Unpack", "x", "h")), of("f", node("Abs", "h", "y"))}
	got := must.Get(resolved(m))(t)
	if len(got.Functions) != 1 || len(got.Graph.Nodes) != 2 || got.Graph.Nodes[1].Domain != "" {
		t.Errorf("%+v", got.Graph.Nodes)
	}
}

func TestResolveRefuses(t *testing.T) {
	self := function("Self", "p", "q", of("f", node("Other", "p", "q")))
	other := function("Other", "p", "q", of("f", node("Self", "p", "q")))
	older := function("Older", "p", "q", node("Neg", "p", "q"))
	older.Opsets[0].Version = 11
	doubling := []*graph.Function{function("F0", "p", "q", node("Neg", "p", "q"))}
	for i := range 40 {
		call := func(in, out string) *graph.Node { return of("f", node(fmt.Sprintf("F%d", i), in, out)) }
		doubling = append(doubling, function(fmt.Sprintf("F%d", i+1), "p", "q", call("p", "h"), call("h", "q")))
	}
	for want, m := range map[string]*graph.Model{
		`the function "f.Self" calls itself`: whole([]*graph.Function{self, other}, nil, of("f", node("Self", "x", "y"))),
		"have more than 50000 nodes":         whole(doubling, nil, of("f", node("F40", "x", "y"))),
		`Loop node "y" repeats a graph`: whole(nil, []*graph.Tensor{yes("c", 1)},
			node("Loop", "c c x", "y", subgraph(t, "body", body("x")))),
		`its condition "c" is not constant`: whole(nil, nil, node("ReduceSum", "x", "s", graph.IntAttr("keepdims", 0)),
			node("Cast", "s", "c", graph.IntAttr("to", int64(graph.Bool))), choice(t, "c", "y", body("x"), body("x"))),
		`"f.Older" is of operator set 11, and the model of 17`: whole([]*graph.Function{older}, nil,
			of("f", node("Older", "x", "y"))),
		"1 inputs and 1 outputs, but the function": whole([]*graph.Function{function("None", "", "q",
			node("Constant", "", "q", graph.FloatAttr("value_float", 1)))}, nil, of("f", node("None", "x", "y"))),
		`"lost", which nothing defines`: whole(nil, []*graph.Tensor{yes("c", 1)},
			choice(t, "c", "y", body("q", node("Neg", "lost", "q")), body("x"))),
	} {
		_, err := resolved(m)
		must.Fail(t, err, want)
	}
}

// FuzzResolve: no file's functions, attributes and branches make a panic, and what is accepted has none left.
func FuzzResolve(f *testing.F) {
	for _, m := range resolvable(f) {
		data := must.Get(codec.Marshal(m))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := codec.Read(data, "")
		if err != nil {
			return
		}
		got, err := resolved(m)
		if err != nil {
			return
		}
		if err := got.Graph.Check(); err != nil && got != m {
			t.Error(err)
		}
		if slices.ContainsFunc(got.Graph.Nodes, (*graph.Node).HasGraphs) {
			t.Error("a subgraph is left")
		}
	})
}

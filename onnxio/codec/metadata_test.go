package codec

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

func TestStripMetadata(t *testing.T) {
	entry := func(field protowire.Number, key, value string) []byte {
		var e []byte
		e = protowire.AppendString(protowire.AppendTag(e, 2, protowire.BytesType), value)
		e = protowire.AppendString(protowire.AppendTag(e, 1, protowire.BytesType), key)
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), e)
	}
	overload := protowire.AppendString(protowire.AppendTag(nil, 8, protowire.BytesType), "o")
	node := &graph.Node{
		Op: "Relu", Inputs: []string{"x"}, Outputs: []string{"y"}, Doc: "File \"/home/me/train.py\"",
		Extra: slices.Concat(overload, entry(9, "stack_trace", "/home/me/train.py:3")),
	}
	m := &graph.Model{
		IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Doc: "made in a lab",
		Metadata: []graph.Meta{{Key: "k", Value: "v"}},
		Graph: &graph.Graph{
			Nodes: []*graph.Node{node}, Extra: entry(16, "scope", "/home/me"),
			Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Extra: entry(4, "note", "/home/me")}},
			Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
		},
	}
	before := must.Get(Marshal(m))(t)
	c := m.Clone()
	if keys := StripMetadata(c); !slices.Equal(keys, []string{"doc_string", "note", "scope", "stack_trace"}) {
		t.Errorf("removed %q", keys)
	}
	after := must.Get(Marshal(c))(t)
	read := must.Get(Read(after, ""))(t)
	if v, ok := read.Meta("k"); bytes.Contains(after, []byte("home")) || !ok || v != "v" {
		t.Errorf("left: %q", after)
	}
	if got := read.Graph.Nodes[0].Extra; !bytes.Equal(got, overload) {
		t.Errorf("the node's other fields are %q", got)
	}
	if again, err := Marshal(m); err != nil || !bytes.Equal(again, before) {
		t.Error("the model that was cloned has changed", err)
	}
}

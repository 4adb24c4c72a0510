package codec

import (
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// Field numbers of what package graph carries unread.
const (
	attributeGraph    = 6  // AttributeProto.g
	nodeOverload      = 8  // NodeProto.overload
	functionDefaults  = 11 // FunctionProto.attribute_proto
	functionOverload  = 13 // FunctionProto.overload
	graphSparseTensor = 15 // GraphProto.sparse_initializer
	tensorExternal    = 13 // TensorProto.external_data
)

// wireField is a field of a message that is not decoded.
type wireField struct {
	number protowire.Number
	raw    []byte // with its tag
	body   []byte // nil where it is a number
}

func fields(data []byte) iter.Seq[wireField] {
	return func(yield func(wireField) bool) {
		for len(data) > 0 {
			number, kind, n := protowire.ConsumeField(data)
			if n < 0 {
				return
			}
			f := wireField{number: number, raw: data[:n]}
			if kind == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(data)
				f.body, _ = protowire.ConsumeBytes(data[tag:n])
			}
			if !yield(f) {
				return
			}
			data = data[n:]
		}
	}
}

func bodies(data []byte, number protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for f := range fields(data) {
			if f.number == number && f.body != nil && !yield(f.body) {
				return
			}
		}
	}
}

// Subgraph decodes the subgraph that the attribute a carries. Its nodes may use values of the graphs around it.
func Subgraph(a *graph.Attr) (*graph.Graph, error) {
	var body []byte
	for b := range bodies(a.Extra, attributeGraph) {
		body = append(body, b...)
	}
	var p onnxpb.GraphProto
	if err := proto.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.Name, err)
	}
	d, g := modelCoder{}, &graph.Graph{}
	d.graph(g, &p)
	d.place = nil
	for _, t := range g.Inits {
		if err := t.Check(); err != nil {
			d.bad(err)
		}
	}
	if err := d.err(); err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.Name, err)
	}
	return g, nil
}

// Overload returns which of several functions of one name the node n calls: "" for that without an overload.
func Overload(n *graph.Node) string { return lastText(n.Extra, nodeOverload) }

// OverloadOf returns the overload that f is.
func OverloadOf(f *graph.Function) string { return lastText(f.Extra, functionOverload) }

func lastText(extra []byte, number protowire.Number) (s string) {
	for body := range bodies(extra, number) {
		s = string(body)
	}
	return s
}

// Defaults returns the attributes of f that a call may leave out, with their values.
func Defaults(f *graph.Function) (out []graph.Attr, err error) {
	d := modelCoder{}
	for body := range bodies(f.Extra, functionDefaults) {
		var p onnxpb.AttributeProto
		if err := proto.Unmarshal(body, &p); err != nil {
			return nil, err
		}
		var a graph.Attr
		d.attr(&a, &p)
		out = append(out, a)
	}
	return out, d.err()
}

// StripMetadata removes from m what exporters note besides the model: the metadata of nodes, values, tensors, functions
// and the graph, among them stack traces with paths of the machine that exported, and doc strings. Those of
// the model as a whole stay. It returns the keys, "doc_string" among them, ascending. What subgraphs hold stays.
func StripMetadata(m *graph.Model) (keys []string) {
	s := &stripper{} // called with the numbers of doc_string and metadata_props in onnx.proto
	s.strip(&m.Graph.Extra, 10, 16)
	for _, list := range [][]graph.Value{m.Graph.Inputs, m.Graph.Outputs, m.Graph.Values} {
		for i := range list {
			s.strip(&list[i].Extra, 3, 4)
		}
	}
	for _, t := range m.Graph.Inits {
		if t.Doc != "" {
			s.keys, t.Doc = append(s.keys, docKey), ""
		}
		s.strip(&t.Extra, none, 16)
	}
	nodes := slices.Clone(m.Graph.Nodes)
	for _, f := range m.Functions {
		s.strip(&f.Extra, 8, 14)
		nodes = append(nodes, f.Nodes...)
	}
	for _, n := range nodes {
		s.strip(&n.Extra, 6, 9)
		for i := range n.Attrs {
			s.strip(&n.Attrs[i].Extra, 13, none)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(s.keys)))
}

// MetadataSize returns how much larger the file of m is by what StripMetadata removes, and the keys of that.
func MetadataSize(m *graph.Model) (bytes int, keys []string, err error) {
	bare := m.Clone()
	if keys = StripMetadata(bare); len(keys) == 0 {
		return 0, nil, nil
	}
	whole, err := Marshal(m)
	if err != nil {
		return 0, nil, err
	}
	rest, err := Marshal(bare)
	return len(whole) - len(rest), keys, err
}

const (
	docKey = "doc_string"
	none   = 0 // no field has this number
)

type stripper struct{ keys []string }

// strip removes the entries of two fields from extra, which is replaced and not overwritten: clones share it.
func (s *stripper) strip(extra *[]byte, doc, props protowire.Number) {
	var kept []byte
	for f := range fields(*extra) {
		switch {
		case f.number == doc && f.body != nil:
			s.keys = append(s.keys, docKey)
		case f.number == props && f.body != nil:
			s.keys = append(s.keys, lastText(f.body, 1))
		default:
			kept = append(kept, f.raw...)
		}
	}
	*extra = kept
}

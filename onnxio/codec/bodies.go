package codec

import (
	"errors"
	"fmt"
	"iter"

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
)

// wireField is a field of a message that is not decoded.
type wireField struct {
	number protowire.Number
	raw    []byte // with its tag
	body   []byte // nil where it is a number
}

// fields lists the fields of a message, up to what is malformed.
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

// bodies lists the contents of the fields of that number.
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
	if modelParts()[7].count(body) > maxMessages {
		return nil, fmt.Errorf("attribute %q: more than %d nodes, attributes and tensors", a.Name, maxMessages)
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
	for range bodies(g.Extra, graphSparseTensor) {
		d.bad(errors.New("sparse initializers are not read"))
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

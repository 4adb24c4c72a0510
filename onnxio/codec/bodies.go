package codec

import (
	"errors"
	"fmt"

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

func each(data []byte, number protowire.Number, f func(body []byte)) error {
	for len(data) > 0 {
		field, typ, n := protowire.ConsumeField(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if field == number && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(data)
			body, _ := protowire.ConsumeBytes(data[tag:n])
			f(body)
		}
		data = data[n:]
	}
	return nil
}

// Subgraph decodes the subgraph that the attribute a carries. Its nodes may use values of the graphs around it.
func Subgraph(a *graph.Attr) (*graph.Graph, error) {
	var body []byte
	if err := each(a.Extra, attributeGraph, func(b []byte) { body = append(body, b...) }); err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.Name, err)
	}
	if modelParts()[7].count(body) > maxMessages {
		return nil, fmt.Errorf("attribute %q: more than %d nodes, attributes and tensors", a.Name, maxMessages)
	}
	var p onnxpb.GraphProto
	if err := proto.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.Name, err)
	}
	d := modelDecoder{}
	g := d.graph(&p)
	d.place = nil
	for _, t := range g.Inits {
		if err := t.Check(); err != nil {
			d.bad(err)
		}
	}
	sparse := func([]byte) { d.bad(errors.New("sparse initializers are not read")) }
	if err := each(g.Extra, graphSparseTensor, sparse); err != nil {
		d.bad(err)
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

func lastText(extra []byte, number protowire.Number) string {
	var s string
	if each(extra, number, func(body []byte) { s = string(body) }) != nil {
		return ""
	}
	return s
}

// Defaults returns the attributes of f that a call may leave out, with their values.
func Defaults(f *graph.Function) ([]graph.Attr, error) {
	d := modelDecoder{}
	var out []graph.Attr
	err := each(f.Extra, functionDefaults, func(body []byte) {
		var p onnxpb.AttributeProto
		if err := proto.Unmarshal(body, &p); err != nil {
			d.bad(err)
			return
		}
		out = append(out, d.attr(&p))
	})
	return out, errors.Join(err, d.err())
}

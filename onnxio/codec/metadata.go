package codec

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"cfq/onnxio/graph"
)

// metadata_props of the messages that have one besides ModelProto, see onnx.proto.
const (
	nodeMetadata     = 9
	valueMetadata    = 4
	graphMetadata    = 16
	tensorMetadata   = 16
	functionMetadata = 14
)

// StripMetadata removes from m what exporters note besides the model: the metadata of nodes, values, tensors, functions
// and the graph, among them stack traces with paths of the machine that exported, and doc strings. Those of
// the model as a whole stay. It returns the keys, "doc_string" among them, ascending. What subgraphs hold stays.
func StripMetadata(m *graph.Model) (keys []string) {
	s := &stripper{}
	s.doc(&m.Graph.Doc)
	s.props(&m.Graph.Extra, graphMetadata)
	for _, list := range [][]graph.Value{m.Graph.Inputs, m.Graph.Outputs, m.Graph.Values} {
		for i := range list {
			s.doc(&list[i].Doc)
			s.props(&list[i].Extra, valueMetadata)
		}
	}
	for _, t := range m.Graph.Inits {
		s.doc(&t.Doc)
		s.props(&t.Extra, tensorMetadata)
	}
	s.nodes(m.Graph.Nodes)
	for _, f := range m.Functions {
		s.doc(&f.Doc)
		s.props(&f.Extra, functionMetadata)
		s.nodes(f.Nodes)
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

type stripper struct{ keys []string }

func (s *stripper) nodes(nodes []*graph.Node) {
	for _, n := range nodes {
		s.doc(&n.Doc)
		s.props(&n.Extra, nodeMetadata)
		for i := range n.Attrs {
			s.doc(&n.Attrs[i].Doc)
		}
	}
}

func (s *stripper) doc(text *string) {
	if *text != "" {
		s.keys = append(s.keys, "doc_string")
		*text = ""
	}
}

// props removes the entries of field from extra, which is replaced and not overwritten: clones share it.
func (s *stripper) props(extra *[]byte, field protowire.Number) {
	var kept []byte
	for f := range fields(*extra) {
		if f.number != field || f.body == nil {
			kept = append(kept, f.raw...)
			continue
		}
		s.keys = append(s.keys, lastText(f.body, 1))
	}
	*extra = kept
}

package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// encoder turns a graph.Model into messages. Every message starts as what its
// Extra holds; the named fields are set on top.
type encoder struct{ err error }

func (e *encoder) start(p proto.Message, extra []byte, format string, a ...any) {
	if len(extra) == 0 || e.err != nil {
		return
	}
	if err := proto.Unmarshal(extra, p); err != nil {
		e.err = fmt.Errorf("%s: extra fields: %w", fmt.Sprintf(format, a...), err)
	}
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (e *encoder) model(m *graph.Model) *onnxpb.ModelProto {
	p := &onnxpb.ModelProto{}
	e.start(p, m.Extra, "model")
	p.IrVersion = proto.Int64(m.IRVersion)
	p.ProducerName, p.ProducerVersion = text(m.ProducerName), text(m.ProducerVersion)
	p.Domain, p.DocString = text(m.Domain), text(m.Doc)
	if m.ModelVersion != 0 {
		p.ModelVersion = proto.Int64(m.ModelVersion)
	}
	p.OpsetImport = encodeOpsets(m.Opsets)
	for _, e := range m.Metadata {
		p.MetadataProps = append(p.MetadataProps, &onnxpb.StringStringEntryProto{
			Key:   proto.String(e.Key),
			Value: proto.String(e.Value),
		})
	}
	for _, f := range m.Functions {
		p.Functions = append(p.Functions, e.function(f))
	}
	p.Graph = e.graph(m.Graph)
	return p
}

func encodeOpsets(os []graph.Opset) []*onnxpb.OperatorSetIdProto {
	var out []*onnxpb.OperatorSetIdProto
	for _, o := range os {
		out = append(out, &onnxpb.OperatorSetIdProto{Domain: text(o.Domain), Version: proto.Int64(o.Version)})
	}
	return out
}

func (e *encoder) graph(g *graph.Graph) *onnxpb.GraphProto {
	p := &onnxpb.GraphProto{}
	e.start(p, g.Extra, "graph")
	p.Name, p.DocString = text(g.Name), text(g.Doc)
	p.Input, p.Output, p.ValueInfo = e.values(g.Inputs), e.values(g.Outputs), e.values(g.Values)
	for _, t := range g.Inits {
		p.Initializer = append(p.Initializer, e.tensor(t))
	}
	p.Node = e.nodes(g.Nodes)
	return p
}

func (e *encoder) function(f *graph.Function) *onnxpb.FunctionProto {
	p := &onnxpb.FunctionProto{}
	e.start(p, f.Extra, "function %q", f.Name)
	p.Name, p.Domain, p.DocString = text(f.Name), text(f.Domain), text(f.Doc)
	p.Input, p.Output, p.Attribute = f.Inputs, f.Outputs, f.Attrs
	p.OpsetImport = encodeOpsets(f.Opsets)
	p.Node = e.nodes(f.Nodes)
	return p
}

func (e *encoder) nodes(nodes []*graph.Node) []*onnxpb.NodeProto {
	var out []*onnxpb.NodeProto
	for _, n := range nodes {
		p := &onnxpb.NodeProto{}
		e.start(p, n.Extra, "%s", n.Label())
		p.Name, p.OpType, p.Domain, p.DocString = text(n.Name), text(n.Op), text(n.Domain), text(n.Doc)
		p.Input, p.Output = n.Inputs, n.Outputs
		for i := range n.Attrs {
			p.Attribute = append(p.Attribute, e.attr(n, &n.Attrs[i]))
		}
		out = append(out, p)
	}
	return out
}

func (e *encoder) attr(n *graph.Node, a *graph.Attr) *onnxpb.AttributeProto {
	p := &onnxpb.AttributeProto{}
	e.start(p, a.Extra, "%s: attribute %q", n.Label(), a.Name)
	p.Name, p.RefAttrName, p.DocString = text(a.Name), text(a.Ref), text(a.Doc)
	if a.Kind != 0 {
		p.Type = proto.Int32(int32(a.Kind))
	}
	if a.Ref != "" {
		return p
	}
	switch a.Kind {
	case graph.AttrFloat:
		p.F = proto.Float32(a.F)
	case graph.AttrInt:
		p.I = proto.Int64(a.I)
	case graph.AttrString:
		p.S = append([]byte{}, a.S...) // there even when empty
	case graph.AttrTensor:
		p.T = e.tensor(a.T)
	case graph.AttrFloats:
		p.Floats = a.Floats
	case graph.AttrInts:
		p.Ints = a.Ints
	case graph.AttrStrings:
		p.Strings = a.Strings
	}
	return p
}

func (e *encoder) tensor(t *graph.Tensor) *onnxpb.TensorProto {
	p := &onnxpb.TensorProto{}
	e.start(p, t.Extra, "tensor %q", t.Name)
	p.Name, p.DocString = text(t.Name), text(t.Doc)
	p.Dims, p.DataType = t.Dims, proto.Int32(int32(t.DType))
	p.RawData, p.StringData = t.Raw, t.Strings
	return p
}

func (e *encoder) values(vs []graph.Value) []*onnxpb.ValueInfoProto {
	var out []*onnxpb.ValueInfoProto
	for _, v := range vs {
		p := &onnxpb.ValueInfoProto{}
		e.start(p, v.Extra, "value %q", v.Name)
		p.Name, p.DocString = text(v.Name), text(v.Doc)
		if v.DType != graph.Undefined || v.Shape != nil {
			encodeType(p, v)
		}
		out = append(out, p)
	}
	return out
}

// encodeType sets the tensor type of v in p, whose dimensions may hold denotations already.
func encodeType(p *onnxpb.ValueInfoProto, v graph.Value) {
	if p.Type == nil {
		p.Type = &onnxpb.TypeProto{}
	}
	if p.Type.TensorType == nil {
		p.Type.TensorType = &onnxpb.TypeProto_Tensor{}
	}
	t := p.Type.TensorType
	t.ElemType = proto.Int32(int32(v.DType))
	if v.Shape == nil {
		t.Shape = nil
		return
	}
	if t.Shape == nil || len(t.Shape.Dim) != len(v.Shape) {
		t.Shape = &onnxpb.TensorShapeProto{}
		for range v.Shape {
			t.Shape.Dim = append(t.Shape.Dim, &onnxpb.TensorShapeProto_Dimension{})
		}
	}
	for i, d := range v.Shape {
		if d.Size >= 0 {
			t.Shape.Dim[i].DimValue = proto.Int64(d.Size)
		} else {
			t.Shape.Dim[i].DimParam = text(d.Param)
		}
	}
}

// Marshal encodes m with all tensors inline. The same model gives the same bytes.
func Marshal(m *graph.Model) ([]byte, error) {
	var e encoder
	p := e.model(m)
	if e.err != nil {
		return nil, fmt.Errorf("encode model: %w", e.err)
	}
	if n := proto.Size(p); n > maxSize {
		return nil, fmt.Errorf("encode model: %d bytes are more than the 2 GB that an ONNX file can have", n)
	}
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	return b, nil
}

package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// maxErrors bounds the list of a damaged file's errors.
const maxErrors = 20

// decoder turns messages into a graph.Model and collects what is wrong with
// them. It takes the messages apart: what is left of each becomes its Extra.
type decoder struct {
	external external
	place    func() string // where the decoder is, for messages; nil when the error says so
	errs     []error
	more     int
}

func (d *decoder) bad(err error) {
	if len(d.errs) == maxErrors {
		d.more++
		return
	}
	if d.place != nil {
		err = fmt.Errorf("%s: %w", d.place(), err)
	}
	d.errs = append(d.errs, err)
}

func (d *decoder) err() error {
	if d.more > 0 {
		return errors.Join(append(d.errs, fmt.Errorf("and %d errors more", d.more))...)
	}
	return errors.Join(d.errs...)
}

// leftover encodes what is in m after its named fields were cleared.
func leftover(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // it was decoded a moment ago
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

func (d *decoder) model(p *onnxpb.ModelProto) *graph.Model {
	m := &graph.Model{
		IRVersion:       p.GetIrVersion(),
		ProducerName:    p.GetProducerName(),
		ProducerVersion: p.GetProducerVersion(),
		Domain:          p.GetDomain(),
		ModelVersion:    p.GetModelVersion(),
		Doc:             p.GetDocString(),
		Opsets:          opsets(p.OpsetImport),
	}
	for _, e := range p.MetadataProps {
		m.Metadata = append(m.Metadata, graph.Meta{Key: e.GetKey(), Value: e.GetValue()})
	}
	m.Graph = d.graph(p.Graph)
	for _, f := range p.Functions {
		m.Functions = append(m.Functions, d.function(f))
	}
	p.IrVersion, p.ProducerName, p.ProducerVersion, p.Domain, p.ModelVersion, p.DocString = nil, nil, nil, nil, nil, nil
	p.OpsetImport, p.MetadataProps, p.Graph, p.Functions = nil, nil, nil, nil
	m.Extra = leftover(p)
	return m
}

func opsets(ps []*onnxpb.OperatorSetIdProto) []graph.Opset {
	var out []graph.Opset
	for _, p := range ps {
		out = append(out, graph.Opset{Domain: p.GetDomain(), Version: p.GetVersion()})
	}
	return out
}

func (d *decoder) graph(p *onnxpb.GraphProto) *graph.Graph {
	g := &graph.Graph{
		Name:    p.GetName(),
		Doc:     p.GetDocString(),
		Inputs:  values(p.Input),
		Outputs: values(p.Output),
		Values:  values(p.ValueInfo),
	}
	for _, t := range p.Initializer {
		name := t.GetName()
		d.place = func() string { return fmt.Sprintf("initializer %q", name) }
		g.Inits = append(g.Inits, d.tensor(t))
	}
	g.Nodes = d.nodes(p.Node, "")
	p.Name, p.DocString, p.Input, p.Output, p.ValueInfo, p.Initializer, p.Node = nil, nil, nil, nil, nil, nil, nil
	g.Extra = leftover(p)
	return g
}

func (d *decoder) function(p *onnxpb.FunctionProto) *graph.Function {
	f := &graph.Function{
		Name:    p.GetName(),
		Domain:  p.GetDomain(),
		Inputs:  p.Input,
		Outputs: p.Output,
		Attrs:   p.Attribute,
		Opsets:  opsets(p.OpsetImport),
		Doc:     p.GetDocString(),
	}
	f.Nodes = d.nodes(p.Node, fmt.Sprintf("function %q: ", f.Name))
	p.Name, p.Domain, p.Input, p.Output, p.Attribute = nil, nil, nil, nil, nil
	p.OpsetImport, p.DocString, p.Node = nil, nil, nil
	f.Extra = leftover(p)
	return f
}

func (d *decoder) nodes(ps []*onnxpb.NodeProto, place string) []*graph.Node {
	var out []*graph.Node
	for _, p := range ps {
		n := &graph.Node{
			Name:    p.GetName(),
			Op:      p.GetOpType(),
			Domain:  p.GetDomain(),
			Inputs:  p.Input,
			Outputs: p.Output,
			Doc:     p.GetDocString(),
		}
		d.place = func() string { return place + n.Label() }
		if n.Op == "" {
			d.bad(errors.New("has no operator"))
		}
		for _, a := range p.Attribute {
			name := a.GetName()
			d.place = func() string { return fmt.Sprintf("%s%s: attribute %q", place, n.Label(), name) }
			n.Attrs = append(n.Attrs, d.attr(a))
		}
		p.Name, p.OpType, p.Domain, p.Input, p.Output, p.DocString, p.Attribute = nil, nil, nil, nil, nil, nil, nil
		n.Extra = leftover(p)
		out = append(out, n)
	}
	return out
}

func (d *decoder) attr(p *onnxpb.AttributeProto) graph.Attr {
	a := graph.Attr{Name: p.GetName(), Kind: kind(p), Ref: p.GetRefAttrName(), Doc: p.GetDocString()}
	p.Name, p.Type, p.RefAttrName, p.DocString = nil, nil, nil, nil
	if a.Ref != "" { // the value comes from the caller of the function
		a.Extra = leftover(p)
		return a
	}
	switch a.Kind {
	case graph.AttrFloat:
		a.F, p.F = p.GetF(), nil
	case graph.AttrInt:
		a.I, p.I = p.GetI(), nil
	case graph.AttrString:
		a.S, p.S = append([]byte{}, p.S...), nil // some writers leave out what is empty
	case graph.AttrTensor:
		if p.T == nil {
			d.bad(errors.New("has no tensor"))
			break
		}
		a.T, p.T = d.tensor(p.T), nil
		if err := a.T.Check(); err != nil {
			d.bad(fmt.Errorf("tensor %w", err))
		}
	case graph.AttrFloats:
		a.Floats, p.Floats = p.Floats, nil
	case graph.AttrInts:
		a.Ints, p.Ints = p.Ints, nil
	case graph.AttrStrings:
		a.Strings, p.Strings = p.Strings, nil
	}
	a.Extra = leftover(p)
	return a
}

// kind is the attribute's stated type or, in files of the first IR version,
// which state none, the type of the field that is set.
func kind(p *onnxpb.AttributeProto) graph.AttrKind {
	switch {
	case p.GetType() != 0 || p.GetRefAttrName() != "":
		return graph.AttrKind(p.GetType())
	case p.F != nil:
		return graph.AttrFloat
	case p.I != nil:
		return graph.AttrInt
	case p.S != nil:
		return graph.AttrString
	case p.T != nil:
		return graph.AttrTensor
	case len(p.Floats) > 0:
		return graph.AttrFloats
	case len(p.Ints) > 0:
		return graph.AttrInts
	case len(p.Strings) > 0:
		return graph.AttrStrings
	}
	return 0
}

func values(ps []*onnxpb.ValueInfoProto) []graph.Value {
	var out []graph.Value
	for _, p := range ps {
		v := graph.Value{Name: p.GetName(), Doc: p.GetDocString()}
		if t := p.GetType().GetTensorType(); t != nil {
			v.DType = graph.DType(t.GetElemType())
			t.ElemType = nil
			v.Shape = shape(t)
		}
		p.Name, p.DocString = nil, nil
		prune(p)
		v.Extra = leftover(p)
		out = append(out, v)
	}
	return out
}

// shape takes the sizes out of t's dimensions. Negative sizes, which some
// exporters write, are unknown sizes.
func shape(t *onnxpb.TypeProto_Tensor) graph.Shape {
	if t.Shape == nil {
		return nil
	}
	s := make(graph.Shape, len(t.Shape.Dim))
	for i, dim := range t.Shape.Dim {
		s[i] = graph.Dim{Size: -1, Param: dim.GetDimParam()}
		if dim.DimValue != nil && dim.GetDimValue() >= 0 {
			s[i] = graph.Dim{Size: dim.GetDimValue()}
		}
		dim.DimValue, dim.DimParam = nil, nil
	}
	return s
}

// prune removes the parts of p's type that are empty now. Dimensions stay as
// long as one of them holds something (a denotation), to keep their order.
func prune(p *onnxpb.ValueInfoProto) {
	t := p.GetType().GetTensorType()
	if t != nil && proto.Size(t.Shape) == 2*len(t.GetShape().GetDim()) { // an empty dimension takes two bytes
		t.Shape = nil
	}
	if t != nil && proto.Size(t) == 0 {
		p.Type.TensorType = nil
	}
	if p.Type != nil && proto.Size(p.Type) == 0 {
		p.Type = nil
	}
}

// external is TensorProto.DataLocation.EXTERNAL.
const externalLocation = 1

// tensor turns p into a tensor whose elements are in Raw (or Strings), wherever
// p has them. Typed data of an element type that package graph does not know
// stays in Extra.
func (d *decoder) tensor(p *onnxpb.TensorProto) *graph.Tensor {
	t := &graph.Tensor{Name: p.GetName(), DType: graph.DType(p.GetDataType()), Dims: p.Dims, Doc: p.GetDocString()}
	if err := d.contents(t, p); err != nil {
		d.bad(err)
		t.Raw, t.Dims = nil, []int64{0} // one mistake is one error: without elements, t has nothing else to object to
	}
	p.Name, p.DataType, p.Dims, p.DocString, p.RawData = nil, nil, nil, nil, nil
	t.Extra = leftover(p)
	return t
}

func (d *decoder) contents(t *graph.Tensor, p *onnxpb.TensorProto) error {
	lists := 0
	for _, n := range []int{
		len(p.FloatData), len(p.Int32Data), len(p.Int64Data), len(p.DoubleData), len(p.Uint64Data), len(p.StringData),
	} {
		lists += min(n, 1)
	}
	isExternal := p.GetDataLocation() == externalLocation
	switch {
	case lists > 1 || lists == 1 && (len(p.RawData) > 0 || isExternal) || isExternal && len(p.RawData) > 0:
		return errors.New("has its elements in more than one place")
	case isExternal:
		raw, err := d.external.read(t, p.ExternalData)
		t.Raw, p.ExternalData, p.DataLocation = raw, nil, nil
		return err
	case t.DType == graph.String:
		if len(p.RawData) > 0 || lists == 1 && len(p.StringData) == 0 {
			return errors.New("is a string tensor without string data")
		}
		t.Strings, p.StringData, p.RawData = p.StringData, nil, nil
		return nil
	case p.RawData != nil || t.DType.Bits() == 0:
		t.Raw = p.RawData
		return nil
	}
	return typed(t, p, lists)
}

// typed fills t.Raw from the field of p that the standard prescribes for t's type.
func typed(t *graph.Tensor, p *onnxpb.TensorProto, lists int) (err error) {
	switch t.DType {
	case graph.Float:
		t.Raw, p.FloatData = encoded(p.FloatData), nil
	case graph.Double:
		t.Raw, p.DoubleData = encoded(p.DoubleData), nil
	case graph.Int64:
		t.Raw, p.Int64Data = encoded(p.Int64Data), nil
	case graph.Uint64:
		t.Raw, p.Uint64Data = encoded(p.Uint64Data), nil
	case graph.Uint32:
		t.Raw, err = narrow[uint32](t.DType, p.Uint64Data, 0, math.MaxUint32)
		p.Uint64Data = nil
	case graph.Int32:
		t.Raw, p.Int32Data = encoded(p.Int32Data), nil
	case graph.Int16:
		t.Raw, err = narrow[int16](t.DType, p.Int32Data, math.MinInt16, math.MaxInt16)
		p.Int32Data = nil
	case graph.Int8:
		t.Raw, err = narrow[int8](t.DType, p.Int32Data, math.MinInt8, math.MaxInt8)
		p.Int32Data = nil
	case graph.Uint16, graph.Float16, graph.BFloat16: // 16-bit floats are there as their bits
		t.Raw, err = narrow[uint16](t.DType, p.Int32Data, 0, math.MaxUint16)
		p.Int32Data = nil
	case graph.Bool:
		t.Raw, err = narrow[uint8](t.DType, p.Int32Data, 0, 1)
		p.Int32Data = nil
	default: // also types below a byte, which are there as packed bytes
		t.Raw, err = narrow[uint8](t.DType, p.Int32Data, 0, math.MaxUint8)
		p.Int32Data = nil
	}
	if err == nil && lists == 1 && len(t.Raw) == 0 {
		err = fmt.Errorf("is of type %s but has its elements in a field for another type", t.DType)
	}
	return err
}

// encoded is what raw_data holds of the elements.
func encoded[T any](v []T) []byte {
	raw, err := binary.Append([]byte{}, binary.LittleEndian, v)
	if err != nil {
		panic(err) // a slice of numbers has a size
	}
	return raw
}

// narrow encodes as T the elements of a type that has a field of a wider one.
func narrow[T uint32 | int16 | uint16 | int8 | uint8, W int32 | uint64](
	t graph.DType, v []W, lo, hi W,
) ([]byte, error) {
	out := make([]T, len(v))
	for i, x := range v {
		if x < lo || x > hi {
			return nil, fmt.Errorf("element %d is %d, which is not a %s", i, x, t)
		}
		out[i] = T(x)
	}
	return encoded(out), nil
}

package codec

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

const maxErrors = 20

// modelCoder walks a model and its messages side by side, in one of two directions, and collects what is wrong. Reading
// takes every named field out of its message: what is left becomes Extra. Writing begins with the message that Extra
// holds, and sets the named fields on top.
type modelCoder struct {
	writing  bool
	external external
	function string        // before the places of its nodes
	place    func() string // where the coder is, for messages; nil when the error says so
	errs     []error
	more     int
}

func (c *modelCoder) bad(err error) {
	if len(c.errs) == maxErrors {
		c.more++
		return
	}
	if c.place != nil {
		err = fmt.Errorf("%s: %w", c.place(), err)
	}
	c.errs = append(c.errs, err)
}

func (c *modelCoder) err() error {
	if c.more > 0 {
		return errors.Join(append(c.errs, fmt.Errorf("and %d errors more", c.more))...)
	}
	return errors.Join(c.errs...)
}

// message walks the named fields of p; extra holds the others.
func (c *modelCoder) message(p proto.Message, extra *[]byte, fields func()) {
	if c.writing && len(*extra) > 0 {
		if err := proto.Unmarshal(*extra, p); err != nil {
			c.bad(fmt.Errorf("extra fields: %w", err))
		}
	}
	if fields(); c.writing {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		panic(err) // it was decoded a moment ago
	}
	if *extra = b; len(b) == 0 {
		*extra = nil
	}
}

func required[T any](c *modelCoder, v *T, p **T) {
	if c.writing {
		*p = v
		return
	}
	if *p != nil {
		*v = **p
	}
	*p = nil
}

// optional is a field that is left out where it has no value.
func optional[T comparable](c *modelCoder, v *T, p **T) {
	var none T
	if required(c, v, p); *v == none {
		*p = nil
	}
}

func list[T any](c *modelCoder, v, p *[]T) {
	if c.writing {
		*p = *v
	} else {
		*v, *p = *p, nil
	}
}

func messages[T, P any](c *modelCoder, v *[]T, p *[]*P, each func(*T, *P)) {
	if c.writing {
		*p = make([]*P, len(*v))
		for i := range *v {
			(*p)[i] = new(P)
			each(&(*v)[i], (*p)[i])
		}
		return
	}
	for _, m := range *p {
		var x T
		each(&x, m)
		*v = append(*v, x)
	}
	*p = nil
}

func pointers[T, P any](c *modelCoder, v *[]*T, p *[]*P, each func(*T, *P)) {
	messages(c, v, p, func(x **T, m *P) {
		if *x == nil {
			*x = new(T)
		}
		each(*x, m)
	})
}

func (c *modelCoder) model(m *graph.Model, p *onnxpb.ModelProto) {
	c.message(p, &m.Extra, func() {
		required(c, &m.IRVersion, &p.IrVersion)
		optional(c, &m.ProducerName, &p.ProducerName)
		optional(c, &m.ProducerVersion, &p.ProducerVersion)
		optional(c, &m.Doc, &p.DocString)
		messages(c, &m.Opsets, &p.OpsetImport, c.opset)
		messages(c, &m.Metadata, &p.MetadataProps, func(e *graph.Meta, p *onnxpb.StringStringEntryProto) {
			required(c, &e.Key, &p.Key)
			required(c, &e.Value, &p.Value)
		})
		if !c.writing {
			m.Graph = &graph.Graph{}
		} else if p.Graph == nil {
			p.Graph = &onnxpb.GraphProto{}
		}
		c.graph(m.Graph, p.Graph)
		pointers(c, &m.Functions, &p.Functions, func(f *graph.Function, p *onnxpb.FunctionProto) {
			c.place = func() string { return fmt.Sprintf("function %q", f.Name) }
			c.message(p, &f.Extra, func() {
				optional(c, &f.Name, &p.Name)
				optional(c, &f.Domain, &p.Domain)
				list(c, &f.Inputs, &p.Input)
				list(c, &f.Outputs, &p.Output)
				list(c, &f.Attrs, &p.Attribute)
				messages(c, &f.Opsets, &p.OpsetImport, c.opset)
				c.function = fmt.Sprintf("function %q: ", f.Name)
				pointers(c, &f.Nodes, &p.Node, c.node)
				c.function = ""
			})
		})
		if !c.writing {
			p.Graph = nil
		}
	})
}

func (c *modelCoder) opset(o *graph.Opset, p *onnxpb.OperatorSetIdProto) {
	optional(c, &o.Domain, &p.Domain)
	required(c, &o.Version, &p.Version)
}

func (c *modelCoder) graph(g *graph.Graph, p *onnxpb.GraphProto) {
	c.place = func() string { return "graph" }
	c.message(p, &g.Extra, func() {
		optional(c, &g.Name, &p.Name)
		messages(c, &g.Inputs, &p.Input, c.value)
		messages(c, &g.Outputs, &p.Output, c.value)
		messages(c, &g.Values, &p.ValueInfo, c.value)
		pointers(c, &g.Inits, &p.Initializer, func(t *graph.Tensor, p *onnxpb.TensorProto) {
			c.place = func() string { return fmt.Sprintf("initializer %q", t.Name) }
			c.tensor(t, p)
		})
		pointers(c, &g.Nodes, &p.Node, c.node)
	})
	if !c.writing {
		c.place = nil
		for sparse := range bodies(g.Extra, graphSparseTensor) {
			var values onnxpb.TensorProto
			for part := range bodies(sparse, 1) {
				if proto.Unmarshal(part, &values) != nil {
					values.Name = nil
				}
			}
			c.bad(fmt.Errorf("initializer %q is sparse: export the model with dense weights", values.GetName()))
		}
	}
}

func (c *modelCoder) node(n *graph.Node, p *onnxpb.NodeProto) {
	function := c.function
	c.place = func() string { return function + n.Label() }
	c.message(p, &n.Extra, func() {
		optional(c, &n.Name, &p.Name)
		optional(c, &n.Op, &p.OpType)
		optional(c, &n.Domain, &p.Domain)
		list(c, &n.Inputs, &p.Input)
		list(c, &n.Outputs, &p.Output)
		if n.Op == "" && !c.writing {
			c.bad(errors.New("has no operator"))
		}
		messages(c, &n.Attrs, &p.Attribute, c.attr)
	})
}

func (c *modelCoder) attr(a *graph.Attr, p *onnxpb.AttributeProto) {
	outer := c.place
	defer func() { c.place = outer }()
	c.place = func() string {
		place := fmt.Sprintf("attribute %q", a.Name)
		if outer != nil {
			place = outer() + ": " + place
		}
		return place
	}
	c.message(p, &a.Extra, func() {
		if !c.writing {
			a.Kind = kind(p)
		}
		stated := int32(a.Kind)
		optional(c, &stated, &p.Type)
		optional(c, &a.Name, &p.Name)
		optional(c, &a.Ref, &p.RefAttrName)
		if a.Ref == "" { // otherwise the value comes from the caller of the function
			c.attrValue(a, p)
		}
	})
}

func (c *modelCoder) attrValue(a *graph.Attr, p *onnxpb.AttributeProto) {
	switch a.Kind {
	case graph.AttrFloat:
		required(c, &a.F, &p.F)
	case graph.AttrInt:
		required(c, &a.I, &p.I)
	case graph.AttrString: // there even when empty, which some writers leave out
		list(c, &a.S, &p.S)
		if c.writing {
			p.S = append([]byte{}, a.S...)
		} else {
			a.S = append([]byte{}, a.S...)
		}
	case graph.AttrTensor:
		switch {
		case c.writing:
			p.T = &onnxpb.TensorProto{}
			c.tensor(a.T, p.T)
		case p.T == nil:
			c.bad(errors.New("has no tensor"))
		default:
			a.T = &graph.Tensor{}
			c.tensor(a.T, p.T)
			p.T = nil
			if err := a.T.Check(); err != nil {
				c.bad(fmt.Errorf("tensor %w", err))
			}
		}
	case graph.AttrFloats:
		list(c, &a.Floats, &p.Floats)
	case graph.AttrInts:
		list(c, &a.Ints, &p.Ints)
	case graph.AttrStrings:
		list(c, &a.Strings, &p.Strings)
	}
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

// tensor has its elements in Raw (or Strings), wherever p has them. Typed data of an element type that package graph
// does not know stays in Extra.
func (c *modelCoder) tensor(t *graph.Tensor, p *onnxpb.TensorProto) {
	c.message(p, &t.Extra, func() {
		dtype := int32(t.DType)
		required(c, &dtype, &p.DataType)
		t.DType = graph.DType(dtype)
		optional(c, &t.Name, &p.Name)
		optional(c, &t.Doc, &p.DocString)
		list(c, &t.Dims, &p.Dims)
		if c.writing {
			p.RawData, p.StringData = t.Raw, t.Strings
			return
		}
		if err := c.contents(t, p); err != nil {
			if !errors.Is(err, errReported) {
				c.bad(err)
			}
			t.Raw, t.Dims = nil, []int64{0} // one mistake is one error: without elements, t has nothing else to object to
		}
		p.RawData = nil
	})
}

func (c *modelCoder) value(v *graph.Value, p *onnxpb.ValueInfoProto) {
	c.place = func() string { return fmt.Sprintf("value %q", v.Name) }
	c.message(p, &v.Extra, func() {
		optional(c, &v.Name, &p.Name)
		switch t := p.GetType().GetTensorType(); {
		case !c.writing:
			if t != nil {
				v.DType, v.Shape = graph.DType(t.GetElemType()), shape(t)
				t.ElemType = nil
			}
			prune(p)
		case v.DType != graph.Undefined || v.Shape != nil:
			encodeType(p, v)
		}
	})
}

// encodeType sets the tensor type of v in p, whose dimensions may hold denotations already.
func encodeType(p *onnxpb.ValueInfoProto, v *graph.Value) {
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
		} else if d.Param != "" {
			t.Shape.Dim[i].DimParam = proto.String(d.Param)
		}
	}
}

// Marshal encodes m with all tensors inline. The same model gives the same bytes.
func Marshal(m *graph.Model) ([]byte, error) {
	p, c := &onnxpb.ModelProto{}, modelCoder{writing: true}
	if c.model(m, p); c.errs != nil {
		return nil, fmt.Errorf("encode model: %w", c.errs[0])
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

// Fingerprint is the SHA-256 of a model with all tensors inline.
func Fingerprint(m *graph.Model) (string, error) {
	b, err := Marshal(m)
	return fmt.Sprintf("%x", sha256.Sum256(b)), err
}

package graph

import "slices"

// Node applies an operator. An empty input or output name is an absent optional.
type Node struct {
	Name    string
	Op      string
	Domain  string
	Inputs  []string
	Outputs []string
	Attrs   []Attr
	Extra   []byte
}

// AttrKind is AttributeProto.AttributeType; values are the standard's.
type AttrKind int32

// The attribute kinds that this package interprets, and those of subgraphs. Any
// other kind (sparse tensors, types) is, like a subgraph, carried unread in Attr.Extra.
const (
	AttrFloat   AttrKind = 1
	AttrInt     AttrKind = 2
	AttrString  AttrKind = 3
	AttrTensor  AttrKind = 4
	AttrGraph   AttrKind = 5
	AttrFloats  AttrKind = 6
	AttrInts    AttrKind = 7
	AttrStrings AttrKind = 8
	AttrGraphs  AttrKind = 10
)

// Attr is a node attribute; Kind says which of the value fields holds it.
type Attr struct {
	Name    string
	Kind    AttrKind
	F       float32
	I       int64
	S       []byte
	T       *Tensor
	Floats  []float32
	Ints    []int64
	Strings [][]byte
	Ref     string // ref_attr_name: inside a function, the attribute it stands for
	Extra   []byte
}

// Is reports whether n applies the operator op of the standard domain, which is written "" or "ai.onnx".
func (n *Node) Is(op string) bool { return n.Op == op && n.Standard() }

// Standard reports whether n's operator is of the standard domain.
func (n *Node) Standard() bool { return n.Domain == "" || n.Domain == "ai.onnx" }

// PlainGemm reports whether n is a Gemm that computes A B^T + C.
func (n *Node) PlainGemm() bool {
	return n.Is("Gemm") && n.Float("alpha", 1) == 1 && n.Float("beta", 1) == 1 && n.Int("transA", 0) == 0 &&
		n.Int("transB", 0) == 1
}

// HasGraphs reports whether n carries subgraphs, as If, Loop and Scan do: it then
// uses values that its inputs do not list.
func (n *Node) HasGraphs() bool {
	return slices.ContainsFunc(n.Attrs, func(a Attr) bool { return a.Kind == AttrGraph || a.Kind == AttrGraphs })
}

// Constant returns the value of a Constant node that holds numbers or texts in any of the forms of the standard: value,
// value_float, value_floats, value_int, value_ints, value_strings. It is nil for other nodes, other constants (a single
// text, sparse tensors), and where the attribute stands for one of a function. The tensor is the caller's to rename;
// its Raw is shared with the node.
func (n *Node) Constant() *Tensor {
	if !n.Is("Constant") || len(n.Outputs) == 0 {
		return nil
	}
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if a.Ref != "" {
			continue
		}
		switch a.Name {
		case "value":
			if a.T == nil {
				return nil
			}
			t := *a.T
			return &t
		case "value_float":
			return FromFloats("", []float32{a.F})
		case "value_floats":
			return FromFloats("", a.Floats, int64(len(a.Floats)))
		case "value_int":
			return FromInts("", []int64{a.I})
		case "value_ints":
			return FromInts("", a.Ints, int64(len(a.Ints)))
		case "value_strings":
			return &Tensor{DType: String, Dims: []int64{int64(len(a.Strings))}, Strings: a.Strings}
		}
	}
	return nil
}

// Attr returns the attribute called name, or nil.
func (n *Node) Attr(name string) *Attr {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

func attribute[T any](n *Node, name string, def T, of func(*Attr) T) T {
	if a := n.Attr(name); a != nil {
		return of(a)
	}
	return def
}

// Int returns the integer attribute called name, or def.
func (n *Node) Int(name string, def int64) int64 {
	return attribute(n, name, def, func(a *Attr) int64 { return a.I })
}

// Float returns the float attribute called name, or def.
func (n *Node) Float(name string, def float32) float32 {
	return attribute(n, name, def, func(a *Attr) float32 { return a.F })
}

// Text returns the text attribute called name, or def.
func (n *Node) Text(name, def string) string {
	return attribute(n, name, def, func(a *Attr) string { return string(a.S) })
}

// Ints returns the integer-list attribute called name, or nil.
func (n *Node) Ints(name string) []int64 {
	return attribute(n, name, nil, func(a *Attr) []int64 { return a.Ints })
}

// Floats returns the float-list attribute called name, or nil.
func (n *Node) Floats(name string) []float32 {
	return attribute(n, name, nil, func(a *Attr) []float32 { return a.Floats })
}

// Input returns the i-th input, or "" when it is absent.
func (n *Node) Input(i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}

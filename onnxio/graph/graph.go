// Package graph is the in-memory form of an ONNX model: what every other
// package reads, rewrites and builds.
//
// In: nothing; package onnxio makes a Model from a file. Out: a Model that
// onnxio writes back. The invariant: everything the file held is in the Model,
// either as a named field or, for what this package has no name for, as the
// bytes in Extra; a Model that is read and written unchanged loses nothing.
//
// Names are ONNX's own, verbatim: a node's Op is "MatMul", an attribute's Name
// is "transB". Values are identified by their name, as in the file.
package graph

import "slices"

// Model is one ONNX model.
type Model struct {
	IRVersion       int64
	Opsets          []Opset
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	Metadata        []Meta
	Functions       []*Function
	Graph           *Graph
	Extra           []byte // fields of ModelProto that have no name here
}

// Opset is an operator set that a model or function imports. The domain of
// standard operators is "".
type Opset struct {
	Domain  string
	Version int64
}

// Meta is one entry of metadata_props, in file order.
type Meta struct{ Key, Value string }

// Graph is a list of nodes in topological order over named values.
type Graph struct {
	Name    string
	Doc     string
	Inputs  []Value
	Outputs []Value
	Values  []Value // types of intermediates, where the file states them
	Inits   []*Tensor
	Nodes   []*Node
	Extra   []byte
}

// Value is the declared name and type of a graph input, output or intermediate.
type Value struct {
	Name  string
	DType DType
	// Shape is nil when the rank is unknown; see Dim for unknown sizes.
	Shape Shape
	Doc   string
	// Extra keeps types that are not tensors (sequences, maps) and unknown fields.
	Extra []byte
}

// Function is a model-local function.
type Function struct {
	Name    string
	Domain  string
	Inputs  []string
	Outputs []string
	Attrs   []string
	Nodes   []*Node
	Opsets  []Opset
	Doc     string
	Extra   []byte
}

// Opset returns the version of the imported operator set of domain ("" and
// "ai.onnx" are the same), or 0 when it is not imported.
func (m *Model) Opset(domain string) int64 {
	if domain == "ai.onnx" {
		domain = ""
	}
	for _, o := range m.Opsets {
		if o.Domain == domain || (domain == "" && o.Domain == "ai.onnx") {
			return o.Version
		}
	}
	return 0
}

// SetOpset imports version of domain in place of any other.
func (m *Model) SetOpset(domain string, version int64) {
	for i, o := range m.Opsets {
		if o.Domain == domain || (domain == "" && o.Domain == "ai.onnx") {
			m.Opsets[i].Version = version
			return
		}
	}
	m.Opsets = append(m.Opsets, Opset{domain, version})
}

// SetMeta sets the metadata entry key, in place if there is one.
func (m *Model) SetMeta(key, value string) {
	for i := range m.Metadata {
		if m.Metadata[i].Key == key {
			m.Metadata[i].Value = value
			return
		}
	}
	m.Metadata = append(m.Metadata, Meta{key, value})
}

// Meta returns the metadata entry key and whether there is one.
func (m *Model) Meta(key string) (string, bool) {
	for _, e := range m.Metadata {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// Clone returns a model whose nodes, lists and tensors' headers can be changed
// without changing m. Tensor contents (Raw) and Extra bytes are shared and must
// be replaced, not overwritten.
func (m *Model) Clone() *Model {
	c := *m
	c.Opsets = slices.Clone(m.Opsets)
	c.Metadata = slices.Clone(m.Metadata)
	c.Functions = make([]*Function, len(m.Functions))
	for i, f := range m.Functions {
		g := *f
		g.Nodes = cloneNodes(f.Nodes)
		c.Functions[i] = &g
	}
	c.Graph = m.Graph.Clone()
	return &c
}

// Clone copies g as Model.Clone does.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Inputs = slices.Clone(g.Inputs)
	c.Outputs = slices.Clone(g.Outputs)
	c.Values = slices.Clone(g.Values)
	c.Nodes = cloneNodes(g.Nodes)
	c.Inits = make([]*Tensor, len(g.Inits))
	for i, t := range g.Inits {
		u := *t
		c.Inits[i] = &u
	}
	return &c
}

func cloneNodes(nodes []*Node) []*Node {
	out := make([]*Node, len(nodes))
	for i, n := range nodes {
		c := *n
		c.Inputs = slices.Clone(n.Inputs)
		c.Outputs = slices.Clone(n.Outputs)
		c.Attrs = slices.Clone(n.Attrs)
		out[i] = &c
	}
	return out
}

// Init returns the initializer called name, or nil.
func (g *Graph) Init(name string) *Tensor {
	for _, t := range g.Inits {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// InitMap returns the initializers by name: Init for many look-ups. The map does
// not follow later changes of g.
func (g *Graph) InitMap() map[string]*Tensor {
	m := make(map[string]*Tensor, len(g.Inits))
	for _, t := range slices.Backward(g.Inits) {
		m[t.Name] = t
	}
	return m
}

// DataInputs returns the inputs that a caller must feed: those that are not
// merely defaults of initializers, which files up to IR version 3 list as
// inputs too.
func (g *Graph) DataInputs() []Value {
	inits := make(map[string]bool, len(g.Inits))
	for _, t := range g.Inits {
		inits[t.Name] = true
	}
	var out []Value
	for _, v := range g.Inputs {
		if !inits[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

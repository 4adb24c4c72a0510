// Package graph is the in-memory form of an ONNX model: what every other package reads, rewrites and builds.
//
// In: nothing; package onnxio makes a Model from a file. Out: a Model that onnxio writes back. The invariant:
// everything the file held is in the Model, either as a named field or, for what this package has no name for, as the
// bytes in Extra; a Model that is read and written unchanged loses nothing.
//
// Names are ONNX's own, verbatim: a node's Op is "MatMul", an attribute's Name
// is "transB". Values are identified by their name, as in the file.
package graph

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
)

// Model is one ONNX model.
type Model struct {
	IRVersion       int64
	Opsets          []Opset
	ProducerName    string
	ProducerVersion string
	Doc             string
	Metadata        []Meta
	Functions       []*Function
	Graph           *Graph
	Extra           []byte // fields of ModelProto that have no name here
}

// Opset is an operator set that a model or function imports. The domain of standard operators is "".
type Opset struct {
	Domain  string
	Version int64
}

// Meta is one entry of metadata_props, in file order.
type Meta struct{ Key, Value string }

// Graph is a list of nodes in topological order over named values.
type Graph struct {
	Name    string
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
	Extra   []byte
}

// Opset returns the version of the imported operator set of domain ("" and
// "ai.onnx" are the same), or 0 when it is not imported.
func (m *Model) Opset(domain string) int64 {
	if i := m.opset(domain); i >= 0 {
		return m.Opsets[i].Version
	}
	return 0
}

func (m *Model) opset(domain string) int {
	return slices.IndexFunc(m.Opsets, func(o Opset) bool { return o.of(domain) })
}

func (o *Opset) of(domain string) bool {
	return strings.TrimPrefix(o.Domain, "ai.onnx") == strings.TrimPrefix(domain, "ai.onnx")
}

// SetOpset imports version of domain in place of any other, also where it is imported twice.
func (m *Model) SetOpset(domain string, version int64) {
	if m.opset(domain) < 0 {
		m.Opsets = append(m.Opsets, Opset{domain, version})
	}
	for i := range m.Opsets {
		if m.Opsets[i].of(domain) {
			m.Opsets[i].Version = version
		}
	}
}

// SetMeta sets the metadata entry key, in place if there is one.
func (m *Model) SetMeta(key, value string) {
	if i := slices.IndexFunc(m.Metadata, func(e Meta) bool { return e.Key == key }); i >= 0 {
		m.Metadata[i].Value = value
	} else {
		m.Metadata = append(m.Metadata, Meta{key, value})
	}
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

// Clone returns a model whose nodes, lists and tensors' headers can be changed without changing m. Tensor contents
// (Raw) and Extra bytes are shared and must be replaced, not overwritten.
func (m *Model) Clone() *Model {
	c := *m
	c.Opsets = slices.Clone(m.Opsets)
	c.Metadata = slices.Clone(m.Metadata)
	c.Functions = lists.Map(m.Functions, func(f *Function) *Function {
		g := *f
		g.Nodes = cloneNodes(f.Nodes)
		return &g
	})
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
	c.Inits = lists.Map(g.Inits, func(t *Tensor) *Tensor {
		u := *t
		return &u
	})
	return &c
}

func cloneNodes(nodes []*Node) []*Node {
	return lists.Map(nodes, func(n *Node) *Node {
		c := *n
		c.Inputs = slices.Clone(n.Inputs)
		c.Outputs = slices.Clone(n.Outputs)
		c.Attrs = slices.Clone(n.Attrs)
		return &c
	})
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

// InitMap returns the initializers by name: Init for many look-ups. The map does not follow later changes of g.
func (g *Graph) InitMap() map[string]*Tensor {
	m := make(map[string]*Tensor, len(g.Inits))
	for _, t := range slices.Backward(g.Inits) {
		m[t.Name] = t
	}
	return m
}

// Constants returns the initializers and what Constant nodes hold, by name. It does not follow later changes of g.
func (g *Graph) Constants() map[string]*Tensor {
	m := g.InitMap()
	for _, n := range g.Nodes {
		if t := n.Constant(); t != nil {
			m[n.Outputs[0]] = t
		}
	}
	return m
}

// IsOutput reports whether the value called name is an output of the model.
func (g *Graph) IsOutput(name string) bool {
	return slices.ContainsFunc(g.Outputs, func(v Value) bool { return v.Name == name })
}

// DataInputs returns the inputs that a caller must feed: those that are not merely defaults of initializers, which
// files up to IR version 3 list as inputs too.
func (g *Graph) DataInputs() []Value {
	inits := g.InitMap()
	return slices.DeleteFunc(slices.Clone(g.Inputs), func(v Value) bool { return inits[v.Name] != nil })
}

// Sort puts the nodes into topological order, and leaves those alone that are in it: ONNX Runtime runs files in which
// they are not. Nodes in a cycle, and those of a graph with subgraphs, whose values are used unseen, stay for Check to
// name.
func (g *Graph) Sort() {
	producers, defined := g.Producers(), map[string]bool{}
	ordered := !slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		lists.Mark(defined, n.Outputs...)
		return slices.ContainsFunc(n.Inputs, func(in string) bool { return producers[in] != nil && !defined[in] })
	})
	if ordered || slices.ContainsFunc(g.Nodes, (*Node).HasGraphs) {
		return
	}
	g.Schedule()
}

// Schedule puts nodes in the order in which they are ready, each as far ahead as what it reads allows. A graph with a
// cycle stays as it is; there must be no subgraphs.
func (g *Graph) Schedule() {
	producers, readers := g.Producers(), g.Consumers()
	missing, ready := map[*Node]int{}, make([]*Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if producers[in] != nil && !slices.Contains(n.Inputs[:i], in) {
				missing[n]++
			}
		}
		if missing[n] == 0 {
			ready = append(ready, n)
		}
	}
	for i := 0; i < len(ready); i++ {
		for _, out := range ready[i].Outputs {
			for _, n := range readers[out] {
				if missing[n]--; missing[n] == 0 {
					ready = append(ready, n)
				}
			}
		}
	}
	if len(ready) == len(g.Nodes) {
		g.Nodes = ready
	}
}

const maxErrors = 20

// Check reports every way in which g is not a graph: values defined twice, inputs that nothing defines, nodes out of
// order or in a cycle, outputs that nothing defines, tensors whose contents do not fit their shape. Errors name the
// node or tensor; after the first 20 they are only counted. The values that a subgraph captures are not looked at.
func (g *Graph) Check() error {
	var errs []error
	found := 0 // a hostile file may have millions
	bad := func(format string, a ...any) {
		if found++; found <= maxErrors {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	defined := map[string]bool{}
	for _, v := range g.Inputs {
		if defined[v.Name] {
			bad("input %q is listed twice", v.Name)
		}
		defined[v.Name] = true
	}
	inits := map[string]bool{}
	for _, t := range g.Inits {
		if inits[t.Name] {
			bad("initializer %q is defined twice", t.Name)
		}
		inits[t.Name], defined[t.Name] = true, true
		if err := t.Check(); err != nil {
			bad("initializer %w", err)
		}
	}
	producer := map[string]*Node{}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" && (producer[o] != nil || defined[o]) {
				bad("%s defines %q, which is defined already", n.Label(), o)
			}
			producer[o] = n
		}
	}
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			switch {
			case in == "" || defined[in]:
			case producer[in] != nil:
				bad("%s uses %q before %s defines it: the nodes are out of order or in a cycle", n.Label(), in,
					producer[in].Label())
			default:
				bad("%s uses %q, which nothing defines", n.Label(), in)
			}
		}
		lists.Mark(defined, n.Outputs...)
	}
	for _, v := range g.Outputs {
		if !defined[v.Name] {
			bad("graph output %q is defined by nothing", v.Name)
		}
	}
	if more := found - maxErrors; more > 0 {
		errs = append(errs, fmt.Errorf("and %d errors more", more))
	}
	return errors.Join(errs...)
}

// Check reports whether the contents of t fit its type and shape.
func (t *Tensor) Check() error {
	n := int64(1)
	for _, d := range t.Dims {
		if d < 0 {
			return fmt.Errorf("%q has the negative dimension %d", t.Name, d)
		}
		if d > 0 && n > (1<<40)/d {
			return fmt.Errorf("%q has the absurd shape %v", t.Name, t.Dims)
		}
		n *= d
	}
	if t.DType == String {
		if int64(len(t.Strings)) != n {
			return fmt.Errorf("%q has shape %v, %d strings, but holds %d", t.Name, t.Dims, n, len(t.Strings))
		}
		return nil
	}
	if bits := t.DType.Bits(); bits > 0 {
		if want := t.DType.RawSize(int(n)); want != len(t.Raw) {
			return fmt.Errorf("%q is %s%v, %d bytes, but holds %d bytes", t.Name, t.DType, t.Dims, want, len(t.Raw))
		}
	}
	return nil
}

// Label names the node in messages: its operator and its name, or its first
// output when it has no name. Very long names are cut.
func (n *Node) Label() string {
	name := n.Name
	if name == "" && len(n.Outputs) > 0 {
		name = n.Outputs[0]
	}
	return fmt.Sprintf("%.100s node %.200q", n.Op, name)
}

// Consumers maps each value to the nodes that use it, in graph order.
func (g *Graph) Consumers() map[string][]*Node {
	c := map[string][]*Node{}
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			if known := c[in]; in != "" && (len(known) == 0 || known[len(known)-1] != n) {
				c[in] = append(known, n)
			}
		}
	}
	return c
}

// Producers maps each value to the node that defines it.
func (g *Graph) Producers() map[string]*Node {
	p := map[string]*Node{}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				p[o] = n
			}
		}
	}
	return p
}

// Stored maps each value that constants alone make to one of them: to codes of weights, integers of 16 bits at most,
// where there are any, and else to the largest of floats. What subgraphs, random
// numbers or quantizers of other integers make is not among them.
func (g *Graph) Stored() map[string]*Tensor {
	stored := g.InitMap()
	random := []string{"RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}
	for _, n := range g.Nodes {
		from := n.Constant()
		constant := from != nil || len(n.Inputs) > 0 && n.Standard() && !n.HasGraphs() && !slices.Contains(random, n.Op)
		for _, in := range n.Inputs {
			switch t := stored[in]; {
			case in == "":
			case t == nil:
				constant = false
			case from == nil || t.DType.IsCode() ||
				!from.DType.IsCode() && t.DType.IsFloat() && (!from.DType.IsFloat() || t.Len() > from.Len()):
				from = t
			}
		}
		quantizer := n.Op == "QuantizeLinear" || n.Op == "DequantizeLinear"
		for _, out := range n.Outputs {
			if constant && from != nil && out != "" && (!quantizer || from.DType.IsCode()) {
				stored[out] = from
			}
		}
	}
	return stored
}

// Needed returns the nodes that the values are computed by.
func (g *Graph) Needed(values ...string) map[*Node]bool {
	producers, needed := g.Producers(), map[*Node]bool{}
	for todo := slices.Clone(values); len(todo) > 0; {
		n := producers[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		if n != nil && !needed[n] {
			needed[n] = true
			todo = append(todo, n.Inputs...)
		}
	}
	return needed
}

// Prune drops the nodes that no output depends on, and the initializers that nothing uses then. The values that a
// subgraph captures are not looked at.
func (g *Graph) Prune() {
	needed := g.Needed(Names(g.Outputs)...)
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *Node) bool { return !needed[n] })
	used, inits := g.Consumers(), g.InitMap()
	gone := func(name string) bool { return inits[name] != nil && used[name] == nil && !g.IsOutput(name) }
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v Value) bool { return gone(v.Name) })
	g.Inits = slices.DeleteFunc(g.Inits, func(t *Tensor) bool { return gone(t.Name) })
}

// Names returns the names of values, in their order.
func Names(values []Value) []string {
	return lists.Map(values, func(v Value) string { return v.Name })
}

// Builder appends nodes to a graph under names that are not yet taken. The zero Builder is not usable; call NewBuilder.
type Builder struct {
	G      *Graph
	Prefix string // put before every name that the builder makes
	taken  map[string]bool
	count  map[string]int
}

// NewBuilder makes a builder that appends to g.
func NewBuilder(g *Graph, prefix string) *Builder {
	b := &Builder{G: g, Prefix: prefix, taken: map[string]bool{}, count: map[string]int{}}
	lists.Mark(b.taken, Names(g.Inputs)...)
	for _, t := range g.Inits {
		b.taken[t.Name] = true
	}
	for _, n := range g.Nodes {
		b.taken[n.Name] = true
		lists.Mark(b.taken, n.Outputs...)
	}
	return b
}

// Name returns prefix+hint, with a number behind it when that is taken, and takes it.
func (b *Builder) Name(hint string) string {
	name := b.Prefix + hint
	for b.taken[name] {
		b.count[hint]++
		name = b.Prefix + hint + "_" + strconv.Itoa(b.count[hint])
	}
	b.taken[name] = true
	return name
}

// Op appends a node of the standard domain with one output and returns that output's name.
func (b *Builder) Op(op string, inputs []string, attrs ...Attr) string {
	out := b.Name(strings.ToLower(op))
	b.Append(&Node{Op: op, Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
	return out
}

// Append appends n, naming it when it has no name.
func (b *Builder) Append(n *Node) {
	if n.Name == "" {
		n.Name = b.Name("n_" + n.Op)
	}
	lists.Mark(b.taken, n.Outputs...)
	b.G.Nodes = append(b.G.Nodes, n)
}

// Const adds t as an initializer under a fresh name made from t.Name and returns that name.
func (b *Builder) Const(t *Tensor) string {
	t.Name = b.Name(t.Name)
	b.G.Inits = append(b.G.Inits, t)
	return t.Name
}

// IntAttr makes an integer attribute.
func IntAttr(name string, v int64) Attr { return Attr{Name: name, Kind: AttrInt, I: v} }

// FloatAttr makes a float attribute.
func FloatAttr(name string, v float32) Attr { return Attr{Name: name, Kind: AttrFloat, F: v} }

// IntsAttr makes an integer-list attribute.
func IntsAttr(name string, v ...int64) Attr { return Attr{Name: name, Kind: AttrInts, Ints: v} }

// TensorAttr makes a tensor attribute.
func TensorAttr(name string, t *Tensor) Attr { return Attr{Name: name, Kind: AttrTensor, T: t} }

// StringAttr makes a string attribute.
func StringAttr(name, v string) Attr { return Attr{Name: name, Kind: AttrString, S: []byte(v)} }

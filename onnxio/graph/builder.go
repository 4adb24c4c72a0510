package graph

import (
	"strconv"
	"strings"
)

// Builder appends nodes to a graph under names that are not yet taken.
// The zero Builder is not usable; call NewBuilder.
type Builder struct {
	G      *Graph
	Prefix string // put before every name that the builder makes
	taken  map[string]bool
	count  map[string]int
}

// NewBuilder makes a builder that appends to g.
func NewBuilder(g *Graph, prefix string) *Builder {
	b := &Builder{G: g, Prefix: prefix, taken: map[string]bool{}, count: map[string]int{}}
	for _, v := range g.Inputs {
		b.taken[v.Name] = true
	}
	for _, t := range g.Inits {
		b.taken[t.Name] = true
	}
	for _, n := range g.Nodes {
		b.taken[n.Name] = true
		for _, o := range n.Outputs {
			b.taken[o] = true
		}
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

// Op appends a node of the standard domain with one output and returns that
// output's name.
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
	for _, o := range n.Outputs {
		b.taken[o] = true
	}
	b.G.Nodes = append(b.G.Nodes, n)
}

// Const adds t as an initializer under a fresh name made from t.Name and
// returns that name.
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

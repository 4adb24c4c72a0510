package graph

import (
	"slices"

	"cfq/internal/lists"
)

// Pass is one step that rewrites a model, and the step that gives a graph made of the result back what it took away.
type Pass struct {
	Needed func(*Model) bool // nil: always
	Run    func(*Rewriter) error
	Undo   func(*Rewriter) // nil: nothing is undone in a written file
}

// Apply runs the pass on m, in place, where it is needed. types are those of values that are known beyond what m
// declares. After an error m may be half rewritten.
func (p *Pass) Apply(m *Model, types Types) error {
	if p.Needed != nil && !p.Needed(m) {
		return nil
	}
	return p.Run(NewRewriter(m, types))
}

// Rewriter changes the graph of a model. It knows who makes and who reads each value, as of the last Index, and which
// constants its rewrites replaced. New values and nodes get names that are free.
type Rewriter struct {
	*Builder
	Model     *Model
	Types     Types
	Inits     map[string]*Tensor
	Producers map[string]*Node
	Consumers map[string][]*Node
	retired   map[string]bool
	links     map[*Node]*link // nil but in Repeat
	touched   []*Node         // since the last rewrite of Repeat
}

// link is what the index holds of a node.
type link struct {
	inputs, outputs []string
	place           int
	gone            bool
}

// NewRewriter returns a rewriter of m. types, which may be nil, are the rewriter's to change.
func NewRewriter(m *Model, types Types) *Rewriter {
	if types == nil {
		types = Types{}
	}
	r := &Rewriter{Builder: NewBuilder(m.Graph, ""), Model: m, Types: types, retired: map[string]bool{}}
	r.Index()
	return r
}

// Index looks at the graph again.
func (r *Rewriter) Index() {
	r.Inits, r.Producers, r.Consumers = r.G.InitMap(), r.G.Producers(), r.G.Consumers()
}

// Const adds t as an initializer under a fresh name made from t.Name and returns that name.
func (r *Rewriter) Const(t *Tensor) string {
	name := r.Builder.Const(t)
	r.Inits[name] = t
	return name
}

// Float returns the float32 constant called name, or nil.
func (r *Rewriter) Float(name string) *Tensor {
	if t := r.Inits[name]; t != nil && t.DType == Float {
		return t
	}
	return nil
}

// Repeat applies rewrite, which reports whether it changed the graph, to the first node that it changes until there is
// none. A rewrite looks at its node and those next to it, and changes no others but by the methods of r.
func (r *Rewriter) Repeat(rewrite func(*Node) bool) {
	r.Index()
	r.links = make(map[*Node]*link, len(r.G.Nodes))
	for i, n := range r.G.Nodes {
		r.links[n] = &link{slices.Clone(n.Inputs), slices.Clone(n.Outputs), i, false}
	}
	todo := slices.Clone(r.G.Nodes)
	slices.Reverse(todo)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if r.links[n].gone || !rewrite(n) {
			continue
		}
		for m := range r.relink(n) {
			if i, found := slices.BinarySearchFunc(todo, m, func(a, b *Node) int { return r.order(b, a) }); !found {
				todo = slices.Insert(todo, i, m)
			}
		}
	}
	r.G.Nodes = slices.DeleteFunc(slices.Clone(r.G.Nodes), func(n *Node) bool { return r.links[n].gone })
	r.links = nil
}

func (r *Rewriter) order(a, b *Node) int { return r.links[a].place - r.links[b].place }

// relink brings the index up to date after a rewrite of n, and returns the nodes that another rewrite may now change.
func (r *Rewriter) relink(n *Node) map[*Node]bool {
	changed := append(slices.Clone(r.touched), n)
	for _, v := range r.links[n].inputs {
		changed = append(changed, r.Producers[v])
	}
	for _, v := range r.links[n].outputs {
		changed = append(changed, r.Consumers[v]...)
	}
	r.touched = nil
	changed = slices.DeleteFunc(changed, func(c *Node) bool {
		return c == nil || c != n && !r.links[c].gone && slices.Equal(r.links[c].inputs, c.Inputs) &&
			slices.Equal(r.links[c].outputs, c.Outputs)
	})
	again, read, made := map[*Node]bool{}, map[string]bool{}, map[string]bool{}
	for _, add := range []bool{false, true} {
		for _, c := range changed {
			l := r.links[c]
			if add && l.gone {
				continue
			} else if add {
				l.inputs, l.outputs = slices.Clone(c.Inputs), slices.Clone(c.Outputs)
				again[c] = true
			}
			lists.Mark(read, l.inputs...)
			lists.Mark(made, l.outputs...)
			r.know(c, l, add)
		}
	}
	for v := range read {
		if again[r.Producers[v]] = true; len(r.Consumers[v]) == 1 {
			again[r.Consumers[v][0]] = true
		}
	}
	for v := range made {
		lists.Mark(again, r.Consumers[v]...)
	}
	delete(again, nil)
	return again
}

// know adds n to the index, or takes it out.
func (r *Rewriter) know(n *Node, l *link, add bool) {
	for _, v := range l.inputs {
		switch i, found := slices.BinarySearchFunc(r.Consumers[v], n, r.order); {
		case add && !found && v != "":
			r.Consumers[v] = slices.Insert(r.Consumers[v], i, n)
		case !add && found:
			r.Consumers[v] = slices.Delete(r.Consumers[v], i, i+1)
		}
	}
	for _, v := range l.outputs {
		if add {
			r.Producers[v] = n
		} else if r.Producers[v] == n {
			delete(r.Producers, v)
		}
	}
}

// Rebuild rewrites the graph: write appends what replaces each node.
func (r *Rewriter) Rebuild(write func(*Node)) {
	nodes := r.G.Nodes
	r.G.Nodes = nil
	for _, n := range nodes {
		write(n)
	}
}

// Insert puts nodes in front of n.
func (r *Rewriter) Insert(n *Node, nodes ...*Node) { r.insert(n, 0, nodes) }

// InsertAfter puts nodes after n.
func (r *Rewriter) InsertAfter(n *Node, nodes ...*Node) { r.insert(n, 1, nodes) }

func (r *Rewriter) insert(n *Node, after int, nodes []*Node) {
	r.G.Nodes = slices.Insert(slices.Clone(r.G.Nodes), slices.Index(r.G.Nodes, n)+after, nodes...)
	for _, n := range nodes {
		if r.links != nil {
			r.links[n], r.touched = &link{place: len(r.links)}, append(r.touched, n)
		}
	}
}

// Remove takes n out of the graph.
func (r *Rewriter) Remove(n *Node) {
	if r.links != nil { // all at once in the end
		r.links[n].gone, r.touched = true, append(r.touched, n)
		return
	}
	i := slices.Index(r.G.Nodes, n)
	r.G.Nodes = slices.Concat(r.G.Nodes[:i], r.G.Nodes[i+1:])
}

// Fold removes n, whose effect on its data-th input another node has taken over, and retires its other inputs.
func (r *Rewriter) Fold(n *Node, data int) {
	for i, c := range n.Inputs {
		if i != data {
			r.Retire(c)
		}
	}
	r.Remove(n)
}

// Bypass connects the readers of n's output with n's first input and removes n. It does nothing where n's output is one
// of the model whose name no other node can take over.
func (r *Rewriter) Bypass(n *Node) bool {
	in, out := n.Input(0), n.Outputs[0]
	if r.G.IsOutput(out) {
		p := r.Producers[in]
		if p == nil || r.G.IsOutput(in) {
			return false
		}
		r.rename(in, out)
	} else {
		r.rename(out, in)
	}
	r.Fold(n, 0)
	return true
}

func (r *Rewriter) rename(old, name string) {
	nodes := slices.Clone(r.Consumers[old])
	if p := r.Producers[old]; p != nil {
		nodes = append(nodes, p)
	}
	(&Graph{Nodes: nodes}).Rename(old, name)
	r.touched = append(r.touched, nodes...)
}

// Rename makes the nodes make and read a value under another name.
func (g *Graph) Rename(old, name string) {
	for _, n := range g.Nodes {
		for _, list := range [][]string{n.Inputs, n.Outputs} {
			for i, v := range list {
				if v == old {
					list[i] = name
				}
			}
		}
	}
}

// Forget drops what is known of the type of value.
func (r *Rewriter) Forget(value string) {
	r.G.Values = slices.DeleteFunc(r.G.Values, func(v Value) bool { return v.Name == value })
	delete(r.Types, value)
}

// Retire says that a rewrite replaced constants: Sweep drops them where nothing else uses them.
func (r *Rewriter) Retire(names ...string) { lists.Mark(r.retired, names...) }

// Sweep drops retired constants that nothing uses, and the types of values that are gone.
func (r *Rewriter) Sweep() {
	r.Index()
	gone := func(name string) bool {
		return r.retired[name] && r.Inits[name] != nil && len(r.Consumers[name]) == 0 && !r.G.IsOutput(name)
	}
	r.G.Inits = slices.DeleteFunc(r.G.Inits, func(t *Tensor) bool { return gone(t.Name) })
	r.G.Inputs = slices.DeleteFunc(r.G.Inputs, func(v Value) bool { return gone(v.Name) })
	r.G.Values = slices.DeleteFunc(r.G.Values, func(v Value) bool {
		return r.Producers[v.Name] == nil && (r.Inits[v.Name] == nil || gone(v.Name))
	})
}

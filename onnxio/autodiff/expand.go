package autodiff

import (
	"slices"

	"cfq/onnxio/graph"
)

// Expand rewrites all composite operators of g, such as BatchNormalization, into
// simpler ones of the table, in place. Values that were outputs of a composite
// keep their names. types must hold the values that composites use; those it
// lacks are inferred, and all values that are added are recorded in it. On an
// error, which names every node that cannot be rewritten, g is unchanged.
//
// Gradients does the same for the composites between y and wrt only.
func Expand(g *graph.Graph, types Types) error {
	b := newBuilder(g, types, "")
	b.expand(func(*graph.Node) bool { return true })
	return b.commit(g, types)
}

// expand rewrites the composites that want selects.
func (b *builder) expand(want func(*graph.Node) bool) {
	old := b.g.Nodes
	b.g.Nodes = make([]*graph.Node, 0, len(old))
	for _, n := range old {
		op := b.table[key(n)]
		if op == nil || op.Kind != Composite || !want(n) {
			b.g.Nodes = append(b.g.Nodes, n)
			continue
		}
		if err := b.complete(n); err != nil {
			b.fail(err)
			b.g.Nodes = append(b.g.Nodes, n)
			continue
		}
		before := len(b.errs)
		if b.rewrite(n, op); len(b.errs) > before {
			b.g.Nodes = append(b.g.Nodes, n) // so that other complaints can be found
		}
	}
}

// rewrite appends the expansion of n. Operations are shared within it only: an
// expansion of an earlier node may have given a value its final name.
func (b *builder) rewrite(n *graph.Node, op *Operator) {
	clear(b.shared)
	clear(b.fresh)
	before := len(b.g.Nodes)
	outer := b.names.Prefix
	b.names.Prefix = outer + n.Outputs[0] + "/"
	made := op.expand(&Call{Node: n, b: b})
	b.names.Prefix = outer
	own := b.g.Nodes[before:]
	for i, v := range made {
		if i < len(n.Outputs) && n.Outputs[i] != "" && b.fresh[v] {
			b.rename(own, v, n.Outputs[i])
		}
	}
	clear(b.shared)
}

// rename gives the output v of one of the nodes the name of a composite's output.
func (b *builder) rename(nodes []*graph.Node, v, name string) {
	for _, n := range nodes {
		for i, in := range n.Inputs {
			if in == v {
				n.Inputs[i] = name
			}
		}
		if i := slices.Index(n.Outputs, v); i >= 0 {
			n.Outputs[i] = name
			b.made[name] = n
		}
	}
	delete(b.made, v)
	delete(b.types, v)
}

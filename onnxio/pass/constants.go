package pass

import (
	"context"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// maxFolded bounds the elements of a constant that is written out.
const maxFolded = 1 << 26

// Folding computes what constants alone make, such as weights plus the product of two matrices: exporters leave such
// expressions in front of layers. Values keep their names. What ONNX Runtime cannot compute stays, as do codes of
// quantized weights and what would take much more room.
func Folding(ctx context.Context, o ort.Options) graph.Pass {
	o.Level = ort.Disabled
	return graph.Pass{
		Needed: func(m *graph.Model) bool { return len(foldable(m.Graph)) > 0 },
		Run: func(r *graph.Rewriter) error {
			types := typesOf(r.G, r.Types)
			names := slices.DeleteFunc(foldable(r.G), func(v string) bool { return types[v].Shape.Elements().Size > maxFolded })
			if len(names) == 0 {
				return nil
			}
			g := *r.G
			g.Inputs = nil
			m := &graph.Model{IRVersion: r.Model.IRVersion, Opsets: r.Model.Opsets, Graph: &g}
			values, err := ort.Evaluate(ctx, m, o, nil, names...)
			if err != nil {
				return ctx.Err() // what stays is named among the layers
			}
			writeOut(r, values)
			return r.G.Check()
		},
		Undo: func(*graph.Rewriter) {}, // so that the original is known as it was
	}
}

func foldable(g *graph.Graph) (names []string) {
	stored, computed, found := g.Stored(), map[string]*graph.Node{}, map[string]bool{}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Outputs, func(v string) bool { return stored[v] != nil }) {
			for _, v := range n.Outputs {
				computed[v] = n
			}
			continue
		}
		for _, in := range n.Inputs {
			from := computed[in]
			if from == nil || from.Is("Constant") || from.Is("Cast") && !multiplies(n) && !n.Is("Add") {
				continue // what a Cast alone reads is stored in fewer bytes
			}
			if stored[in].DType.IsFloat() && !g.IsOutput(in) && !found[in] {
				found[in], names = true, append(names, in)
			}
		}
	}
	return names
}

func writeOut(r *graph.Rewriter, values []*graph.Tensor) {
	stored, folded := r.G.Stored(), map[string]bool{}
	for _, t := range values {
		if len(t.Raw) <= 4*len(stored[t.Name].Raw)+4096 || slices.ContainsFunc(r.Consumers[t.Name], multiplies) {
			r.G.Inits = append(r.G.Inits, t)
			folded[t.Name] = true
		}
	}
	for _, n := range r.G.Nodes {
		for i, v := range n.Outputs {
			if folded[v] {
				n.Outputs[i] = r.Name(v + "_computed")
			}
		}
	}
	needed := r.G.Needed(graph.Names(r.G.Outputs)...)
	r.G.Nodes = slices.DeleteFunc(r.G.Nodes, func(n *graph.Node) bool {
		gone := !needed[n] && !slices.ContainsFunc(n.Inputs, func(v string) bool { return v != "" && stored[v] == nil })
		if gone {
			r.Retire(n.Inputs...)
		}
		return gone
	})
	r.Sweep()
}

func multiplies(n *graph.Node) bool {
	return slices.Contains([]string{"MatMul", "Gemm", "Conv", "Einsum"}, n.Op)
}

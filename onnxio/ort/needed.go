package ort

import "cfq/onnxio/graph"

// needed returns m without the nodes and initializers that no output depends
// on, which ONNX Runtime would compute all the same. A model with control flow
// is returned as it is, since subgraphs use values that are not listed as inputs.
func needed(m *graph.Model) *graph.Model {
	g := m.Graph
	want := map[string]bool{}
	for _, v := range g.Outputs {
		want[v.Name] = true
	}
	for _, v := range g.Inputs {
		want[v.Name] = true // also where an initializer is listed as an input
	}
	keep := make([]bool, len(g.Nodes))
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if n.HasGraphs() {
			return m
		}
		for _, o := range n.Outputs {
			keep[i] = keep[i] || want[o]
		}
		if keep[i] {
			for _, in := range n.Inputs {
				want[in] = true
			}
		}
	}
	c, cg := *m, *g
	c.Graph, cg.Nodes, cg.Inits = &cg, nil, nil
	for i, n := range g.Nodes {
		if keep[i] {
			cg.Nodes = append(cg.Nodes, n)
		}
	}
	for _, t := range g.Inits {
		if want[t.Name] {
			cg.Inits = append(cg.Inits, t)
		}
	}
	return &c
}

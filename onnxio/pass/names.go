package pass

import (
	"slices"

	"cfq/onnxio/graph"
)

func (r *canonicalizer) names() {
	taken, weights := map[string]bool{}, map[string]bool{}
	for _, n := range r.G.Nodes {
		if n.Is("Gemm") || n.Is("Conv") {
			if n.Name == "" || taken[n.Name] {
				n.Name = r.Name(n.Op)
			}
			weights[n.Input(1)], weights[n.Input(2)] = true, true
		}
		taken[n.Name] = true
	}
	r.G.Inputs = slices.DeleteFunc(r.G.Inputs, func(v graph.Value) bool {
		return weights[v.Name] && r.Inits[v.Name] != nil
	})
}

package qdq

import (
	"slices"
	"strconv"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// Shorten gives all values but inputs and outputs of a written model short names. Layers keep theirs, by which messages
// and plans call them; other nodes have none. A model with subgraphs, which name values, too, stays as it is.
func Shorten(m *graph.Model, layers []quant.LayerInfo) {
	g, short, next := m.Graph, map[string]string{"": ""}, int64(0)
	if slices.ContainsFunc(g.Nodes, (*graph.Node).HasGraphs) {
		return
	}
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		short[v.Name] = v.Name
	}
	for i := range layers { // one without a name is called after its value
		short[layers[i].Node] = layers[i].Node
	}
	rename := func(name string) string {
		for ; short[name] == "" && name != ""; next++ {
			if s := strconv.FormatInt(next, 36); short[s] != s {
				short[name] = s
			}
		}
		return short[name]
	}
	for _, n := range g.Nodes {
		n.Inputs, n.Outputs = lists.Map(n.Inputs, rename), lists.Map(n.Outputs, rename)
		if short[n.Name] != n.Name {
			n.Name = ""
		}
	}
	for _, t := range g.Inits {
		t.Name = rename(t.Name)
	}
	for i := range g.Values {
		g.Values[i].Name = rename(g.Values[i].Name)
	}
}

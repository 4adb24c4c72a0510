package onnxio

import (
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/lower"
)

// ScalesNumbers says whether the graph shifts or scales the numbers that it is given, before any layer with weights: it
// then takes the numbers of the data as they are. A graph that does not may take either these or scaled ones.
func (m *Model) ScalesNumbers() bool {
	g := m.graph.Graph
	given := map[string]bool{}
	if !slices.ContainsFunc(m.Columns(), func(c lower.Column) bool { return c.Values != nil }) {
		given[m.input.Name] = true
	}
	for _, n := range g.Nodes {
		if n.Op == "Slice" && n.Inputs[0] == m.input.Name && m.slicesNumbers(g.Init(n.Inputs[1])) {
			given[n.Outputs[0]] = true
			continue
		}
		if !slices.ContainsFunc(n.Inputs, func(in string) bool { return given[in] }) {
			continue
		}
		switch n.Op {
		case "Sub", "Add", "Mul", "Div":
			if m.sameSize(n) && slices.ContainsFunc(n.Inputs, func(in string) bool { return g.Init(in) != nil }) {
				return true
			}
		case "Cast", "Clip", "Concat", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze", "Where":
			for _, out := range n.Outputs {
				given[out] = true
			}
		}
	}
	return false
}

func (m *Model) slicesNumbers(from *graph.Tensor) bool {
	if from == nil {
		return false
	}
	at, err := from.Ints()
	return err == nil && len(at) == 1 && slices.ContainsFunc(m.Columns(), func(c lower.Column) bool {
		return c.Values == nil && int64(c.First) == at[0]
	})
}

// sameSize says whether a node with two inputs, one of them constant, gives as many numbers a row as it takes: a
// product that gives more is a layer, as the tokens of an FT-Transformer are.
func (m *Model) sameSize(n *graph.Node) bool {
	made, _ := m.PerRow(n.Outputs[0])
	return slices.ContainsFunc(n.Inputs, func(in string) bool {
		taken, known := m.PerRow(in)
		return m.graph.Graph.Init(in) == nil && known && taken == made
	})
}

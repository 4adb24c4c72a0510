package qdq

import (
	"slices"

	"cfq/onnxio/graph"
)

// Stored returns the bytes of data that the file holds for the weights of
// quantized layers: codes, scales, zero points, the order of rows and columns, and
// what unpacks all that, in initializers and in constants of nodes and functions.
// Names, nodes and their dimensions are not counted, nor are biases and what belongs to
// activations. It is found in the graph, from each layer's weights backwards, so it
// does not depend on who wrote the model; what layers share counts once.
func Stored(m *graph.Model) (int, error) {
	notes, err := Describe(m)
	if err != nil {
		return 0, err
	}
	sum := 0
	for i := range notes {
		sum += notes[i].Stored
	}
	return sum, nil
}

// weigh returns the bytes of all that the value called name is made of, and that
// has not been counted before; 0 when it stands for floats.
func (t *tracer) weigh(s *stored, name string) int {
	if slices.ContainsFunc(s.parts, func(p storedPart) bool { return p.float }) {
		return 0
	}
	sum := 0
	todo := []string{name}
	for len(todo) > 0 {
		name, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if name == "" || t.counted[name] {
			continue
		}
		t.counted[name] = true
		if c := t.inits[name]; c != nil {
			sum += len(c.Raw)
			continue
		}
		if n := t.producers[name]; n != nil {
			sum += t.held(n)
			todo = append(todo, n.Inputs...)
		}
	}
	return sum
}

// held is the bytes of the constants in a node, or in the function that it calls.
func (t *tracer) held(n *graph.Node) int {
	if c := n.Constant(); c != nil {
		return len(c.Raw)
	}
	sum := 0
	for i := range n.Attrs {
		if a := &n.Attrs[i]; a.T != nil {
			sum += len(a.T.Raw)
		}
	}
	for _, f := range t.m.Functions {
		key := "function " + f.Domain + "." + f.Name
		if f.Domain != n.Domain || f.Name != n.Op || t.counted[key] {
			continue
		}
		t.counted[key] = true
		for _, inner := range f.Nodes {
			sum += t.held(inner)
		}
	}
	return sum
}

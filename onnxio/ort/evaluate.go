package ort

import (
	"context"

	"cfq/onnxio/graph"
)

// Evaluate returns values of a graph that has no inputs.
func Evaluate(ctx context.Context, m *graph.Model, o Options, values ...string) ([]*graph.Tensor, error) {
	c := m.Clone()
	unused := graph.FromFloats("no input", []float32{0}, 1) // a session needs one
	c.Graph.Inputs = []graph.Value{{Name: unused.Name, DType: unused.DType, Shape: graph.Fixed(unused.Dims...)}}
	s, err := OpenValues(c, o, values...)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	return s.Run(ctx, []*graph.Tensor{unused})
}

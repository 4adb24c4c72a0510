package ort

import (
	"context"

	"cfq/onnxio/graph"
)

// Evaluate opens a model, runs it once on in, and returns values of its graph.
func Evaluate(ctx context.Context, m *graph.Model, o Options, in []*graph.Tensor, values ...string) ([]*graph.Tensor,
	error,
) {
	if len(in) == 0 { // a session needs one
		unused := graph.FromFloats("no input", []float32{0}, 1)
		in, m = []*graph.Tensor{unused}, m.Clone()
		m.Graph.Inputs = []graph.Value{{Name: unused.Name, DType: unused.DType, Shape: graph.Fixed(unused.Dims...)}}
	}
	s, err := OpenValues(m, o, values...)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	return s.Run(ctx, in)
}

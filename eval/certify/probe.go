package certify

import (
	"context"

	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// numbers are the elements of a tensor of any type of numbers.
func numbers(t *graph.Tensor) ([]float64, error) {
	if t.DType.IsFloat() {
		return t.Doubles()
	}
	ints, err := t.Ints()
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(ints))
	for i, v := range ints {
		out[i] = float64(v)
	}
	return out, nil
}

// probed runs a model on one row of zeros, with every value exposed, and returns them all.
func probed(ctx context.Context, m *graph.Model, c *classifier.Model, o ort.Options) (map[string]*graph.Tensor, error) {
	m = m.Clone()
	values := map[string]*graph.Tensor{}
	for _, t := range m.Graph.Inits {
		values[t.Name] = t
	}
	m.Graph.Outputs = nil
	for _, n := range m.Graph.Nodes {
		for _, v := range n.Outputs {
			if v != "" {
				m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: v})
			}
		}
	}
	o.Level = ort.Disabled // an optimized graph no longer computes every value
	s, err := ort.Open(m, o)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	in := c.Feed(make([]float32, max(c.Fixed(), 1)*c.Dim()))
	values[in.Name] = in
	out, err := s.Run(ctx, []*graph.Tensor{in})
	if err != nil {
		return nil, err
	}
	for _, t := range out {
		values[t.Name] = t
	}
	return values, nil
}

package onnxio

import (
	"context"
	"fmt"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// batchParam is the symbol of the batch axis in the types that a probe learns.
const batchParam = "N"

// rows of the probe batches: two sizes, so that the batch axis shows itself.
const probeA, probeB = 2, 3

// Exposed opens the model with every value of its graph as an output, in the order of the nodes.
func (m *Model) Exposed() (*ort.Session, error) {
	all := m.graph.Clone()
	all.Graph.Outputs = nil
	for _, n := range all.Graph.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				all.Graph.Outputs = append(all.Graph.Outputs, graph.Value{Name: o})
			}
		}
	}
	o := m.engine
	o.Level = ort.Disabled // an optimized graph no longer computes every value
	s, err := ort.Open(all, o)
	if err != nil {
		return nil, fmt.Errorf("the model does not load: %w", err)
	}
	return s, nil
}

// probe runs the model with every value exposed and learns each value's element
// type and shape. Two batch sizes tell which axis is the batch: shapes come from
// running the model, for every operator there is.
func (m *Model) probe(ctx context.Context) error {
	s, err := m.Exposed()
	if err != nil {
		return err
	}
	defer s.Close()
	runs := []int{probeA, probeB}
	if m.fixed > 0 {
		runs = []int{m.fixed}
	}
	var shapes [][]*graph.Tensor
	for _, rows := range runs {
		in := m.Feed(make([]float32, rows*m.dim))
		out, err := s.Run(ctx, []*graph.Tensor{in})
		if err != nil {
			return fmt.Errorf("the model does not run on a probe of %d rows: %w", rows, err)
		}
		shapes = append(shapes, append(out, in))
	}
	m.types = autodiff.Types{}
	for i, t := range shapes[0] {
		shape := graph.Fixed(t.Dims...)
		if len(shapes) > 1 {
			other := shapes[1][i].Dims
			if len(other) != len(t.Dims) {
				return fmt.Errorf("value %q has rank %d or %d, depending on the batch", t.Name, len(t.Dims), len(other))
			}
			for k, d := range t.Dims {
				switch {
				case d == other[k]:
				case d == probeA && other[k] == probeB:
					shape[k] = graph.Dim{Size: -1, Param: batchParam}
				case d%probeA == 0 && other[k] == d/probeA*probeB:
					shape[k] = graph.Dim{Size: -1, Param: fmt.Sprintf("%s*%d", batchParam, d/probeA)}
				default:
					return fmt.Errorf("dimension %d of value %q is %d for %d rows and %d for %d: it does not follow the batch", k,
						t.Name, d, probeA, other[k], probeB)
				}
			}
		}
		m.types[t.Name] = autodiff.Type{DType: t.DType, Shape: shape}
	}
	for _, t := range m.graph.Graph.Inits {
		m.types[t.Name] = autodiff.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	}
	return nil
}

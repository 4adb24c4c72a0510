package classifier

import (
	"context"
	"fmt"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// batchParam is the symbol of the batch axis in the types that a probe learns.
const batchParam = "N"

// Declare writes the types that the probe learnt into g, a graph with the model's
// values, for those that it does not declare.
func (c *Model) Declare(g *graph.Graph) {
	declared := map[string]bool{}
	for _, v := range slices.Concat(g.Inputs, g.Outputs, g.Values) {
		declared[v.Name] = true
	}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if t, ok := c.types[o]; ok && !declared[o] {
				g.Values = append(g.Values, graph.Value{Name: o, DType: t.DType, Shape: t.Shape})
			}
		}
	}
}

// probe runs the model with every value exposed and learns each value's element
// type and shape. Two batch sizes tell which axis is the batch: shapes come from
// running the model, for every operator there is.
func (c *Model) probe(ctx context.Context) error {
	m := c.m.Clone()
	m.Graph.Outputs = nil
	for _, n := range m.Graph.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: o})
			}
		}
	}
	o := c.o.Engine
	o.Level = ort.Disabled // an optimized graph no longer computes every value
	s, err := ort.Open(m, o)
	if err != nil {
		return fmt.Errorf("the model does not load: %w", err)
	}
	defer s.Close()
	runs := []int{probeA, probeB}
	if c.fixed > 0 {
		runs = []int{c.fixed}
	}
	var shapes [][]*graph.Tensor
	for _, rows := range runs {
		in := c.Feed(make([]float32, rows*c.dim))
		out, err := s.Run(ctx, []*graph.Tensor{in})
		if err != nil {
			return fmt.Errorf("the model does not run on a probe of %d rows: %w", rows, err)
		}
		shapes = append(shapes, append(out, in))
	}
	c.types = autodiff.Types{}
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
					return fmt.Errorf("dimension %d of value %q is %d for %d rows and %d for %d: it does not follow the batch", k, t.Name, d, probeA, other[k], probeB)
				}
			}
		}
		c.types[t.Name] = autodiff.Type{DType: t.DType, Shape: shape}
	}
	for _, t := range c.m.Graph.Inits {
		c.types[t.Name] = autodiff.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	}
	return nil
}

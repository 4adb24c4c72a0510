package classifier

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// Names of the values of the second-order graph.
const (
	vectorName  = "cfq.v"
	productName = "cfq.hv"
)

// HessianVector returns the product of the Hessian, by the initializer called
// weight, of the mean cross-entropy over the rows of x with the vector v, which has
// the weight's elements in its order; so has the result. classes holds each row's
// class, nil is the target for all, as for Observe.
//
// It is the gradient of <gradient, v>, so a piecewise linear network has the
// curvature of its cross-entropy only, and kinks have none. Batches are summed in
// double precision and in their order: the result does not depend on the number of
// workers.
func (c *Model) HessianVector(ctx context.Context, x []float32, classes []int, weight string, v []float32) ([]float32,
	error,
) {
	w := c.Graph().Graph.Init(weight)
	switch {
	case w == nil:
		return nil, fmt.Errorf("the model has no initializer %q to take the curvature by", weight)
	case w.DType != graph.Float && w.DType != graph.Double:
		return nil, fmt.Errorf("initializer %q holds %s: only float and double weights have a curvature", weight, w.DType)
	case w.Len() != len(v):
		return nil, fmt.Errorf("%d numbers for the %d of initializer %q", len(v), w.Len(), weight)
	case len(x) == 0 || len(x)%c.Dim() != 0:
		return nil, fmt.Errorf("%d numbers are not rows of %d inputs", len(x), c.Dim())
	case classes != nil && len(classes) != len(x)/c.Dim():
		return nil, fmt.Errorf("%d classes for %d rows", len(classes), len(x)/c.Dim())
	}
	for i, class := range classes {
		if class < 0 || class >= c.Classes() {
			return nil, fmt.Errorf("row %d is of class %d; the model has the classes 0 to %d", i, class, c.Classes()-1)
		}
	}
	s, err := c.session("hessian "+weight, func() (*graph.Model, error) { return c.withProduct(w) })
	if err != nil {
		return nil, fmt.Errorf("curvature by %q: %w", weight, err)
	}
	sum, err := c.sumBatches(ctx, x, len(v), func(ctx context.Context, from, to int) ([]float32, error) {
		out, err := s.Run(ctx, []*graph.Tensor{
			c.feed(x[from*c.Dim() : to*c.Dim()]), c.picks(classes, from, to),
			graph.FromNumbers(vectorName, w.DType, v, w.Dims...),
		})
		if err != nil {
			return nil, err
		}
		return out[0].Floats()
	})
	if err != nil {
		return nil, fmt.Errorf("curvature by %q: %w", weight, err)
	}
	hv := make([]float32, len(v))
	for i, s := range sum {
		hv[i] = float32(s / float64(len(x)/c.Dim()))
	}
	return hv, nil
}

// withProduct makes the model whose only output is the Hessian of the summed
// cross-entropy by w, times a new input.
func (c *Model) withProduct(w *graph.Tensor) (*graph.Model, error) {
	m, err := c.upgraded()
	if err != nil {
		return nil, err
	}
	g := m.Graph
	if err := opaque(g); err != nil {
		return nil, err
	}
	types := maps.Clone(c.Types())
	loss := c.appendPickedLoss(graph.NewBuilder(g, "cfq."))
	v := graph.Value{Name: vectorName, DType: w.DType, Shape: graph.Fixed(w.Dims...)}
	g.Inputs = append(g.Inputs, v)
	policy, err := c.through(m)
	if err != nil {
		return nil, err
	}
	at := []string{w.Name}
	first, err := autodiff.Gradients(g, types, loss, at, autodiff.Options{Prefix: "cfq.d.", Policy: policy})
	if err != nil {
		return nil, err
	}
	second, err := autodiff.Gradients(g, types, first[0], at,
		autodiff.Options{Prefix: "cfq.dd.", Seed: vectorName, Policy: policy})
	if err != nil {
		return nil, err
	}
	g.Nodes = append(g.Nodes, &graph.Node{
		Op: "Identity", Name: productName, Inputs: second,
		Outputs: []string{productName},
	})
	g.Outputs = []graph.Value{{Name: productName, DType: v.DType, Shape: v.Shape}}
	return m, nil
}

// sumBatches adds up what one returns for each batch of x, in double precision and
// in the order of the batches; as many run at once as there are workers.
func (c *Model) sumBatches(ctx context.Context, x []float32, size int,
	one func(ctx context.Context, from, to int) ([]float32, error),
) ([]float64, error) {
	batch := c.o.Batch
	sum := make([]float64, size)
	for n, start := len(x)/c.Dim(), 0; start < n; start += batch * c.o.Workers {
		parts := make([][]float32, c.o.Workers)
		group, ctx := errgroup.WithContext(ctx)
		for k := range parts {
			from := start + k*batch
			if from >= n {
				break
			}
			group.Go(func() (err error) {
				parts[k], err = one(ctx, from, min(from+batch, n))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for _, p := range parts {
			for i, v := range p {
				sum[i] += float64(v)
			}
		}
	}
	return sum, nil
}

package classifier

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"cfq/engine"
	"cfq/graph"
	"cfq/onnxio"
)

// want names a value and its size per row.
type want struct {
	name string
	size int
}

// run feeds x, with the extra inputs if there are any, through the session called
// key, which build makes the graph of, batch by batch, and returns each wanted value
// as rows x size. Extra inputs belong to one batch: x must then be no longer than that.
func (c *Model) run(ctx context.Context, key string, build builder, x []float32, wants []want, extra ...*graph.Tensor) ([][]float32, error) {
	if c.dim == 0 || len(x)%c.dim != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of %d inputs", len(x), c.dim)
	}
	n := len(x) / c.dim
	out := make([][]float32, len(wants))
	for i, w := range wants {
		out[i] = make([]float32, n*w.size)
	}
	s, err := c.session(key, build)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Workers)
	for from := 0; from < n; from += c.o.Batch {
		to := min(from+c.o.Batch, n)
		group.Go(func() error { return c.runBatch(ctx, s, x, from, to, wants, out, extra) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Model) runBatch(ctx context.Context, s *engine.Session, x []float32, from, to int, wants []want, out [][]float32, extra []*graph.Tensor) error {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.name
	}
	in := append([]*graph.Tensor{c.Feed(x[from*c.dim : to*c.dim])}, extra...)
	res, err := s.RunBatched(ctx, in, 0, names...)
	if err != nil {
		return err
	}
	for i, w := range wants {
		v, err := res[i].Floats()
		if err != nil {
			return err
		}
		if len(v) != (to-from)*w.size {
			return fmt.Errorf("value %q has %d numbers for %d rows of %d", w.name, len(v), to-from, w.size)
		}
		copy(out[i][from*w.size:to*w.size], v)
	}
	return nil
}

// Feed makes the model's input tensor of rows of inputs.
func (c *Model) Feed(x []float32) *graph.Tensor {
	dims := append([]int64{int64(len(x) / c.dim)}, c.sizes...)
	if c.input.DType == graph.Double {
		v := make([]float64, len(x))
		for i, f := range x {
			v[i] = float64(f)
		}
		return graph.FromDoubles(c.input.Name, v, dims...)
	}
	return graph.FromFloats(c.input.Name, x, dims...)
}

// forward makes the model with its logits as the only output.
func (c *Model) forward() (*graph.Model, error) {
	m := c.m.Clone()
	t := c.types[c.head.logits]
	m.Graph.Outputs = []graph.Value{{Name: c.head.logits, DType: t.DType, Shape: t.Shape}}
	return m, nil
}

// builder makes the graph of a session.
type builder func() (*graph.Model, error)

// session opens the session called key once.
func (c *Model) session(key string, build builder) (*engine.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		return nil, errors.New("the classifier is closed")
	}
	if s := c.sessions[key]; s != nil {
		return s, nil
	}
	m, err := build()
	if err != nil {
		return nil, err
	}
	s, err := engine.Open(m, c.o.Engine)
	if err != nil {
		return nil, err
	}
	c.sessions[key] = s
	return s, nil
}

// upgraded returns the model at an operator set that autodiff's rules speak.
func (c *Model) upgraded() (*graph.Model, error) {
	m := c.m.Clone()
	if m.Opset("") < 18 {
		if err := onnxio.Upgrade(m, 18); err != nil {
			return nil, err
		}
	}
	return m, nil
}

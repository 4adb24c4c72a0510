package classifier

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
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
	s, err := c.session(key, build)
	if err != nil {
		return nil, err
	}
	if n > 0 && n <= c.o.Batch {
		return c.runBatch(ctx, s, x, wants, extra)
	}
	out := make([][]float32, len(wants))
	for i, w := range wants {
		out[i] = make([]float32, n*w.size)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Workers)
	for from := 0; from < n; from += c.o.Batch {
		to := min(from+c.o.Batch, n)
		group.Go(func() error {
			res, err := c.runBatch(ctx, s, x[from*c.dim:to*c.dim], wants, extra)
			for i, v := range res {
				copy(out[i][from*wants[i].size:to*wants[i].size], v)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// runBatch is run for one batch. The results are the caller's.
func (c *Model) runBatch(ctx context.Context, s *ort.Session, x []float32, wants []want, extra []*graph.Tensor) ([][]float32, error) {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.name
	}
	feed := c.Feed
	if c.input.DType == graph.Float {
		feed = c.view
	}
	res, err := s.RunBatched(ctx, append([]*graph.Tensor{feed(x)}, extra...), 0, names...)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(wants))
	for i, w := range wants {
		if out[i], err = ort.FloatsOf(res[i]); err != nil {
			return nil, err
		}
		if rows := len(x) / c.dim; len(out[i]) != rows*w.size {
			return nil, fmt.Errorf("value %q has %d numbers for %d rows of %d", w.name, len(out[i]), rows, w.size)
		}
	}
	return out, nil
}

// view is Feed for float inputs without copying them.
func (c *Model) view(x []float32) *graph.Tensor {
	return ort.ViewFloats(c.input.Name, x, append([]int64{int64(len(x) / c.dim)}, c.sizes...)...)
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
func (c *Model) session(key string, build builder) (*ort.Session, error) {
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
	s, err := ort.Open(m, c.o.Engine)
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

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
func (c *Model) run(ctx context.Context, key string, build builder, x []float32, wants []want,
	extra ...*graph.Tensor,
) ([][]float32, error) {
	if c.Dim() == 0 || len(x)%c.Dim() != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of %d inputs", len(x), c.Dim())
	}
	n := len(x) / c.Dim()
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
			res, err := c.runBatch(ctx, s, x[from*c.Dim():to*c.Dim()], wants, extra)
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
func (c *Model) runBatch(ctx context.Context, s *ort.Session, x []float32, wants []want,
	extra []*graph.Tensor,
) ([][]float32, error) {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.name
	}
	res, err := s.RunRows(ctx, append([]*graph.Tensor{c.View(x)}, extra...), names...)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(wants))
	for i, w := range wants {
		if out[i], err = ort.FloatsOf(res[i]); err != nil {
			return nil, err
		}
		if rows := len(x) / c.Dim(); len(out[i]) != rows*w.size {
			return nil, fmt.Errorf("value %q has %d numbers for %d rows of %d", w.name, len(out[i]), rows, w.size)
		}
	}
	return out, nil
}

// forward makes the model with its logits as the only output.
func (c *Model) forward() (*graph.Model, error) {
	m := c.Graph().Clone()
	t := c.Types()[c.logits]
	m.Graph.Outputs = []graph.Value{{Name: c.logits, DType: t.DType, Shape: t.Shape}}
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
	s, err := ort.Open(m, c.Engine())
	if err != nil {
		return nil, err
	}
	c.sessions[key] = s
	return s, nil
}

// upgraded returns the model at an operator set that autodiff's rules speak.
func (c *Model) upgraded() (*graph.Model, error) {
	m := c.Graph().Clone()
	if m.Opset("") < 18 {
		if err := onnxio.Upgrade(m, 18); err != nil {
			return nil, err
		}
	}
	return m, nil
}

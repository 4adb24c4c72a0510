package ort

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// RunBatched is Run for any number of rows. Inputs whose leading dimension is
// open are cut along it into runs of at most batch rows (0: all in one), and the
// outputs are put together again; every output asked for must have a row for
// each row of the inputs.
//
// In a model with a fixed number of rows, an input that has another number of
// rows is cut to the model's, whatever batch says; the last piece is filled up
// by repeating its last row, and the outputs of the filling are dropped. Inputs
// of exactly the declared shape are then given to each run whole.
func (s *Session) RunBatched(ctx context.Context, in []*graph.Tensor, batch int, outputs ...string) ([]*graph.Tensor, error) {
	want, err := s.wanted(outputs)
	if err != nil {
		return nil, err
	}
	if batch < 0 {
		return nil, fmt.Errorf("the batch must be 0 or more rows, not %d", batch)
	}
	c, err := s.cutting(in, int64(batch))
	if err != nil {
		return nil, err
	}
	ordered, err := s.arrange(in, c.inputs)
	if err != nil {
		return nil, err
	}
	if !c.fixed && c.rows <= c.batch {
		return s.run(ctx, ordered, want)
	}
	if c.rows == 0 {
		return nil, errors.New("the model has a fixed number of rows and cannot be run on none")
	}
	var res []*graph.Tensor
	for from := int64(0); from < c.rows; from += c.batch {
		n := min(c.batch, c.rows-from)
		filled := n
		if c.fixed {
			filled = c.batch
		}
		part, err := s.run(ctx, c.cut(ordered, from, n, filled), want)
		if err != nil {
			return nil, fmt.Errorf("rows %d to %d: %w", from, from+n-1, err)
		}
		if res == nil {
			res = make([]*graph.Tensor, len(part))
		}
		for i, p := range part {
			if res[i], err = appendRows(res[i], p, n, filled); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

// cutting says how inputs are cut into batches.
type cutting struct {
	inputs map[string]bool // those that are cut
	rows   int64           // that they have
	batch  int64           // rows per run, at least 1
	fixed  bool            // each run must have exactly batch rows
}

// cutting looks at the inputs only as far as needed to cut them; arrange checks
// the rest.
func (s *Session) cutting(in []*graph.Tensor, batch int64) (cutting, error) {
	c := cutting{inputs: map[string]bool{}, batch: batch}
	var first string
	for _, t := range in {
		i := slices.IndexFunc(s.inputs, func(v graph.Value) bool { return v.Name == t.Name })
		if i < 0 || len(t.Dims) == 0 {
			continue
		}
		rows, declared := t.Dims[0], int64(-1)
		if shape := s.inputs[i].Shape; len(shape) > 0 {
			declared = shape[0].Size
		}
		if rows == declared {
			continue
		}
		if first == "" {
			first, c.rows = t.Name, rows
		}
		if rows != c.rows {
			return c, fmt.Errorf("input %q has %d rows and input %q has %d: they cannot be cut into the same batches", first, c.rows, t.Name, rows)
		}
		c.inputs[t.Name] = true
		if declared < 1 {
			continue
		}
		if c.fixed && c.batch != declared {
			return c, fmt.Errorf("the model's inputs have different fixed numbers of rows, %d and %d", c.batch, declared)
		}
		c.fixed, c.batch = true, declared
	}
	if c.batch == 0 {
		c.batch = max(1, c.rows)
	}
	return c, nil
}

// cut returns the inputs of one run: n rows from the row from on, filled up to filled.
func (c cutting) cut(ordered []*graph.Tensor, from, n, filled int64) []*graph.Tensor {
	out := slices.Clone(ordered)
	for i, t := range ordered {
		if !c.inputs[t.Name] {
			continue
		}
		size := int64(len(t.Raw)) / c.rows
		raw := t.Raw[from*size : (from+n)*size]
		if filled > n {
			last := raw[(n-1)*size:]
			raw = slices.Clone(raw)
			for range filled - n {
				raw = append(raw, last...)
			}
		}
		dims := slices.Clone(t.Dims)
		dims[0] = filled
		out[i] = &graph.Tensor{Name: t.Name, DType: t.DType, Dims: dims, Raw: raw}
	}
	return out
}

// appendRows appends the first n of the rows rows of p to t, which is nil at first.
func appendRows(t, p *graph.Tensor, n, rows int64) (*graph.Tensor, error) {
	if len(p.Dims) == 0 || p.Dims[0] != rows || p.DType == graph.String {
		return nil, fmt.Errorf("output %q is %s%v for %d rows: without a row of numbers for each it cannot be put together from batches",
			p.Name, p.DType, p.Dims, rows)
	}
	if t == nil {
		t = &graph.Tensor{Name: p.Name, DType: p.DType, Dims: slices.Clone(p.Dims)}
		t.Dims[0] = 0
	}
	if !slices.Equal(t.Dims[1:], p.Dims[1:]) {
		return nil, fmt.Errorf("output %q has rows of shape %v in one batch and %v in another", p.Name, t.Dims[1:], p.Dims[1:])
	}
	t.Raw = append(t.Raw, p.Raw[:int64(len(p.Raw))/rows*n]...)
	t.Dims[0] += n
	return t, nil
}

package verify

import (
	"context"
	"fmt"
	"math"

	"cfq/engine"
	"cfq/graph"
)

// Levels compares the outputs at the production level with those of the
// unoptimized graph. The two round inner activations in different ways: where a
// value lies within float rounding of the middle between two codes, one takes
// the upper and one the lower. Everything else must agree.
type Levels struct {
	Rows int `json:"rows"` // probes
	// Diff is the largest difference of a float output.
	Diff float64 `json:"diff"`
	// Step is one output step: what one code of the last layer's input moves an
	// output by at most. 0 when the model has no integer layer.
	Step float64 `json:"step"`
	// Bound is the largest difference that rounding explains: every inner
	// activation off by one code, through the absolute weights. 0 when an
	// operator stands behind the layers through which nothing can be said.
	Bound float64 `json:"bound"`
	// Beyond counts the rows that differ by more than one Step. Codes flip
	// rarely, one at a time, so there must be few: at most 1 in 50.
	Beyond int `json:"beyond"`
	// Flipped counts the rows in which an integer output (a class) differs.
	Flipped int `json:"flipped,omitempty"`
}

// beyondShare is the share of rows that may differ by more than one output step.
const beyondShare = 0.02

func (r *Report) levels(ctx context.Context, onnx []byte, m *graph.Model, o engine.Options, in []*graph.Tensor) error {
	got, err := runBytes(ctx, onnx, o, in)
	if err != nil {
		return err
	}
	plain := o
	plain.Level = engine.Disabled
	want, err := runBytes(ctx, onnx, plain, in)
	if err != nil {
		return err
	}
	b, err := bounds(ctx, m, plain, in)
	if err != nil {
		return err
	}
	l := &r.Levels
	l.Step = b.step
	beyond := map[int]bool{}
	flipped := map[int]bool{}
	for i := range got {
		if err := l.compare(got[i], want[i], beyond, flipped); err != nil {
			return err
		}
		if s, ok := b.values[got[i].Name]; ok && got[i].DType.IsFloat() {
			l.Bound = math.Max(l.Bound, s.max())
		}
	}
	l.Beyond, l.Flipped = len(beyond), len(flipped)
	switch {
	case math.IsNaN(l.Diff):
		r.problem("an output is not a number")
	case l.Bound > 0 && l.Diff > l.Bound:
		r.problem("outputs differ by %.3g between optimization levels; rounding explains at most %.3g", l.Diff, l.Bound)
	case l.Step > 0 && float64(l.Beyond) > math.Max(beyondShare*float64(l.Rows), 1):
		r.problem("%d of %d rows differ by more than one output step (%.3g) between optimization levels", l.Beyond, l.Rows, l.Step)
	}
	return nil
}

// compare holds one output against itself at another level, row by row.
func (l *Levels) compare(a, b *graph.Tensor, beyond, flipped map[int]bool) error {
	if len(a.Raw) != len(b.Raw) || a.DType != b.DType {
		return fmt.Errorf("output %q has another shape without optimizations", a.Name)
	}
	rows := 1
	if len(a.Dims) > 0 {
		rows = int(a.Dims[0])
	}
	l.Rows = max(l.Rows, rows)
	if !a.DType.IsFloat() {
		width := len(a.Raw) / max(rows, 1)
		for i := range a.Raw {
			if a.Raw[i] != b.Raw[i] {
				flipped[i/width] = true
			}
		}
		return nil
	}
	x, err := a.Doubles()
	if err != nil {
		return err
	}
	y, err := b.Doubles()
	if err != nil {
		return err
	}
	for i := range x {
		d := math.Abs(x[i] - y[i])
		if !(d <= l.Diff) {
			l.Diff = d
		}
		if d > l.Step {
			beyond[i*rows/len(x)] = true
		}
	}
	return nil
}

func runBytes(ctx context.Context, onnx []byte, o engine.Options, in []*graph.Tensor) ([]*graph.Tensor, error) {
	s, err := engine.OpenBytes(onnx, o)
	if err != nil {
		return nil, fmt.Errorf("optimizations %s: %w", o.Level, err)
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("optimizations %s: %w", o.Level, err)
	}
	return out, nil
}

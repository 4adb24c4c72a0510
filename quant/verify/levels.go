package verify

import (
	"context"
	"fmt"
	"math"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Levels compares the outputs at the production level with those of the
// unoptimized graph. The two round inner activations in different ways: where a
// value lies within float rounding of the middle between two codes, one takes
// the upper and one the lower. Everything else must agree.
type Levels struct {
	Rows int `json:"rows"` // probes
	// Diff is the largest difference of a float output, where it is a number.
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
	// Flipped counts the rows in which an integer output (a class) differs. They
	// may be as few as those Beyond.
	Flipped int `json:"flipped,omitempty"`
	// NaN counts the rows in which an output is not a number, or infinite at one level only.
	NaN int `json:"nan,omitempty"`
}

// beyondShare is the share of rows that may differ by more than one output step,
// or in their class.
const beyondShare = 0.02

func (r *Report) levels(ctx context.Context, onnx []byte, m *graph.Model, o ort.Options, in []*graph.Tensor) error {
	got, err := runBytes(ctx, onnx, o, in)
	if err != nil {
		return err
	}
	plain := o
	plain.Level = ort.Disabled
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
	d := differing{map[int]bool{}, map[int]bool{}, map[int]bool{}}
	for i := range got {
		if err := l.compare(got[i], want[i], d); err != nil {
			return err
		}
		if s, ok := b.values[got[i].Name]; ok && got[i].DType.IsFloat() {
			l.Bound = math.Max(l.Bound, s.max())
		}
	}
	l.Beyond, l.Flipped, l.NaN = len(d.beyond), len(d.flipped), len(d.nan)
	few := math.Max(beyondShare*float64(l.Rows), 1)
	if l.NaN > 0 {
		r.problem("in %d of %d rows an output is not a number, or infinite at one optimization level only", l.NaN, l.Rows)
	}
	if float64(l.Flipped) > few {
		r.problem("%d of %d rows have another class at another optimization level", l.Flipped, l.Rows)
	}
	switch {
	case l.Bound > 0 && l.Diff > l.Bound:
		r.problem("outputs differ by %.3g between optimization levels; rounding explains at most %.3g", l.Diff, l.Bound)
	case l.Step > 0 && float64(l.Beyond) > few:
		r.problem("%d of %d rows differ by more than one output step (%.3g) between optimization levels", l.Beyond, l.Rows, l.Step)
	}
	return nil
}

// differing holds the rows in which outputs differ, by the kind of difference.
type differing struct{ beyond, flipped, nan map[int]bool }

// compare holds one output against itself at another level, row by row.
func (l *Levels) compare(a, b *graph.Tensor, d differing) error {
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
				d.flipped[i/width] = true
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
		row, diff := i*rows/len(x), math.Abs(x[i]-y[i])
		switch {
		case x[i] == y[i]: // also infinities
		case math.IsNaN(diff) || math.IsInf(diff, 0):
			d.nan[row] = true
		default:
			l.Diff = math.Max(l.Diff, diff)
			if diff > l.Step {
				d.beyond[row] = true
			}
		}
	}
	return nil
}

func runBytes(ctx context.Context, onnx []byte, o ort.Options, in []*graph.Tensor) ([]*graph.Tensor, error) {
	s, err := ort.OpenBytes(onnx, o)
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

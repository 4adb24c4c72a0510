package certify

import (
	"context"
	"fmt"
	"math"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// front is the step that makes the models' inputs of people's numbers. Proofs are about the models behind it: their
// first quantizers read the inputs, and a logarithm needs no bounds of its own.
type front struct {
	step *onnxio.Front
	s    *ort.Session
}

// newFront returns the step in front of a model, nil where there is none.
func newFront(m *onnxio.Model) (*front, error) {
	_, before := m.WithoutInputTransform()
	step, ok := before.(*onnxio.Front)
	if !ok {
		return nil, nil
	}
	s, err := ort.Open(step.Graph(), m.Engine())
	if err != nil {
		return nil, fmt.Errorf("the step in front of the models: %w", err)
	}
	return &front{step, s}, nil
}

// boxes returns boxes of the models' inputs that contain all that the step makes of boxes of people's numbers. Each
// input is a monotone function of the numbers that have a width, so that the ends of the numbers give its ends.
func (f *front) boxes(ctx context.Context, points, half []float32) (_, halves []float32, err error) {
	if f == nil || len(points) == 0 {
		return points, half, nil
	}
	lo, hi := make([]float32, len(points)), make([]float32, len(points))
	for i, p := range points {
		h := float64(half[i])
		if h > 0 {
			h += 2 * roundoff * (math.Abs(float64(p)) + h)
			if err := f.monotone(half, i); err != nil {
				return nil, nil, err
			}
		}
		lo[i], hi[i] = float32(float64(p)-h), float32(float64(p)+h)
	}
	a, err := f.of(ctx, lo)
	if err != nil {
		return nil, nil, err
	}
	b, err := f.of(ctx, hi)
	if err != nil {
		return nil, nil, err
	}
	halves = make([]float32, len(a))
	for i := range a {
		from, to := float64(min(a[i], b[i])), float64(max(a[i], b[i]))
		if from == to {
			continue
		}
		a[i] = float32((from + to) / 2)
		h := max(to-float64(a[i]), float64(a[i])-from)
		if k := i % f.step.To; f.step.Log[k] { // which is monotone up to its rounding
			h += 4 * roundoff * (max(math.Abs(from), math.Abs(to)) + 2*math.Abs(float64(f.step.Offset[k])))
		}
		halves[i] = math.Nextafter32(float32(h), math.MaxFloat32)
	}
	return a, halves, nil
}

// monotone is an error where the number at, and another one with a width, move an input in opposite directions.
func (f *front) monotone(half []float32, at int) error {
	row := at / f.step.From * f.step.From
	for j := row; j < row+f.step.From; j++ {
		for k := range f.step.To {
			a, b := f.step.Matrix[(at-row)*f.step.To+k], f.step.Matrix[(j-row)*f.step.To+k]
			if half[j] > 0 && (a > 0) != (b > 0) && a*b != 0 {
				return fmt.Errorf("input %d of the models rises with one number and falls with another", k)
			}
		}
	}
	return nil
}

// of runs the step.
func (f *front) of(ctx context.Context, x []float32) ([]float32, error) {
	rows := int64(len(x) / f.step.From)
	out, err := f.s.Run(ctx, []*graph.Tensor{graph.FromFloats("columns", x, rows, int64(f.step.From))})
	if err != nil {
		return nil, err
	}
	return out[0].Floats()
}

package taskmodel

import (
	"cfq/onnxio"
	"cfq/task"
)

// frontOf is the step that makes the model's inputs of a task's features, nil when these are the model's inputs.
func frontOf(t *task.Task) (onnxio.InputTransform, error) {
	if !t.Made() {
		return nil, nil
	}
	if t.Latent != nil {
		return decodedOf(t)
	}
	front := onnxio.NewFront(t.Dim(), t.ModelDim())
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		c, n := f.Category(), f.Number()
		switch {
		case n != nil:
			number(front, n, f.Offset, at)
		case c.Made() != nil:
			category(front, f, c.Made(), at)
		default:
			for j := range f.Width {
				front.Matrix[(f.Offset+j)*front.To+at+j] = 1
			}
		}
		at += f.ModelInputs()
	}
	return front, nil
}

// category puts the inputs of a category's values into a step, whose columns are at and those that follow: a sum, since
// a one-hot has a single 1, and each 1 of a thermometer or a binary feature leads from one value to the next.
func category(front *onnxio.Front, f *task.Feature, inputs [][]float64, at int) {
	_, hot := f.Encoding.(*task.OneHot)
	for k := range f.ModelInputs() {
		before := 0.0
		if !hot {
			before = inputs[0][k]
			front.Shift[at+k] = float32(before)
		}
		for j := range f.Width {
			v := inputs[j+len(inputs)-f.Width][k]
			front.Matrix[(f.Offset+j)*front.To+at+k] = float32(v - before)
			if !hot {
				before = v
			}
		}
	}
}

// leastArgument is the least number whose logarithm is taken: no row that can be read has a smaller one.
const leastArgument = 1e-30

func number(front *onnxio.Front, f *task.Standardized, input, at int) {
	scale, shift := 1.0, 0.0
	if f.Spread != 0 {
		scale = f.Unit()
	}
	if f.Log != nil {
		shift = *f.Log
	}
	front.Matrix[input*front.To+at], front.Shift[at] = float32(scale), float32(shift)
	if f.Clip != nil {
		within := func(raw float64) float32 {
			switch {
			case f.Spread == 0:
				raw = (raw - f.Mean) / f.Std
			case f.Log != nil:
				raw += *f.Log
			}
			return float32(min(max(raw, float64(front.Low[at])), float64(front.High[at])))
		}
		front.Low[at], front.High[at] = within(f.Clip[0]), within(f.Clip[1])
	}
	if f.Log != nil {
		front.Log[at], front.Low[at] = true, max(front.Low[at], leastArgument)
		front.Scale[at], front.Offset[at] = float32(1/f.Std), float32(-f.Mean/f.Std)
	}
}

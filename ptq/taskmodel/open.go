// Package taskmodel opens models for a task: with the step in front of them that makes their inputs of the task's
// features or, where people move in a latent space, of their codes.
//
// Input: a model as loaded, and a task. Output: a classifier of rows of the task's features. The invariant: what the
// original and a written file are asked about goes through the same step.
package taskmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/lower"
	"cfq/quant"
	"cfq/task"
	"cfq/task/draft"
)

// Open makes a model the classifier of a task, and checks that the two fit: its rows are those of the task's
// features. A nil task is one that it fits.
func Open(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	if t == nil {
		return openBehind(m, nil, nil, workers)
	}
	if m.Dim() != t.ModelDim() {
		looks := ""
		for _, c := range m.Columns() {
			if c.Values != nil {
				looks += fmt.Sprintf("; %s looks one of %d values up: write kind: onehot with these, or inputs: index", c.Name,
					len(c.Values))
			}
		}
		return nil, fmt.Errorf("the model has %d inputs, but the task's features make %d: each feature is one input, each "+
			"value of a one-hot feature another, in the model's order%s", m.Dim(), t.ModelDim(), looks)
	}
	front, err := frontOf(t)
	if err != nil {
		return nil, err
	}
	return openBehind(m, t, front, workers)
}

// OpenForPeople is Open of a model that decides about people. Its labels are what its margins decide, or it fails. Each
// person is scored alone: where outcomes depend on the rest of a batch, it runs row by row, see
// [classifier.Model.Mixes].
func OpenForPeople(ctx context.Context, m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	c, err := Open(m, t, workers)
	if err != nil {
		return nil, err
	}
	if t != nil {
		inner := c.WithoutInputTransform() // any rows show it
		_, err = inner.Answers(ctx, nil, false)
	}
	if err == nil {
		err = c.SeparateRows(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Require tells the task, before people are read, what the model requires of them: a row with a category that the model
// does not know, or none, cannot be read where the model fails for it.
func Require(t *task.Task, m *onnxio.Model) {
	for _, c := range m.Columns() {
		t.Require(c.First, c.Values, c.Strict, c.Blank)
	}
}

// RawColumns says that the graph shows how people are encoded: it takes each column of the task by its name, texts as
// they are and numbers that it scales itself.
func RawColumns(m *onnxio.Model, t *task.Task) bool {
	columns, at := m.Columns(), 0
	if t.Latent != nil || t.Encoded || len(columns) != len(t.Features) {
		return false
	}
	for i := range t.Features {
		f := &t.Features[i]
		k := slices.IndexFunc(columns, func(c lower.Column) bool { return c.First == at })
		if k < 0 || draft.BareName(columns[k].Name) != draft.BareName(f.Column) {
			return false
		}
		n, values := f.Number(), columns[k].Values
		switch {
		case values == nil && (n == nil || n.Mean != 0 || n.Std != 1 || n.Log != nil || n.Clip != nil || !m.ScalesNumbers()),
			values != nil && !slices.Equal(values, f.Values()):
			return false
		}
		at += f.ModelInputs()
	}
	return true
}

// OpenWithoutFront is Open of a model that gets its own inputs.
func OpenWithoutFront(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	return openBehind(m, t, nil, workers)
}

func openBehind(m *onnxio.Model, t *task.Task, front onnxio.InputTransform, workers int) (_ *classifier.Model,
	err error,
) {
	o := classifier.Options{Workers: workers, Through: quant.StraightThrough}
	if t != nil {
		o.Target, o.Output, o.Threshold = &t.Target.Index, onnxio.Meaning(t.Target.Output), t.Target.Threshold
	} else if m.Decision().Meaning == onnxio.Unknown {
		o.Output = onnxio.Logits // a task declares it; without one, nobody asks what the model decides
	}
	if front != nil {
		if m, err = m.WithInputTransform(front); err != nil {
			return nil, err
		}
	}
	return classifier.New(m, o)
}

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

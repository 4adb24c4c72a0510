// Package taskmodel opens models for a task: with the step in front of them that makes their inputs of the task's
// features or, where people move in a latent space, of their codes.
//
// Input: a model as loaded, and a task. Output: a classifier of rows of the task's features. The invariant: what the
// original and a written file are asked about goes through the same step.
package taskmodel

import (
	"fmt"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/task"
)

// Open makes a model the classifier of a task, and checks that the two fit: its rows are those of the task's
// features. A nil task is one that it fits.
func Open(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	if t == nil {
		return openBehind(m, nil, nil, workers)
	}
	if m.Dim() != t.ModelDim() {
		return nil, fmt.Errorf("the model has %d inputs, but the task's features make %d: "+
			"each feature is one input, each value of a one-hot feature another, in the model's order", m.Dim(), t.ModelDim())
	}
	front, err := frontOf(t)
	if err != nil {
		return nil, err
	}
	return openBehind(m, t, front, workers)
}

// Require tells the task, before people are read, what the model requires of them: a row with a category that the model
// does not know, or none, cannot be read where the model fails for it.
func Require(t *task.Task, m *onnxio.Model) {
	for _, c := range m.Columns() {
		if c.Strict {
			t.Require(c.First, c.Blank)
		}
	}
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

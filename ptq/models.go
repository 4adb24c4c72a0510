package ptq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/task"
)

// quantOpset is the operator set that the written model needs at least: INT4
// and per-channel scales.
const quantOpset = 21

// upgraded returns a copy of the model at quantOpset or above.
func upgraded(m *graph.Model) (*graph.Model, error) {
	m = m.Clone()
	if m.Opset("") < quantOpset {
		if err := onnxio.Upgrade(m, quantOpset); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// canonicalOf is Canonical with the shapes of all values known from a probe, so
// that layers are found whatever operators stand around them. A nil task is one
// that the model fits.
func (q *job) canonicalOf(ctx context.Context, m *graph.Model, t *task.Task) (_ *graph.Model, err error) {
	if m, err = upgraded(m); err != nil {
		return nil, err
	}
	var c *classifier.Model
	if t == nil {
		c, err = openAny(ctx, m, q.o.Engine, 1)
	} else {
		c, err = OpenFor(ctx, m, t, q.o.Engine, 1)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	known := m.Clone()
	c.Declare(known.Graph)
	if known, err = onnxio.Canonical(known); err != nil {
		return nil, err
	}
	// What the file declared stays, what was learnt does not go into the next one.
	known.Graph.Values = slices.DeleteFunc(known.Graph.Values, func(v graph.Value) bool {
		return !slices.ContainsFunc(m.Graph.Values, func(w graph.Value) bool { return w.Name == v.Name })
	})
	return known, nil
}

// OpenFor opens a model as the classifier of a task, and checks that the two fit.
func OpenFor(ctx context.Context, m *graph.Model, t *task.Task, e ort.Options, workers int) (*classifier.Model, error) {
	c, err := classifier.New(ctx, m, classifier.Options{Target: &t.Target.Index, Engine: e, Workers: workers})
	if err != nil {
		return nil, err
	}
	if c.Dim() != t.Dim() {
		err := fmt.Errorf("the model has %d inputs, but the task's features make %d: each feature is one input, each value of a one-hot feature another, in the model's order", c.Dim(), t.Dim())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// size is the file size of a model, by which the writer chooses containers.
func size(m *graph.Model) int {
	b, err := codec.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}

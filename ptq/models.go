package ptq

import (
	"context"
	"fmt"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/task"
)

// load opens the model, once, and returns it in the form that layers are found and quantized
// in. A nil task is one that the model fits.
func (q *job) load(ctx context.Context, m *graph.Model, t *task.Task) (*onnxio.Model, error) {
	loaded, err := onnxio.FromGraph(ctx, m, q.o.Engine)
	if err != nil {
		return nil, err
	}
	if _, err := openAs(loaded, t, 1); err != nil {
		return nil, err
	}
	return loaded.Canonical()
}

// openAs makes a loaded model the classifier of a task, and checks that the two fit. A nil task is one that it fits.
func openAs(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	if t == nil {
		return classifier.New(m, classifier.Options{Workers: workers, Through: quant.StraightThrough})
	}
	c, err := classifier.New(m, classifier.Options{Target: &t.Target.Index, Workers: workers, Through: quant.StraightThrough})
	if err != nil {
		return nil, err
	}
	if c.Dim() != t.Dim() {
		return nil, fmt.Errorf("the model has %d inputs, but the task's features make %d: each feature is one input, each value of a one-hot feature another, in the model's order", c.Dim(), t.Dim())
	}
	return c, nil
}

// OpenFor opens a model as the classifier of a task, and checks that the two fit.
func OpenFor(ctx context.Context, m *graph.Model, t *task.Task, e ort.Options, workers int) (*classifier.Model, error) {
	loaded, err := onnxio.FromGraph(ctx, m, e)
	if err != nil {
		return nil, err
	}
	return openAs(loaded, t, workers)
}

// size is the file size of a model, by which the writer chooses containers.
func size(m *graph.Model) int {
	b, err := codec.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}

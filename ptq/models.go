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

// opened is a model in canonical form, ready to run.
type opened struct {
	source     *graph.Model // the canonical form of the file, which plan files name by its hash
	canonical  *graph.Model // source, or source with equalized layers
	equalized  []string     // pairs of layers that were equalized
	found      []quant.LayerInfo
	full       *classifier.Model
	floatBytes int
	runtime    string // the oldest ONNX Runtime that must read what is written
	engine     ort.Options
}

// open brings a model into canonical form and opens it for a task; nil is any task that it fits. Of the
// options Runtime, CrossLayerEqualization, Engine and Workers count.
func open(ctx context.Context, m *graph.Model, t *task.Task, o *Options) (*opened, error) {
	loaded, err := onnxio.FromGraph(ctx, m, o.Engine)
	if err != nil {
		return nil, err
	}
	if _, err := openAs(loaded, t, 1); err != nil { // a model that does not fit is refused as it was given
		return nil, err
	}
	if loaded, err = loaded.Canonical(); err != nil {
		return nil, err
	}
	out := &opened{floatBytes: size(m), runtime: o.Runtime, engine: o.Engine, source: loaded.Graph()}
	if err := readable(out.source, o.Runtime); err != nil {
		return nil, err
	}
	out.canonical = out.source
	if o.CrossLayerEqualization {
		if out.canonical, out.equalized, err = quant.CrossLayerEqualize(out.source); err != nil {
			return nil, err
		}
	}
	if out.found, err = quant.FindLayers(out.canonical); err != nil {
		return nil, err
	}
	out.full, err = openAs(loaded.With(out.canonical), t, o.Workers)
	return out, err
}

// openAs makes a loaded model the classifier of a task, and checks that the two fit. A nil task is one that it fits.
func openAs(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	if t == nil {
		return classifier.New(m, classifier.Options{Workers: workers, Through: quant.StraightThrough})
	}
	c, err := classifier.New(m, classifier.Options{
		Target: &t.Target.Index, Workers: workers,
		Through: quant.StraightThrough,
	})
	if err != nil {
		return nil, err
	}
	if c.Dim() != t.Dim() {
		return nil, fmt.Errorf("the model has %d inputs, but the task's features make %d: "+
			"each feature is one input, each value of a one-hot feature another, in the model's order", c.Dim(), t.Dim())
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

// openFile opens the bytes of a written model as the classifier of a task.
func openFile(ctx context.Context, onnx []byte, t *task.Task, e ort.Options, workers int) (*classifier.Model, error) {
	m, err := codec.Read(onnx, "")
	if err != nil {
		return nil, err
	}
	return OpenFor(ctx, m, t, e, workers)
}

// size is the file size of a model, by which the writer chooses containers.
func size(m *graph.Model) int {
	b, err := codec.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}

package ptq

import (
	"context"
	"errors"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/ptq/taskmodel"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/task"
)

type canonicalModel struct {
	source     *graph.Model // the canonical form of the file, which plan files name by its hash
	canonical  *graph.Model // source, or source with equalized layers
	equalized  []string     // pairs of layers that were equalized
	found      []quant.LayerInfo
	file       *onnxio.Model // canonical, whose inputs are those of the written file
	full       *classifier.Model
	floatBytes int
	engine     ort.Options
	metadata   int // bytes of metadata and doc strings of the exporter that are left out
	spec       WriteSpec
}

// open brings a model into canonical form, balances the channel ranges of neighbouring layers if equalize is set, and
// opens it for a task; nil is any task that it fits.
func open(m *onnxio.Model, t *task.Task, spec WriteSpec, equalize bool, workers int) (*canonicalModel, error) {
	if _, err := taskmodel.Open(m, t, 1); err != nil { // a model that does not fit is refused as it was given
		return nil, err
	}
	c, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	out := &canonicalModel{engine: m.Engine(), source: c.Graph(), spec: spec}
	out.floatBytes, out.metadata = sizes(m.File(), spec.KeepMetadata)
	r, err := qdq.RuntimeOf(spec.Runtime)
	if err == nil {
		err = r.Check(out.source) // a model that this release cannot read, however it is written
	}
	if err != nil {
		return nil, err
	}
	out.canonical = out.source
	if equalize {
		if out.canonical, out.equalized, err = quant.CrossLayerEqualize(out.source); err != nil {
			return nil, err
		}
	}
	if out.found, err = quant.FindLayers(out.canonical); err != nil {
		return nil, err
	}
	out.file = c.With(out.canonical)
	tables := out.file.Tables()
	for i := range out.found {
		l := &out.found[i]
		l.Table = tables[l.Input] && l.Conv == nil
		if l.Conv != nil || l.Fixed != "" {
			continue
		}
		if n, ok := c.PerRow(l.Input); ok && n > 0 && n%l.In == 0 {
			l.Positions = n / l.In
		} else {
			l.Fixed = "what it reads does not follow the rows of a batch"
		}
	}
	out.full, err = taskmodel.Open(out.file, t, workers)
	return out, err
}

func openFile(ctx context.Context, onnx []byte, t *task.Task, e ort.Options, workers int) (*classifier.Model, error) {
	g, err := codec.Read(onnx, "")
	if err != nil {
		return nil, err
	}
	return openGraph(ctx, g, t, e, workers)
}

func openGraph(ctx context.Context, g *graph.Model, t *task.Task, e ort.Options, workers int) (*classifier.Model,
	error,
) {
	m, err := onnxio.FromGraph(ctx, g, e)
	if err != nil {
		return nil, err
	}
	return taskmodel.Open(m, t, workers)
}

// compareFile compares a written file with the original, of which the people of b know what it promises.
func compareFile(ctx context.Context, full *classifier.Model, onnx []byte, t *task.Task, b *eval.Batch,
	o eval.Options,
) (_ *eval.Result, err error) {
	g, err := openFile(ctx, onnx, t, full.Engine(), o.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return eval.Compare(ctx, full, g, b, o)
}

// sizes is the file size of a model without the metadata that are left out of what is written, and that of these.
func sizes(m *graph.Model, keep bool) (bytes, metadata int) {
	if !keep {
		metadata, _, _ = codec.MetadataSize(m) // what cannot be marshalled has no size, either
	}
	return size(m) - metadata, metadata
}

func size(m *graph.Model) int {
	b, err := codec.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}

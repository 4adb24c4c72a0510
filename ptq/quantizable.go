package ptq

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/refuse"
	"cfq/ptq/taskmodel"
	"cfq/quant"
)

// Obstacle is why a model cannot be quantized.
type Obstacle struct {
	error
	Instead  string // what to export instead, "" when nothing is known
	Recourse bool   // recourse cannot be searched for, either: the margin has no gradient
	Already  bool   // the model is quantized already
}

// Unwrap returns the reason.
func (o *Obstacle) Unwrap() error { return o.error }

// Quantizable returns nil when a model has layers to quantize and a margin with a gradient. Otherwise it is an
// *Obstacle, or an error of the run.
func Quantizable(ctx context.Context, m *onnxio.Model) (err error) {
	c, err := taskmodel.Open(m, nil, 1)
	if err != nil {
		return nil // of the head, which is declared by the task
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, _, err := c.MarginGrads(ctx, make([]float32, m.Dim())); err != nil {
		if ctx.Err() != nil {
			return err
		}
		o := &Obstacle{error: err, Recourse: true}
		if refused := (*refuse.Refusal)(nil); !errors.As(err, &refused) { // which says what to do
			o.Instead = instead(m.Graph().Graph)
		}
		return o
	}
	canonical, err := m.Canonical()
	if err != nil {
		return &Obstacle{error: err, Instead: instead(m.Graph().Graph)}
	}
	from := &canonicalModel{canonical: canonical.Graph()}
	if from.found, err = quant.FindLayers(from.canonical); err != nil {
		return &Obstacle{error: err}
	}
	if _, _, err := from.selectLayers(nil); err != nil {
		return &Obstacle{error: err, Instead: instead(m.Graph().Graph), Already: isQuantized(from.canonical)}
	}
	return nil
}

func instead(g *graph.Graph) string {
	const ml = "ai.onnx.ml"
	for _, a := range []struct {
		is     func(n *graph.Node) bool
		advice string
	}{
		{
			func(n *graph.Node) bool { return n.Domain == ml && !strings.HasPrefix(n.Op, "Linear") },
			"export the network without the steps in front of it (the last step of a scikit-learn pipeline alone) and write " +
				"these into the task file: mean, std, values, inputs",
		},
		{
			func(n *graph.Node) bool {
				return n.Op == "Dropout" && n.Input(2) != "" || n.Int("training_mode", 0) != 0
			},
			"export the network for inference: model.eval() before torch.onnx.export, without training=",
		},
		{
			func(n *graph.Node) bool { return n.HasGraphs() || n.Op == "GatherND" || n.Op == "ScatterND" },
			"export the network alone, without the selection of columns or the conditions around it",
		},
	} {
		if slices.ContainsFunc(g.Nodes, a.is) {
			return a.advice
		}
	}
	return ""
}

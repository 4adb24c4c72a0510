package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/calib"
	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/sensitivity"
	"cfq/task"
)

// Profile is how much each layer matters, by several measures: at factual rows, with
// each row's own class, and at recourse points, with the target class.
type Profile struct {
	Method string `json:"method"` // fits the layers; the calibration set is this method's
	CalibrationPoints
	// Errors is "exact" (each layer alone is quantized, written and run) or "first-order" (estimated from the gradient
	// of the margin by the layer's outputs).
	Errors string `json:"margin_error_method"`
	Probes int    `json:"probes"`
	// BitWidths are those that each layer's MarginError is about.
	BitWidths []int `json:"bit_widths"`
	// Layers are those that can be quantized, in the order of the graph.
	Layers   []LayerProfile `json:"layers"`
	Warnings []string       `json:"warnings,omitempty"`
}

// LayerProfile is how much one layer matters.
type LayerProfile struct {
	Node     string      `json:"node"`
	Weights  int         `json:"weights"`
	Factual  *Importance `json:"factual"`            // at factual rows
	Recourse *Importance `json:"recourse,omitempty"` // at recourse points; nil where there are none
}

// Importance is how much a layer matters at one kind of rows.
type Importance struct {
	// Gradient is the mean over the rows of the l1 norm of the gradient of the row's cross-entropy by the layer's weights;
	// at recourse points eq. cfptq_sensitivity, whose mean goes over x + delta of everybody. nil when a warning says why.
	Gradient *Score `json:"gradient,omitempty"`
	// Trace is that of the Hessian of the mean cross-entropy by the layer's weights (HAWQ-V2).
	Trace *Score `json:"trace,omitempty"`
	// MarginError is the mean squared quantization error of the margin when this layer alone is quantized, for
	// each of Profile.BitWidths.
	MarginError []float64 `json:"margin_error"`
}

// Score is one measure of a layer.
type Score struct {
	Value float64 `json:"value"`
	// Err is the standard error of an estimate; 0 for what is no estimate.
	Err           float64 `json:"standard_error,omitempty"`
	PerWeight     float64 `json:"per_weight"`
	PerWeightRank int     `json:"per_weight_rank"` // among all layers; 1 is the largest
}

// Sensitivity calibrates as Quantize does and measures how much each layer matters.
func Sensitivity(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	*Profile, error,
) {
	c, err := fit(ctx, m, t, people, r, run)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the profile is what counts
	return c.profile(ctx)
}

// GradientScores returns the gradient score of each layer of a model, by its node, at rows of the task's model inputs.
//
// Reference: eq. cfptq_sensitivity.
func GradientScores(ctx context.Context, m *classifier.Model, t *task.Task, x []float32, workers int) (
	map[string]float64, error,
) {
	canonical, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	layers, err := quant.FindLayers(canonical.Graph())
	if err != nil {
		return nil, err
	}
	c, err := classifier.New(canonical, classifier.Options{
		Target: &t.Target.Index, Workers: workers, Through: quant.StraightThrough,
	})
	if err != nil {
		return nil, err
	}
	scores, err := sensitivity.Gradient(ctx, c, layers, x, nil)
	out := map[string]float64{}
	for i, score := range scores {
		out[layers[i].Node] = score
	}
	return out, errors.Join(err, c.Close())
}

func (c *calibration) profile(ctx context.Context) (*Profile, error) {
	n, points := c.net, c.calibrationSet // with recourse points, also where the method does not look at them
	classes, err := factualClasses(ctx, n.full, c.sample.people)
	if err == nil && n.recipe.Calibrate.Points == onFactual && n.recipe.Allocate.Scores == onFactual {
		points, err = calib.Counterfactual(ctx, n.full, c.sample.set, c.sample.people.X, n.teacher())
	}
	if err != nil {
		return nil, err
	}
	p := &Profile{
		Method: n.recipe.Method, CalibrationPoints: c.sample.points(points), Errors: "exact",
		Probes: sensitivity.DefaultProbes, Warnings: slices.Clone(c.warnings),
	}
	if !c.exactErrors(errorRows) {
		p.Errors = "first-order"
	}
	p.BitWidths = lists.Map(quant.Formats(), func(f quant.Format) int { return f.Bits })
	factual, err := c.survey(ctx, p, pointsAt{"factual rows", points.Facts(), points.Facts(), classes})
	if err != nil {
		return nil, err
	}
	for i, l := range n.layers {
		p.Layers = append(p.Layers, LayerProfile{Node: l.Node, Weights: l.Params(), Factual: &factual[i]})
	}
	if points.Recourse == 0 {
		return p, nil
	}
	recourse, err := c.survey(ctx, p, pointsAt{"recourse points", points.Points(), points.Moved(), nil})
	for i := range recourse {
		p.Layers[i].Recourse = &recourse[i]
	}
	return p, err
}

// pointsAt are points to measure the layers at: traces and errors at rows, gradients at moved. Classes nil are the
// target.
type pointsAt struct {
	where       string
	rows, moved []float32
	classes     []int
}

func (c *calibration) survey(ctx context.Context, p *Profile, at pointsAt) (out []Importance, err error) {
	n := c.net
	score := func(what string, values, errs []float64, err error) []*Score {
		if err == nil {
			err = finite(what, slices.Concat(values, errs))
		}
		if err != nil {
			p.Warnings = append(p.Warnings, fmt.Sprintf("no %ss at %s: %v", what, at.where, err))
			return make([]*Score, len(n.layers))
		}
		return scores(n.layers, values, errs)
	}
	n.run.tell("gradients at "+at.where, 0, 0)
	values, err := sensitivity.Gradient(ctx, n.full, n.layers, at.moved, at.classes)
	gradients := score("gradient", values, nil, err)
	x, classes := n.thin(at.rows, at.classes, sensitivity.TraceRows(n.layers))
	values, errs, err := sensitivity.Trace(ctx, n.full, n.layers, x, classes, sensitivity.TraceOptions{
		Seed: 1, Progress: func(done, total int) { n.run.tell("curvature at "+at.where, done, total) },
	})
	traces := score("trace", values, errs, err)
	x, _ = n.thin(at.rows, nil, errorRows)
	measured, err := c.measureLayers(ctx, x, c.exactErrors(errorRows), "quantization errors at "+at.where)
	if err != nil {
		return nil, err
	}
	for i, l := range n.layers {
		out = append(out, Importance{gradients[i], traces[i], measured[i]})
		if e := finite("quantization error", measured[i]); e != nil {
			err = errors.Join(err, fmt.Errorf("layer %q: %w", l.Node, e))
		}
	}
	return out, err
}

func finite(what string, values []float64) error {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the %s is %v", what, v)
		}
	}
	return nil
}

func scores(layers []quant.LayerInfo, values, errs []float64) []*Score {
	out := make([]*Score, len(values))
	for i := range out {
		out[i] = &Score{Value: values[i], PerWeight: values[i] / float64(layers[i].Params())}
		if errs != nil {
			out[i].Err = errs[i]
		}
	}
	for _, s := range out {
		s.PerWeightRank = 1
		for _, other := range out {
			if other.PerWeight > s.PerWeight {
				s.PerWeightRank++
			}
		}
	}
	return out
}

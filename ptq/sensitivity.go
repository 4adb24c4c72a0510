package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/calib"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/sensitivity"
	"cfq/task"
)

// DefaultProbes is how many random vectors estimate a trace by default.
const DefaultProbes = sensitivity.DefaultProbes

// ProfileOptions of Sensitivity.
type ProfileOptions struct {
	Recipe Recipe
	Probes int    // random vectors that estimate each trace (DefaultProbes)
	Seed   uint64 // of the random vectors
}

// How the quantization error of the margin is found: exactly where that takes no more than minutes.
const (
	errorsExact      = "exact"
	errorsFirstOrder = "first-order"
)

// Profile is how much each layer matters, by several measures: at factual rows, with
// each row's own class, and at recourse points, with the target class.
type Profile struct {
	Method   string `json:"method"` // fits the layers; the calibration set is this method's
	People   int    `json:"people"` // who were given
	Factual  int    `json:"calibration_rows"`
	Recourse int    `json:"recourse_points"`
	Reached  int    `json:"recourse_points_valid"`
	Promised bool   `json:"promises,omitempty"` // the recourse points are those of Run.Promises
	// Errors is "exact" (each layer alone is quantized, written and run) or "first-order" (estimated from the gradient
	// of the margin by the layer's outputs); ErrorRows is the largest number of rows of each kind that margin errors
	// are means over, TraceRows the same for the traces.
	Errors    string `json:"margin_error_method"`
	ErrorRows int    `json:"margin_error_rows"`
	Probes    int    `json:"probes"`
	TraceRows int    `json:"trace_rows"`
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
	// Gradient is the mean over the rows of the l1 norm of the gradient of the row's
	// cross-entropy by the layer's weights; at recourse points eq. cfptq_sensitivity,
	// whose mean goes over x + delta of everybody. nil when a warning says why.
	Gradient *Score `json:"gradient,omitempty"`
	// Trace is that of the Hessian of the mean cross-entropy by the layer's weights (HAWQ-V2).
	Trace *Score `json:"trace,omitempty"`
	// MarginError is the mean squared quantization error of the margin when this layer alone is quantized, for
	// each of Profile.BitWidths, and MarginErrorRank the layer's rank among all at that bit width.
	MarginError     []float64 `json:"margin_error"`
	MarginErrorRank []int     `json:"margin_error_rank"`
}

// Score is one measure of a layer. Ranks are among all layers; 1 is the largest score.
type Score struct {
	Value float64 `json:"value"`
	// Err is the standard error of an estimate; 0 for what is no estimate.
	Err           float64 `json:"standard_error,omitempty"`
	Rank          int     `json:"rank"`
	PerWeight     float64 `json:"per_weight"`
	PerWeightRank int     `json:"per_weight_rank"`
}

// Sensitivity calibrates as Quantize does and measures how much each layer matters.
func Sensitivity(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, po ProfileOptions,
	run Run,
) (*Profile, error) {
	po.Probes = cmp.Or(po.Probes, DefaultProbes)
	if po.Probes < 2 {
		return nil, inputError(fmt.Errorf("%d probes: a standard error needs 2 or more", po.Probes))
	}
	n, err := prepare(ctx, m, t, po.Recipe, run)
	if err != nil {
		return nil, inputError(err)
	}
	defer n.full.Close() //nolint:errcheck // the profile is what counts
	c, err := n.calibrate(ctx, people)
	if err != nil {
		return nil, err
	}
	return c.profile(ctx, po)
}

// GradientScores returns the gradient score of each layer of a model, by its node, at rows of the task's model inputs.
//
// Reference: eq. cfptq_sensitivity.
func GradientScores(ctx context.Context, m *classifier.Model, t *task.Task, x []float32, workers int) (
	_ map[string]float64, err error,
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
	defer func() { err = errors.Join(err, c.Close()) }()
	scores, err := sensitivity.Gradient(ctx, c, layers, x, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i := range layers {
		out[layers[i].Node] = scores[i]
	}
	return out, nil
}

func (c *layerFits) profile(ctx context.Context, o ProfileOptions) (_ *Profile, err error) {
	points := c.calibrationSet // with recourse points, also where the method does not look at them
	if c.net.recipe.Calibrate.Points == onFactual && c.net.recipe.Allocate.Scores == onFactual {
		points, err = calib.Counterfactual(ctx, c.net.full, c.sample.set, c.sample.people.X, c.net.teacher())
		if err != nil {
			return nil, err
		}
	}
	p := &Profile{
		Method: c.net.recipe.Method, People: c.sample.all.N, Factual: points.Factual, Recourse: points.Recourse,
		Reached: points.Valid(), Promised: points.Recourse > 0 && c.sample.promises != nil, Errors: errorsExact,
		ErrorRows: errorRows, Probes: o.Probes, TraceRows: sensitivity.TraceRows(c.net.layers), Warnings: c.warnings,
	}
	if !c.exactErrors(errorRows) {
		p.Errors, p.ErrorRows = errorsFirstOrder, sensitivity.MaxFirstOrderRows
	}
	for _, f := range quant.Formats() {
		p.BitWidths = append(p.BitWidths, f.Bits)
	}
	classes, err := factualClasses(ctx, c.net.full, c.sample.people)
	if err != nil {
		return nil, err
	}
	factual, warnings, err := c.survey(ctx, "factual rows", points.Facts(), points.Facts(), classes, o)
	if err != nil {
		return nil, err
	}
	p.Warnings = slices.Concat(p.Warnings, warnings)
	for i, l := range c.net.layers {
		p.Layers = append(p.Layers, LayerProfile{Node: l.Node, Weights: l.Params(), Factual: &factual[i]})
	}
	if points.Recourse == 0 {
		return p, nil
	}
	recourse, warnings, err := c.survey(ctx, "recourse points", points.Points(), points.Moved(), nil, o)
	p.Warnings = slices.Concat(p.Warnings, warnings)
	for i := range recourse {
		p.Layers[i].Recourse = &recourse[i]
	}
	return p, err
}

// survey measures the layers at some points: traces and errors at rows, gradients at moved. Classes nil are the target.
func (c *layerFits) survey(ctx context.Context, points string, rows, moved []float32, classes []int,
	o ProfileOptions,
) (_ []Importance, warnings []string, err error) {
	out := make([]Importance, len(c.net.layers))
	take := func(what string, values, errs []float64, err error, at func(*Importance) **Score) error {
		if err == nil {
			err = finite(what, slices.Concat(values, errs)...)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("no %ss at %s: %v", what, points, err))
			return ctx.Err()
		}
		for i, score := range c.ranked(values) {
			if errs != nil {
				score.Err = errs[i]
			}
			*at(&out[i]) = &score
		}
		return nil
	}
	c.net.run.tell("gradients at "+points, 0, 0)
	gradients, err := sensitivity.Gradient(ctx, c.net.full, c.net.layers, moved, classes)
	err = take("gradient", gradients, nil, err, func(i *Importance) **Score { return &i.Gradient })
	if err != nil {
		return nil, nil, err
	}
	x, classes := c.net.thin(rows, classes, sensitivity.TraceRows(c.net.layers))
	traces, errs, err := sensitivity.Trace(ctx, c.net.full, c.net.layers, x, classes, sensitivity.TraceOptions{
		Probes: o.Probes, Seed: o.Seed,
		Progress: func(done, total int) { c.net.run.tell("curvature at "+points, done, total) },
	})
	if err = take("trace", traces, errs, err, func(i *Importance) **Score { return &i.Trace }); err != nil {
		return nil, nil, err
	}
	x, _ = c.net.thin(rows, nil, errorRows)
	measured, err := c.measureLayers(ctx, x, c.exactErrors(errorRows), "quantization errors at "+points)
	if err != nil {
		return nil, nil, err
	}
	for i := range measured {
		out[i].MarginError = measured[i]
		if e := finite("quantization error", measured[i]...); e != nil {
			err = errors.Join(err, fmt.Errorf("layer %q: %w", c.net.layers[i].Node, e))
		}
	}
	for f := range quant.Formats() {
		var column []float64
		for i := range measured {
			column = append(column, measured[i][f])
		}
		for i, r := range ranks(column) {
			out[i].MarginErrorRank = append(out[i].MarginErrorRank, r)
		}
	}
	return out, warnings, err
}

func finite(what string, v ...float64) error {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("the %s is %v", what, x)
		}
	}
	return nil
}

func (c *layerFits) ranked(values []float64) []Score {
	per := slices.Clone(values)
	for i := range per {
		per[i] /= float64(c.net.layers[i].Params())
	}
	out := make([]Score, len(values))
	rank, perRank := ranks(values), ranks(per)
	for i := range out {
		out[i] = Score{Value: values[i], PerWeight: per[i], Rank: rank[i], PerWeightRank: perRank[i]}
	}
	return out
}

// ranks returns the place of each value, 1 for the largest; equal values share theirs.
func ranks(values []float64) []int {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b float64) int { return cmp.Compare(b, a) })
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = 1 + slices.Index(sorted, v)
	}
	return out
}

package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/allocate"
	"cfq/calib"
	"cfq/onnxio"
	"cfq/sensitivity"
	"cfq/task"
)

// ProfileOptions of Sensitivity. The zero value is useful.
type ProfileOptions struct {
	// Probes is the number of random vectors that estimate each trace (sensitivity.DefaultProbes).
	Probes int
	// Seed is that of the random vectors.
	Seed uint64
	// Errors says how quantization errors are found (ErrorsAuto).
	Errors ErrorMethod
}

// ErrorMethod says how the quantization error of the margin is found.
type ErrorMethod string

// How the quantization error of the margin is found.
const (
	ErrorsAuto       ErrorMethod = "auto"
	ErrorsExact      ErrorMethod = "exact"
	ErrorsFirstOrder ErrorMethod = "first-order"
)

// ErrorMethods is the table of ErrorMethod.
func ErrorMethods() []Choice {
	return []Choice{
		{string(ErrorsAuto), "exact where that takes no more than minutes, else first-order"},
		{string(ErrorsExact), "each layer alone is quantized at each bit width, written and run"},
		{string(ErrorsFirstOrder), "estimated from the gradient of the margin by each layer's outputs"},
	}
}

// Profile is how much each layer matters, by several measures: at factual rows, with
// each row's own class, and at recourse points, with the target class.
type Profile struct {
	Method   MethodName `json:"method"` // fits the layers; the calibration set is this method's
	Budget   float64    `json:"budget"` // of the rules, in mean bits per weight
	People   int        `json:"people"` // who were given
	Factual  int        `json:"calibration_rows"`
	Recourse int        `json:"recourse_points"`
	Reached  int        `json:"recourse_points_valid"`
	Promised bool       `json:"promises,omitempty"` // the recourse points are those of Options.Promises
	// Errors is ErrorsExact or ErrorsFirstOrder; ErrorRows is the largest number of rows of each kind that margin
	// errors are means over, TraceRows the same for the traces.
	Errors    ErrorMethod `json:"margin_error_method"`
	ErrorRows int         `json:"margin_error_rows"`
	Probes    int         `json:"probes"`
	TraceRows int         `json:"trace_rows"`
	// BitWidths are those that each layer's MarginError and the rules are about.
	BitWidths []int `json:"bit_widths"`
	// Layers are those that can be quantized, in the order of the graph.
	Layers   []LayerProfile `json:"layers"`
	Rules    []Rule         `json:"rules"`
	Warnings []string       `json:"warnings,omitempty"`
}

// LayerProfile is how much one layer matters.
type LayerProfile struct {
	Node     string      `json:"node"`
	Weights  int         `json:"weights"`
	Factual  Importance  `json:"factual"`            // at factual rows
	Recourse *Importance `json:"recourse,omitempty"` // at recourse points; nil where there are none
}

// Importance is how much a layer matters at one kind of rows.
type Importance struct {
	// Gradient is the mean over the rows of the l1 norm of the gradient of the row's
	// cross-entropy by the layer's weights; at recourse points eq. cfptq_sensitivity,
	// whose mean goes over x + delta of everybody. nil when a warning says why.
	Gradient *Score `json:"gradient,omitempty"`
	// Trace is that of the Hessian of the mean cross-entropy by the layer's weights.
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

// Rule is what one way of giving bits to layers makes of the budget.
type Rule struct {
	// Name is an allocator, or RuleHAWQ.
	Name Allocator `json:"rule"`
	// At is "factual" or "recourse", where the rule looks; "" where it looks nowhere.
	At string `json:"at,omitempty"`
	// Bits are those of each layer, nil where the rule has none: Error says why.
	Bits     []int   `json:"bits,omitempty"`
	MeanBits float64 `json:"mean_bits,omitempty"`
	// MarginError is the root mean square of the margin error, at recourse points or,
	// where there are none, at factual rows, of the model with these bits, written and run
	// with nothing refined.
	MarginError float64 `json:"margin_error,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// RuleHAWQ is the rule of HAWQ-V2: the exact knapsack over the trace per weight times the
// squared change of the weights.
const RuleHAWQ Allocator = "hawq-v2"

// Sensitivity calibrates as Calibrate does and measures how much each layer matters, and what bits each rule would give
// at Options.Budget, in mean bits per weight.
func Sensitivity(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options,
	po ProfileOptions,
) (*Profile, error) {
	if po.Errors == "" {
		po.Errors = ErrorsAuto
	}
	if po.Probes == 0 {
		po.Probes = sensitivity.DefaultProbes
	}
	err := errors.Join(o.Check(), CheckChoice("margin-error", string(po.Errors), ErrorMethods()))
	if po.Probes < 2 {
		err = errors.Join(err, fmt.Errorf("%d probes: a standard error needs 2 or more", po.Probes))
	}
	if err != nil {
		return nil, inputError(err)
	}
	c, err := calibrate(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	defer c.full.Close() //nolint:errcheck // the profile is what counts
	return c.profile(ctx, po)
}

// profiler is one run of Sensitivity.
type profiler struct {
	*calibrated

	o        ProfileOptions
	points   *calib.Set // with recourse points, also where the method does not look at them
	weights  []int      // of each layer
	total    int        // of weights
	warnings []string
}

// measures are those of all layers at one kind of rows.
type measures struct {
	at, rows string    // as Rule.At has it, and as messages do
	gradient []float64 // nil when there is none
	trace    []sensitivity.Curvature
	errors   [][]float64 // layer, format
}

func (c *calibrated) profile(ctx context.Context, o ProfileOptions) (_ *Profile, err error) {
	p := &profiler{calibrated: c, o: o, points: c.union, warnings: slices.Clone(c.warnings)}
	if c.o.CalibrateOn == OnFactual && !c.method.RecourseSensitivity {
		if p.points, err = c.counterfactual(ctx, &c.cohort); err != nil {
			return nil, err
		}
	}
	for _, l := range c.layers {
		p.weights, p.total = append(p.weights, l.Params()), p.total+l.Params()
	}
	if exact := c.exactErrors(errorRows); p.o.Errors == ErrorsAuto && exact {
		p.o.Errors = ErrorsExact
	} else if p.o.Errors == ErrorsAuto {
		p.o.Errors = ErrorsFirstOrder
	}
	all := []*measures{{at: "factual", rows: "factual rows"}}
	if p.points.Recourse > 0 {
		all = append(all, &measures{at: "recourse", rows: "recourse points"})
	}
	for _, m := range all {
		if err := p.survey(ctx, m); err != nil {
			return nil, err
		}
	}
	out := &Profile{
		Method: c.method.Name, Budget: c.o.Budget, People: c.all.N, Factual: p.points.Factual,
		Recourse: p.points.Recourse, Reached: p.points.Valid(),
		Errors: p.o.Errors, ErrorRows: errorRows, Probes: p.o.Probes, TraceRows: sensitivity.TraceRows(c.layers),
		Promised: p.points.Recourse > 0 && c.promises != nil, Warnings: p.warnings,
	}
	if out.Errors == ErrorsFirstOrder {
		out.ErrorRows = sensitivity.MaxFirstOrderRows
	}
	for _, f := range c.formats() {
		out.BitWidths = append(out.BitWidths, f.Bits)
	}
	for i, l := range c.layers {
		out.Layers = append(out.Layers, LayerProfile{Node: l.Node, Weights: p.weights[i]})
	}
	for _, m := range all {
		for i, importance := range m.importance(p.weights) {
			if m.at == "factual" {
				out.Layers[i].Factual = importance
			} else {
				out.Layers[i].Recourse = &importance
			}
		}
	}
	out.Rules, err = p.rules(ctx, all)
	return out, err
}

// survey takes all measures at one kind of rows. A model without gradients has
// its quantization errors alone.
func (p *profiler) survey(ctx context.Context, m *measures) (err error) {
	rows, moved, classes := p.points.Points(), p.points.Moved(), []int(nil)
	if m.at == "factual" {
		rows, moved = p.points.Facts(), p.points.Facts()
		if classes, err = factualClasses(ctx, p.full, p.people); err != nil {
			return err
		}
	}
	p.tell("gradients at "+m.rows, 0, 0)
	if m.gradient, err = sensitivity.Gradient(ctx, p.full, p.layers, moved, classes); err == nil {
		err = finite("gradient", m.gradient...)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		p.warn("no gradients at %s: %v", m.rows, err)
		m.gradient = nil
	}
	m.trace, err = sensitivity.Trace(ctx, p.full, p.layers, rows, classes, sensitivity.TraceOptions{
		Probes: p.o.Probes, Seed: p.o.Seed, Progress: func(done, total int) { p.tell("curvature at "+m.rows, done, total) },
	})
	for _, t := range m.trace {
		err = errors.Join(err, finite("trace", t.Trace, t.Err))
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		p.warn("no traces at %s: %v", m.rows, err)
		m.trace = nil
	}
	x := sampled(rows, p.full.Dim(), errorRows)
	m.errors, err = p.measureLayers(ctx, x, p.o.Errors == ErrorsExact, "quantization errors at "+m.rows)
	if err != nil {
		return err
	}
	for i := range m.errors {
		if e := finite("quantization error", m.errors[i]...); e != nil {
			err = errors.Join(err, fmt.Errorf("layer %q: %w", p.layers[i].Node, e))
		}
	}
	return err
}

func (p *profiler) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

func finite(what string, v ...float64) error {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("the %s is %v", what, x)
		}
	}
	return nil
}

// importance returns the measures layer by layer, with ranks.
func (m *measures) importance(weights []int) []Importance {
	out := make([]Importance, len(weights))
	for i, s := range scores(m.gradient, weights) {
		out[i].Gradient = &s
	}
	var traces []float64
	for _, t := range m.trace {
		traces = append(traces, t.Trace)
	}
	for i, s := range scores(traces, weights) {
		s.Err = m.trace[i].Err
		out[i].Trace = &s
	}
	column := make([]float64, len(out))
	for f := range m.errors[0] {
		for i := range column {
			column[i] = m.errors[i][f]
		}
		for i, r := range ranks(column) {
			out[i].MarginErrorRank = append(out[i].MarginErrorRank, r)
		}
	}
	for i := range out {
		out[i].MarginError = m.errors[i]
	}
	return out
}

// scores adds ranks to the values of the layers.
func scores(values []float64, weights []int) []Score {
	out := make([]Score, len(values))
	per := perWeight(values, weights)
	rank, perRank := ranks(values), ranks(per)
	for i := range out {
		out[i] = Score{Value: values[i], PerWeight: per[i], Rank: rank[i], PerWeightRank: perRank[i]}
	}
	return out
}

func perWeight(values []float64, weights []int) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] /= float64(weights[i])
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

// rules asks the rules for their bits and measures what comes of them.
func (p *profiler) rules(ctx context.Context, all []*measures) ([]Rule, error) {
	budget := int64(math.Floor(p.calibrated.o.Budget*float64(p.total) + 1e-6))
	x := p.points.Points() // where whole models are run
	if p.points.Recourse == 0 {
		x = p.points.Facts()
	}
	x = sampled(x, p.full.Dim(), errorRows)
	margins, err := p.full.Margins(ctx, x)
	if err != nil {
		return nil, err
	}
	var list []Rule
	add := func(name Allocator, at string, picks []int, err error) error {
		rule := Rule{Name: name, At: at}
		if err != nil {
			rule.Error = err.Error()
		} else if err = p.outcome(ctx, &rule, picks, x, margins); err != nil {
			return err
		}
		list = append(list, rule)
		return nil
	}
	picks, err := allocate.Uniform(p.choices(nil), budget)
	if err := add(AllocatorUniform, "", picks, err); err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.gradient != nil {
			picks, err := allocate.Paper(p.choices(nil), perWeight(m.gradient, p.weights), budget)
			if err := add(AllocatorPaper, m.at, picks, err); err != nil {
				return nil, err
			}
		}
		if m.trace != nil {
			var picks []int
			changes, err := p.curved(m.trace)
			if err == nil {
				picks, err = allocate.Exact(p.choices(changes), budget)
			}
			if err := add(RuleHAWQ, m.at, picks, err); err != nil {
				return nil, err
			}
		}
		picks, err := allocate.Exact(p.choices(m.errors), budget)
		if err := add(AllocatorExact, m.at, picks, err); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// choices are those of each layer, their cost the bits of the weights.
func (p *profiler) choices(errs [][]float64) [][]allocate.Choice {
	out := make([][]allocate.Choice, len(p.layers))
	for i := range out {
		for f, format := range p.formats() {
			c := allocate.Choice{Bits: format.Bits, Cost: int64(p.weights[i]) * int64(format.Bits)}
			if errs != nil {
				c.Error = errs[i][f]
			}
			out[i] = append(out[i], c)
		}
	}
	return out
}

// curved is what HAWQ-V2 takes for the quantization error of each layer and bit width: the trace per
// weight, the mean eigenvalue of the Hessian, times the squared change of the weights.
func (p *profiler) curved(trace []sensitivity.Curvature) ([][]float64, error) {
	out := make([][]float64, len(p.layers))
	for i := range out {
		w := p.grid.wide[i]
		gain := slices.Repeat([]float64{1}, w.In) // what columns were divided by for the integer input
		if p.onGrid(i) {
			for _, c := range p.grid.input.Columns {
				gain[c.Source] = float64(c.Gain)
			}
		}
		for f := range p.formats() {
			c, err := p.change(i, f)
			if err != nil {
				return nil, err
			}
			var sum float64
			for k, v := range c.W {
				d := (float64(v) - float64(w.W[k])) * gain[k%w.In]
				sum += d * d
			}
			out[i] = append(out[i], max(0, trace[i].Trace)/float64(p.weights[i])*sum)
		}
	}
	return out, nil
}

// outcome fills in what comes of a rule's choices, with the margins wanted at x.
func (p *profiler) outcome(ctx context.Context, rule *Rule, picks []int, x, margins []float32) error {
	w := make(assignment, len(picks))
	for i, f := range picks {
		w[i] = []int{f}
		rule.Bits = append(rule.Bits, p.formats()[f].Bits)
		rule.MeanBits += float64(rule.Bits[i]*p.weights[i]) / float64(p.total)
	}
	d, err := p.modelError(ctx, w, x, margins)
	rule.MarginError = math.Sqrt(d)
	return err
}

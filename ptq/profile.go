package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/calib"
	"cfq/sensitivity"
	"cfq/task"
)

// ProfileOptions of Profile. The zero value is useful.
type ProfileOptions struct {
	// Budget is what the rules may spend, in mean bits per weight (that of the Options of Calibrate).
	Budget float64
	// Probes is the number of random vectors that estimate each trace (sensitivity.DefaultProbes).
	Probes int
	// Seed is that of the random vectors.
	Seed uint64
	// Damage is a name of DamageKinds ("auto").
	Damage string
}

// How damage is found.
const (
	DamageAuto       = "auto"
	DamageExact      = "exact"
	DamageFirstOrder = "first-order"
)

// DamageKinds lists how damage can be found.
func DamageKinds() []Choice {
	return []Choice{
		{DamageAuto, "exact where that takes no more than minutes, else first-order"},
		{DamageExact, "each layer alone is quantized at each width, written and run"},
		{DamageFirstOrder, "estimated from the gradient of the margin by each layer's outputs"},
	}
}

// Profile is how much each layer matters, by several measures: at factual rows, with
// each row's own class, and at recourse points, with the target class.
type Profile struct {
	Method   string  `json:"method"` // as which the layers are fitted, and whose calibration set it is
	Budget   float64 `json:"budget"` // of the rules, in mean bits per weight
	People   int     `json:"people"` // who were given
	Factual  int     `json:"calibration_rows"`
	Recourse int     `json:"recourse_points"`
	Reached  int     `json:"recourse_points_valid"`
	Promised bool    `json:"promises,omitempty"` // the recourse points are those of Options.Promises
	// Damage is DamageExact or DamageFirstOrder, DamageRows how many rows of each kind it
	// is the mean over at most, TraceRows the same for the traces.
	Damage     string `json:"damage"`
	DamageRows int    `json:"damage_rows"`
	Probes     int    `json:"probes"`
	TraceRows  int    `json:"trace_rows"`
	// Widths are those that each layer's Damage and the rules speak of.
	Widths []int `json:"widths"`
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
	// Damage is the mean squared margin error that quantizing this layer alone makes, for
	// each of Profile.Widths, and DamageRank the layer's rank among all at that width.
	Damage     []float64 `json:"damage"`
	DamageRank []int     `json:"damage_rank"`
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

// Profile measures how much each layer matters, and what bits each rule would give.
func (c *Calibration) Profile(ctx context.Context, o ProfileOptions) (*Profile, error) {
	p := &profiler{job: *c.job, o: o}
	p.warnings = slices.Clone(p.warnings)
	if err := p.prepare(ctx, c.task); err != nil {
		return nil, err
	}
	out := p.header()
	var err error
	if p.factual, err = p.survey(ctx, factualRows, out.Damage); err != nil {
		return nil, err
	}
	if p.points.Recourse > 0 {
		if p.recourse, err = p.survey(ctx, recourseRows, out.Damage); err != nil {
			return nil, err
		}
	}
	p.layersOf(out)
	out.Rules, err = p.rules(ctx)
	out.Warnings = p.warnings
	return out, err
}

// profiler is one run of Profile.
type profiler struct {
	job

	o                 ProfileOptions
	points            *calib.Set // with the recourse points, also where the method has no use for them
	factual, recourse *measures
}

// measures are those of all layers at one kind of rows.
type measures struct {
	gradient []float64 // nil when there is none
	trace    []sensitivity.Curvature
	damage   [][]float64 // layer, width
}

// Kinds of rows.
const (
	factualRows  = "factual rows"
	recourseRows = "recourse points"
)

// prepare checks the options and finds recourse points where the method has none.
func (p *profiler) prepare(ctx context.Context, t *task.Task) error {
	if p.o.Budget == 0 {
		p.o.Budget = p.job.o.Budget
	}
	if p.o.Damage == "" {
		p.o.Damage = DamageAuto
	}
	if p.o.Probes == 0 {
		p.o.Probes = sensitivity.DefaultProbes
	}
	errs := []error{checkBudget(p.o.Budget), checkChoice("damage", p.o.Damage, DamageKinds())}
	if p.o.Probes < 2 {
		errs = append(errs, fmt.Errorf("%d probes: a standard error needs 2 or more", p.o.Probes))
	}
	if err := errors.Join(errs...); err != nil {
		return inputError(err)
	}
	p.points = p.union
	if p.union.Recourse > 0 || p.job.o.CalibrateOn != OnFactual || p.method.RecourseSensitivity {
		return nil
	}
	var err error
	p.points, err = p.counterfactual(ctx, t, p.people.X, p.teacher())
	return err
}

// damageKind says how damage is to be found.
func (p *profiler) damageKind() string {
	if p.o.Damage != DamageAuto {
		return p.o.Damage
	}
	if sensitivity.Exact(len(p.layers), len(p.formats()), damageRows, sensitivity.Multiplications(p.layers)) {
		return DamageExact
	}
	return DamageFirstOrder
}

// survey takes all measures at one kind of rows. A model whose gradients cannot be had has
// its damage alone.
func (p *profiler) survey(ctx context.Context, where, damage string) (*measures, error) {
	m := &measures{}
	rows, moved, classes := p.points.Points(), p.points.Moved(), []int(nil)
	var err error
	if where == factualRows {
		rows, moved = p.points.Facts(), p.points.Facts()
		if classes, err = factualClasses(ctx, p.full, p.people); err != nil {
			return nil, err
		}
	}
	p.tell("gradients at "+where, 0, 0)
	if m.gradient, err = sensitivity.Gradient(ctx, p.full, p.layers, moved, classes); err == nil {
		err = finite("gradient", m.gradient)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		p.warn("no gradients at %s: %v", where, err)
		m.gradient = nil
	}
	m.trace, err = sensitivity.Trace(ctx, p.full, p.layers, rows, classes, sensitivity.TraceOptions{
		Probes: p.o.Probes, Seed: p.o.Seed, Progress: func(done, total int) { p.tell("curvature at "+where, done, total) },
	})
	for _, t := range m.trace {
		err = errors.Join(err, finite("trace", []float64{t.Trace, t.Err}))
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		p.warn("no traces at %s: %v", where, err)
		m.trace = nil
	}
	m.damage, err = p.damages(ctx, thin(rows, p.full.Dim(), damageRows), damage, func(done, total int) { p.tell("damage at "+where, done, total) })
	return m, err
}

// damages finds the damage of every layer and width over the rows of x.
func (p *profiler) damages(ctx context.Context, x []float32, kind string, progress func(done, total int)) ([][]float64, error) {
	d, err := p.damageAt(ctx, x, kind == DamageExact, progress)
	for i := range d {
		if e := finite("damage", d[i]); e != nil {
			err = errors.Join(err, fmt.Errorf("layer %q: %w", p.layers[i].Node, e))
		}
	}
	return d, err
}

func finite(what string, v []float64) error {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("the %s is %v", what, x)
		}
	}
	return nil
}

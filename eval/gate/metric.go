package gate

import (
	"fmt"
	"math"
	"slices"

	"cfq/eval"
)

// absent says what an evaluation did not do when it has no value of a metric of the part.
func absent(p eval.Requirement, oneSided bool) string {
	switch {
	case p == eval.RequiresMirrored && oneSided:
		return "the quantized model's own recourse and the first valid iterates were not computed"
	case p == eval.RequiresNoise:
		return "nobody's recourse was solved twice"
	case p == eval.RequiresProofs:
		return "nothing was certified"
	case p == eval.RequiresPerturbation:
		return "the logit perturbation was not measured"
	case p == eval.RequiresTiming:
		return "the time was not taken"
	case p == eval.RequiresFootprint:
		return "the files were not measured"
	}
	return "there is nobody to measure it by"
}

// Needs is what an evaluation must have computed for a gate.
type Needs struct {
	Margins      []float64 // ascending; empty when no check has one
	Curve        bool      // the usual margins besides: tau01 is read off the curve over them
	Confidence   float64   // of the intervals, at least: that whose ends are one-sided bounds at the gate's confidence, or that of the gate
	Mirrored     bool      // the quantized model's own recourse, or PGD-first
	Noise        bool
	Certificates bool
	Perturbation bool
	Timing       bool
	Footprint    bool
	By           []string // groupings, each once, in the order of the checks
	Previous     bool     // an earlier result
}

// Needs says what the evaluation must compute.
func (g *Gate) Needs() Needs {
	var n Needs
	d := g.withDefaults()
	n.Confidence = 2*d.Confidence - 1
	for i := range d.Checks {
		c := &d.Checks[i]
		m, ok := eval.MetricBy(c.Metric)
		if !ok { // which Check says
			continue
		}
		if m.PerMargin() {
			n.Margins = append(n.Margins, c.margin(&d))
		}
		n.Curve = n.Curve || c.Metric == "tau01" || c.Metric == "rtau01"
		switch m.Requires {
		case eval.RequiresMirrored:
			n.Mirrored = true
		case eval.RequiresNoise:
			n.Noise = true
		case eval.RequiresProofs:
			n.Certificates = true
		case eval.RequiresPerturbation:
			n.Perturbation = true
		case eval.RequiresTiming:
			n.Timing = true
		case eval.RequiresFootprint:
			n.Footprint = true
		}
		if by := grouping(c.By); by != "" && !slices.Contains(n.By, by) {
			n.By = append(n.By, by)
		}
		n.Previous = n.Previous || c.MaxIncrease != nil
		if m.Kind() == eval.KindEstimate && (c.MaxIncrease != nil || c.MaxGap != nil) { // differences of two estimates take half of the error each
			n.Confidence = d.Confidence
		}
	}
	slices.Sort(n.Margins)
	n.Margins = slices.Compact(n.Margins)
	return n
}

// margin is the required margin at which the check looks.
func (c *Check) margin(g *Gate) float64 {
	if c.Margin != nil {
		return *c.Margin
	}
	return g.Margin
}

// marginSlack is how far a margin may be from that of a result to be the same: by what decimal numbers lose.
const marginSlack = 1e-9

// measured returns what r says of the metric, or what is missing.
func measured(m *eval.Metric, margin float64, r *eval.Result) (v eval.Value, missing string) {
	v.Value, v.Lo, v.Hi = undefined(), undefined(), undefined()
	if r == nil {
		return v, "there is no result"
	}
	at := 0
	if m.PerMargin() {
		at = slices.IndexFunc(r.Margins, func(a eval.AtMargin) bool { return math.Abs(a.Margin-margin) <= marginSlack })
		if at < 0 {
			return v, fmt.Sprintf("margin %g was not evaluated", margin)
		}
	}
	w := m.Of(r, at)
	switch {
	case w.N <= 0:
		return v, absent(m.Requires, r.Settings.OneSided)
	case w.Kind == eval.KindShare && (w.Num < 0 || w.Num > w.N): // a report that was written by hand
		return v, fmt.Sprintf("%d of %d is no share", w.Num, w.N)
	case w.Kind == eval.KindExact && !(w.Value > 0 && w.Value.Defined()): // no file and no decision takes nothing
		return v, "it could not be computed"
	case !w.Value.Defined():
		return v, "it is not defined for " + counted(w.N, m)
	}
	return w, ""
}

func undefined() eval.Float { return eval.Float(math.NaN()) }

// counted names the n things that the metric is about: runs of a model that was timed, else people.
func counted(n int, m *eval.Metric) string {
	one, many := "person", "people"
	if m.Requires == eval.RequiresTiming {
		one, many = "run", "runs"
	}
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

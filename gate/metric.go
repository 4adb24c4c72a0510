package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
)

// kind is how a metric is judged.
type kind int

const (
	share    kind = iota // of people: by the exact bounds of its counts
	estimate             // by the interval of the result
	exact                // as it is
)

// kindOf asks the metric about a result that has everything.
func kindOf(m *eval.Metric) kind {
	perturbed := map[eval.Perturbation]eval.Perturbed{}
	for _, p := range eval.Perturbations() {
		perturbed[p] = eval.Perturbed{}
	}
	v := m.Of(&eval.Result{
		Margins:   []eval.AtMargin{{Noise: &eval.Gap{}, Certified: &eval.Proofs{}, Perturbed: perturbed}},
		Footprint: &eval.Footprint{Quant: eval.Weight{Bytes: 1, WeightBits: 1, BOPs: 1}}, Timing: &eval.Timing{},
	}, 0)
	switch {
	case v.Share:
		return share
	case v.Exact:
		return exact
	}
	return estimate
}

// part is the part of an evaluation that a metric comes from.
type part int

const (
	always part = iota
	mirrored
	noise
	certificates
	perturbation
	timing
	footprint
)

func partOf(m *eval.Metric) part {
	head, _, _ := strings.Cut(strings.TrimPrefix(m.Key, "margins[]."), ".")
	switch head {
	case "rvd", "lost_recourse", "rtau01", "pgd_first", "rfrr", "crg", "crg_both", "dir_sim", "act_overlap":
		return mirrored
	case "crg_noise":
		return noise
	case "certified":
		return certificates
	case "perturbation":
		return perturbation
	case "timing":
		return timing
	case "footprint":
		return footprint
	}
	return always
}

// absent says what an evaluation did not do when it has no value of a metric of the part.
func (p part) absent(oneSided bool) string {
	switch {
	case p == mirrored && oneSided:
		return "the quantized model's own recourse and the first valid iterates were not computed"
	case p == noise:
		return "nobody's recourse was solved twice"
	case p == certificates:
		return "nothing was certified"
	case p == perturbation:
		return "the logit perturbation was not measured"
	case p == timing:
		return "the time was not taken"
	case p == footprint:
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
		if ok && m.PerMargin() {
			n.Margins = append(n.Margins, c.margin(&d))
		}
		n.Curve = n.Curve || c.Metric == "tau01" || c.Metric == "rtau01"
		switch partOf(&m) {
		case mirrored:
			n.Mirrored = true
		case noise:
			n.Noise = true
		case certificates:
			n.Certificates = true
		case perturbation:
			n.Perturbation = true
		case timing:
			n.Timing = true
		case footprint:
			n.Footprint = true
		}
		if by := grouping(c.By); by != "" && !slices.Contains(n.By, by) {
			n.By = append(n.By, by)
		}
		n.Previous = n.Previous || c.MaxIncrease != nil
		if ok && kindOf(&m) == estimate && (c.MaxIncrease != nil || c.MaxGap != nil) { // differences of two estimates take half of the error each
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
		return v, partOf(m).absent(r.Settings.OneSided)
	case w.Share && (w.Num < 0 || w.Num > w.N): // a report that was written by hand
		return v, fmt.Sprintf("%d of %d is no share", w.Num, w.N)
	case w.Exact && !(w.Value > 0 && w.Value.Defined()): // no file and no decision takes nothing
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
	if partOf(m) == timing {
		one, many = "run", "runs"
	}
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

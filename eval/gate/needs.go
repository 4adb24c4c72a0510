package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/task"
)

func absent() map[metrics.Requirement]string {
	return map[metrics.Requirement]string{
		metrics.Noise:        "no recourse was solved a second time",
		metrics.Perturbation: "the logit perturbation was not measured",
		metrics.Transfer:     "nothing was proved: --transfer asks for it",
		metrics.Timing:       "latency was not measured",
		metrics.Footprint:    "the files were not measured",
		metrics.Batches:      "no points were run again in other batches",
		metrics.Decoder:      "recourse is not in a latent space",
		metrics.Record:       "no record of calibration has ranges of as many rows as that takes",
		metrics.Issued:       "no such promises were issued: --promises names their file",
	}
}

// Needs is what an evaluation must have computed for a gate.
type Needs struct {
	Margins    []float64 // ascending; empty when no check has one
	Curve      bool      // the usual margins too: tau01 is read off the curve over them
	Confidence float64   // two-sided, of the intervals, at least
	Requires   map[metrics.Requirement]bool
	By         []string // groupings, each once, in the order of the checks
	Previous   bool     // an earlier result
}

// Needs returns what the evaluation must compute; issued says that the promises were issued already.
func (g *Gate) Needs(issued bool) Needs {
	d := g.withDefaults()
	n := Needs{Requires: map[metrics.Requirement]bool{}}
	n.Confidence = task.Rounded(2*d.Confidence-1, 12) // without the noise of binary arithmetic
	for i := range d.Checks {
		c := &d.Checks[i]
		m, ok := metrics.By(c.Metric)
		if !ok { // Check reports it
			continue
		}
		if m.PerMargin() {
			n.Margins = append(n.Margins, c.margin(&d, &m, issued))
		}
		n.Curve = n.Curve || c.Metric == "tau01" || c.Metric == "rtau01"
		n.Requires[m.Requires] = true
		if m.Requires == metrics.Transfer && strings.HasPrefix(m.ID, "r") { // of the quantized model's own recourse
			n.Requires[metrics.Mirrored] = true
		}
		if by := grouping(c.By); by != "" && !slices.Contains(n.By, by) {
			n.By = append(n.By, by)
		}
		n.Previous = n.Previous || c.MaxIncrease != nil
		if m.Kind == metrics.Estimate && (c.MaxIncrease != nil || c.MaxGap != nil) {
			// Each of the two estimates may have half of the error.
			n.Confidence = d.Confidence
		}
	}
	slices.Sort(n.Margins)
	n.Margins = slices.Compact(n.Margins)
	return n
}

// marginSlack is the difference up to which two margins are the same: the rounding of decimal numbers.
const marginSlack = 1e-9

func measured(m *metrics.Metric, margin float64, r *eval.Result) (v eval.Value, missing string) {
	v.Value, v.Lo, v.Hi = undefined(), undefined(), undefined()
	if r == nil {
		return v, "no result"
	}
	at := 0
	if m.PerMargin() {
		at = slices.IndexFunc(r.Margins, func(a eval.AtMargin) bool { return math.Abs(a.Margin-margin) <= marginSlack })
		if at < 0 {
			return v, fmt.Sprintf("margin %g was not evaluated", margin)
		}
	}
	w := r.Metric(m, at)
	switch {
	case w.N <= 0 && m.Requires == metrics.Transfer && r.Settings.NoProof != "":
		return v, noProof + r.Settings.NoProof
	case w.N <= 0 && m.Requires == metrics.Mirrored && r.Settings.OneSided:
		return v, "the quantized model's own recourse and the first valid iterates were not computed"
	case w.N <= 0:
		return v, cmp.Or(absent()[m.Requires], "there are no people to measure it on")
	case w.Kind == metrics.Share && (w.Num < 0 || w.Num > w.N): // a report that was written by hand
		return v, fmt.Sprintf("invalid counts %d of %d", w.Num, w.N)
	case w.Kind == metrics.Exact && !(w.Value >= 0 && w.Value.Defined()):
		return v, "not computed"
	case !w.Value.Defined():
		return v, "undefined for " + counted(w.N, m)
	}
	return w, ""
}

const noProof = "no proof: "

func undefined() eval.Float { return eval.Float(math.NaN()) }

func unbounded() Bounded { return Bounded{Value: undefined(), Lower: undefined(), Upper: undefined()} }

func counted(n int, m *metrics.Metric) string {
	one, many := "person", "people"
	if m.Requires == metrics.Timing {
		one, many = "run", "runs"
	}
	return fmt.Sprintf("%d %s", n, message.Plural(n, one, many))
}

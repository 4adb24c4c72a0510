// Package gate decides whether an evaluation is good enough to release a model.
//
// In: checks (from flags or a gate file) and an eval.Result, for some checks an earlier one too. Out: a Report with a
// verdict for each check and for all of them. The invariant: PASS means that the confidence bound of the metric is
// within the limit; what was not measured, or with too few people, is INCONCLUSIVE and never passes.
//
// How verdicts are reached, at the confidence 1-a:
//
//   - A share of people has exact one-sided bounds (Clopper and Pearson). A check "at most" passes when the upper bound
//     is within the limit and fails when the lower bound is beyond it; "at least" is the mirror image.
//   - A mean, median or other estimate has the interval of the Result, two-sided at confidence c
//     (Settings.Confidence), so each end is one-sided at (1+c)/2. That has to be at least 1-a, for differences 1-a/2,
//     and there must be MinPeople. An absolute value passes when both ends are within the limits, of which only one can
//     be wrong; it fails when one is beyond at a/2, as of a normal distribution.
//   - A size in bytes or bits is exact.
//   - By groups: every group has to pass, each at 1-a, so no correction is needed. A group fails when it is beyond the
//     limit at a level corrected by Holm over the groups.
//   - A gap is the largest difference of two groups. It passes when no two groups differ by more than the limit between
//     bounds at 1-a/2: if the true gap is larger, one of the two bounds of its two groups is wrong. It fails when two
//     groups differ by more than the limit between bounds at 1-a/(2m), for m groups (Bonferroni).
//   - An increase is a difference of two results, with bounds at 1-a/2 each. This holds for dependent results too, as
//     with the same people, where it is wider than necessary.
//   - Checks are not corrected for each other: a gate that passes passes all of them.
//
// The paper has no gate; its metrics are those of section "Metrics".
//
// References: Clopper and Pearson (1934); Holm (1979); Berger (1982), intersection-union tests.
package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/task"
)

// Gate is what a release must meet. The zero value has no checks.
type Gate struct {
	Confidence float64 // of each verdict; 0 = 0.95
	Margin     float64 // required logit margin of checks that name none; 0 = 0.1
	MinPeople  int     // people needed for a verdict on a metric that is no share; 0 = 30
	// Looks is how many evaluations of one model are planned; 0 = 1. They share the error that Confidence leaves, in equal
	// parts (Bonferroni), so that no rule for when to look again makes a wrong pass more probable. With OpenLooks,
	// Confidence is that of one of them, see [Looks.Plan].
	Looks int
	// OneSided leaves out the limits that Reverse adds.
	OneSided bool
	// Factor is that of transfer certificates, see eval.Options; 0 for none.
	Factor float64
	// MaxUnreadable is the largest share of unreadable rows, and of people without an outcome, see dataCheck;
	// nil = eval.MuchUnreadable.
	MaxUnreadable *float64
	// NoLabels accepts that nobody's outcome is known, so that nothing shows which class is favourable.
	NoLabels bool
	// NeedsRecord says that there is no verdict unless it is known which rows the model was calibrated on.
	NeedsRecord bool
	// UnverifiedEncoding accepts that nothing shows that people are encoded as the model was trained.
	UnverifiedEncoding bool
	Release
	Checks []Check
}

// Release is what a gate file says of the release, and the report repeats.
type Release struct {
	IntendedUse string `json:"intended_use,omitempty"` // what the model may be released for
	Approver    string `json:"approver,omitempty"`     // who answers for the gate
}

// Reverse adds to each upper limit on a metric of one direction the same limit on its reverse (Metric.Reverse), at its
// margin and for its groups, unless the gate is OneSided or limits it itself, with the same severity: a model that
// approves everybody breaks no promise, and one that approves everybody of a group makes none of its own there. For
// issued promises nobody asks what the quantized model would promise.
func (g *Gate) Reverse(issued bool) {
	if g.OneSided {
		return
	}
	d := g.withDefaults()
	for _, of := range slices.Clone(g.Checks) {
		for _, id := range of.reverse() {
			m, _ := metrics.By(id)
			if issued && m.Requires == metrics.Mirrored {
				continue
			}
			c := Check{
				Metric: id, Severity: of.Severity, Max: of.Max, MaxIncrease: of.MaxIncrease, By: of.By, Reverse: of.name(),
			}
			if m.PerMargin() {
				c.Margin = of.Margin
			}
			if slices.ContainsFunc(g.Checks, func(o Check) bool { return o.name() == c.name() }) {
				c.Name = "mirror of " + of.name() // findings go by names
			}
			if !slices.ContainsFunc(g.Checks, func(o Check) bool { return o.replaces(&c, &d) }) {
				g.Checks = append(g.Checks, c)
			}
		}
	}
}

// reverse are the metrics that the check needs limits on, too.
func (c *Check) reverse() []string {
	if c.Max == nil && c.MaxIncrease == nil {
		return nil
	}
	m, _ := metrics.By(c.Metric)
	return m.Reverse
}

func (c Check) limitsApprovals() bool {
	return (c.Metric == "gained" || c.Metric == "disagreement") && c.Max != nil && c.Severity != Warns
}

// replaces says that the check limits what a reverse one would. One that the gate names itself may have any limit.
func (c *Check) replaces(reverse *Check, g *Gate) bool {
	m, _ := metrics.By(reverse.Metric)
	within := func(x, limit *float64) bool { return x != nil && (c.Reverse == "" || limit != nil && *x <= *limit) }
	return c.Metric == reverse.Metric && grouping(c.By) == grouping(reverse.By) &&
		(c.Severity != Warns || reverse.Severity == Warns) &&
		(!m.PerMargin() || c.margin(g, &m, false) == reverse.margin(g, &m, false)) &&
		(within(c.Max, reverse.Max) || reverse.Max == nil && within(c.MaxIncrease, reverse.MaxIncrease))
}

func (g *Gate) withDefaults() Gate {
	d := *g
	d.Confidence, d.Margin, d.MinPeople = cmp.Or(d.Confidence, 0.95), cmp.Or(d.Margin, 0.1), cmp.Or(d.MinPeople, 30)
	if d.Looks != OpenLooks {
		d.Looks = max(d.Looks, 1)
		d.Confidence = 1 - (1-d.Confidence)/float64(d.Looks)
	}
	if d.MaxUnreadable == nil {
		x := eval.MuchUnreadable
		d.MaxUnreadable = &x
	}
	return d
}

// mistake is one in a gate: at a key of a check, or of the gate itself when at is -1.
type mistake struct {
	at   int
	key  string // "" = the check itself
	text string
}

type mistakes []mistake

func (m *mistakes) add(at int, key, format string, a ...any) {
	*m = append(*m, mistake{at, key, fmt.Sprintf(format, a...)})
}

// Check reports all mistakes in the gate. A gate without checks is one.
func (g *Gate) Check() error {
	var errs []error
	for _, p := range g.problems() {
		where := "gate"
		if p.at >= 0 {
			where = fmt.Sprintf("check %d (%s)", p.at+1, message.Quote(g.Checks[p.at].name()))
		}
		if p.key != "" {
			where += ", " + p.key
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p.text))
	}
	return errors.Join(errs...)
}

func (g *Gate) problems() (all mistakes) {
	d := g.withDefaults()
	if !(d.Confidence >= 0.5 && d.Confidence < 1) {
		all.add(-1, "confidence", "invalid confidence %v: want at least 0.5 and less than 1", d.Confidence)
	}
	if !(d.Margin > 0) || math.IsInf(d.Margin, 1) {
		all.add(-1, "margin", "invalid margin %v: want more than 0; a check at the decision boundary sets its own margin",
			d.Margin)
	}
	if d.MinPeople < 1 {
		all.add(-1, "min_people", "invalid number of people %d: want 1 or more", d.MinPeople)
	}
	if !(*d.MaxUnreadable >= 0 && *d.MaxUnreadable <= 1) {
		all.add(-1, "max_unreadable", "invalid share %v: want a number from 0 to 1", *d.MaxUnreadable)
	}
	if len(g.Checks) == 0 {
		all.add(-1, "checks", "no checks: a gate without checks would pass every model")
	}
	seen := map[string]bool{}
	for i := range g.Checks {
		c := &g.Checks[i]
		all = append(all, c.problems(i)...)
		if seen[c.name()] {
			key := "name"
			if c.Name == "" {
				key = ""
			}
			all.add(i, key, "duplicate check %s: give one of them another name", message.Quote(c.name()))
		}
		seen[c.name()] = true
	}
	return all
}

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

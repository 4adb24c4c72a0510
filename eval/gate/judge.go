package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/statistics"
	"cfq/task"
)

// Judge compares r with the limits of the gate, and with an earlier result where a check needs it; previous may be nil.
// The gate must be valid, see [Gate.Check].
func Judge(g *Gate, r, previous *eval.Result) *Report {
	j := &judge{Gate: g.withDefaults(), r: r, previous: previous}
	report := &Report{Confidence: j.Confidence, Findings: []Finding{}, Release: g.Release}
	const batches = "batches.difference" // every gate limits it where it was measured
	m, _ := metrics.By(batches)
	if _, missing := measured(&m, 0, r); missing == "" && !j.limits(batches) {
		j.Checks = append(j.Checks, Check{Metric: batches, Max: new(float64)})
	}
	report.Findings = append(report.Findings, j.checks()...)
	if r != nil {
		for i := range r.SensitivityToCopies {
			o := &r.SensitivityToCopies[i]
			report.stricter(o, (&judge{Gate: j.Gate, r: o.Result, previous: previous}).checks())
		}
	}
	report.Findings = append(report.Findings, j.dataChecks()...)
	if r != nil {
		report.judgeEncoding(g, r.Population.Encoding)
	}
	report.conclude()
	report.advise(r != nil && r.Settings.Sample > 0 && r.Population.Evaluated < r.Population.Refused)
	report.note(g, r)
	return report
}

// Refuse is the report on a model that cannot be evaluated because it gives no numbers: it fails, and its metrics are
// not known. r has no people.
func Refuse(g *Gate, r *eval.Result, why error) *Report {
	report := Judge(g, r, nil)
	report.Verdict = Fail
	report.Next = []string{"Quantize again: for some people the model gives no numbers (outputs)."}
	report.Findings = slices.Insert(report.Findings, 0, Finding{
		Check: "outputs", Metric: "outputs", Severity: Blocks, Verdict: Fail, Limit: "finite",
		Bounded: unbounded(), Why: why.Error(),
	})
	return report
}

type judge struct {
	Gate
	r, previous *eval.Result
}

func (j *judge) limits(metric string) bool {
	return slices.ContainsFunc(j.Checks, func(c Check) bool { return c.Metric == metric && c.By == "" && c.bounds() })
}

func (j *judge) checks() []Finding {
	var all []Finding
	for i := range j.Checks {
		all = append(all, j.check(&j.Checks[i])...)
	}
	return all
}

func (j *judge) check(c *Check) []Finding {
	m, ok := metrics.By(c.Metric)
	if !ok || len(c.limits()) == 0 { // of a gate that Check refuses: what cannot be measured does not pass
		s := &limitTest{Metric: &metrics.Metric{ID: c.Metric, Doc: metrics.Doc{Name: c.Metric}}, check: c}
		f := s.inconclusive(s.finding(), "unknown metric, or no limit")
		f.Limit = ""
		return []Finding{f}
	}
	var all []Finding
	for _, l := range c.limits() {
		s := &limitTest{&m, l, c, c.margin(&j.Gate, &m, j.r != nil && j.r.Settings.Issued)}
		switch {
		case l.side == increase:
			all = append(all, j.increase(s))
		case l.side == gap:
			all = append(all, j.gap(s))
		case c.By != "":
			all = append(all, j.groups(s)...)
		default:
			all = append(all, j.one(s, j.r))
		}
	}
	// A limit on approvals counts those who need no promise. Without one, a reverse check that nobody is left for stays
	// open.
	counted := j.r == nil || j.r.Settings.OneSided || slices.ContainsFunc(j.Checks, Check.limitsApprovals)
	if c.Reverse != "" && m.Requires == metrics.Mirrored && counted {
		all = slices.DeleteFunc(all, func(f Finding) bool { return f.Verdict == Inconclusive && f.N == 0 })
	}
	return all
}

func (j *judge) one(s *limitTest, r *eval.Result) Finding {
	f := s.finding()
	v, missing := measured(s.Metric, s.margin, r)
	if missing != "" {
		return s.inconclusive(f, "%s", missing)
	}
	s.set(&f, v)
	lo, hi, few := j.ends(s, v, r, j.Confidence)
	if few != "" {
		return s.inconclusive(f, "%s; %s", s.amount(v), few)
	}
	j.decide(s, &f, lo, hi, s.amount(v))
	switch {
	case f.Verdict != Inconclusive:
	case s.Kind == metrics.Share:
		if f.Need = s.limit.need(v.Num, v.N, j.next()); f.Need == 0 {
			f.remark("with this share no number of people is enough")
		} else {
			f.remark("%d people are needed if the share stays", f.Need)
		}
	case s.Kind == metrics.Estimate && s.Requires != metrics.Timing:
		if f.Need = s.limit.needAbout(v, lo, hi); f.Need > 0 {
			f.remark("about %d people are needed if the value stays", f.Need)
		} else if f.Need = s.needBounds(v, r.Settings.Confidence); f.Need > 0 {
			f.remark("fewer than %d people give no bound", f.Need)
		}
	}
	if s.Requires == metrics.Batches && f.Verdict != Pass {
		f.remark("%s", r.Batches)
	}
	if s.limit.side == within && f.Verdict == Fail && !(s.pValue(v, r.Settings.Confidence) <= 1-j.Confidence) {
		f.Verdict = Inconclusive // two limits are tested, each at half of the error
		f.remark("not significantly beyond the limit")
	}
	return f
}

// decide gives a finding its bounds and its verdict.
func (j *judge) decide(s *limitTest, f *Finding, lo, hi float64, what string) {
	f.Lower, f.Upper, f.Verdict = eval.Float(lo), eval.Float(hi), s.limit.verdict(lo, hi)
	f.Why = s.Name + ": " + what + "; " + s.outcome(f, j.Confidence)
}

// ends returns the one-sided bounds of a value, each at the level or more, or why there are none.
func (j *judge) ends(s *limitTest, v eval.Value, r *eval.Result, level float64) (lo, hi float64, few string) {
	const slack = 1e-12
	c := r.Settings.Confidence
	switch {
	case s.Kind == metrics.Share:
		return statistics.ClopperPearsonLower(v.Num, v.N, level), statistics.ClopperPearsonUpper(v.Num, v.N, level), ""
	case s.Kind == metrics.Exact:
		return float64(v.Value), float64(v.Value), ""
	case v.N < j.MinPeople && s.Requires != metrics.Timing:
		few = fmt.Sprintf("a verdict needs at least %d people", j.MinPeople)
	case !(c > 0 && c < 1) || (1+c)/2 < level-slack:
		few = fmt.Sprintf("its interval has confidence %s, too low for a verdict with %s: evaluate with confidence %s or "+
			"more", percent(c), percent(j.Confidence), percent(task.Rounded(2*level-1, 12)))
	}
	return float64(v.Lo), float64(v.Hi), few
}

func (j *judge) grouping(s *limitTest) (groups []eval.Group, missing string) {
	by := grouping(s.check.By)
	if j.r != nil {
		for i := range j.r.Groups {
			if g := &j.r.Groups[i]; grouping(g.By) == by && len(g.Groups) > 0 {
				return g.Groups, ""
			}
		}
	}
	return nil, fmt.Sprintf("the groups by %s were not evaluated", by)
}

// groups judges every group by max, min or abs_max. A group fails at a level corrected for the number of groups.
func (j *judge) groups(s *limitTest) []Finding {
	groups, missing := j.grouping(s)
	if missing != "" {
		return []Finding{s.inconclusive(s.finding(), "%s", missing)}
	}
	all := make([]Finding, len(groups))
	pValues := make([]float64, len(groups))
	for i := range groups {
		g := &groups[i]
		all[i], pValues[i] = j.one(s, g.Result), 1
		all[i].Group = g.Name
		if v, missing := measured(s.Metric, s.margin, g.Result); missing == "" {
			pValues[i] = s.pValue(v, g.Result.Settings.Confidence)
		}
	}
	for i, p := range statistics.Holm(pValues) {
		if f := &all[i]; f.Verdict == Fail && !(p <= 1-j.Confidence) {
			f.Verdict = Inconclusive
			f.remark("not significant among %d groups", len(groups))
		}
	}
	return all
}

type comparedGroup struct {
	name     string
	v        eval.Value
	lo, hi   float64 // of the interval for the upper bound of the gap
	in0, in1 float64 // of the wider interval for its lower bound, which holds for all groups together
}

func (j *judge) gap(s *limitTest) Finding {
	f := s.finding()
	groups, missing := j.grouping(s)
	if missing != "" {
		return s.inconclusive(f, "%s", missing)
	}
	members, small, problem := j.members(s, groups)
	switch {
	case problem != "":
		return s.inconclusive(f, "%s", problem)
	case len(members) < 2:
		return s.inconclusive(f, "fewer than two groups by %s are large enough to compare%s", s.check.By, leftOut(small))
	}
	worst, best := &members[1], &members[0] // different ones also where all are alike
	lo, hi := 0.0, math.Inf(-1)
	for i := range members {
		a := &members[i]
		f.N += a.v.N
		if a.v.Value > worst.v.Value {
			worst = a
		}
		if a.v.Value < best.v.Value {
			best = a
		}
		for k := range members {
			if b := &members[k]; k != i {
				hi = max(hi, a.hi-b.lo) // undefined when one of them is
				if d := a.in0 - b.in1; d > lo {
					lo = d
				}
			}
		}
	}
	f.Value = worst.v.Value - best.v.Value
	j.decide(s, &f, lo, hi, "a difference of "+s.difference(float64(f.Value)))
	f.remark("%s in %s, %s in %s%s", s.amount(worst.v), worst.name, s.amount(best.v), best.name, leftOut(small))
	return f
}

func (j *judge) members(s *limitTest, groups []eval.Group) (members []comparedGroup, small []string, problem string) {
	large := slices.DeleteFunc(slices.Clone(groups), func(g eval.Group) bool { return g.Small })
	half := (1 - j.Confidence) / 2
	for i := range groups {
		g := &groups[i]
		if g.Small {
			small = append(small, g.Name)
			continue
		}
		v, missing := measured(s.Metric, s.margin, g.Result)
		if missing != "" {
			return nil, nil, fmt.Sprintf("%s in %s", missing, g.Name)
		}
		m := comparedGroup{name: g.Name, v: v}
		var few string
		if m.lo, m.hi, few = j.ends(s, v, g.Result, 1-half); few != "" {
			return nil, nil, fmt.Sprintf("%s in %s; %s", s.amount(v), g.Name, few)
		}
		if together := 1 - half/float64(len(large)); s.Kind == metrics.Share {
			m.in0, m.in1, _ = j.ends(s, v, g.Result, together)
		} else { // the interval at a higher level, as of a normal distribution
			at := distuv.UnitNormal.Quantile((1 + g.Result.Settings.Confidence) / 2)
			k := eval.Float(max(1, distuv.UnitNormal.Quantile(together)/at))
			m.in0, m.in1 = float64(v.Value-k*(v.Value-v.Lo)), float64(v.Value+k*(v.Hi-v.Value))
		}
		members = append(members, m)
	}
	return members, small, ""
}

func leftOut(small []string) string {
	if len(small) == 0 {
		return ""
	}
	return "; too small: " + strings.Join(small, ", ")
}

func (j *judge) increase(s *limitTest) Finding {
	f := s.finding()
	if j.previous == nil {
		return s.inconclusive(f, "no earlier report to compare with")
	}
	v, missing := measured(s.Metric, s.margin, j.r)
	if missing != "" {
		return s.inconclusive(f, "%s", missing)
	}
	f.N = v.N
	w, missing := measured(s.Metric, s.margin, j.previous)
	if missing == "" {
		missing = s.incomparable(&j.r.Settings, &j.previous.Settings)
	}
	if missing != "" {
		return s.inconclusive(f, "in the earlier report, %s", missing)
	}
	f.Value = v.Value - w.Value
	level := 1 - (1-j.Confidence)/2
	lo, hi, few := j.ends(s, v, j.r, level)
	lo0, hi0, few0 := j.ends(s, w, j.previous, level)
	for i := range j.previous.SensitivityToCopies { // by other rules of who counts the earlier value may be less certain
		o := j.previous.SensitivityToCopies[i].Result
		if w, missing := measured(s.Metric, s.margin, o); missing == "" {
			lo1, hi1, few1 := j.ends(s, w, o, level)
			lo0, hi0, few0 = min(lo0, lo1), max(hi0, hi1), cmp.Or(few0, few1)
		}
	}
	switch {
	case few != "":
		return s.inconclusive(f, "%s; %s", s.amount(v), few)
	case few0 != "":
		return s.inconclusive(f, "in the earlier report, %s; %s", s.amount(w), few0)
	}
	j.decide(s, &f, lo-hi0, hi-lo0, "the difference is "+s.difference(float64(f.Value)))
	f.remark("%s, before %s", s.amount(v), s.amount(w))
	return f
}

// dataCheck is a check that every gate has unless it has one of its own on the metric. It is about the data and the
// promises in hand, so shares of them are compared as they are, without bounds, unless the limit is one on what models
// do. Unless the limit is kept the other numbers say too little, and the verdict is INCONCLUSIVE.
type dataCheck struct {
	metric string
	side   limitSide
	limit  float64
	shown  bool   // also when it passes
	advice string // besides another limit
}

// approvedBroken is of few people when promises are made with a margin: of those whom the original just approves.
const approvedBroken = "issued.approved"

func (g *Gate) dataChecks() []dataCheck {
	d := g.withDefaults()
	const promises = "find out why"
	vd, unlabelled := []float64{}, *d.MaxUnreadable // limits
	for _, c := range d.Checks {
		if c.Metric == "vd" && c.Max != nil && c.Severity != Warns {
			vd = append(vd, *c.Max)
		}
	}
	if len(vd) == 0 {
		vd = []float64{0}
	}
	if d.NoLabels {
		unlabelled = 1
	}
	return []dataCheck{
		{"issued.unjudgeable", atMost, 0, true, promises},
		{"issued.invalid", atMost, 0, true, promises},
		{"issued.infeasible", atMost, 0, true, promises},
		{approvedBroken, atMost, slices.Min(vd), true, promises},
		{"issued.needless", atMost, 0, true, "leave them out"},
		{"unreadable_rows", atMost, *d.MaxUnreadable, false, "mend the data"},
		{"unlabelled_rows", atMost, unlabelled, false, "add the outcomes, accept with --no-labels that there are none"},
		{"unlike_rows", atMost, 0.05, false, "check the units and formats of the data"},
		{"below_base_rate", atMost, 0, false, "check the data and the encoding of the task"},
		{"balanced_accuracy", atLeast, 0.5, false, "check data.label, data.favourable and target of the task"},
	}
}

func (j *judge) dataChecks() (all []Finding) {
	for _, x := range j.Gate.dataChecks() {
		if j.limits(x.metric) {
			continue
		}
		m, _ := metrics.By(x.metric)
		l := limit{x.side, x.limit}
		c := &Check{Metric: x.metric}
		c.put(l)
		s := &limitTest{&m, l, c, 0}
		f := s.finding()
		v, missing := measured(&m, 0, j.r)
		if missing != "" {
			if j.r != nil && j.r.Metric(&m, 0).N > 0 {
				c.Severity = Warns
				all = append(all, s.inconclusive(f, "%s; %s, or allow it with --check '%s'", missing, x.advice, c))
			}
			continue // or else there are no promises, rows or outcomes that could be doubtful
		}
		s.set(&f, v)
		f.Lower, f.Upper = v.Lo, v.Hi
		f.Why = m.Name + ": " + s.amount(v)
		hi := float64(v.Hi)
		if x.metric == approvedBroken {
			hi = statistics.ClopperPearsonLower(v.Num, v.N, j.Confidence)
		}
		if f.Verdict = l.verdict(float64(v.Lo), hi); f.Verdict != Pass {
			allowed := v.Hi
			if f.Verdict = Inconclusive; x.side == atLeast {
				allowed = v.Lo
				f.Why += "; " + s.outcome(&f, j.Confidence)
			}
			c.put(limit{x.side, outward(float64(allowed), 2, x.side == atMost)})
			f.remark("%s, or allow it with --check '%s'", x.advice, c)
		} else if !x.shown {
			continue
		} else if hi < float64(v.Hi) && float64(v.Hi) > x.limit {
			f.remark("not significantly beyond the limit")
		}
		all = append(all, f)
	}
	return all
}

// EncodingCheck is the name of the finding that people may be encoded otherwise than the model was trained.
const EncodingCheck = "encoding"

// judgeEncoding lets no gate pass that rests on an encoding which may be another, unless it accepts that.
func (r *Report) judgeEncoding(g *Gate, state string) {
	switch {
	case state == "" || state == "verified":
		return
	case state == "unverified" && g.UnverifiedEncoding:
		r.Accepted = "an unverified encoding"
		return
	}
	f := Finding{
		Check: EncodingCheck, Metric: EncodingCheck, Severity: Blocks, Verdict: Inconclusive, Limit: "verified",
		Bounded: unbounded(), Why: "the encoding is " + state,
	}
	advice := "verify it by --scores FILE (scores that the training code gives rows of --data), " +
		"`cfq task check --scores`, " +
		"target.accuracy in the task, or a model of raw columns, or accept it with --unverified-encoding"
	if state != "unverified" {
		advice = "correct the encoding of the task, or its target.accuracy"
	}
	f.remark("%s", advice)
	r.Findings = append(r.Findings, f)
}

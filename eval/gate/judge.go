package gate

import (
	"fmt"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
)

// Judge holds r against the gate, and against an earlier result where a check asks for it; previous may be nil. now decides which waivers
// are over. The gate must be one that Check finds nothing wrong with.
func Judge(g *Gate, r, previous *eval.Result, now time.Time) *Report {
	j := &judge{Gate: g.withDefaults(), r: r, previous: previous}
	report := &Report{Confidence: j.Confidence, Findings: []Finding{}}
	for i := range j.Checks {
		report.Findings = append(report.Findings, j.check(&j.Checks[i])...)
	}
	report.waive(j.Waivers, now)
	report.conclude()
	return report
}

// conclude says what all findings come to.
func (r *Report) conclude() {
	r.Verdict = Pass
	if len(r.Findings) == 0 {
		r.Verdict = Inconclusive
		r.note("there are no checks")
		return
	}
	blocks := false
	for i := range r.Findings {
		f := &r.Findings[i]
		blocks = blocks || f.Severity == Blocks
		if f.OK() {
			continue
		}
		if f.Verdict == Fail {
			r.Verdict = Fail
		} else if r.Verdict == Pass {
			r.Verdict = Inconclusive
		}
	}
	if !blocks {
		r.note("all checks only warn: this gate passes whatever is found")
	}
}

// judge is a Gate at work.
type judge struct {
	Gate
	r, previous *eval.Result
}

// subject is a limit on a metric.
type subject struct {
	*eval.Metric

	check  *Check
	limit  limit
	margin float64
}

// check returns the findings of one check: of each of its limits, of each of its groups.
func (j *judge) check(c *Check) []Finding {
	m, ok := eval.MetricBy(c.Metric)
	if !ok || len(c.limits()) == 0 {
		f := Finding{Check: c.name(), Metric: c.Metric, Severity: c.severity(), Verdict: Inconclusive, Value: undefined(), Lower: undefined(), Upper: undefined()}
		f.Why = "there is no such metric, or no limit"
		return []Finding{f}
	}
	var all []Finding
	for _, l := range c.limits() {
		s := &subject{&m, c, l, c.margin(&j.Gate)}
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
	return all
}

func (c *Check) severity() Severity {
	if c.Severity == Warns {
		return Warns
	}
	return Blocks
}

// finding is what is said before anything is measured.
func (s *subject) finding() Finding {
	f := Finding{
		Check: s.check.name(), Metric: s.ID(), Severity: s.check.severity(), Verdict: Inconclusive, Limit: s.limit.String(),
		Value: undefined(), Lower: undefined(), Upper: undefined(),
	}
	if s.PerMargin() {
		margin := s.margin
		f.Margin = &margin
	}
	return f
}

// inconclusive says why nothing can be said.
func (s *subject) inconclusive(f *Finding, format string, a ...any) {
	f.Verdict, f.Why = Inconclusive, s.Name+": "+fmt.Sprintf(format, a...)
}

// one holds the metric of a result against max, min or abs_max.
func (j *judge) one(s *subject, r *eval.Result) Finding {
	f := s.finding()
	v, missing := measured(s.Metric, s.margin, r)
	if missing != "" {
		s.inconclusive(&f, "%s", missing)
		return f
	}
	f.Value, f.N = v.Value, v.N
	if s.Kind() == eval.KindShare {
		f.Num = &v.Num
	}
	lo, hi, few := j.ends(s, v, r, j.Confidence)
	if few != "" {
		s.inconclusive(&f, "%s; %s", s.amount(v), few)
		return f
	}
	f.Lower, f.Upper = eval.Float(lo), eval.Float(hi)
	f.Verdict = s.limit.verdict(lo, hi)
	switch {
	case f.Verdict != Inconclusive:
	case s.Kind() == eval.KindShare:
		f.Need = s.limit.need(v.Num, v.N, j.Confidence)
	case s.Kind() == eval.KindEstimate && s.Requires != eval.RequiresTiming:
		f.Need = s.limit.needAbout(v, lo, hi)
	}
	f.Why = j.why(s, &f, v)
	if s.limit.side == within && f.Verdict == Fail && !(s.chance(v, r.Settings.Confidence) <= 1-j.Confidence) {
		f.Verdict = Inconclusive // it could have been beyond the other limit as well
		f.Why += ", but by so little that it may be chance"
	}
	return f
}

// ends are the one-sided bounds of a value, each at the level or more, or what keeps them from being that.
func (j *judge) ends(s *subject, v eval.Value, r *eval.Result, level float64) (lo, hi float64, few string) {
	switch s.Kind() {
	case eval.KindShare:
		return eval.ClopperPearsonLower(v.Num, v.N, level), eval.ClopperPearsonUpper(v.Num, v.N, level), ""
	case eval.KindExact:
		return float64(v.Value), float64(v.Value), ""
	}
	few = j.fewFor(s, v, r, level)
	return float64(v.Lo), float64(v.Hi), few
}

// fewFor says what keeps the interval of an estimate from being used, "" for nothing.
func (j *judge) fewFor(s *subject, v eval.Value, r *eval.Result, level float64) string {
	const slack = 1e-12
	switch c := r.Settings.Confidence; {
	case v.N < j.MinPeople && s.Requires != eval.RequiresTiming:
		return fmt.Sprintf("%d are needed to say something", j.MinPeople)
	case !(c > 0 && c < 1) || (1+c)/2 < level-slack:
		return fmt.Sprintf("its interval has confidence %s, too little for a verdict with %s: evaluate with confidence %s or more",
			percent(c), percent(j.Confidence), percent(rounded(2*level-1, 12)))
	}
	return ""
}

// chance is the probability that the value is so far beyond the limit when the truth is just at it; 1 when that cannot be said. Of an estimate it is that of
// a normal one with the same interval.
func (s *subject) chance(v eval.Value, c float64) float64 {
	if s.Kind() == eval.KindShare {
		return s.limit.chance(v.Num, v.N)
	}
	end, beyond := float64(v.Value-v.Lo), float64(v.Value)-s.limit.x
	times := 1.0
	switch s.limit.side {
	case atLeast:
		end, beyond = float64(v.Hi-v.Value), s.limit.x-float64(v.Value)
	case within:
		if times = 2; v.Value < 0 {
			end, beyond = float64(v.Hi-v.Value), -s.limit.x-float64(v.Value)
		}
	}
	switch {
	case !(end >= 0 && beyond > 0):
		return 1
	case end == 0:
		return 0
	}
	return times * distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile((1+c)/2)*beyond/end)
}

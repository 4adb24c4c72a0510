package gate

import (
	"fmt"
	"slices"

	"cfq/eval"
)

// increase bounds the difference of the metric in the result and in the earlier one.
func (j *judge) increase(s *subject) Finding {
	f := s.finding()
	if j.previous == nil {
		s.inconclusive(&f, "there is no earlier report to compare with")
		return f
	}
	v, missing := measured(s.Metric, s.margin, j.r)
	if missing != "" {
		s.inconclusive(&f, "%s", missing)
		return f
	}
	w, missing := measured(s.Metric, s.margin, j.previous)
	if missing == "" {
		missing = s.unlike(&j.r.Settings, &j.previous.Settings)
	}
	if missing != "" {
		s.inconclusive(&f, "in the earlier report, %s", missing)
		return f
	}
	f.Value, f.N = v.Value-w.Value, v.N
	level := 1 - (1-j.Confidence)/2
	lo, hi, few := j.ends(s, v, j.r, level)
	lo0, hi0, few0 := j.ends(s, w, j.previous, level)
	switch {
	case few != "":
		s.inconclusive(&f, "%s; %s", s.amount(v), few)
		return f
	case few0 != "":
		s.inconclusive(&f, "in the earlier report, %s; %s", s.amount(w), few0)
		return f
	}
	f.Lower, f.Upper = eval.Float(lo-hi0), eval.Float(hi-lo0)
	f.Verdict = s.limit.verdict(lo-hi0, hi-lo0)
	f.Why = fmt.Sprintf("%s: %s, before %s; the difference is %s; %s", s.Name, s.amount(v), s.amount(w), s.difference(float64(f.Value)), j.outcome(s, &f))
	return f
}

// unlike says why the metric of two results cannot be compared: it was measured in different ways.
func (s *subject) unlike(now, before *eval.Settings) string {
	ofPeople := s.PerMargin() || s.Requires == eval.RequiresMirrored || s.ID() == "tau01"
	near := s.Requires == eval.RequiresProofs || s.Requires == eval.RequiresPerturbation
	switch curve := s.ID() == "tau01" || s.ID() == "rtau01"; {
	case curve && !slices.Equal(now.Margins, before.Margins): // the smallest is the least that there can be, and in between it is predicted
		return fmt.Sprintf("it was read off other required margins, %v and not %v: evaluate both at the same ones", before.Margins, now.Margins)
	case ofPeople && now.Issued != before.Issued:
		return "the promises were not made in the same way: one is about given promises, the other about computed ones"
	case near && now.Radius != before.Radius:
		return fmt.Sprintf("the radius was %g and not %g", before.Radius, now.Radius)
	}
	return ""
}

package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
)

// grouping returns the groups that the check is by, or what is missing.
func (j *judge) grouping(s *subject) (groups []eval.Group, missing string) {
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

// groups holds the metric of every group against max, min or abs_max. That one fails is said at a level corrected for their number.
func (j *judge) groups(s *subject) []Finding {
	groups, missing := j.grouping(s)
	if missing != "" {
		f := s.finding()
		s.inconclusive(&f, "%s", missing)
		return []Finding{f}
	}
	all := make([]Finding, len(groups))
	chances := make([]float64, len(groups))
	for i := range groups {
		g := &groups[i]
		all[i], chances[i] = j.one(s, g.Result), 1
		all[i].Group = g.Name
		if v, missing := measured(s.Metric, s.margin, g.Result); missing == "" {
			chances[i] = s.chance(v, g.Result.Settings.Confidence)
		}
	}
	for i, p := range eval.Holm(chances) {
		if f := &all[i]; f.Verdict == Fail && !(p <= 1-j.Confidence) {
			f.Verdict = Inconclusive
			f.Why += fmt.Sprintf("; of %d groups one may be so by chance", len(groups))
		}
	}
	return all
}

// member is a group that a gap is taken over.
type member struct {
	name     string
	v        eval.Value
	lo, hi   float64 // for the largest gap there can be
	in0, in1 float64 // for the least: the interval of v, wide enough to hold with those of the others
}

// gap bounds the largest difference of two groups that are not small.
func (j *judge) gap(s *subject) Finding {
	f := s.finding()
	groups, missing := j.grouping(s)
	if missing != "" {
		s.inconclusive(&f, "%s", missing)
		return f
	}
	members, small, problem := j.members(s, groups)
	switch {
	case problem != "":
		s.inconclusive(&f, "%s", problem)
		return f
	case len(members) < 2:
		s.inconclusive(&f, "there are no two groups by %s to compare that are not small%s", s.check.By, leftOut(small))
		return f
	}
	worst, best := &members[0], &members[0]
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
	f.Value, f.Lower, f.Upper = worst.v.Value-best.v.Value, eval.Float(lo), eval.Float(hi)
	f.Verdict = s.limit.verdict(lo, hi)
	f.Why = fmt.Sprintf("%s: %s in %s, %s in %s, %s apart; %s%s", s.Name, s.amount(worst.v), worst.name, s.amount(best.v), best.name,
		s.difference(float64(f.Value)), j.outcome(s, &f), leftOut(small))
	return f
}

// members returns the groups to compare and the names of the small ones; a problem when a group that is not small has no value.
func (j *judge) members(s *subject, groups []eval.Group) (members []member, small []string, problem string) {
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
		m := member{name: g.Name, v: v}
		var few string
		if m.lo, m.hi, few = j.ends(s, v, g.Result, 1-half); few != "" {
			return nil, nil, fmt.Sprintf("%s in %s; %s", s.amount(v), g.Name, few)
		}
		if together := 1 - half/float64(len(large)); s.Kind() == eval.KindShare {
			m.in0, m.in1, _ = j.ends(s, v, g.Result, together)
		} else {
			m.in0, m.in1 = wider(v, g.Result.Settings.Confidence, together)
		}
		members = append(members, m)
	}
	return members, small, ""
}

// wider returns the ends of an estimate's interval, of two-sided confidence c, at a larger level, as those of a normal one grow.
func wider(v eval.Value, c, level float64) (lo, hi float64) {
	k := max(1, distuv.UnitNormal.Quantile(level)/distuv.UnitNormal.Quantile((1+c)/2))
	x := float64(v.Value)
	return x - k*(x-float64(v.Lo)), x + k*(float64(v.Hi)-x)
}

func leftOut(small []string) string {
	if len(small) == 0 {
		return ""
	}
	return "; too small to count: " + strings.Join(small, ", ")
}

package draft

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/task"
)

// interval is what bounds and constraints leave of a sum of numbers. The names are those of the constraints that say so, "" for the bounds.
type interval struct {
	lo, hi         float64
	loOpen, hiOpen bool
	loBy, hiBy     string
	levels         []float64 // the only values that there are; nil = any
}

// empty says whether nothing is left.
func (s *interval) empty() bool {
	slack := 1e-9 * math.Max(1, math.Min(math.Abs(s.lo), math.Abs(s.hi)))
	if s.lo > s.hi+slack || (s.loOpen || s.hiOpen) && s.lo > s.hi-slack {
		return true
	}
	return s.levels != nil && !slices.ContainsFunc(s.levels, func(v float64) bool {
		return (v > s.lo+slack || !s.loOpen && v >= s.lo-slack) && (v < s.hi-slack || !s.hiOpen && v <= s.hi+slack)
	})
}

// choice is what constraints leave of a category: values, and the constraint that last took some away.
type choice struct {
	values []string
	by     string
}

// space is what bounds and constraints leave of the values of all features; what it does not hold, the one behind it does.
type space struct {
	c         *checker
	behind    *space
	intervals map[string]interval
	choices   map[string]choice
}

func (c *checker) space(behind *space) *space {
	return &space{c, behind, map[string]interval{}, map[string]choice{}}
}

// conflicts reports constraints that no values within the bounds fulfil together, where looking at one sum of features at a time shows it.
func (c *checker) conflicts() {
	all := c.space(nil)
	for _, single := range []bool{true, false} { // what is known of single features counts for sums of them
		for i := range c.t.Rules {
			r := &c.t.Rules[i]
			if len(r.If) > 0 || len(r.Of) > 0 {
				continue
			}
			text := Words(r)
			if why := all.add(r.Then, text, single); why != "" {
				c.find(Problem, fmt.Sprintf("constraint %q", text), 0, "%s", why)
			}
		}
	}
	for i := range c.t.Rules {
		r := &c.t.Rules[i]
		if len(r.If) == 0 {
			continue
		}
		text, own := Words(r), c.space(all)
		why := own.add(r.Then, text, true)
		if why == "" {
			why = own.add(r.Then, text, false)
		}
		if why != "" {
			c.find(Warning, fmt.Sprintf("constraint %q", text), 0, "what follows its condition is impossible, so no action may bring the condition about: %s", why)
		}
	}
}

// add takes the inequalities over single features, or the others, into account, and says why they cannot hold, "" if they can. What cannot hold is left out.
func (s *space) add(all []task.Inequality, by string, single bool) (why string) {
	for i := range all {
		q := &all[i]
		one := !slices.ContainsFunc(q.Terms, func(t task.Term) bool { return t.Feature != q.Terms[0].Feature })
		if one != single {
			continue
		}
		now := ""
		switch category := func(t task.Term) bool { return t.Value != "" }; {
		case !slices.ContainsFunc(q.Terms, category):
			now = s.number(q, by)
		case one:
			now = s.category(q, by)
		}
		if why == "" {
			why = now
		}
	}
	return why
}

// number narrows the interval of the inequality's sum, turned and scaled so that its first coefficient is 1.
func (s *space) number(q *task.Inequality, by string) (why string) {
	first := q.Terms[0].Coef
	terms := slices.Clone(q.Terms)
	key, names := "", []string{}
	for i := range terms {
		terms[i].Coef /= first
		key += fmt.Sprintf("%q %.9g ", terms[i].Feature, terms[i].Coef)
		names = append(names, legible(terms[i].Feature))
	}
	sp, bound := s.interval(key, terms), q.Bound/first
	other := sp.loBy
	if first > 0 {
		if bound > sp.hi || bound == sp.hi && !q.Strict {
			return ""
		}
		sp.hi, sp.hiOpen, sp.hiBy = bound, q.Strict, by
	} else {
		if other = sp.hiBy; bound < sp.lo || bound == sp.lo && !q.Strict {
			return ""
		}
		sp.lo, sp.loOpen, sp.loBy = bound, q.Strict, by
	}
	if !sp.empty() {
		s.intervals[key] = sp
		return ""
	}
	what := "no value of " + names[0] + " within its bounds fulfils it"
	if len(names) > 1 {
		what = "no values of " + strings.Join(names, ", ") + " within what bounds and other constraints leave of each fulfil it"
	}
	return what + together(by, other)
}

// together names the other constraint, if there is one.
func together(by, other string) string {
	if other == "" || other == by {
		return ""
	}
	return fmt.Sprintf(" together with %q", other)
}

// interval returns what is known of a sum: of a single feature its bounds or values, of several what their own intervals make.
func (s *space) interval(key string, terms []task.Term) interval {
	for at := s; at != nil; at = at.behind {
		if sp, ok := at.intervals[key]; ok {
			return sp
		}
	}
	if len(terms) == 1 {
		return s.c.reach(terms[0].Feature)
	}
	sum := interval{}
	for _, t := range terms {
		one := s.interval(fmt.Sprintf("%q %.9g ", t.Feature, 1.0), []task.Term{{Feature: t.Feature, Coef: 1}})
		lo, hi := t.Coef*one.lo, t.Coef*one.hi
		if t.Coef < 0 {
			lo, hi, one.loOpen, one.hiOpen = hi, lo, one.hiOpen, one.loOpen
		}
		sum.lo, sum.hi = sum.lo+lo, sum.hi+hi
		sum.loOpen, sum.hiOpen = sum.loOpen || one.loOpen, sum.hiOpen || one.hiOpen
	}
	return sum
}

// reach returns the values of a number: those within its bounds, which say nothing about one that never changes.
func (c *checker) reach(name string) interval {
	s := interval{lo: math.Inf(-1), hi: math.Inf(1)}
	i := c.index(name)
	if i < 0 {
		return s
	}
	f := &c.t.Features[i]
	switch {
	case f.Kind == task.Ordinal && len(f.Levels) > 0:
		s.levels = f.Levels
	case f.Kind == task.Thermometer && len(f.Thresholds) > 0:
		below, _ := task.Number(reached(f, "<"))
		s.levels = append([]float64{below}, f.Thresholds...)
	}
	if s.levels != nil {
		s.lo, s.hi = s.levels[0], s.levels[len(s.levels)-1]
	}
	if f.Kind.IsNumber() && f.Mutable {
		s.lo, s.hi = math.Max(s.lo, f.Bounds[0]), math.Min(s.hi, f.Bounds[1])
	}
	return s
}

// category takes values away that break the inequality.
func (s *space) category(q *task.Inequality, by string) (why string) {
	name := q.Terms[0].Feature
	left, known := choice{}, false
	for at := s; at != nil && !known; at = at.behind {
		left, known = at.choices[name]
	}
	if !known {
		i := s.c.index(name)
		if i < 0 {
			return ""
		}
		f := &s.c.t.Features[i]
		if left.values = f.Values; f.Kind == task.Binary {
			left.values = []string{f.Zero, f.One} // without a name the zero is none of the values that constraints speak of
		}
	}
	values := slices.DeleteFunc(slices.Clone(left.values), func(v string) bool {
		return !holds(q, func(string) string { return v })
	})
	switch {
	case len(values) == 0:
		return "no value of " + legible(name) + " fulfils it" + together(by, left.by)
	case len(values) < len(left.values):
		s.choices[name] = choice{values, by}
	}
	return ""
}

// room returns how far the raw values of a person are from breaking an inequality: its bound less the sum of its terms, in the units of the
// inequality; below 0 it is broken. value returns the raw value of a feature as text, "" when it is missing. The result is NaN when a term
// needs a number that there is not.
func room(q *task.Inequality, value func(feature string) string) float64 {
	sum := 0.0
	for _, t := range q.Terms {
		v := value(t.Feature)
		switch {
		case t.Value == "":
			x, ok := task.Number(v)
			if !ok {
				return math.NaN()
			}
			sum += t.Coef * x
		case v == t.Value || sameNumber(v, t.Value):
			sum += t.Coef
		}
	}
	return q.Bound - sum
}

// holds says whether an inequality holds for a person, up to the rounding of the sum. What cannot be told does not hold.
func holds(q *task.Inequality, value func(feature string) string) bool {
	slack := room(q, value)
	tolerance := 1e-9 * math.Max(1, math.Abs(q.Bound))
	if q.Strict {
		return slack > tolerance
	}
	return slack >= -tolerance
}

// allHold says whether all of the inequalities hold.
func allHold(all []task.Inequality, value func(feature string) string) bool {
	for i := range all {
		if !holds(&all[i], value) {
			return false
		}
	}
	return true
}

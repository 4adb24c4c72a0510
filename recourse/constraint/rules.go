package constraint

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// rule is a task.Rule without Of: if all of when hold at the new point, all of then must.
type rule struct {
	text       string
	when, then []condition
	features   []int // that it speaks of
}

// condition is sum(coef*(x+delta)) <= bound over model inputs, or < bound.
type condition struct {
	terms  []entry
	bound  float64
	strict bool
}

type entry struct {
	input int
	coef  float64
}

// subset bounds how many of its features change.
type subset struct {
	text     string
	most     int
	features []int
}

// compileJoint compiles what ties features to each other.
func (a *Set) compileJoint(t *task.Task) error {
	var errs []error
	at := map[string]int{}
	for i := range a.features {
		at[a.features[i].Name] = i
	}
	for _, l := range t.Links {
		from, ok1 := at[l.From]
		to, ok2 := at[l.To]
		if !ok1 || !ok2 {
			errs = append(errs, fmt.Errorf("link from %q to %q: no such feature", l.From, l.To))
			continue
		}
		c, err := a.compileLink(l, from, to)
		if err != nil {
			errs = append(errs, fmt.Errorf("link from %q to %q: %w", l.From, l.To, err))
		}
		a.features[from].Joint = true
		a.links = append(a.links, c)
	}
	errs = append(errs, a.sortLinks())
	for _, r := range t.Rules {
		if err := a.compileRule(r, at); err != nil {
			errs = append(errs, fmt.Errorf("constraint %q: %w", r.Text, err))
		}
	}
	return errors.Join(errs...)
}

func (a *Set) compileRule(r task.Rule, at map[string]int) error {
	var features []int
	look := func(name string) (int, error) {
		i, ok := at[name]
		if !ok {
			return 0, fmt.Errorf("there is no feature %q", name)
		}
		if !slices.Contains(features, i) {
			features = append(features, i)
		}
		a.features[i].Joint = true
		return i, nil
	}
	if r.Of != nil {
		for _, name := range r.Of {
			if _, err := look(name); err != nil {
				return err
			}
		}
		a.subsets = append(a.subsets, subset{text: r.Text, most: r.AtMost, features: features})
		return nil
	}
	c := rule{text: r.Text}
	for _, side := range []struct {
		from []task.Inequality
		to   *[]condition
	}{{r.If, &c.when}, {r.Then, &c.then}} {
		for _, q := range side.from {
			cond := condition{bound: q.Bound, strict: q.Strict}
			for _, t := range q.Terms {
				i, err := look(t.Feature)
				if err == nil {
					err = cond.add(a.features[i].spec, t)
				}
				if err != nil {
					return err
				}
			}
			*side.to = append(*side.to, cond)
		}
	}
	c.features = features
	a.rules = append(a.rules, c)
	return nil
}

// add adds a term over raw values to the condition over inputs.
func (c *condition) add(f *task.Feature, t task.Term) error {
	put := func(j int, coef float64) { c.terms = append(c.terms, entry{f.Offset + j, coef}) }
	switch {
	case t.Value != "" && (f.Kind == task.OneHot || f.Kind == task.Thermometer || f.Kind == task.Binary):
		x := make([]float32, f.Width)
		if err := f.Encode(t.Value, x); err != nil {
			return err
		}
		switch f.Kind {
		case task.OneHot:
			put(slices.Index(x, 1), t.Coef)
		case task.Binary: // x, or 1-x
			put(0, t.Coef*float64(2*x[0]-1))
			c.bound -= t.Coef * float64(1-x[0])
		default: // 1 on this level: the input below it minus the one above it
			level := 0
			for level < f.Width && x[level] == 1 {
				level++
			}
			if level < f.Width {
				put(level, -t.Coef)
			}
			if level > 0 {
				put(level-1, t.Coef)
			} else {
				c.bound -= t.Coef
			}
		}
	case f.Kind.IsNumber():
		put(0, t.Coef*f.Std)
		c.bound -= t.Coef * f.Mean
	case f.Kind == task.Thermometer && len(f.Thresholds) > 0:
		last := f.Floor()
		c.bound -= t.Coef * last
		for j, v := range f.Thresholds {
			put(j, t.Coef*(v-last))
			last = v
		}
	default:
		return fmt.Errorf("feature %q is no number; compare it with a value", f.Name)
	}
	return nil
}

// breaks says whether the action breaks the rule: see task.Rule for people who break it as they are.
func (a *Set) breaks(r *rule, x, d []float32) bool {
	touched := false
	for _, i := range r.features {
		touched = touched || a.features[i].Changed(d)
	}
	if !touched {
		return false
	}
	for i := range r.when {
		if !r.when[i].holds(x, d) {
			return false
		}
	}
	for i := range r.then {
		if c := &r.then[i]; !c.holds(x, d) && (r.when != nil || c.worse(x, d)) {
			return true
		}
	}
	return false
}

// Factual counts the people of x (rows x inputs) who fulfil each rule, but limits on how many features change, as they
// are.
func (a *Set) Factual(x []float32) []task.RuleCount {
	counts := make([]task.RuleCount, len(a.rules))
	stay := make([]float32, a.dim)
	for i := range a.rules {
		r, n := &a.rules[i], &counts[i]
		n.Text = r.text
		for person := range slices.Chunk(x, a.dim) {
			fails := func(c condition) bool { return !c.holds(person, stay) }
			if slices.ContainsFunc(r.when, fails) {
				continue
			}
			n.Applies++
			if slices.ContainsFunc(r.then, fails) {
				n.Broken++
			}
		}
	}
	return counts
}

// changesOf counts the features of the subset that the action changes.
func (a *Set) changesOf(s *subset, d []float32) int {
	n := 0
	for _, k := range s.features {
		if a.features[k].Changed(d) {
			n++
		}
	}
	return n
}

// excess returns sum - bound at x + d; a nil d is no change.
func (c *condition) excess(x, d []float32) float64 {
	sum := -c.bound
	for _, t := range c.terms {
		v := float64(x[t.input])
		if d != nil {
			v += float64(d[t.input])
		}
		sum += t.coef * v
	}
	return sum
}

// noise bounds what float32 inputs do to the sum. The bound, which the means went into, is as exact as float64.
func (c *condition) noise(x, d []float32) float64 {
	size := 0.0
	for _, t := range c.terms {
		size += math.Abs(t.coef) * (math.Abs(float64(x[t.input])) + math.Abs(float64(d[t.input])))
	}
	return 2.4e-7*size + 1e-12*(math.Abs(c.bound)+1)
}

func (c *condition) holds(x, d []float32) bool { return c.within(c.excess(x, d), c.noise(x, d)) }

// within says whether an excess fulfils the condition.
func (c *condition) within(excess, noise float64) bool {
	if c.strict {
		return excess < -noise
	}
	return excess <= noise
}

// worse says whether a condition that does not hold after the action held before, or was nearer to it.
func (c *condition) worse(x, d []float32) bool {
	before, noise := c.excess(x, nil), c.noise(x, d)
	return c.within(before, noise) || c.excess(x, d) > max(before, 0)+noise
}

// broken is a joint constraint that an action breaks.
type broken struct {
	kind    Constraint
	text    string
	rule    *rule    // or
	subset  *subset  // or
	feature *Feature // a dependent feature beyond its bounds
}

// Consistent reports whether an action that respects each feature's own constraints, and whose links are
// propagated, respects the joint ones.
func (a *Set) Consistent(x, d []float32) bool { return a.firstBroken(x, d) == nil }

func (a *Set) firstBroken(x, d []float32) *broken {
	for i := range a.subsets {
		s := &a.subsets[i]
		if n := a.changesOf(s, d); n > s.most {
			return &broken{
				kind: Subset, text: fmt.Sprintf("%d features changed, at most %d may: %s", n, s.most, s.text),
				subset: s,
			}
		}
	}
	for i := range a.links {
		u := &a.features[a.links[i].to]
		if c, detail := u.outOfBounds(x, d); c != "" {
			return &broken{kind: c, text: fmt.Sprintf("%q, which changes along: %s", u.Name, detail), feature: u}
		}
	}
	for i := range a.rules {
		if r := &a.rules[i]; a.breaks(r, x, d) {
			return &broken{kind: Relation, text: r.text, rule: r}
		}
	}
	return nil
}

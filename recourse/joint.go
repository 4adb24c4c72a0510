package recourse

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// link is a task.Link in input units.
type link struct {
	from, to int       // units
	scale    float64   // input units of to for each of from; 0 when the table is used
	starts   []float64 // of a numeric from: the values, ascending, from which on entry k of values holds
	values   []float64 // per entry, or per value of a category from: the new value of a numeric to, the option of a category; NaN: none
}

// rule is a task.Rule without Of: if all of when hold at the new point, all of then must.
type rule struct {
	text       string
	when, then []condition
	units      []int // that it speaks of
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

// subset bounds how many of its units change.
type subset struct {
	text  string
	most  int
	units []int
}

// compileJoint compiles what ties features to each other.
func (a *ActionSet) compileJoint(t *task.Task) error {
	var errs []error
	at := map[string]int{}
	for i := range a.units {
		at[a.units[i].name] = i
	}
	for _, l := range t.Links {
		from, ok1 := at[l.From]
		to, ok2 := at[l.To]
		if !ok1 || !ok2 {
			errs = append(errs, fmt.Errorf("recourse: link from %q to %q: no such feature", l.From, l.To))
			continue
		}
		c, err := a.compileLink(l, from, to)
		if err != nil {
			errs = append(errs, fmt.Errorf("recourse: link from %q to %q: %w", l.From, l.To, err))
		}
		a.units[from].joint = true
		a.links = append(a.links, c)
	}
	errs = append(errs, a.sortLinks())
	for _, r := range t.Rules {
		if err := a.compileRule(r, at); err != nil {
			errs = append(errs, fmt.Errorf("recourse: constraint %q: %w", r.Text, err))
		}
	}
	return errors.Join(errs...)
}

func (a *ActionSet) compileLink(l task.Link, from, to int) (link, error) {
	c := link{from: from, to: to}
	source, target := &a.units[from], &a.units[to]
	if l.Map == nil {
		if source.feature.Kind == task.OneHot || target.form > domain || target.form <= linked {
			return c, errors.New("a scale needs numbers on both sides")
		}
		c.scale = l.Scale * source.feature.Std / target.feature.Std
		return c, nil
	}
	if source.form >= group || source.feature.Kind == task.Binary {
		c.values = make([]float64, max(source.width+1, 2))
		for i := range c.values {
			c.values[i] = math.NaN()
		}
	}
	pairs := slices.Clone(l.Map)
	for _, p := range pairs {
		key, err := source.option(p.From)
		if err != nil {
			return c, err
		}
		value, err := target.option(p.To)
		if err != nil {
			return c, err
		}
		if c.values != nil && (source.form >= group || source.feature.Kind == task.Binary) {
			c.values[int(key)] = value
			continue
		}
		k, _ := slices.BinarySearch(c.starts, key)
		c.starts, c.values = slices.Insert(c.starts, k, key), slices.Insert(c.values, k, value)
	}
	return c, nil
}

// option returns the raw value as an option of a category, or as a model input.
func (u *unit) option(raw string) (float64, error) {
	x := make([]float32, u.width)
	if err := u.feature.Encode(raw, x); err != nil {
		return 0, err
	}
	if u.feature.Kind == task.OneHot || u.feature.Kind == task.Thermometer {
		form := *u
		form.form = group
		if u.feature.Kind == task.Thermometer {
			form.form = ladder
		}
		if v := form.current(x); v >= 0 {
			return float64(v), nil
		}
		return 0, fmt.Errorf("%q is a missing value", raw)
	}
	return float64(x[0]), nil
}

// sortLinks puts links in an order in which what drags comes first.
func (a *ActionSet) sortLinks() error {
	var sorted []link
	for left := a.links; len(left) > 0; {
		var later []link
		for _, l := range left {
			if slices.ContainsFunc(left, func(o link) bool { return o.to == l.from }) {
				later = append(later, l)
			} else {
				sorted = append(sorted, l)
			}
		}
		if len(later) == len(left) {
			return errors.New("recourse: the links form a circle")
		}
		left = later
	}
	a.links = sorted
	return nil
}

func (a *ActionSet) compileRule(r task.Rule, at map[string]int) error {
	var units []int
	look := func(name string) (int, error) {
		i, ok := at[name]
		if !ok {
			return 0, fmt.Errorf("there is no feature %q", name)
		}
		if !slices.Contains(units, i) {
			units = append(units, i)
		}
		a.units[i].joint = true
		return i, nil
	}
	if r.Of != nil {
		for _, name := range r.Of {
			if _, err := look(name); err != nil {
				return err
			}
		}
		a.subsets = append(a.subsets, subset{text: r.Text, most: r.AtMost, units: units})
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
					err = cond.add(a.units[i].feature, t)
				}
				if err != nil {
					return err
				}
			}
			*side.to = append(*side.to, cond)
		}
	}
	c.units = units
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
	case f.Kind == task.Numeric || f.Kind == task.Ordinal:
		put(0, t.Coef*f.Std)
		c.bound -= t.Coef * f.Mean
	case f.Kind == task.Thermometer && len(f.Thresholds) > 0:
		// The level's threshold; the lowest level lies one place below the first.
		below := 1.0
		if len(f.Thresholds) > 1 {
			below = f.Thresholds[1] - f.Thresholds[0]
		}
		last := f.Thresholds[0] - below
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

// drag sets the changes of linked features to what the others make of them.
func (a *ActionSet) drag(x, d []float32) {
	if len(a.links) == 0 {
		return
	}
	for _, l := range a.links {
		u := &a.units[l.to]
		clear(d[u.first : u.first+u.width])
	}
	for i := range a.links {
		l := &a.links[i]
		from, to := &a.units[l.from], &a.units[l.to]
		if !from.changed(d) {
			continue
		}
		if l.scale != 0 {
			d[to.first] += float32(l.scale * float64(d[from.first]))
			continue
		}
		v := l.value(from, x, d)
		switch {
		case math.IsNaN(v):
		case to.form >= group:
			to.become(x[to.first:to.first+to.width], d[to.first:to.first+to.width], int(v))
		default:
			d[to.first] = float32(v - float64(x[to.first]))
		}
	}
}

// value looks up what the new value of from makes of the linked feature; NaN: it stays.
func (l *link) value(from *unit, x, d []float32) float64 {
	if l.starts == nil {
		if from.form < group {
			return l.values[int(x[from.first]+d[from.first]+0.5)]
		}
		to := from.after(x[from.first:from.first+from.width], d[from.first:from.first+from.width])
		return l.values[max(to, 0)]
	}
	at := float64(x[from.first]) + float64(d[from.first])
	at += 1e-6 * (1 + math.Abs(at))
	k, _ := slices.BinarySearch(l.starts, at)
	if k == 0 {
		return math.NaN()
	}
	return l.values[k-1]
}

// pull adds to the gradient of what drags along that of what is dragged.
func (a *ActionSet) pull(g []float32) {
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; l.scale != 0 {
			g[a.units[l.from].first] += float32(l.scale) * g[a.units[l.to].first]
		}
	}
}

// broken is a joint constraint that an action breaks.
type broken struct {
	kind   Constraint
	text   string
	rule   *rule   // or
	subset *subset // or
	unit   *unit   // a linked feature beyond its bounds
}

// obeys says whether an action that respects every feature's own constraints, and whose linked features are dragged, respects the joint ones.
func (a *ActionSet) obeys(x, d []float32) bool { return a.firstBroken(x, d) == nil }

func (a *ActionSet) firstBroken(x, d []float32) *broken {
	for i := range a.subsets {
		s := &a.subsets[i]
		n := 0
		for _, k := range s.units {
			if a.units[k].changed(d) {
				n++
			}
		}
		if n > s.most {
			return &broken{kind: Subset, text: fmt.Sprintf("%d features changed, at most %d may: %s", n, s.most, s.text), subset: s}
		}
	}
	for i := range a.links {
		u := &a.units[a.links[i].to]
		if u.form >= group || !u.changed(d) {
			continue
		}
		if c, detail := u.checkLine(x[u.first], d[u.first]); c == Bounds || c == Category {
			return &broken{kind: c, text: fmt.Sprintf("%q, which changes along: %s", u.name, detail), unit: u}
		}
	}
	for i := range a.rules {
		if r := &a.rules[i]; a.breaks(r, x, d) {
			return &broken{kind: Relation, text: r.text, rule: r}
		}
	}
	return nil
}

// breaks says whether the action breaks the rule: see task.Rule for people who break it as they are.
func (a *ActionSet) breaks(r *rule, x, d []float32) bool {
	touched := false
	for _, i := range r.units {
		touched = touched || a.units[i].changed(d)
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

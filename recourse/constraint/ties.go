package constraint

import (
	"math"
	"slices"

	"cfq/task"
)

type link struct {
	from, to int       // features
	scale    float64   // input units of to for each of from; 0 when the table is used
	starts   []float64 // of a numeric from: the values, ascending, from which on entry k of values holds
	// values holds, per entry or per value of a category from, the new value of a numeric to or the option of a category;
	// NaN: none.
	values []float64
}

type linkSource struct {
	feature int
	table   bool
}

// relation is a constraint that several features share: a limit on how many of them change ([Subset]), a rule between
// their new values ([Relation]), or the bounds of one that links move (all other kinds).
type relation struct {
	kind       Constraint
	text       string
	features   []int // that it speaks of
	most       int   // of a subset
	must       bool  // it holds after any action
	when, then []condition
}

// condition is sum(coef*(x+delta)) <= bound over model inputs, or < bound.
type condition struct {
	terms  []inputTerm
	bound  float64
	strict bool
}

type inputTerm struct {
	input int
	coef  float64
}

func (a *Set) compileTies(t *task.Task) {
	at := map[string]int{}
	for i := range a.features {
		at[a.features[i].Name] = i
	}
	for _, l := range t.Links {
		a.compileLink(l, at)
	}
	a.sortLinks()
	var rules []relation
	for _, r := range t.Rules {
		c := a.compileRule(r, at)
		if c.kind == Subset {
			a.relations = append(a.relations, c)
		} else {
			rules = append(rules, c)
		}
		for i := range a.features {
			a.features[i].Joint = a.features[i].Joint || c.must // any change may have to repair it
		}
	}
	for _, l := range a.links {
		a.relations = append(a.relations, relation{kind: Bounds, features: []int{l.to}})
	}
	a.relations = append(a.relations, rules...)
}

func (a *Set) compileLink(l task.Link, at map[string]int) {
	c := link{from: at[l.From], to: at[l.To]}
	source, target := &a.features[c.from], &a.features[c.to]
	source.Joint = true
	if l.Map == nil {
		c.scale = l.Scale * source.spec.Number().Unit() / target.spec.Number().Unit()
		a.links = append(a.links, c)
		return
	}
	category := source.spec.Category() != nil
	if category {
		c.values = slices.Repeat([]float64{math.NaN()}, max(source.Width+1, 2))
	}
	for _, p := range l.Map {
		key, value := source.option(p[0]), target.option(p[1])
		if category {
			c.values[int(key)] = value
			continue
		}
		k, _ := slices.BinarySearch(c.starts, key)
		c.starts, c.values = slices.Insert(c.starts, k, key), slices.Insert(c.values, k, value)
	}
	a.links = append(a.links, c)
}

func (a *Set) sortLinks() {
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
		left = later
	}
	a.links, a.sources = sorted, make([][]linkSource, len(a.features))
	for i := range a.features {
		if a.features[i].kind > dependent {
			a.sources[i] = []linkSource{{feature: i}}
		}
	}
	for _, l := range sorted {
		for _, s := range a.sources[l.from] {
			s.table = s.table || l.scale == 0
			if k := slices.IndexFunc(a.sources[l.to], func(o linkSource) bool { return o.feature == s.feature }); k >= 0 {
				a.sources[l.to][k].table = s.table || a.sources[l.to][k].table
			} else {
				a.sources[l.to] = append(a.sources[l.to], s)
			}
			a.features[s.feature].Tabled = a.features[s.feature].Tabled || s.table
		}
	}
}

func (a *Set) compileRule(r task.Rule, at map[string]int) relation {
	c := relation{kind: Relation, text: r.Text, most: r.AtMost, must: r.Must}
	look := func(name string) *Feature {
		i := at[name]
		if !slices.Contains(c.features, i) {
			c.features = append(c.features, i)
		}
		a.features[i].Joint = true
		return &a.features[i]
	}
	if r.Of != nil {
		c.kind = Subset
		for _, name := range r.Of {
			look(name)
		}
		return c
	}
	compile := func(from []task.Inequality) (list []condition) {
		for _, q := range from {
			cond := condition{bound: q.Bound, strict: q.Strict}
			for _, t := range q.Terms {
				cond.add(look(t.Feature).spec, t)
			}
			list = append(list, cond)
		}
		return list
	}
	c.when, c.then = compile(r.If), compile(r.Then)
	return c
}

func (c *condition) add(f *task.Feature, t task.Term) {
	coef, constant, _ := f.Encoding.Linear(t.Value) // the task's reader has tried the value
	c.bound -= t.Coef * constant
	for j, v := range coef {
		if v != 0 {
			c.terms = append(c.terms, inputTerm{f.Offset + j, t.Coef * v})
		}
	}
}

// Propagate sets the changes of dependent features to what follows from the others.
func (a *Set) Propagate(x, d []float32) {
	for i := range a.links {
		clear(a.features[a.links[i].to].inputs(d))
	}
	for i := range a.links {
		l := &a.links[i]
		from, to := &a.features[l.from], &a.features[l.to]
		if !from.Changed(d) {
			continue
		}
		if l.scale != 0 {
			d[to.First] += float32(l.scale * float64(d[from.First]))
			continue
		}
		if from.form == grid && from.onTick(x[from.First], d[from.First], 0) {
			continue // the noise of float32 is no change
		}
		v := l.value(from, x, d)
		switch {
		case math.IsNaN(v):
		case to.form >= oneHot:
			to.Set(x, d, int(v))
		default:
			d[to.First] = float32(v - float64(x[to.First]))
		}
	}
}

// value looks up what the new value of from makes of the linked feature; NaN: it stays.
func (l *link) value(from *Feature, x, d []float32) float64 {
	if l.starts == nil {
		if from.form < oneHot {
			return l.values[int(x[from.First]+d[from.First]+0.5)]
		}
		return l.values[max(from.place(from.inputs(x), from.inputs(d)), 0)]
	}
	at := float64(x[from.First]) + float64(d[from.First])
	at += 1e-6 * (1 + math.Abs(at))
	k, _ := slices.BinarySearch(l.starts, at)
	if k == 0 {
		return math.NaN()
	}
	return l.values[k-1]
}

func (a *Set) propagated(x, d []float32) bool {
	if len(a.links) == 0 {
		return true
	}
	var buf [128]float32
	want := append(buf[:0], d...)
	a.Propagate(x, want)
	for i := range a.links { // nothing else was changed
		to := &a.features[a.links[i].to]
		for j := to.First; j < to.First+to.Width; j++ {
			if !same(x[j], d[j], want[j]) {
				return false
			}
		}
	}
	return true
}

// Pullback adds to the gradient g of a feature the gradients of those that follow it.
func (a *Set) Pullback(g []float32) {
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; l.scale != 0 {
			g[a.features[l.from].First] += float32(l.scale) * g[a.features[l.to].First]
		}
	}
}

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

func (c *condition) within(excess, noise float64) bool {
	if c.strict {
		return excess < -noise
	}
	return excess <= noise
}

func (c *condition) worse(x, d []float32) bool {
	before, noise := c.excess(x, nil), c.noise(x, d)
	return c.within(before, noise) || c.excess(x, d) > max(before, 0)+noise
}

func (a *Set) firstBroken(x, d []float32) *relation {
	for i := range a.relations {
		if a.breaks(&a.relations[i], x, d) {
			return &a.relations[i]
		}
	}
	return nil
}

// breaks says whether the action breaks the relation: see task.Rule for people who break a rule as they are.
func (a *Set) breaks(r *relation, x, d []float32) bool {
	switch n := a.changes(r, d); {
	case n == 0 && !(r.must && slices.ContainsFunc(d, func(v float32) bool { return v != 0 })):
		return false
	case r.kind == Subset:
		return n > r.most
	case r.kind != Relation:
		c, _ := a.features[r.features[0]].checkDependent(x, d)
		return c != ""
	}
	for i := range r.when {
		if !r.when[i].holds(x, d) {
			return false
		}
	}
	for i := range r.then {
		if c := &r.then[i]; !c.holds(x, d) && (r.must || r.when != nil || c.worse(x, d)) {
			return true
		}
	}
	return false
}

func (a *Set) changes(r *relation, d []float32) int {
	n := 0
	for _, k := range r.features {
		if a.features[k].Changed(d) {
			n++
		}
	}
	return n
}

func (a *Set) concerned(r *relation) []int {
	ks := slices.Clone(r.features)
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; slices.Contains(ks, l.to) && !slices.Contains(ks, l.from) {
			ks = append(ks, l.from)
		}
	}
	return ks
}

package constraint

import (
	"cmp"
	"math"
	"slices"

	"cfq/internal/lists"
)

// Linear is what links, rules and limits on sets of features mean for the action d of one person as linear
// inequalities: Effects(d) is at least Need, row by row, and d fulfils one alternative of every disjunction. It is
// a relaxation: Violated finds what it leaves out, and returns the disjunction that divides the search.
type Linear struct {
	Need []float64 // of the rows; -Inf where only an alternative needs it
	// Spare is by how much more of a row it takes for an action to fulfil it when free changes are written in raw units.
	Spare  []float64
	Limits []Limit

	set     *Set
	x       []float32
	at      map[int]int // positions of features among the free ones
	rows    []linearRow
	rules   []*Disjunction // by relation: what a rule with If says
	changes []*Disjunction // by free feature: it changes or does not
}

// Limit says that at most Most of some features change. Features are given by their positions in Set.Free, as often as
// features that follow them count.
type Limit struct {
	Features []int
	Most     int
}

// Disjunction is a condition with alternatives: every feasible action is in one of them at least.
type Disjunction struct{ Alternatives []Alternative }

// Alternative says what holds in one part of a disjunction. Features are given by their positions in Set.Free.
type Alternative struct {
	Unchanged, Changed []int     // features
	Rows               []int     // that become needed
	Need               []float64 // of the rows
}

// linearRow is sum(coef delta) over model inputs, divided so that its largest coefficient is 1.
type linearRow struct {
	terms []inputTerm
	size  float64
	clear bool // what misses it is farther from it than noise
}

// Linear returns the rows of the set's links and rules for the person x.
func (a *Set) Linear(x []float32) *Linear {
	l := &Linear{set: a, x: x, at: map[int]int{}, rules: make([]*Disjunction, len(a.relations))}
	for k, u := range a.free {
		l.at[u.Index] = k
		only := []int{k}
		l.changes = append(l.changes, &Disjunction{[]Alternative{{Unchanged: only}, {Changed: only}}})
	}
	for i := range a.features {
		u := &a.features[i]
		if u.kind != dependent || u.form >= oneHot {
			continue
		}
		lo, hi := u.span(x[u.First])
		if float64(hi) < widest {
			l.needed([]inputTerm{{u.First, -1}}, -float64(hi))
		}
		if float64(lo) > -widest {
			l.needed([]inputTerm{{u.First, 1}}, float64(lo))
		}
	}
	for i := range a.relations {
		switch r := &a.relations[i]; {
		case r.kind == Subset:
			l.Limits = append(l.Limits, Limit{l.movers(r), r.most})
		case r.kind == Relation && r.when == nil:
			l.always(r)
		case r.kind == Relation:
			l.rules[i] = l.alternatives(r)
		}
	}
	return l
}

// row adds the row sum >= need, which nothing needs yet, and returns its need as Need has it.
func (l *Linear) row(terms []inputTerm, need, spare float64, clear bool) (index int, scaled float64) {
	size := 0.0
	for _, t := range terms {
		size = max(size, math.Abs(t.coef))
	}
	size = cmp.Or(size, 1)
	l.rows = append(l.rows, linearRow{terms: terms, size: size, clear: clear})
	l.Need, l.Spare = append(l.Need, math.Inf(-1)), append(l.Spare, spare/size)
	return len(l.rows) - 1, need / size
}

func (l *Linear) needed(terms []inputTerm, need float64) {
	index, need := l.row(terms, need, 0, false)
	l.Need[index] = need
}

// movers are the free features that features of the relation are or follow. What follows several others, or one by a
// table, is left out: it may stay when they change, which only Violated knows.
func (l *Linear) movers(r *relation) (free []int) {
	for _, k := range r.features {
		if s := l.set.sources[k]; len(s) == 1 && !s[0].table {
			free = append(free, l.at[s[0].feature])
		}
	}
	return free
}

// Effects returns what the action does to every row.
func (l *Linear) Effects(d []float32) []float64 {
	out := make([]float64, len(l.rows))
	for r := range l.rows {
		for _, t := range l.rows[r].terms {
			out[r] += t.coef * float64(d[t.input])
		}
		out[r] /= l.rows[r].size
	}
	return out
}

// Noise returns by how much actions that Check accepts may miss each row, when their inputs may be off by so much.
func (l *Linear) Noise(off []float64) []float64 {
	out := make([]float64, len(l.rows))
	for r := range l.rows {
		if l.rows[r].clear {
			continue
		}
		for _, t := range l.rows[r].terms {
			out[r] += math.Abs(t.coef) * off[t.input] / l.rows[r].size
		}
	}
	return out
}

// always adds the rows of a rule without If. They are needed: what is broken already may not become worse.
func (l *Linear) always(r *relation) {
	for i := range r.then {
		c := &r.then[i]
		// What holds as they are must go on to hold.
		strict := c.strict && (r.must || c.holds(l.x, make([]float32, len(l.x))))
		index, need := l.condition(c, true, strict)
		if !r.must {
			need = min(need, 0)
		}
		l.Need[index] = need
	}
}

// alternatives adds the rows of a rule with If, which is a disjunction: none of its features change, or one part of If
// does not hold, or all of Then does.
func (l *Linear) alternatives(r *relation) *Disjunction {
	d, all := &Disjunction{}, Alternative{}
	if !r.must {
		d.Alternatives = append(d.Alternatives, Alternative{Unchanged: l.movers(r)})
	}
	for i := range r.when {
		index, need := l.condition(&r.when[i], false, !r.when[i].strict)
		d.Alternatives = append(d.Alternatives, Alternative{Rows: []int{index}, Need: []float64{need}})
	}
	for i := range r.then {
		index, need := l.condition(&r.then[i], true, r.then[i].strict)
		all.Rows, all.Need = append(all.Rows, index), append(all.Need, need)
	}
	d.Alternatives = append(d.Alternatives, all)
	return d
}

// condition adds the row of a condition that holds, or else fails; strict when equality is not enough.
func (l *Linear) condition(c *condition, holds, strict bool) (index int, need float64) {
	terms, excess := c.terms, -c.excess(l.x, nil)
	if holds {
		terms, excess = negated(terms), -excess
	}
	need, spare, apart := l.bound(c, excess, strict)
	return l.row(terms, need, spare, apart)
}

func negated(terms []inputTerm) []inputTerm {
	return lists.Map(terms, func(t inputTerm) inputTerm { return inputTerm{t.input, -t.coef} })
}

// bound is the need and the spare of a row. A strict one is missed by a distance that is taken for more than noise: at
// least where all features have steps, so that nothing comes nearer without being there, and else to spare.
func (l *Linear) bound(c *condition, excess float64, strict bool) (need, spare float64, apart bool) {
	if need, spare = excess, l.rounded(c); !strict {
		return need, spare, false
	}
	least := 1.5 * c.noise(l.x, slices.Repeat([]float32{8}, len(l.x)))
	for _, t := range c.terms {
		for k, sources := range l.set.sources {
			free := func(s linkSource) bool { return l.set.features[s.feature].kind == continuous }
			if l.set.features[k].First == t.input && slices.ContainsFunc(sources, free) {
				return need, spare + least, false
			}
		}
	}
	return need + least, spare, true
}

// rounded is by how much writing free changes in raw units may move the sum.
func (l *Linear) rounded(c *condition) float64 {
	sum := 0.0
	for _, t := range c.terms {
		for i := range l.set.features {
			if u := &l.set.features[i]; u.First == t.input && u.kind == continuous {
				sum += math.Abs(t.coef) * u.Quantum / u.spec.Number().Unit()
			}
		}
	}
	return sum
}

// Violated returns a disjunction that the action d, which respects each feature's own constraints, breaks and that is
// not settled; nil without one: d is feasible, or breaks by rounding alone, or the settled ones cannot all hold.
func (l *Linear) Violated(d []float32, settled []*Disjunction) (open *Disjunction) {
	a := l.set
	for i, e := range l.rules {
		if e != nil && a.breaks(&a.relations[i], l.x, d) && !slices.Contains(settled, e) {
			return e
		}
	}
	for i := range a.relations {
		r := &a.relations[i]
		if r.kind != Subset || !a.breaks(r, l.x, d) {
			continue
		}
		for _, k := range r.features {
			for _, s := range a.sources[k] {
				e := l.changes[l.at[s.feature]]
				if a.features[k].Changed(d) && a.features[s.feature].Changed(d) && !slices.Contains(settled, e) {
					open = e
				}
			}
		}
		return open
	}
	return nil
}

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
	Spare []float64
	// Rounding is what Violated returns when no alternative would help: the action breaks a constraint by rounding alone.
	Rounding *Disjunction

	set  *Set
	x    []float32
	at   map[int]int // positions of features among the free ones
	rows []linearRow
	// parts are the disjunctions of every relation. A subset has one per free feature that it is about, which changes or
	// does not; a rule with If has one, under the key ifThen. The rows of other rules are always needed.
	parts []map[int]*Disjunction
}

const ifThen = -1

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
	l := &Linear{Rounding: &Disjunction{}, set: a, x: x, at: map[int]int{}}
	for k, u := range a.free {
		l.at[u.Index] = k
	}
	for i := range a.features {
		u := &a.features[i]
		if u.kind != dependent || u.form >= oneHot {
			continue
		}
		lo, hi := u.span(x[u.First])
		if float64(hi) < widest {
			l.row([]inputTerm{{u.First, -1}}, -float64(hi), 0, true)
		}
		if float64(lo) > -widest {
			l.row([]inputTerm{{u.First, 1}}, float64(lo), 0, true)
		}
	}
	for i := range a.relations {
		r, by := &a.relations[i], map[int]*Disjunction{}
		switch r.kind {
		case Relation:
			if d := l.rule(r); d != nil {
				by[ifThen] = d
			}
		case Subset:
			for _, k := range r.features {
				for _, s := range a.sources[k] {
					only := []int{l.at[s.feature]}
					by[s.feature] = &Disjunction{[]Alternative{{Unchanged: only}, {Changed: only}}}
				}
			}
		}
		l.parts = append(l.parts, by)
	}
	return l
}

// Empty reports whether the person's features are independent of each other.
func (l *Linear) Empty() bool { return len(l.set.relations) == 0 }

// row adds the row sum >= need, needed from the start or by an alternative only.
func (l *Linear) row(terms []inputTerm, need, spare float64, always bool) (index int, scaled float64) {
	size := 0.0
	for _, t := range terms {
		size = max(size, math.Abs(t.coef))
	}
	size = cmp.Or(size, 1)
	l.rows = append(l.rows, linearRow{terms: terms, size: size})
	l.Need, l.Spare = append(l.Need, math.Inf(-1)), append(l.Spare, spare/size)
	index, scaled = len(l.rows)-1, need/size
	if always {
		l.Need[index] = scaled
	}
	return index, scaled
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

// rule adds the rows of a rule. Without If they are needed: what is broken already may not become worse. With If
// the rule is a disjunction: none of its features change, or one part of If does not hold, or all of Then does.
func (l *Linear) rule(r *relation) *Disjunction {
	if r.when == nil {
		for i := range r.then {
			c := &r.then[i]
			// What holds as they are must go on to hold.
			strict := c.strict && (r.must || c.holds(l.x, make([]float32, len(l.x))))
			below, spare, apart := l.bound(c, c.excess(l.x, nil), strict)
			if !r.must {
				below = min(below, 0)
			}
			index, _ := l.row(negated(c.terms), below, spare, true)
			l.rows[index].clear = apart
		}
		return nil
	}
	var none, all Alternative
	for _, k := range r.features {
		// What follows several others, or one by a table, may stay when they change.
		if s := l.set.sources[k]; len(s) == 1 && !s[0].table {
			none.Unchanged = append(none.Unchanged, l.at[s[0].feature])
		}
	}
	d := &Disjunction{[]Alternative{none}}
	if r.must {
		d.Alternatives = nil
	}
	for i := range r.when { // fails
		c := &r.when[i]
		index, need := l.alternative(c, c.terms, -c.excess(l.x, nil), !c.strict)
		d.Alternatives = append(d.Alternatives, Alternative{Rows: []int{index}, Need: []float64{need}})
	}
	for i := range r.then { // holds
		c := &r.then[i]
		index, need := l.alternative(c, negated(c.terms), c.excess(l.x, nil), c.strict)
		all.Rows, all.Need = append(all.Rows, index), append(all.Need, need)
	}
	d.Alternatives = append(d.Alternatives, all)
	return d
}

// alternative adds a row of one part of a rule, by how much it is exceeded now, and strict when equality is not enough.
func (l *Linear) alternative(c *condition, terms []inputTerm, excess float64, strict bool) (index int, need float64) {
	need, spare, apart := l.bound(c, excess, strict)
	index, need = l.row(terms, need, spare, false)
	l.rows[index].clear = apart
	return index, need
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

// Limit says that at most Most of some features change. Features are given by their positions in Set.Free, as often as
// features that follow them count.
type Limit struct {
	Features []int
	Most     int
}

// Limits returns the limits on how many of some features change. Of a feature that follows several others, or one by a
// table, a limit does not know whether it changes; only Violated does.
func (l *Linear) Limits() (limits []Limit) {
	for i := range l.set.relations {
		r := &l.set.relations[i]
		if r.kind != Subset {
			continue
		}
		limit := Limit{Most: r.most}
		for _, k := range r.features {
			if s := l.set.sources[k]; len(s) == 1 && !s[0].table {
				limit.Features = append(limit.Features, l.at[s[0].feature])
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

// Violated returns a disjunction that the action d, which respects each feature's own constraints, breaks: one that
// is not among those settled if there is such a one. It is nil when d is feasible, and a disjunction without
// alternatives when the settled ones cannot all hold.
func (l *Linear) Violated(d []float32, settled []*Disjunction) *Disjunction {
	a := l.set
	if a.firstBroken(l.x, d) == nil {
		return nil
	}
	for i := range a.relations {
		r, e := &a.relations[i], l.parts[i][ifThen]
		if r.kind == Relation && e != nil && a.breaks(r, l.x, d) && !slices.Contains(settled, e) {
			return e
		}
	}
	for i := range a.relations {
		r := &a.relations[i]
		if r.kind != Subset || !a.breaks(r, l.x, d) {
			continue
		}
		open := &Disjunction{} // too many have to change
		for _, k := range r.features {
			for _, s := range a.sources[k] {
				e := l.parts[i][s.feature]
				if a.features[k].Changed(d) && a.features[s.feature].Changed(d) && !slices.Contains(settled, e) {
					open = e
				}
			}
		}
		return open
	}
	return l.Rounding
}

package recourse

import (
	"fmt"
	"math"
	"slices"
)

// jointRows is what links, rules and subsets mean for one person's problem.
type jointRows struct {
	a        *ActionSet
	x        []float32
	p        *problem
	rows     []jointRow
	need     []float64 // of the rows; -Inf where only an alternative needs it
	rules    []*either // per rule; nil without If: its rows are always needed
	subsets  []map[int]*either
	rounding either // what no alternative would mend
}

// jointRow is sum(coef delta) over model inputs, divided so that its largest coefficient is 1.
type jointRow struct {
	terms []entry
	size  float64
}

// jointOf returns the rows of a's links and rules for the person x.
func (a *ActionSet) jointOf(x []float32) *jointRows {
	j := &jointRows{a: a, x: x}
	for i := range a.units {
		u := &a.units[i]
		if u.kind != linked || u.form >= group {
			continue
		}
		lo, hi := u.span(x[u.first])
		slack := noise(x[u.first], 0) / 2
		if float64(hi) < widest {
			j.row([]entry{{u.first, -1}}, -float64(hi)-slack, true)
		}
		if float64(lo) > -widest {
			j.row([]entry{{u.first, 1}}, float64(lo)-slack, true)
		}
	}
	for i := range a.rules {
		j.rules = append(j.rules, j.rule(&a.rules[i]))
	}
	return j
}

// row adds the row sum >= need and returns its index among the problem's, where the margin is row 0.
func (j *jointRows) row(terms []entry, need float64, always bool) (index int, scaled float64) {
	size := 0.0
	for _, t := range terms {
		size = max(size, math.Abs(t.coef))
	}
	if size == 0 {
		size = 1
	}
	j.rows = append(j.rows, jointRow{terms, size})
	scaled = need / size
	if always {
		j.need = append(j.need, scaled)
	} else {
		j.need = append(j.need, math.Inf(-1))
	}
	return len(j.rows), scaled
}

// acts returns what the action does to every row.
func (j *jointRows) acts(d []float32) []float64 {
	out := make([]float64, len(j.rows))
	for r := range j.rows {
		for _, t := range j.rows[r].terms {
			out[r] += t.coef * float64(d[t.input])
		}
		out[r] /= j.rows[r].size
	}
	return out
}

// rule adds the rows of a rule. Without If they are needed: what is broken already may not become worse. With If the rule is a
// condition: none of its features change, or one part of If does not hold, or all of Then does.
func (j *jointRows) rule(r *rule) *either {
	if r.when == nil {
		for i := range r.then {
			c := &r.then[i]
			below := min(c.excess(j.x, nil)+j.rounded(c), 0) - j.slack(c)
			if c.strict && c.holds(j.x, make([]float32, len(j.x))) { // who fulfils it must go on to
				below += j.clear(c)
			}
			j.row(negated(c.terms), below, true)
		}
		return nil
	}
	e := &either{ways: make([]way, 1)} // the first: see link
	for i := range r.when {
		c := &r.when[i]
		beyond := -c.excess(j.x, nil) + j.rounded(c)
		if beyond -= j.slack(c); !c.strict {
			beyond += j.clear(c)
		}
		index, need := j.row(c.terms, beyond, false)
		e.ways = append(e.ways, way{rows: []int{index}, needs: []float64{need}})
	}
	var all way
	for i := range r.then {
		c := &r.then[i]
		below := c.excess(j.x, nil) + j.rounded(c)
		if below -= j.slack(c); c.strict {
			below += j.clear(c)
		}
		index, need := j.row(negated(c.terms), below, false)
		all.rows, all.needs = append(all.rows, index), append(all.needs, need)
	}
	e.ways = append(e.ways, all)
	return e
}

func negated(terms []entry) []entry {
	out := slices.Clone(terms)
	for k := range out {
		out[k].coef = -out[k].coef
	}
	return out
}

// slack is what a condition that holds with equality may miss for the noise of float32.
func (j *jointRows) slack(c *condition) float64 { return c.noise(j.x, make([]float32, len(j.x))) / 2 }

// clear is a distance from the bound that is taken for more than noise.
func (j *jointRows) clear(c *condition) float64 {
	far := make([]float32, len(j.x))
	for k := range far {
		far[k] = 8
	}
	return 1.5 * c.noise(j.x, far)
}

// rounded is by how much writing free changes in raw units may move the sum.
func (j *jointRows) rounded(c *condition) float64 {
	sum := 0.0
	for _, t := range c.terms {
		for i := range j.a.units {
			if u := &j.a.units[i]; u.first == t.input && u.kind == continuous {
				sum += math.Abs(t.coef) * u.quantum / u.feature.Std
			}
		}
	}
	return sum
}

// conditional says whether the rows do not say everything.
func (j *jointRows) conditional() bool {
	return len(j.rows) > 0 || len(j.a.subsets) > 0
}

// link prepares the conditions for the problem's levers.
func (j *jointRows) link(p *problem) {
	j.p = p
	lever := map[int]int{}
	for i := range p.levers {
		lever[p.levers[i].feature] = i
	}
	for i, e := range j.rules {
		if e == nil {
			continue
		}
		for _, k := range j.a.rules[i].units {
			for _, f := range j.a.roots(k) {
				e.ways[0].out = append(e.ways[0].out, lever[f])
			}
		}
	}
	for i := range j.a.subsets {
		by := map[int]*either{}
		for _, k := range j.a.subsets[i].units {
			for _, f := range j.a.roots(k) {
				l := lever[f]
				by[f] = &either{ways: []way{{out: []int{l}}, {in: []int{l}}}}
			}
		}
		j.subsets = append(j.subsets, by)
	}
}

// broken is problem.broken.
func (j *jointRows) broken(c *plan, settled []*either) *either {
	a, d := j.a, make([]float32, j.a.dim)
	a.carryOut(j.p, c, j.x, d)
	b := a.firstBroken(j.x, d)
	if b == nil {
		return nil
	}
	for i := range a.rules {
		if e := j.rules[i]; e != nil && a.breaks(&a.rules[i], j.x, d) && !slices.Contains(settled, e) {
			return e
		}
	}
	for i := range a.subsets {
		s := &a.subsets[i]
		var open *either
		for _, k := range s.units {
			if !a.units[k].changed(d) {
				continue
			}
			for _, f := range a.roots(k) {
				if e := j.subsets[i][f]; a.units[f].changed(d) && !slices.Contains(settled, e) {
					open = e
				}
			}
		}
		switch {
		case a.changesOf(s, d) <= s.most:
		case open != nil:
			return open
		default:
			return &either{} // those that are in are too many: nothing of the node is feasible
		}
	}
	return &j.rounding
}

// roots returns the free units whose changes move unit k: itself, or what drags it along.
func (a *ActionSet) roots(k int) []int {
	if a.units[k].kind > linked {
		return []int{k}
	}
	var out []int
	for _, l := range a.links {
		if l.to != k {
			continue
		}
		for _, f := range a.roots(l.from) {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// tabled says whether the free unit f drags others along by a table, directly or not.
func (a *ActionSet) tabled(f int) bool {
	for _, l := range a.links {
		if l.from == f && (l.scale == 0 || a.tabled(l.to)) {
			return true
		}
	}
	return false
}

const mostTabled = 1 << 16 // steps of a feature that drags others along by a table

// separable says why the features' changes do not add up in the inputs, "" when they do.
func (a *ActionSet) separable() string {
	for k := range a.units {
		u := &a.units[k]
		if u.kind == continuous && a.tabled(k) {
			return fmt.Sprintf("%q has no steps and drags others along by a table", u.name)
		}
		if u.kind != linked || len(a.roots(k)) < 2 {
			continue
		}
		for _, f := range a.roots(k) {
			if a.tabledTo(f, k) {
				return fmt.Sprintf("several features drag %q along, one of them by a table", u.name)
			}
		}
	}
	return ""
}

// tabledTo says whether a table lies on a way from unit f to unit k.
func (a *ActionSet) tabledTo(f, k int) bool {
	return slices.ContainsFunc(a.links, func(l link) bool {
		return l.from == f && a.leads(l.to, k) && (l.scale == 0 || a.tabledTo(l.to, k))
	})
}

// leads says whether links lead from unit f to unit k.
func (a *ActionSet) leads(f, k int) bool {
	return f == k || slices.ContainsFunc(a.links, func(l link) bool { return l.from == f && a.leads(l.to, k) })
}

package recourse

import (
	"math"
	"slices"
)

// join makes an action whose features are feasible one by one feasible as a whole.
func (a *ActionSet) join(x, d []float32) {
	if a.follows(x, d) && a.obeys(x, d) {
		return
	}
	if a.drag(x, d); a.obeys(x, d) {
		return
	}
	mended := slices.Clone(d)
	for ; !a.mend(x, mended, -1, false); copy(mended, d) {
		// What cannot be mended is undone, the smallest change of those concerned first; without changes nothing is broken. That is done to the action
		// as it was: remedies that made way for each other would come again for ever.
		a.undo(x, d, a.smallest(x, d, a.firstBroken(x, d)))
	}
	copy(d, mended)
}

// follows says whether the linked features changed as the others drag them.
func (a *ActionSet) follows(x, d []float32) bool {
	if len(a.links) == 0 {
		return true
	}
	var buf [128]float32
	want := append(buf[:0], d...)
	a.drag(x, want)
	for j := range d {
		if !(math.Abs(float64(d[j])-float64(want[j])) <= noise(x[j], d[j])) {
			return false
		}
	}
	return true
}

// mend changes d, whose links are dragged, until it obeys the joint constraints, each time by the change of one feature that ends a breach at
// the least cost or, with near, closest to d: to take back what was achieved is the cheapest, but no way on for a search. The feature keep, if any, stays as it is. It reports whether it succeeded; d is of no use otherwise, but feasible feature by feature.
func (a *ActionSet) mend(x, d []float32, keep int, near bool) bool {
	for range 4 + 2*(len(a.rules)+len(a.subsets)) {
		b := a.firstBroken(x, d)
		if b == nil {
			return true
		}
		var best []float32
		least := math.Inf(1)
		a.remedies(x, d, b, keep, func(t []float32) {
			c := a.Cost(x, t)
			if near {
				c = a.distance(d, t)
			}
			if c < least && a.changes(t) <= a.limit && a.ended(b, x, t) {
				least, best = c, slices.Clone(t)
			}
		})
		if best == nil {
			return false
		}
		copy(d, best)
	}
	return a.obeys(x, d)
}

// distance returns the weighted l1 distance of two actions.
func (a *ActionSet) distance(d, t []float32) float64 {
	sum := 0.0
	for j, v := range t {
		sum += a.weights[j] * math.Abs(float64(v)-float64(d[j]))
	}
	return sum
}

// ended says whether the breach b is over at d.
func (a *ActionSet) ended(b *broken, x, d []float32) bool {
	switch {
	case b.rule != nil:
		return !a.breaks(b.rule, x, d)
	case b.unit != nil:
		c, _ := b.unit.astray(x, d)
		return c == ""
	}
	return a.changesOf(b.subset, d) <= b.subset.most
}

// remedies proposes changes of single features that may end the breach.
func (a *ActionSet) remedies(x, d []float32, b *broken, keep int, try func(t []float32)) {
	scratch := make([]float32, len(d))
	propose := func(k int, set func(u *unit)) {
		u := &a.units[k]
		if k == keep || u.kind <= linked {
			return
		}
		copy(scratch, d)
		set(u)
		a.drag(x, scratch)
		try(scratch)
	}
	for _, k := range a.concerned(b) {
		propose(k, func(u *unit) { clear(scratch[u.first : u.first+u.width]) })
		if b.rule == nil {
			continue
		}
		u := &a.units[k]
		if u.form >= group || u.form == domain {
			u.each(x, func(option int) { propose(k, func(u *unit) { u.set(x, scratch, option) }) })
			continue
		}
		for _, c := range b.rule.then {
			for _, e := range c.terms {
				if e.input == u.first && e.coef != 0 {
					propose(k, func(u *unit) { scratch[u.first] = u.relieve(x, d, &c, e.coef) })
				}
			}
		}
	}
}

// relieve returns the change of a numeric feature that fulfils the condition as far as there is room.
func (u *unit) relieve(x, d []float32, c *condition, coef float64) float32 {
	over := c.excess(x, d)
	if c.strict {
		over += 3 * c.noise(x, d)
	}
	return u.outward(x[u.first], float64(d[u.first])-over/coef, coef < 0)
}

// concerned returns the units whose changes can end the breach: those it speaks of, and those that drag them along.
func (a *ActionSet) concerned(b *broken) []int {
	var ks []int
	switch {
	case b.rule != nil:
		ks = slices.Clone(b.rule.units)
	case b.subset != nil:
		ks = slices.Clone(b.subset.units)
	default:
		for i := range a.links {
			if &a.units[a.links[i].to] == b.unit {
				ks = append(ks, a.links[i].to)
			}
		}
	}
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; slices.Contains(ks, l.to) && !slices.Contains(ks, l.from) {
			ks = append(ks, l.from)
		}
	}
	return ks
}

// smallest returns the concerned unit with the smallest change that an action made.
func (a *ActionSet) smallest(x, d []float32, b *broken) int {
	pick, least := -1, math.Inf(1)
	for _, k := range a.concerned(b) {
		u := &a.units[k]
		if u.kind <= linked || !u.changed(d) {
			continue
		}
		if t := a.term(u, x, d); t < least {
			pick, least = k, t
		}
	}
	return pick
}

// undo takes the change of unit k back; -1: all changes.
func (a *ActionSet) undo(x, d []float32, k int) {
	if k < 0 {
		clear(d)
		return
	}
	u := &a.units[k]
	clear(d[u.first : u.first+u.width])
	a.drag(x, d)
}

package constraint

import (
	"cmp"
	"math"
	"slices"
)

// Project replaces delta, one person's proposed action, by a feasible one: the
// paper's composition sparse . cat . box . imm. It allocates nothing for action sets of
// up to 128 features, is the identity on feasible actions and idempotent to the bit.
//
//   - imm: features that are not actionable do not change. A delta that is NaN is no change.
//   - box: bounds, direction and largest changes are one interval around the factual value. When the factual value lies
//     outside the bounds, they are widened to it.
//   - cat: values on a step grid, ordinal and binary values go to the nearest reachable one, ties to the smaller
//     change. A one-hot group goes to the largest of its allowed values; ties favour staying, then the first value.
//     In an all-zero group (a missing value) the zero vector counts as one half, so that the group goes to the
//     nearest vertex and stays when nothing pushes it.
//   - sparse: the features with the largest changes are kept, up to the limit. A group counts once, with the largest
//     |delta| of its inputs; ties keep the earlier feature.
//   - joint: linked features follow. While a rule between features is broken, the change that repairs it at the
//     least cost is made, or else one of its changes taken back.
//
// References: app:eq:proj_comp, Algorithm alg:projection_action_set.
func (a *Set) Project(x, delta []float32) { a.project(x, delta, true) }

// ProjectRelaxed is Project for an iterate of Relax, whose categories may have left their range: the order of their
// entries decides.
func (a *Set) ProjectRelaxed(x, delta []float32) { a.project(x, delta, false) }

// project is Project; with clip false the groups skip the box, which is the same as
// projecting them onto the simplex first: the order of their entries decides.
func (a *Set) project(x, delta []float32, clip bool) {
	x, delta = x[:a.dim], delta[:a.dim]
	var buf [128]float32
	size := buf[:0]
	changed := 0
	for i := range a.features {
		u := &a.features[i]
		s := u.project(u.inputs(x), u.inputs(delta), clip)
		if s > 0 {
			changed++
		}
		size = append(size, s)
	}
	if changed > a.limit {
		a.sparse(delta, size)
	}
	if a.joint() {
		a.join(x, delta)
	}
}

// Relax sets dst to u - alpha g with the box and immutability kept: numeric features in their span, groups free.
func (a *Set) Relax(x, dst, u, g []float32, alpha float64) {
	for i := range a.features {
		f := &a.features[i]
		switch f.kind {
		case fixed, dependent: // what is linked follows the projection
			clear(dst[f.First : f.First+f.Width])
		case oneHot, thermometer:
			for j := f.First; j < f.First+f.Width; j++ {
				dst[j] = u[j] - float32(alpha)*g[j]
			}
		default:
			lo, hi := f.span(x[f.First])
			dst[f.First] = min(max(u[f.First]-float32(alpha)*g[f.First], lo), hi)
		}
	}
}

// sparse keeps the a.limit largest features.
func (a *Set) sparse(delta, size []float32) {
	var buf [128]int
	order := buf[:0]
	for i := range size {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return -cmp.Compare(size[i], size[j]) })
	for _, i := range order[a.limit:] {
		clear(a.features[i].inputs(delta))
	}
}

// join makes an action whose features are feasible one by one feasible as a whole.
func (a *Set) join(x, d []float32) {
	if a.follows(x, d) && a.Consistent(x, d) {
		return
	}
	if a.Propagate(x, d); a.Consistent(x, d) {
		return
	}
	repaired := slices.Clone(d)
	for ; !a.repair(x, repaired, nil, false); copy(repaired, d) {
		// What cannot be repaired is undone, the smallest change of those concerned first; without changes nothing is
		// broken. That is done to the action as it was: remedies that undo each other would alternate for ever.
		if u := a.smallest(x, d, a.firstBroken(x, d)); u != nil {
			clear(u.inputs(d))
			a.Propagate(x, d)
		} else {
			clear(d)
		}
	}
	copy(d, repaired)
}

// repair changes d, whose links are propagated, until it respects the joint constraints: each time by the change of
// one feature that ends a breach at the least cost or, with near, closest to d. (The cheapest repair takes back
// what was achieved, which is no way on for a search.) The feature keep, if any, stays as it is. It reports
// success; else d is of no use, but feasible feature by feature.
func (a *Set) repair(x, d []float32, keep *Feature, near bool) bool {
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
			if c < least && a.Changed(t) <= a.limit && a.ended(b, x, t) {
				least, best = c, slices.Clone(t)
			}
		})
		if best == nil {
			return false
		}
		copy(d, best)
	}
	return a.Consistent(x, d)
}

// distance returns the weighted l1 distance of two actions.
func (a *Set) distance(d, t []float32) float64 {
	sum := 0.0
	for j, v := range t {
		sum += a.norm.weights[j] * math.Abs(float64(v)-float64(d[j]))
	}
	return sum
}

// ended says whether the breach b is over at d.
func (a *Set) ended(b *broken, x, d []float32) bool {
	switch {
	case b.rule != nil:
		return !a.breaks(b.rule, x, d)
	case b.feature != nil:
		c, _ := b.feature.outOfBounds(x, d)
		return c == ""
	}
	return a.changesOf(b.subset, d) <= b.subset.most
}

// remedies proposes changes of single features that may end the breach.
func (a *Set) remedies(x, d []float32, b *broken, keep *Feature, try func(t []float32)) {
	scratch := make([]float32, len(d))
	propose := func(k int, set func(u *Feature)) {
		u := &a.features[k]
		if u == keep || u.kind <= dependent {
			return
		}
		copy(scratch, d)
		set(u)
		a.Propagate(x, scratch)
		try(scratch)
	}
	for _, k := range a.concerned(b) {
		propose(k, func(u *Feature) { clear(u.inputs(scratch)) })
		if b.rule == nil {
			continue
		}
		u := &a.features[k]
		if u.form >= oneHot || u.form == discrete {
			u.Each(x, func(option int) { propose(k, func(u *Feature) { u.Set(x, scratch, option) }) })
			continue
		}
		for _, c := range b.rule.then {
			for _, e := range c.terms {
				if e.input == u.First && e.coef != 0 {
					propose(k, func(u *Feature) { scratch[u.First] = u.relieve(x, d, &c, e.coef) })
				}
			}
		}
	}
}

// relieve returns the change of a numeric feature that fulfils the condition as far as there is room.
func (u *Feature) relieve(x, d []float32, c *condition, coef float64) float32 {
	over := c.excess(x, d)
	if c.strict {
		over += 3 * c.noise(x, d)
	}
	return u.Outward(x[u.First], float64(d[u.First])-over/coef, coef < 0)
}

// concerned returns the features whose changes can end the breach: those it names, and those that they follow.
func (a *Set) concerned(b *broken) []int {
	var ks []int
	switch {
	case b.rule != nil:
		ks = slices.Clone(b.rule.features)
	case b.subset != nil:
		ks = slices.Clone(b.subset.features)
	default:
		for i := range a.links {
			if &a.features[a.links[i].to] == b.feature {
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

// smallest returns the concerned feature with the smallest change that an action made; nil: none of them changed.
func (a *Set) smallest(x, d []float32, b *broken) (pick *Feature) {
	least := math.Inf(1)
	for _, k := range a.concerned(b) {
		u := &a.features[k]
		if u.kind <= dependent || !u.Changed(d) {
			continue
		}
		if t := a.norm.Term(u, x, d); t < least {
			pick, least = u, t
		}
	}
	return pick
}

package recourse

import (
	"math"
	"slices"

	"cfq/task"
)

// The moves that the solvers make on one feature.

// numeric says whether the feature moves along a line rather than by switches.
func (u *unit) numeric() bool { return u.kind == continuous || u.kind == grid }

// coarse is the largest number of steps a grid has to be worth trying one by one.
const coarse = 12

// each calls do for every value that a discrete feature may change to: for a group the index of the value, for a
// domain the index into it, for a grid with few steps the number of steps.
func (u *unit) each(x []float32, do func(option int)) {
	switch u.kind {
	case group, ladder:
		for _, o := range u.options(u.current(x[u.first : u.first+u.width])) {
			do(o)
		}
	case domain:
		lo, hi := u.span(x[u.first])
		for o, v := range u.values {
			if _, ok := u.reach(x[u.first], v, lo, hi); ok {
				do(o)
			}
		}
	case grid:
		lo, hi := u.span(x[u.first])
		first, last := u.ticks(x[u.first], lo, hi)
		if last-first > coarse {
			return
		}
		for n := int(first); n <= int(last); n++ {
			if n != 0 {
				do(n)
			}
		}
	}
}

// set makes d the change to an option of each.
func (u *unit) set(x, d []float32, option int) {
	switch u.kind {
	case group, ladder:
		u.become(x[u.first:u.first+u.width], d[u.first:u.first+u.width], option)
	default:
		d[u.first] = u.changeTo(x, option)
	}
}

// changeTo returns the change of a feature of one input to an option of each.
func (u *unit) changeTo(x []float32, option int) float32 {
	if u.form == domain {
		return float32(u.values[option] - float64(x[u.first]))
	}
	return u.tick(float64(option))
}

// switchGain returns by how much the option raises the linearised margin and the cost, compared to the action d.
func (a *ActionSet) switchGain(u *unit, x, d, g []float32, option int) (gain, cost float64) {
	if u.joint {
		return a.jointGain(u, x, d, g, func(t []float32) { u.set(x, t, option) })
	}
	if u.form < group {
		to := u.changeTo(x, option)
		return float64(g[u.first]) * (float64(to) - float64(d[u.first])), a.rise(u, x, d, a.lineTerm(u, to))
	}
	var buf [64]float32
	to := append(buf[:0], d[u.first:u.first+u.width]...)
	from := x[u.first : u.first+u.width]
	u.become(from, to, option)
	for j, v := range to {
		if was := d[u.first+j]; v != was {
			gain += float64(g[u.first+j]) * (float64(v) - float64(was))
		}
	}
	return gain, a.rise(u, x, d, a.categoryTerm(u, from, to))
}

// rise returns the rise in cost when the term of the feature u becomes to.
func (a *ActionSet) rise(u *unit, x, d []float32, to float64) float64 {
	from := a.term(u, x, d)
	if a.norm == task.L2 {
		before := a.Cost(x, d)
		return math.Sqrt(max(before*before+to-from, 0)) - before
	}
	return to - from
}

// jointGain is switchGain for a feature that others depend on: with all that has to change along.
func (a *ActionSet) jointGain(u *unit, x, d, g []float32, set func(t []float32)) (gain, cost float64) {
	t := slices.Clone(d)
	if !a.apply(u, x, t, set) {
		return 0, 0
	}
	for j, v := range t {
		if v != d[j] {
			gain += float64(g[j]) * (float64(v) - float64(d[j]))
		}
	}
	for i := range a.links { // the gradient of what drags along holds that of what is dragged already
		if l := &a.links[i]; l.scale != 0 {
			gain -= l.scale * float64(g[a.units[l.to].first]) * (float64(t[a.units[l.from].first]) - float64(d[a.units[l.from].first]))
		}
	}
	return gain, a.Cost(x, t) - a.Cost(x, d)
}

// apply makes a change of the feature u, and those that links and rules between features make necessary. When there are none, it
// leaves d as it was and returns false.
func (a *ActionSet) apply(u *unit, x, d []float32, set func(d []float32)) bool {
	if !u.joint {
		set(d)
		return true
	}
	before := slices.Clone(d)
	changed := a.changes(d)
	self := 0
	for a.units[self].first != u.first {
		self++
	}
	for _, keep := range []int{self, -1} {
		set(d)
		a.drag(x, d)
		if a.mend(x, d, keep, true) && !slices.Equal(d, before) && a.changes(d) <= max(a.limit, changed) {
			return true
		}
		copy(d, before)
	}
	return false
}

// allowed returns the change of a numeric feature on the way from that in d to the given one which is as far as the rules between features
// let it go, with what they make necessary along with it.
func (a *ActionSet) allowed(u *unit, x, d []float32, to float32) float32 {
	if !u.joint {
		return to
	}
	t := slices.Clone(d)
	fits := func(v float32) bool {
		copy(t, d)
		return a.apply(u, x, t, func(t []float32) { t[u.first] = v })
	}
	if d[u.first] == to || fits(to) {
		return to
	}
	good, bad := d[u.first], to
	for range 10 {
		mid := u.nearest(x[u.first], good+(bad-good)/2)
		switch {
		case mid == good || mid == bad:
			return good
		case fits(mid):
			good = mid
		default:
			bad = mid
		}
	}
	return good
}

// outward returns the feasible change at d or, on a grid, the next one beyond it in the given direction; where there is no room, the last one.
func (u *unit) outward(x float32, d float64, up bool) float32 {
	lo, hi := u.span(x)
	if u.kind == grid {
		first, last := u.ticks(x, lo, hi)
		n := d / u.step
		if up {
			n = math.Ceil(n - 1e-4)
		} else {
			n = math.Floor(n + 1e-4)
		}
		return u.tick(min(max(n, first), last))
	}
	return min(max(float32(d), lo), hi) + 0
}

// farthest returns the largest feasible change in the direction. Where nothing limits it, 64 (of
// what is a standard deviation, when the task file standardises) stands for as far as anyone goes.
func (u *unit) farthest(x float32, up bool) float32 {
	lo, hi := u.span(x)
	if lo < -0.9*far {
		lo = -64
	}
	if hi > 0.9*far {
		hi = 64
	}
	if up {
		return u.nearest(x, hi)
	}
	return u.nearest(x, lo)
}

// movable says whether the person can change anything.
func (a *ActionSet) movable(x []float32) bool {
	for _, i := range a.free {
		u := &a.units[i]
		if u.numeric() {
			if u.farthest(x[u.first], true) != 0 || u.farthest(x[u.first], false) != 0 {
				return true
			}
			continue
		}
		some := false
		u.each(x, func(int) { some = true })
		if some {
			return true
		}
	}
	return false
}

// dot returns the inner product over the feature's inputs.
func (u *unit) dot(g, d []float32) float64 {
	sum := 0.0
	for j := u.first; j < u.first+u.width; j++ {
		if d[j] != 0 {
			sum += float64(g[j]) * float64(d[j])
		}
	}
	return sum
}

// changes counts the features that the action changes.
func (a *ActionSet) changes(d []float32) int {
	n := 0
	for _, f := range a.free {
		if a.units[f].changed(d) {
			n++
		}
	}
	return n
}

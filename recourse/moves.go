package recourse

import "math"

// The moves that the solvers make on one feature.

// numeric says whether the feature moves along a line rather than by switches.
func (u *unit) numeric() bool { return u.kind == continuous || u.kind == grid }

// coarse is the largest number of steps a grid has to be worth trying one by one.
const coarse = 12

// each calls do for every value that a discrete feature may change to: for a group the index of the value, for a
// domain the index into it, for a grid with few steps the number of steps.
func (u *unit) each(x []float32, do func(option int)) {
	switch u.kind {
	case group:
		for _, o := range u.options(current(x[u.first : u.first+u.width])) {
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
	case group:
		setGroup(x[u.first:u.first+u.width], d[u.first:u.first+u.width], option)
	case domain:
		d[u.first] = float32(u.values[option] - float64(x[u.first]))
	case grid:
		d[u.first] = u.tick(float64(option))
	}
}

// switchGain returns by how much the option raises the linearised margin and the cost, compared to the action d.
func (a *ActionSet) switchGain(u *unit, x, d, g []float32, option int) (gain, cost float64) {
	sum, square := 0.0, 0.0
	for j := u.first; j < u.first+u.width; j++ {
		from, to := float64(d[j]), 0.0
		switch {
		case u.kind == grid:
			to = float64(option) * u.step
		case u.kind == domain:
			to = u.values[option] - float64(x[j])
		case j == u.first+option:
			to = 1 - float64(x[j])
		default:
			to = -float64(x[j])
		}
		if to == from {
			continue
		}
		gain += float64(g[j]) * (to - from)
		sum += a.weights[j] * (math.Abs(to) - math.Abs(from))
		square += a.weights[j] * a.weights[j] * (to*to - from*from)
	}
	if a.norm == l1 {
		return gain, sum
	}
	before := a.Cost(x, d)
	return gain, math.Sqrt(max(before*before+square, 0)) - before
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

package constraint

import (
	"slices"
)

// Apply makes a change of the feature u, and those that links and rules between features make necessary. When there
// are none, it leaves d as it was and returns false.
func (a *Set) Apply(u *Feature, x, d []float32, set func(d []float32)) bool {
	if !u.Joint {
		set(d)
		return true
	}
	before := slices.Clone(d)
	changed := a.Changed(d)
	for _, keep := range []*Feature{u, nil} {
		set(d)
		a.Propagate(x, d)
		if a.repair(x, d, keep, true) && !slices.Equal(d, before) && a.Changed(d) <= max(a.limit, changed) {
			return true
		}
		copy(d, before)
	}
	return false
}

// Allowed returns the change of a numeric feature on the way from that in d to the given one which is as far as the
// rules between features let it go, with what they make necessary along with it.
func (a *Set) Allowed(u *Feature, x, d []float32, to float32) float32 {
	if !u.Joint {
		return to
	}
	t := slices.Clone(d)
	fits := func(v float32) bool {
		copy(t, d)
		return a.Apply(u, x, t, func(t []float32) { t[u.First] = v })
	}
	if d[u.First] == to || fits(to) {
		return to
	}
	good, bad := d[u.First], to
	for range 10 {
		mid := u.Nearest(x[u.First], good+(bad-good)/2)
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

// SwitchGain returns by how much the option raises the linearised margin and the cost, compared to the action d.
func (a *Set) SwitchGain(u *Feature, x, d, g []float32, option int) (gain, cost float64) {
	if u.Joint {
		return a.jointGain(u, x, d, g, func(t []float32) { u.Set(x, t, option) })
	}
	if u.form < oneHot {
		to := u.changeTo(x, option)
		return float64(g[u.First]) * (float64(to) - float64(d[u.First])), a.rise(u, x, d, a.norm.line(u, to))
	}
	var buf [64]float32
	to := append(buf[:0], d[u.First:u.First+u.Width]...)
	from := x[u.First : u.First+u.Width]
	u.become(from, to, option)
	for j, v := range to {
		if was := d[u.First+j]; v != was {
			gain += float64(g[u.First+j]) * (float64(v) - float64(was))
		}
	}
	return gain, a.rise(u, x, d, a.norm.category(u, from, to))
}

// Toward returns the change of a numeric feature that closes the gap by the gradient g, or as much of it as there
// is room for, with its gain of margin and its rise in cost; the gain is 0 when it cannot help.
func (a *Set) Toward(u *Feature, x, d, g []float32, gap float64) (to float32, gain, cost float64) {
	j := u.First
	slope, at := float64(g[j]), float64(d[j])
	if slope == 0 || slope != slope {
		return 0, 0, 0
	}
	to = a.Allowed(u, x, d, u.Outward(x[j], at+gap/slope, slope > 0))
	if gain = slope * (float64(to) - at); !(gain > 0) {
		return 0, 0, 0
	}
	if u.Joint {
		gain, cost = a.jointGain(u, x, d, g, func(t []float32) { t[j] = to })
		for range 2 { // what comes along takes some of the gain back, so go farther
			if !(gain > 0 && gain < gap) {
				break
			}
			more := a.Allowed(u, x, d, u.Outward(x[j], at+(float64(to)-at)*gap/gain*1.001, slope > 0))
			farther, dearer := a.jointGain(u, x, d, g, func(t []float32) { t[j] = more })
			if !(farther > gain) {
				break
			}
			to, gain, cost = more, farther, dearer
		}
		return to, gain, cost
	}
	return to, gain, a.rise(u, x, d, a.norm.line(u, to))
}

// jointGain is switchGain for a feature that others depend on: with all that has to change along.
func (a *Set) jointGain(u *Feature, x, d, g []float32, set func(t []float32)) (gain, cost float64) {
	t := slices.Clone(d)
	if !a.Apply(u, x, t, set) {
		return 0, 0
	}
	for j, v := range t {
		if v != d[j] {
			gain += float64(g[j]) * (float64(v) - float64(d[j]))
		}
	}
	for i := range a.links { // g of a source holds the gradients of what follows it
		if l := &a.links[i]; l.scale != 0 {
			from, to := a.features[l.from].First, a.features[l.to].First
			gain -= l.scale * float64(g[to]) * (float64(t[from]) - float64(d[from]))
		}
	}
	return gain, a.Cost(x, t) - a.Cost(x, d)
}

package recourse

import (
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
//   - cat: values on a step grid, ordinal and binary values go to the nearest reachable one, ties to the smaller change.
//     A one-hot group goes to the largest of its allowed values; ties favour staying, then the first value. In an all-zero group (a missing
//     value) the zero vector counts as one half, so that the group goes to the nearest vertex and stays when nothing pushes it.
//   - sparse: the features with the largest changes are kept, up to the limit. A group counts once, with the largest
//     |delta| of its inputs; ties keep the earlier feature.
//   - joint: linked features follow. While a rule between features is broken, the change that mends it at the least cost is made, or else
//     one of its changes taken back.
//
// References: app:eq:proj_comp, Algorithm alg:projection_action_set.
func (a *ActionSet) Project(x, delta []float32) { a.project(x, delta, true) }

// project is Project; with clip false the groups skip the box, which is the same as
// projecting them onto the simplex first: the order of their entries decides.
func (a *ActionSet) project(x, delta []float32, clip bool) {
	x, delta = x[:a.dim], delta[:a.dim]
	var buf [128]float32
	size := buf[:0]
	changed := 0
	for i := range a.units {
		u := &a.units[i]
		s := u.project(x[u.first:u.first+u.width], delta[u.first:u.first+u.width], clip)
		if s > 0 {
			changed++
		}
		size = append(size, s)
	}
	if changed > a.limit {
		a.sparse(delta, size)
	}
	if len(a.links)+len(a.rules)+len(a.subsets) > 0 {
		a.join(x, delta)
	}
}

// project does imm, box and cat for one feature and returns its largest |delta|. Linked features are left for join.
func (u *unit) project(x, d []float32, clip bool) float32 {
	switch {
	case u.kind == linked:
		return 0
	case u.kind == fixed:
		clear(d)
		return 0
	case u.form >= group:
		return u.projectCategory(x, d, clip)
	}
	d[0] = u.nearest(x[0], d[0])
	return abs32(d[0])
}

// nearest returns the feasible change closest to d, which is d itself when that is feasible but for float32 noise.
func (u *unit) nearest(x, d float32) float32 {
	if d != d || d == 0 {
		return 0
	}
	lo, hi := u.span(x)
	switch u.form {
	case continuous:
		if u.within(x, d, lo, hi) {
			return d
		}
		return min(max(d, lo), hi) + 0 // + 0: no negative zero
	case grid:
		first, last := u.ticks(x, lo, hi)
		n := min(max(roundToZero(float64(d)/u.step), first), last)
		if n != 0 && u.onTick(x, d, n) {
			return d
		}
		return u.tick(n)
	case domain:
		return u.nearestValue(x, d, lo, hi)
	}
	return 0
}

// within says whether the change d is inside the span but for float32 noise.
func (u *unit) within(x, d, lo, hi float32) bool {
	slack := noise(x, d)
	return float64(d) >= float64(lo)-slack && float64(d) <= float64(hi)+slack
}

// span returns the interval of changes that bounds, direction and largest changes
// leave, as float32 rounded towards zero; it contains 0, and nothing else when the factual value is no finite number.
func (u *unit) span(x float32) (lo, hi float32) {
	if x-x != 0 {
		return 0, 0
	}
	v := float64(x)
	return -u.room(u.down, v-u.lo, v, false), u.room(u.up, u.hi-v, v, true)
}

// ticks returns the first and last whole number of steps inside the span. The
// factual value carries float32 noise, so a tick that misses a bound by no more than that counts as inside.
func (u *unit) ticks(x, lo, hi float32) (first, last float64) {
	const most = 1 << 22 // beyond, a tick is not recovered from its float32 change
	if lo == 0 && hi == 0 {
		return 0, 0
	}
	count := func(room float32) float64 {
		noise := min(0.25, 1e-6+2.4e-7*(math.Abs(float64(x))+float64(room))/u.step)
		return min(math.Floor(float64(room)/u.step+noise), most)
	}
	return -count(-lo), count(hi)
}

func (u *unit) tick(n float64) float32 {
	if n == 0 {
		return 0
	}
	return float32(n * u.step)
}

// nearestValue returns the change to the domain value nearest to x+d.
func (u *unit) nearestValue(x, d, lo, hi float32) float32 {
	at := float64(min(max(d, lo), hi))
	best, dist := float32(0), math.Abs(at)
	for _, v := range u.values {
		c, ok := u.reach(x, v, lo, hi)
		if !ok {
			continue
		}
		if math.Abs(float64(c)-float64(d)) <= noise(x, d) {
			return d
		}
		e := math.Abs(at - (v - float64(x)))
		if e < dist || e == dist && abs32(c) < abs32(best) {
			best, dist = c, e
		}
	}
	return best
}

// reach returns the change from x to the domain value v and whether it is a change and inside the span.
func (u *unit) reach(x float32, v float64, lo, hi float32) (float32, bool) {
	d := v - float64(x)
	noise := 1e-6 * (1 + math.Abs(v))
	if !(math.Abs(d) > noise) || math.IsInf(d, 0) || d < float64(lo)-noise || d > float64(hi)+noise {
		return 0, false
	}
	return float32(d), true
}

// sparse keeps the a.limit largest features.
func (a *ActionSet) sparse(delta, size []float32) {
	var buf [128]float32
	sorted := append(buf[:0], size...)
	slices.Sort(sorted)
	cut := sorted[len(sorted)-a.limit]
	above := 0
	for _, s := range size {
		if s > cut {
			above++
		}
	}
	ties := a.limit - above
	for i, s := range size {
		if s > cut {
			continue
		}
		if s == cut && ties > 0 {
			ties--
			continue
		}
		u := &a.units[i]
		clear(delta[u.first : u.first+u.width])
	}
}

func abs32(v float32) float32 {
	return math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
}

// towardsZero rounds a non-negative v to float32, never up.
func towardsZero(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// roundToZero rounds to the nearest whole number, ties to the one nearer to zero.
func roundToZero(v float64) float64 {
	return math.Copysign(math.Ceil(math.Abs(v)-0.5), v)
}

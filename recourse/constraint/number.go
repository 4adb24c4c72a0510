package constraint

import (
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/task"
)

func (u *Feature) compileNumeric(f *task.Feature, n *task.Standardized) {
	// Rounded as a person's own value is, so that one who stands on a bound stands on it here.
	encode := func(raw float64) float64 { return float64(n.ToInput(raw)) }
	u.lo, u.hi = encode(f.Bounds[0]), encode(f.Bounds[1])
	u.up = min(u.up, f.MaxIncrease/n.Unit(), f.MaxChange/n.Unit(), far)
	u.down = min(u.down, f.MaxDecrease/n.Unit(), f.MaxChange/n.Unit(), far)
	u.missing = lists.Map(n.Missing, n.ToInput)
	switch {
	case n.Ordinal && len(n.Levels) > 0:
		u.form, u.values = discrete, lists.Map(n.Levels, encode)
		slices.Sort(u.values)
		u.values = slices.Compact(u.values)
	case n.Ordinal && f.Step == 0:
		u.form, u.Step = grid, 1/n.Unit()
	case f.Step > 0:
		u.form, u.Step = grid, f.Step/n.Unit()
	default:
		spread := n.Unit() // or less where bounds are closer together
		if width := f.Bounds[1] - f.Bounds[0]; width > 0 {
			spread = min(spread, width)
		}
		u.form, u.Quantum = continuous, math.Pow10(int(math.Floor(math.Log10(spread)))-4)
	}
}

func (u *Feature) room(largest, distance, v float64, up bool) float32 {
	r := min(largest, distance)
	if u.scale != 1 {
		switch {
		case u.form == discrete && up:
			r = min(r, u.values[len(u.values)-1]-v)
		case u.form == discrete:
			r = min(r, v-u.values[0])
		}
		if r < far {
			r = min(r*u.scale, far)
		}
	}
	return towardsZero(max(r, 0))
}

// span returns the interval of changes that bounds, direction and largest changes
// leave, as float32 rounded towards zero; it contains 0, and nothing else when the factual value is no finite number.
func (u *Feature) span(x float32) (lo, hi float32) {
	if x-x != 0 || u.keeps(x) {
		return 0, 0
	}
	v := float64(x)
	return -u.room(u.down, v-u.lo, v, false), u.room(u.up, u.hi-v, v, true)
}

// keeps says whether the value is missing, or beyond a missing one that lies out of bounds: no action changes it.
func (u *Feature) keeps(x float32) bool {
	for _, v := range u.missing {
		if v == x || u.form != discrete && (float64(v) < u.lo && x < v || float64(v) > u.hi && x > v) {
			return true
		}
	}
	return false
}

// ticks returns how many whole steps there are inside the span.
func (u *Feature) ticks(x float32) (first, last float64) {
	lo, hi := u.span(x)
	return -u.wholeSteps(x, -lo), u.wholeSteps(x, hi)
}

// wholeSteps returns the largest whole number of steps in the room. The factual value x carries float32 noise, so a
// tick that misses a bound by no more than that counts as inside.
func (u *Feature) wholeSteps(x, room float32) float64 {
	const most = 1 << 22 // beyond, a tick is not recovered from its float32 change
	if room == 0 {
		return 0
	}
	r := float64(room)
	noise := min(0.25, 1e-6+2.4e-7*(math.Abs(float64(x))+r)/u.Step)
	return min(math.Floor(r/u.Step+noise), most)
}

// Tick returns the change, in model inputs, of n whole steps.
func (u *Feature) Tick(n float64) float32 {
	if n == 0 {
		return 0
	}
	return float32(n * u.Step)
}

func (u *Feature) onTick(x, v float32, n float64) bool {
	return math.Abs(float64(v)-n*u.Step) <= noise(x, v)
}

func (u *Feature) within(x, d float32) bool {
	lo, hi := u.span(x)
	slack := noise(x, d)
	return float64(d) >= float64(lo)-slack && float64(d) <= float64(hi)+slack
}

func (u *Feature) changeToValue(x float32, v float64) (float32, bool) {
	lo, hi := u.span(x)
	d := v - float64(x)
	noise := 1e-6 * (1 + math.Abs(v))
	if !(math.Abs(d) > noise) || math.IsInf(d, 0) || d < float64(lo)-noise || d > float64(hi)+noise {
		return 0, false
	}
	return float32(d), true
}

// Nearest returns the feasible change closest to d, which is d itself when that is feasible but for float32 noise.
func (u *Feature) Nearest(x, d float32) float32 {
	if d != d || d == 0 {
		return 0
	}
	switch u.form {
	case continuous:
		if u.within(x, d) {
			return d
		}
		return u.Outward(x, float64(d), true)
	case grid:
		first, last := u.ticks(x)
		n := min(max(roundToZero(float64(d)/u.Step), first), last)
		if n != 0 && u.onTick(x, d, n) {
			return d
		}
		return u.Tick(n)
	case discrete:
		return u.nearestValue(x, d)
	}
	return 0
}

func (u *Feature) nearestValue(x, d float32) float32 {
	lo, hi := u.span(x)
	at := float64(min(max(d, lo), hi))
	best, dist := float32(0), math.Abs(at)
	for _, v := range u.values {
		c, ok := u.changeToValue(x, v)
		if !ok {
			continue
		}
		if same(x, d, c) {
			return d
		}
		e := math.Abs(at - (v - float64(x)))
		if e < dist || e == dist && abs32(c) < abs32(best) {
			best, dist = c, e
		}
	}
	return best
}

// widest stands for no limit on a change under an affine model, in input units.
const widest = 1e4

// Positions returns the range of changes of a numeric feature in steps, of a free one in input units, and the size
// of one.
func (u *Feature) Positions(x float32) (first, last, step float64) {
	if u.kind == grid {
		first, last = u.ticks(x)
		return first, last, u.Step
	}
	lo, hi := u.span(x)
	return max(float64(lo), -widest), min(float64(hi), widest), 1
}

// Endless reports whether a feature without steps may change farther than Positions says.
func (u *Feature) Endless(x float32) bool {
	lo, hi := u.span(x)
	return float64(lo) < -widest || float64(hi) > widest
}

// End returns the last change that a numeric feature can make in the direction.
func (u *Feature) End(x float32, up bool) float32 {
	if up {
		return u.Outward(x, far, true)
	}
	return u.Outward(x, -far, false)
}

// StepBack returns the change of a feature with steps that is one step less than d.
func (u *Feature) StepBack(d float32) float32 {
	return u.Tick(roundToZero(float64(d)/u.Step) - math.Copysign(1, float64(d)))
}

// Outward returns the feasible change at d or, on a grid, the next one beyond it in the given direction; where
// there is no room, the last one.
func (u *Feature) Outward(x float32, d float64, up bool) float32 {
	if u.kind == grid {
		n := math.Floor(d/u.Step + 1e-4)
		if up {
			n = math.Ceil(d/u.Step - 1e-4)
		}
		first, last := u.ticks(x)
		return u.Tick(min(max(n, first), last))
	}
	lo, hi := u.span(x)
	return min(max(float32(d), lo), hi) + 0 // + 0: no negative zero
}

// Farthest returns the largest feasible change in the direction. Where nothing limits it, 64 (of
// what is a standard deviation, when the task file standardises) stands for as far as anyone goes.
func (u *Feature) Farthest(x float32, up bool) float32 {
	lo, hi := u.span(x)
	end := lo
	if up {
		end = hi
	}
	if abs32(end) > 0.9*far {
		end = float32(math.Copysign(64, float64(end)))
	}
	return u.Nearest(x, end)
}

func (u *Feature) amount(change float64) string {
	if n := u.spec.Number(); n != nil {
		change *= n.Unit()
	}
	return task.Decimal(task.Rounded(change, 6)) // beyond is float32 noise
}

// written returns the input of the value that stands for the change d; more is how many quanta farther it goes.
func (u *Feature) written(x, d float32, more float64) float32 {
	f := u.spec.Number()
	from, away := f.Raw(x), math.Copysign(1, float64(d))
	if u.form == grid {
		first, last := u.ticks(x)
		n := min(max(roundToZero(float64(d)/u.Step)+more*away, first), last)
		return f.ToInput(task.Rounded(from+n*u.Step*f.Unit(), 12))
	}
	if more == 0 && math.Abs(float64(d)*f.Unit()) < u.Quantum/2 {
		return x // left over from a search; the rounding of the others makes up for it
	}
	n := math.Ceil(away*(from+float64(d)*f.Unit())/u.Quantum - 1e-6)
	raw, limit := away*(n+more)*u.Quantum+0, u.limit(x, from, away) // + 0: no negative zero
	if raw*away < limit*away {
		return f.ToInput(task.Rounded(raw, 12))
	}
	return f.ToInput(task.Rounded(limit, 12)) // the bound as the task file has it
}

func (u *Feature) limit(x float32, from, away float64) float64 {
	f, std := u.spec, u.spec.Number().Unit()
	lo, hi := u.span(x)
	switch {
	case u.scale != 1 && away < 0:
		return from + float64(lo)*std
	case u.scale != 1:
		return from + float64(hi)*std
	case away < 0:
		return max(f.Bounds[0], from-f.MaxDecrease, from-f.MaxChange)
	}
	return min(f.Bounds[1], from+f.MaxIncrease, from+f.MaxChange)
}

// follow returns the input of the value that stands for the change d of a linked feature, with as few digits as say it.
func (u *Feature) follow(x, d float32) float32 {
	f := u.spec.Number()
	raw := f.Raw(x) + float64(d)*f.Unit()
	for digits := 7; digits < 17; digits++ {
		if at := f.ToInput(task.Rounded(raw, digits)); math.Abs(float64(at)-float64(x)-float64(d)) <= noise(x, d)/2 {
			return at
		}
	}
	return x + d
}

func (u *Feature) checkNumber(x, v float32) (Constraint, string) {
	if v == 0 || u.Nearest(x, v) == v || u.form == grid && u.onTick(x, v, 0) {
		return "", ""
	}
	change, number := u.amount(float64(v)), u.spec.Number()
	for _, at := range []float32{x, x + v} {
		if number != nil && (u.keeps(at) || number.IsMissing(at)) {
			return Missing, fmt.Sprintf("no action leads from or to %s, which means \"not known\" or lies beyond a number "+
				"that does", task.Decimal(number.Raw(at)))
		}
	}
	lo32, hi32 := u.span(x)
	lo, hi := float64(lo32), float64(hi32)
	if u.form == grid {
		first, last := u.ticks(x)
		if n := roundToZero(float64(v) / u.Step); n >= first && n <= last {
			return Step, fmt.Sprintf("a change of %s is not a whole number of steps of %s", change, u.amount(u.Step))
		}
		lo, hi = first*u.Step, last*u.Step
	}
	if u.form == discrete && u.within(x, v) {
		return Category, fmt.Sprintf("a change of %s does not lead to one of the %d values", change, len(u.values))
	}
	return Bounds, fmt.Sprintf("a change of %s, allowed are %s to %s", change, u.amount(lo), u.amount(hi))
}

// noise is how far two float32 changes of x by v may lie apart and still be the same.
func noise(x, v float32) float64 {
	n := 2.4e-7*(math.Abs(float64(x))+math.Abs(float64(v))) + 1e-9
	if math.IsInf(n, 1) {
		return 0
	}
	return n
}

func same(x, d, e float32) bool { return d == e || math.Abs(float64(d)-float64(e)) <= noise(x, d) }

func abs32(v float32) float32 { return float32(math.Abs(float64(v))) }

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

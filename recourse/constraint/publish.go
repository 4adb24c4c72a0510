package constraint

import (
	"math"
	"strconv"

	"cfq/task"
)

// Publish sets point to the person after the action d, as reading the written values makes it; the feature more, if
// any, goes this many quanta further in the direction of its change.
func (a *Set) Publish(point, x, d []float32, more *Feature, quanta float64) {
	a.write(point, x, d, func(u *Feature) float32 {
		if u == more {
			return u.written(x[u.First], d[u.First], quanta)
		}
		return u.written(x[u.First], d[u.First], 0)
	})
}

// PublishUnrounded is publish with as many digits as it takes to say the very change.
func (a *Set) PublishUnrounded(point, x, d []float32) {
	a.write(point, x, d, func(u *Feature) float32 {
		if u.form == grid {
			return u.written(x[u.First], d[u.First], 0)
		}
		from, away := u.spec.Raw(x[u.First]), math.Copysign(1, float64(d[u.First]))
		if limit := u.spec.ToInput(u.limit(x[u.First], from,
			away)); float64(x[u.First]+d[u.First])*away > float64(limit)*away {
			return limit
		}
		return x[u.First] + d[u.First]
	})
}

// write sets point to the person after the action d with the numbers that change as number has them.
func (a *Set) write(point, x, d []float32, number func(u *Feature) float32) {
	copy(point, x)
	put := func(u *Feature, d []float32, number func(u *Feature) float32) {
		switch {
		case !u.Changed(d):
		case u.form == continuous || u.form == grid:
			point[u.First] = number(u)
		default:
			u.settleInto(point, x, d)
		}
	}
	for _, u := range a.free {
		put(u, d, number)
	}
	if len(a.links) == 0 {
		return
	}
	moved := make([]float32, len(d))
	Difference(moved, x, point)
	a.Propagate(x, moved)
	for i := range a.links {
		put(&a.features[a.links[i].to], moved, func(u *Feature) float32 { return u.follow(x[u.First], moved[u.First]) })
	}
}

// settleInto writes the values of a category or domain, which are exact.
func (u *Feature) settleInto(point, x, d []float32) {
	for j := u.First; j < u.First+u.Width; j++ {
		point[j] = x[j] + d[j]
	}
	if u.form == discrete {
		at := float64(point[u.First])
		best := math.Inf(1)
		for _, v := range u.values {
			if e := math.Abs(v - at); e < best {
				best, point[u.First] = e, float32(v)
			}
		}
	}
}

// written returns the input of the value that stands for the change d.
func (u *Feature) written(x, d float32, more float64) float32 {
	f := u.spec
	from := f.Raw(x)
	away := math.Copysign(1, float64(d))
	if u.form == grid {
		lo, hi := u.span(x)
		first, last := u.ticks(x, lo, hi)
		n := min(max(roundToZero(float64(d)/u.Step)+more*away, first), last)
		return f.ToInput(task.Rounded(from+n*u.Step*f.Std, 12))
	}
	if more == 0 && math.Abs(float64(d)*f.Std) < u.Quantum/2 {
		return x // left over from a search; the rounding of the others makes up for it
	}
	n := (from + float64(d)*f.Std) / u.Quantum
	if away > 0 {
		n = math.Ceil(n - 1e-6)
	} else {
		n = math.Floor(n + 1e-6)
	}
	n += more * away
	limit := u.limit(x, from, away)
	if raw := n * u.Quantum; raw*away < limit*away {
		return f.ToInput(task.Rounded(raw, 12))
	}
	return f.ToInput(task.Rounded(limit, 12)) // the bound as the task file has it
}

// limit returns the raw value that a change from the given one, whose input is x, may go to, upwards or (away below
// 0) downwards.
func (u *Feature) limit(x float32, from, away float64) float64 {
	f := u.spec
	if u.scale != 1 {
		lo, hi := u.span(x)
		if away < 0 {
			return from + float64(lo)*f.Std
		}
		return from + float64(hi)*f.Std
	}
	if away < 0 {
		return max(f.Bounds[0], from-f.MaxDecrease, from-f.MaxChange)
	}
	return min(f.Bounds[1], from+f.MaxIncrease, from+f.MaxChange)
}

// follow returns the input of the value that stands for the change d of a linked feature, with as few digits as say it.
func (u *Feature) follow(x, d float32) float32 {
	f := u.spec
	raw := f.Raw(x) + float64(d)*f.Std
	for digits := 7; digits < 17; digits++ {
		if at := f.ToInput(task.Rounded(raw, digits)); math.Abs(float64(at)-float64(x)-float64(d)) <= noise(x, d)/2 {
			return at
		}
	}
	return x + d
}

// Difference sets d to the action that leads from x to point.
func Difference(d, x, point []float32) {
	for j := range d {
		d[j] = point[j] - x[j]
	}
}

// Change is what an action does to one feature, in raw values as they stand in a data file.
type Change struct {
	Feature, From, To string
	Linked            bool // it follows from other changes
}

// Changes lists how point differs from the person x, in the order of the features. Values that no data file can
// hold are written as numbers.
func (a *Set) Changes(x, point []float32) []Change {
	var out []Change
	for i := range a.features {
		u := &a.features[i]
		from, to := text(u.spec, u.inputs(x)), text(u.spec, u.inputs(point))
		if from != to {
			out = append(out, Change{Feature: u.Name, From: from, To: to, Linked: u.kind == dependent})
		}
	}
	return out
}

func text(f *task.Feature, x []float32) string {
	s, err := f.Decode(x)
	if err != nil {
		return strconv.FormatFloat(float64(x[0]), 'g', -1, 32)
	}
	return s
}

package recourse

import (
	"math"
	"strconv"

	"cfq/task"
)

// An action is a promise once it can be said in raw units: "hours-per-week 40 -> 45". So the new values are rounded to what is
// written before a model judges them. A value on a grid is the person's own and whole steps, a free one is rounded to four digits after the first of the
// feature's standard deviation, or of the width of its bounds where that is less, away from the person's own value.

// publish sets point to the person after the action d, as reading the written values makes it; extra more quanta are given to the units where more is
// not 0, in the direction of their change.
func (a *ActionSet) publish(point, x, d []float32, more func(u *unit) float64) {
	a.write(point, x, d, func(u *unit) float32 { return u.written(x[u.first], d[u.first], more(u)) })
}

// publishUnrounded is publish with as many digits as it takes to say the very change.
func (a *ActionSet) publishUnrounded(point, x, d []float32) {
	a.write(point, x, d, func(u *unit) float32 {
		if u.form == grid {
			return u.written(x[u.first], d[u.first], 0)
		}
		from, away := u.feature.Raw(x[u.first]), math.Copysign(1, float64(d[u.first]))
		if limit := u.feature.ToInput(u.limit(x[u.first], from, away)); float64(x[u.first]+d[u.first])*away > float64(limit)*away {
			return limit
		}
		return x[u.first] + d[u.first]
	})
}

// write sets point to the person after the action d with the numbers that change as number has them.
func (a *ActionSet) write(point, x, d []float32, number func(u *unit) float32) {
	copy(point, x)
	for _, i := range a.free {
		u := &a.units[i]
		if !u.changed(d) {
			continue
		}
		if u.form == continuous || u.form == grid {
			point[u.first] = number(u)
			continue
		}
		a.settleInto(u, point, x, d)
	}
	if len(a.links) == 0 {
		return
	}
	moved := make([]float32, len(d))
	a.difference(moved, x, point)
	a.drag(x, moved)
	for i := range a.links {
		u := &a.units[a.links[i].to]
		if !u.changed(moved) {
			continue
		}
		if u.form == continuous || u.form == grid {
			point[u.first] = u.follow(x[u.first], moved[u.first])
			continue
		}
		a.settleInto(u, point, x, moved)
	}
}

// settleInto writes the values of a category or domain, which are exact.
func (a *ActionSet) settleInto(u *unit, point, x, d []float32) {
	for j := u.first; j < u.first+u.width; j++ {
		point[j] = x[j] + d[j]
	}
	if u.form == domain {
		at := float64(point[u.first])
		best := math.Inf(1)
		for _, v := range u.values {
			if e := math.Abs(v - at); e < best {
				best, point[u.first] = e, float32(v)
			}
		}
	}
}

// written returns the input of the value that stands for the change d.
func (u *unit) written(x, d float32, more float64) float32 {
	f := u.feature
	from := f.Raw(x)
	away := math.Copysign(1, float64(d))
	if u.form == grid {
		lo, hi := u.span(x)
		first, last := u.ticks(x, lo, hi)
		n := min(max(roundToZero(float64(d)/u.step)+more*away, first), last)
		return f.ToInput(task.Rounded(from+n*u.step*f.Std, 12))
	}
	if more == 0 && math.Abs(float64(d)*f.Std) < u.quantum/2 {
		return x // left over from a search; the rounding of the others makes up for it
	}
	n := (from + float64(d)*f.Std) / u.quantum
	if away > 0 {
		n = math.Ceil(n - 1e-6)
	} else {
		n = math.Floor(n + 1e-6)
	}
	n += more * away
	limit := u.limit(x, from, away)
	if raw := n * u.quantum; raw*away < limit*away {
		return f.ToInput(task.Rounded(raw, 12))
	}
	return f.ToInput(task.Rounded(limit, 12)) // the bound as the task file has it
}

// limit returns the raw value that a change from the given one, whose input is x, may go to, upwards or (away below 0) downwards.
func (u *unit) limit(x float32, from, away float64) float64 {
	f := u.feature
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
func (u *unit) follow(x, d float32) float32 {
	f := u.feature
	raw := f.Raw(x) + float64(d)*f.Std
	for digits := 7; digits < 17; digits++ {
		if at := f.ToInput(task.Rounded(raw, digits)); math.Abs(float64(at)-float64(x)-float64(d)) <= noise(x, d)/2 {
			return at
		}
	}
	return x + d
}

// difference sets d to the action that leads from x to point.
func (a *ActionSet) difference(d, x, point []float32) {
	for j := range d {
		d[j] = point[j] - x[j]
	}
}

// Change is what an action does to one feature, in raw values as they stand in a data file.
type Change struct {
	Feature, From, To string
	Linked            bool // it follows from other changes
}

// Changes lists how point differs from the person x, in the order of the features. Values that no data file can hold are written as numbers.
func (a *ActionSet) Changes(x, point []float32) []Change {
	var out []Change
	for i := range a.units {
		u := &a.units[i]
		from, to := text(u.feature, x[u.first:u.first+u.width]), text(u.feature, point[u.first:u.first+u.width])
		if from != to {
			out = append(out, Change{Feature: u.name, From: from, To: to, Linked: u.kind == linked})
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

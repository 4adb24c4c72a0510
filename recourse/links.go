package recourse

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// link is a task.Link in input units.
type link struct {
	from, to int       // units
	scale    float64   // input units of to for each of from; 0 when the table is used
	starts   []float64 // of a numeric from: the values, ascending, from which on entry k of values holds
	values   []float64 // per entry, or per value of a category from: the new value of a numeric to, the option of a category; NaN: none
}

func (a *ActionSet) compileLink(l task.Link, from, to int) (link, error) {
	c := link{from: from, to: to}
	source, target := &a.units[from], &a.units[to]
	if l.Map == nil {
		if source.feature.Kind == task.OneHot || target.form > domain || target.form <= linked {
			return c, errors.New("a scale needs numbers on both sides")
		}
		c.scale = l.Scale * source.feature.Std / target.feature.Std
		return c, nil
	}
	category := source.form >= group || source.feature.Kind == task.Binary
	if category {
		c.values = make([]float64, max(source.width+1, 2))
		for i := range c.values {
			c.values[i] = math.NaN()
		}
	}
	for _, p := range l.Map {
		key, err := source.option(p.From)
		if err != nil {
			return c, err
		}
		value, err := target.option(p.To)
		if err != nil {
			return c, err
		}
		if category {
			c.values[int(key)] = value
			continue
		}
		k, _ := slices.BinarySearch(c.starts, key)
		c.starts, c.values = slices.Insert(c.starts, k, key), slices.Insert(c.values, k, value)
	}
	return c, nil
}

// option returns the raw value as an option of a category, or as a model input.
func (u *unit) option(raw string) (float64, error) {
	x := make([]float32, u.width)
	if err := u.feature.Encode(raw, x); err != nil {
		return 0, err
	}
	if u.feature.Kind == task.OneHot || u.feature.Kind == task.Thermometer {
		form := *u
		form.form = group
		if u.feature.Kind == task.Thermometer {
			form.form = ladder
		}
		if v := form.current(x); v >= 0 {
			return float64(v), nil
		}
		return 0, fmt.Errorf("%q is a missing value", raw)
	}
	return float64(x[0]), nil
}

// sortLinks puts links in an order in which what drags comes first.
func (a *ActionSet) sortLinks() error {
	var sorted []link
	for left := a.links; len(left) > 0; {
		var later []link
		for _, l := range left {
			if slices.ContainsFunc(left, func(o link) bool { return o.to == l.from }) {
				later = append(later, l)
			} else {
				sorted = append(sorted, l)
			}
		}
		if len(later) == len(left) {
			return errors.New("recourse: the links form a circle")
		}
		left = later
	}
	a.links = sorted
	return nil
}

// drag sets the changes of linked features to what the others make of them.
func (a *ActionSet) drag(x, d []float32) {
	if len(a.links) == 0 {
		return
	}
	for _, l := range a.links {
		u := &a.units[l.to]
		clear(d[u.first : u.first+u.width])
	}
	for i := range a.links {
		l := &a.links[i]
		from, to := &a.units[l.from], &a.units[l.to]
		if !from.changed(d) {
			continue
		}
		if l.scale != 0 {
			d[to.first] += float32(l.scale * float64(d[from.first]))
			continue
		}
		v := l.value(from, x, d)
		switch {
		case math.IsNaN(v):
		case to.form >= group:
			to.become(x[to.first:to.first+to.width], d[to.first:to.first+to.width], int(v))
		default:
			d[to.first] = float32(v - float64(x[to.first]))
		}
	}
}

// value looks up what the new value of from makes of the linked feature; NaN: it stays.
func (l *link) value(from *unit, x, d []float32) float64 {
	if l.starts == nil {
		if from.form < group {
			return l.values[int(x[from.first]+d[from.first]+0.5)]
		}
		to := from.after(x[from.first:from.first+from.width], d[from.first:from.first+from.width])
		return l.values[max(to, 0)]
	}
	at := float64(x[from.first]) + float64(d[from.first])
	at += 1e-6 * (1 + math.Abs(at))
	k, _ := slices.BinarySearch(l.starts, at)
	if k == 0 {
		return math.NaN()
	}
	return l.values[k-1]
}

// pull adds to the gradient of what drags along that of what is dragged.
func (a *ActionSet) pull(g []float32) {
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; l.scale != 0 {
			g[a.units[l.from].first] += float32(l.scale) * g[a.units[l.to].first]
		}
	}
}

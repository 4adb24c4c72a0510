package constraint

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// link is a task.Link in input units.
type link struct {
	from, to int       // features
	scale    float64   // input units of to for each of from; 0 when the table is used
	starts   []float64 // of a numeric from: the values, ascending, from which on entry k of values holds
	// values holds, per entry or per value of a category from, the new value of a numeric to or the option of a category;
	// NaN: none.
	values []float64
}

func (a *Set) compileLink(l task.Link, from, to int) (link, error) {
	c := link{from: from, to: to}
	source, target := &a.features[from], &a.features[to]
	if l.Map == nil {
		if source.spec.Kind == task.OneHot || target.form > discrete || target.form <= dependent {
			return c, errors.New("a scale needs numbers on both sides")
		}
		c.scale = l.Scale * source.spec.Std / target.spec.Std
		return c, nil
	}
	category := source.form >= oneHot || source.spec.Kind == task.Binary
	if category {
		c.values = make([]float64, max(source.Width+1, 2))
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
func (u *Feature) option(raw string) (float64, error) {
	x := make([]float32, u.Width)
	if err := u.spec.Encode(raw, x); err != nil {
		return 0, err
	}
	if u.spec.Kind == task.OneHot || u.spec.Kind == task.Thermometer {
		form := *u
		form.form = oneHot
		if u.spec.Kind == task.Thermometer {
			form.form = thermometer
		}
		if v := form.current(x); v >= 0 {
			return float64(v), nil
		}
		return 0, fmt.Errorf("%q is a missing value", raw)
	}
	return float64(x[0]), nil
}

// sortLinks puts links in an order in which sources come before what follows them.
func (a *Set) sortLinks() error {
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
			return errors.New("the links form a circle")
		}
		left = later
	}
	a.links = sorted
	return nil
}

// Propagate sets the changes of dependent features to what follows from the others.
func (a *Set) Propagate(x, d []float32) {
	if len(a.links) == 0 {
		return
	}
	for _, l := range a.links {
		u := &a.features[l.to]
		clear(u.inputs(d))
	}
	for i := range a.links {
		l := &a.links[i]
		from, to := &a.features[l.from], &a.features[l.to]
		if !from.Changed(d) {
			continue
		}
		if l.scale != 0 {
			d[to.First] += float32(l.scale * float64(d[from.First]))
			continue
		}
		v := l.value(from, x, d)
		switch {
		case math.IsNaN(v):
		case to.form >= oneHot:
			to.become(to.inputs(x), to.inputs(d), int(v))
		default:
			d[to.First] = float32(v - float64(x[to.First]))
		}
	}
}

// value looks up what the new value of from makes of the linked feature; NaN: it stays.
func (l *link) value(from *Feature, x, d []float32) float64 {
	if l.starts == nil {
		if from.form < oneHot {
			return l.values[int(x[from.First]+d[from.First]+0.5)]
		}
		to := from.after(from.inputs(x), from.inputs(d))
		return l.values[max(to, 0)]
	}
	at := float64(x[from.First]) + float64(d[from.First])
	at += 1e-6 * (1 + math.Abs(at))
	k, _ := slices.BinarySearch(l.starts, at)
	if k == 0 {
		return math.NaN()
	}
	return l.values[k-1]
}

// follows says whether the dependent features changed as the others make them.
func (a *Set) follows(x, d []float32) bool {
	if len(a.links) == 0 {
		return true
	}
	var buf [128]float32
	want := append(buf[:0], d...)
	a.Propagate(x, want)
	for j := range d {
		if !(math.Abs(float64(d[j])-float64(want[j])) <= noise(x[j], d[j])) {
			return false
		}
	}
	return true
}

// Pullback adds to the gradient g of a feature the gradients of those that follow it.
func (a *Set) Pullback(g []float32) {
	for i := len(a.links) - 1; i >= 0; i-- {
		if l := &a.links[i]; l.scale != 0 {
			g[a.features[l.from].First] += float32(l.scale) * g[a.features[l.to].First]
		}
	}
}

// roots returns the free features whose changes move feature k: itself, or those that it follows.
func (a *Set) roots(k int) []int {
	if a.features[k].kind > dependent {
		return []int{k}
	}
	var out []int
	for _, l := range a.links {
		if l.to != k {
			continue
		}
		for _, f := range a.roots(l.from) {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// Tabled reports whether others follow feature f by a table, directly or not.
func (a *Set) Tabled(f int) bool {
	for _, l := range a.links {
		if l.from == f && (l.scale == 0 || a.Tabled(l.to)) {
			return true
		}
	}
	return false
}

// Separable says why the features' changes do not add up in the inputs, "" when they do.
func (a *Set) Separable() string {
	for k := range a.features {
		u := &a.features[k]
		if u.kind == continuous && a.Tabled(k) {
			return fmt.Sprintf("%q has no steps, and others follow it by a table", u.Name)
		}
		if u.kind != dependent || len(a.roots(k)) < 2 {
			continue
		}
		for _, f := range a.roots(k) {
			if a.tabledTo(f, k) {
				return fmt.Sprintf("%q follows several features, one of them by a table", u.Name)
			}
		}
	}
	return ""
}

// tabledTo says whether a table lies on a way of links from feature f to k.
func (a *Set) tabledTo(f, k int) bool {
	return slices.ContainsFunc(a.links, func(l link) bool {
		return l.from == f && a.leads(l.to, k) && (l.scale == 0 || a.tabledTo(l.to, k))
	})
}

// leads says whether links lead from feature f to k.
func (a *Set) leads(f, k int) bool {
	return f == k || slices.ContainsFunc(a.links, func(l link) bool { return l.from == f && a.leads(l.to, k) })
}

package recourse

import "fmt"

// Categories: one-hot groups, whose value is the index of their 1 or -1 for a missing value, and ladders (thermometers), whose value
// is the number of leading ones.

// current returns the value of a category: for a group the largest entry above one half.
func (u *unit) current(x []float32) int {
	if u.form == ladder {
		n := 0
		for n < len(x) && x[n] > 0.5 {
			n++
		}
		return n
	}
	cur, best := -1, float32(0.5)
	for j, v := range x {
		if v > best {
			cur, best = j, v
		}
	}
	return cur
}

// options returns the values that a category whose value is cur may become.
func (u *unit) options(cur int) []int {
	if cur < 0 {
		return u.next[u.width]
	}
	return u.next[cur]
}

// ideal returns what input j of the category is at the value to.
func (u *unit) ideal(j, to int) float32 {
	if j == to && u.form == group || j < to && u.form == ladder {
		return 1
	}
	return 0
}

// become makes d the change of the category x to its value to (a group's -1: none) and returns its largest entry.
func (u *unit) become(x, d []float32, to int) float32 {
	largest := float32(0)
	for j := range d {
		d[j] = u.ideal(j, to) - x[j] + 0 // + 0: no negative zero
		largest = max(largest, abs32(d[j]))
	}
	return largest
}

// after returns the value of the category after the change d.
func (u *unit) after(x, d []float32) int {
	to := -1
	if u.form == ladder {
		to = 0
	}
	for j := range d {
		switch v := x[j] + d[j]; {
		case u.form == group && v > 0.5:
			to = j
		case u.form == ladder && v > 0.5:
			to = j + 1
		}
	}
	return to
}

// projectCategory moves d to the nearest reachable value, see Project, and returns its largest |delta|.
func (u *unit) projectCategory(x, d []float32, clip bool) float32 {
	moved, known := false, true
	for j, v := range d {
		moved = moved || v != 0
		known = known && x[j] == x[j]
	}
	if !moved || !known {
		clear(d) // no negative zero
		return 0
	}
	value := func(j int) float32 {
		if d[j] != d[j] {
			return x[j]
		}
		v := x[j] + d[j]
		if clip {
			v = min(max(v, 0), 1)
		}
		return v
	}
	if u.form == ladder {
		return u.projectLadder(x, d, value)
	}
	cur := u.current(x)
	to, best := -1, float32(0.5)
	if cur >= 0 {
		best = value(cur)
	}
	for _, j := range u.options(cur) {
		if v := value(j); v > best {
			to, best = j, v
		}
	}
	if to < 0 {
		clear(d)
		return 0
	}
	return u.become(x, d, to)
}

// projectLadder goes to the level nearest to the values: the one whose inputs are above one half by most in sum.
func (u *unit) projectLadder(x, d []float32, value func(j int) float32) float32 {
	cur := u.current(x)
	above := make([]float32, u.width+1)
	for j := range u.width {
		above[j+1] = above[j] + value(j) - 0.5
	}
	to := cur
	for _, level := range u.options(cur) {
		if above[level] > above[to] {
			to = level
		}
	}
	if to == cur {
		clear(d)
		return 0
	}
	return u.become(x, d, to)
}

// checkCategory says which constraint a change of a category breaks; "" when none.
func (u *unit) checkCategory(x, d []float32) (Constraint, string) {
	after := make([]float32, len(x))
	Point(after, x, d)
	cur, to := u.current(x), u.after(x, d)
	if to < 0 {
		return Category, "a one-hot group cannot become empty"
	}
	for j := range d {
		if after[j] != u.ideal(j, to) {
			return Category, fmt.Sprintf("input %d of the category becomes %g", j, after[j])
		}
	}
	for _, t := range u.options(cur) {
		if t == to {
			return "", ""
		}
	}
	return Transition, u.word(cur) + " may not become " + u.word(to)
}

// word names a value of the category.
func (u *unit) word(value int) string {
	x := make([]float32, u.width)
	for j := range x {
		x[j] = u.ideal(j, value)
	}
	if s, err := u.feature.Decode(x); err == nil && s != "" {
		return s
	}
	return "a missing value"
}

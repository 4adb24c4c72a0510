package constraint

import (
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/task"
)

func (u *Feature) compileGroup(f *task.Feature, e *task.OneHot) {
	u.form, u.ordered = oneHot, e.Ordered
	// The values that do not mean "not known" alone are places of an order.
	known := slices.DeleteFunc(task.AllRows(f.Width), u.notKnown)
	near := make([][]int, f.Width)
	for i, ranks := range u.places(f, len(known)) {
		for _, to := range ranks {
			near[known[i]] = append(near[known[i]], known[to])
		}
	}
	if f.Transitions == nil {
		var fromMissing []int // which has no place to count from
		if !u.ordered || u.up > 0 && u.down > 0 && math.IsInf(min(f.MaxIncrease, f.MaxDecrease, f.MaxChange), 1) {
			fromMissing = known
		}
		near = append(near, fromMissing)
		u.next = near
		return
	}
	u.next = make([][]int, f.Width+1) // a missing value is no key of the table, so it stays missing
	for from, values := range f.Transitions {
		i := slices.Index(e.Values, from)
		for _, to := range values {
			if j := slices.Index(e.Values, to); slices.Contains(near[i], j) || u.notKnown(i) {
				u.next[i] = append(u.next[i], j)
			}
		}
		slices.Sort(u.next[i])
		u.next[i] = slices.Compact(u.next[i])
	}
}

func (u *Feature) notKnown(value int) bool {
	e, ok := u.spec.Encoding.(*task.OneHot)
	return ok && value >= 0 && slices.Contains(e.MissingValues, e.Values[value])
}

func (u *Feature) places(f *task.Feature, n int) [][]int {
	up, down := math.Inf(1), math.Inf(1)
	if u.ordered || u.form == thermometer {
		up, down = min(u.up, f.MaxIncrease, f.MaxChange), min(u.down, f.MaxDecrease, f.MaxChange)
	}
	next := make([][]int, n)
	for from := range next {
		for to := range n {
			if d := float64(to - from); d != 0 && d <= u.steps(up, n-1-from) && -d <= u.steps(down, from) {
				next[from] = append(next[from], to)
			}
		}
	}
	return next
}

func (u *Feature) steps(largest float64, places int) float64 {
	r := min(largest, float64(places))
	if u.scale != 1 {
		r = math.Floor(r*u.scale + 1e-9) // 0.1 of 10 places is one
	}
	return r
}

// place returns the value of a category at x + d, of which a nil d is no change: for a group the largest entry above
// one half, -1 when there is none.
func (u *Feature) place(x, d []float32) int {
	at := func(j int) float32 {
		if d == nil {
			return x[j]
		}
		return x[j] + d[j]
	}
	if u.form == thermometer {
		n := 0
		for n < len(x) && at(n) > 0.5 {
			n++
		}
		return n
	}
	to, best := -1, float32(0.5)
	for j := range x {
		if v := at(j); v > best {
			to, best = j, v
		}
	}
	return to
}

func (u *Feature) options(cur int) []int {
	if cur < 0 {
		return u.next[u.Width]
	}
	return u.next[cur]
}

func (u *Feature) ideal(j, to int) float32 {
	if j == to && u.form == oneHot || j < to && u.form == thermometer {
		return 1
	}
	return 0
}

// become makes d the change of x to one of the options (a group's -1: none).
func (u *Feature) become(x, d []float32, to int) {
	if u.form < oneHot {
		d[0] = u.changeTo(x[0], to)
		return
	}
	for j := range d {
		d[j] = u.ideal(j, to) - x[j] + 0 // + 0: no negative zero
	}
}

func (u *Feature) projectCategory(x, d []float32, clip bool) {
	moved, known := false, true
	for j, v := range d {
		if v != 0 {
			moved = true
		}
		if v != v {
			d[j] = 0
		}
		if x[j] != x[j] {
			known = false
		}
	}
	if !moved || !known {
		clear(d) // no negative zero
		return
	}
	lowest, highest := float32(math.Inf(-1)), float32(math.Inf(1))
	if clip {
		lowest, highest = 0, 1
	}
	// worth says how near the values are to each of those that the category may have; of a thermometer, it is by how
	// much its inputs are above one half in sum.
	worth := func(to int) (sum float32) {
		value := func(j int) float32 { return min(max(x[j]+d[j], lowest), highest) }
		switch {
		case u.form == thermometer:
			for j := range to {
				sum = sum + value(j) - 0.5
			}
			return sum
		case to < 0:
			return 0.5
		}
		return value(to)
	}
	cur := u.place(x, nil)
	to, best := cur, worth(cur)
	for _, o := range u.options(cur) {
		if v := worth(o); v > best {
			to, best = o, v
		}
	}
	if to == cur {
		clear(d)
		return
	}
	u.become(x, d, to)
}

func (u *Feature) checkCategory(x, d []float32) (Constraint, string) {
	cur, to := u.place(x, nil), u.place(x, d)
	if to < 0 {
		return Category, "a one-hot group cannot become empty"
	}
	for j := range d {
		if v := x[j] + d[j]; v != u.ideal(j, to) {
			return Category, fmt.Sprintf("input %d of the category becomes %g", j, v)
		}
	}
	if slices.Contains(u.options(cur), to) {
		return "", ""
	}
	if c, detail := u.checkKnown(cur, to, len(u.options(cur)) > 0); c != "" {
		return c, detail
	}
	return Transition, u.word(cur) + " may not become " + u.word(to)
}

// checkKnown says that a change leads to a value that means "not known", or from one unless that may be left; "" when
// it does not.
func (u *Feature) checkKnown(cur, to int, leaves bool) (Constraint, string) {
	for _, value := range []int{cur, to} {
		if cur != to && u.notKnown(value) && !(leaves && value == cur) {
			return Missing, fmt.Sprintf("no action leads from or to %s, which means \"not known\"", u.word(value))
		}
	}
	return "", ""
}

func (u *Feature) word(value int) string {
	x := lists.Make(u.Width, func(j int) float32 { return u.ideal(j, value) })
	if s, err := u.spec.Decode(x); err == nil && s != "" {
		return s
	}
	return "a missing value"
}

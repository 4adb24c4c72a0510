package constraint

import (
	"fmt"
	"slices"
)

// Move is a new change of one feature: To is that of its input or, of a category, one of [Feature.Options].
type Move struct {
	Feature *Feature
	To      float32
}

// Switches returns the moves to the feature's options.
func (a *Set) Switches(u *Feature, x []float32) (moves []Move) {
	for _, o := range u.Options(x) {
		to := float32(o)
		if u.form < oneHot {
			to = u.changeTo(x[u.First], o)
		}
		moves = append(moves, Move{u, to})
	}
	return moves
}

// Set makes d the change, whatever the links and rules between features.
func (m *Move) Set(x, d []float32) { m.set(m.Feature.inputs(x), m.Feature.inputs(d)) }

func (m *Move) set(x, d []float32) {
	if m.Feature.form < oneHot {
		d[0] = m.To
		return
	}
	m.Feature.become(x, d, int(m.To))
}

// Apply makes a move, and those that links and rules between features make necessary. When there are none, it leaves d
// as it was and returns false.
func (a *Set) Apply(m Move, x, d []float32) bool {
	u := m.Feature
	xu, du := u.inputs(x), u.inputs(d)
	if !u.Joint {
		m.set(xu, du)
		return true
	}
	before := slices.Clone(d)
	changed := a.Changed(d)
	for _, keep := range []*Feature{u, nil} {
		m.set(xu, du)
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
		return a.Apply(Move{Feature: u, To: v}, x, t)
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

// Gain returns by how much the move raises the linearised margin and the cost, compared to the action d. Of a feature
// that others depend on it counts all that has to change along.
func (a *Set) Gain(m Move, x, d, g []float32) (gain, cost float64) {
	u := m.Feature
	if !u.Joint {
		var buf [64]float32
		to := append(buf[:0], u.inputs(d)...)
		m.set(u.inputs(x), to)
		from, into := a.norm.Sums(u, x, d), a.norm.sums(u, u.inputs(x), to)
		gain = gained(u.inputs(g), u.inputs(d), to)
		if a.norm.IsL1() {
			cost = into.linear - from.linear
		} else {
			before := a.sums(x, d)
			cost = a.norm.Of(before.minus(from).Plus(into)) - a.norm.Of(before)
		}
		return gain, cost
	}
	t := slices.Clone(d)
	if !a.Apply(m, x, t) {
		return 0, 0
	}
	gain = gained(g, d, t)
	for i := range a.links { // g of a source holds the gradients of what follows it
		if l := &a.links[i]; l.scale != 0 {
			from, to := a.features[l.from].First, a.features[l.to].First
			gain -= l.scale * float64(g[to]) * (float64(t[from]) - float64(d[from]))
		}
	}
	return gain, a.Cost(x, t) - a.Cost(x, d)
}

func gained(g, d, t []float32) float64 {
	sum := 0.0
	for j, v := range t {
		if v != d[j] {
			sum += float64(g[j]) * (float64(v) - float64(d[j]))
		}
	}
	return sum
}

// Toward returns the move of a numeric feature that closes the gap by the gradient g, or as much of it as there is
// room for, with its gain of margin and its rise in cost; the gain is 0 when it cannot help.
func (a *Set) Toward(u *Feature, x, d, g []float32, gap float64) (m Move, gain, cost float64) {
	slope, at := float64(g[u.First]), float64(d[u.First])
	if slope == 0 || slope != slope {
		return m, 0, 0
	}
	way := func(gap float64) Move {
		return Move{Feature: u, To: a.Allowed(u, x, d, u.Outward(x[u.First], at+gap, slope > 0))}
	}
	if m = way(gap / slope); !(slope*(float64(m.To)-at) > 0) {
		return m, 0, 0
	}
	gain, cost = a.Gain(m, x, d, g)
	for range 2 { // what comes along takes some of the gain back, so go farther
		if !(u.Joint && gain > 0 && gain < gap) {
			break
		}
		more := way((float64(m.To) - at) * gap / gain * 1.001)
		farther, dearer := a.Gain(more, x, d, g)
		if !(farther > gain) {
			break
		}
		m, gain, cost = more, farther, dearer
	}
	return m, gain, cost
}

// Constraint names a part of the action set.
type Constraint string

// The constraints, by the names that users know from the task file.
const (
	Immutable  Constraint = "immutable"
	Bounds     Constraint = "bounds, direction or largest change"
	Step       Constraint = "step"
	Missing    Constraint = "missing"
	Category   Constraint = "category"
	Transition Constraint = "transitions"
	Sparsity   Constraint = "sparsity"
	Linkage    Constraint = "links"
	Relation   Constraint = "constraints"
	Subset     Constraint = "at_most"
	Finite     Constraint = "finite"
	Radius     Constraint = "latent.radius"
	Pixels     Constraint = "latent.pixels"
)

// Violation is one broken constraint.
type Violation struct {
	Feature    string // "" for those of the action as a whole
	Constraint Constraint
	Detail     string
}

func (v *Violation) Error() string {
	if v.Feature == "" {
		return fmt.Sprintf("%s: %s", v.Constraint, v.Detail)
	}
	return fmt.Sprintf("feature %q: %s: %s", v.Feature, v.Constraint, v.Detail)
}

// TooFar is what an action breaks that ends at an image so far from the person's; nil where the task allows it.
func (a *Set) TooFar(distance float32) *Violation {
	const rounding = 1e-6 // of the distance, in the sums that make it
	l := a.task.Latent
	if l == nil || l.Pixels == 0 || float64(distance) <= l.Pixels*(1+rounding) {
		return nil
	}
	detail := fmt.Sprintf("the image is %.6g from the person's, at most %g is allowed", distance, l.Pixels)
	return &Violation{Constraint: Pixels, Detail: detail}
}

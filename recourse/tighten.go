package recourse

import (
	"fmt"
	"math"
	"slices"
)

// Tighten returns the action set with limits that are tighter or looser: k is the largest number of features that an action may change
// (0: as it is), and scale multiplies how far a feature may go from the person's own value.
//
//   - A number may go from x to x + scale*(hi-x) upwards, hi the nearer of its bound and its largest change, and downwards likewise. It stays on
//     its steps, and where there was no limit there is none.
//   - Of an ordinal feature with values, hi is the last value that it could reach; the values within the scaled distance remain.
//   - Thermometers and one-hot groups with an order go the scaled number of places, rounded down; a table of transitions is not widened.
//   - Binary features and other categories are as they were: they have no distances. What only links change keeps its bounds.
//
// What is feasible after tightening (scale <= 1, and k no larger than the limit) was so before. Tighten returns the set itself when nothing changes. What holds
// for single people is tightened for each of them, so Override comes first.
//
// References: "Constraint regimes", the sparsity budget k and the bound scale gamma.
func (a *ActionSet) Tighten(k int, scale float64) (*ActionSet, error) {
	switch {
	case k < 0:
		return nil, fmt.Errorf("recourse: a limit of %d features: it must be 1 or more, or 0 for the task's own", k)
	case !(scale > 0) || math.IsInf(scale, 1):
		return nil, fmt.Errorf("recourse: a scale of %v for how far features may go: it must be a number above 0", scale)
	}
	if scale == 1 && (k == 0 || k == a.limit) {
		return a, nil
	}
	b := *a
	if k > 0 {
		b.limit = min(k, len(a.units))
	}
	if scale != 1 {
		b.units = slices.Clone(a.units)
		for _, i := range b.free {
			if err := b.units[i].tighten(scale); err != nil {
				return nil, fmt.Errorf("recourse: feature %q: %w", b.units[i].name, err)
			}
		}
	}
	if a.own != nil {
		b.own = map[int]*ActionSet{}
	}
	for row, own := range a.own {
		t, err := own.Tighten(k, scale)
		if err != nil {
			return nil, err
		}
		b.own[row] = t
	}
	return &b, nil
}

// Budget returns the largest number of features that an action can change.
func (a *ActionSet) Budget() int { return min(a.limit, len(a.free)) }

func (u *unit) tighten(scale float64) error {
	switch {
	case u.form == ladder:
		u.scale *= scale
		u.next = u.places(u.feature, u.feature.Width+1)
	case u.form == group && u.ordered:
		u.scale *= scale
		return u.compileGroup(u.feature)
	case u.feature.Kind.IsNumber():
		u.scale *= scale
	}
	return nil
}

// room returns how far a number at v may go in one direction when its largest change and the distance to its bound are as given,
// as float32 rounded down.
func (u *unit) room(largest, distance, v float64, up bool) float32 {
	r := min(largest, distance)
	if u.scale != 1 {
		switch {
		case u.form == domain && up:
			r = min(r, u.values[len(u.values)-1]-v)
		case u.form == domain:
			r = min(r, v-u.values[0])
		}
		if r < far {
			r = min(r*u.scale, far)
		}
	}
	return towardsZero(max(r, 0))
}

// steps returns how many places a category with an order may go in one direction, in which there are so many.
func (u *unit) steps(largest float64, places int) float64 {
	r := min(largest, float64(places))
	if u.scale != 1 {
		r = math.Floor(r*u.scale + 1e-9) // 0.1 of 10 places is one
	}
	return r
}

package recourse

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// ActionSet is what people can change, in model-input units: the set A(x) of the
// paper for every x, with the cost of an action. It is immutable and safe for
// concurrent use.
type ActionSet struct {
	dim     int
	units   []unit // all features, in the order of the inputs
	free    []int  // indices of the units that can change
	limit   int    // most features an action may change; len(units) when unlimited
	weights []float64
	norm    norm
}

type norm uint8

const (
	l1 norm = iota
	l2
)

// far stands for no limit on a change, so that no action is infinite.
const far = 1e30

// kind says how a unit's values may change.
type kind uint8

const (
	fixed      kind = iota
	continuous      // any value in the box
	grid            // the factual value and whole steps away from it
	domain          // a list of values; also binary features
	group           // one-hot
)

// unit is one feature: the granule of sparsity and of the solvers' moves.
type unit struct {
	name         string
	kind         kind
	first, width int
	lo, hi       float64 // bounds on the new value; ±Inf when absent
	up, down     float64 // largest change in either direction, >= 0; 0 when the direction is forbidden
	step         float64 // of a grid
	values       []float64
	// next holds for each current value of a group (the last row: none) the
	// values it may become, ascending, without itself.
	next [][]int
}

// Compile turns the task file's constraints, which are in raw units, into model-input
// units. The error names every feature that has an impossible constraint.
func Compile(t *task.Task) (*ActionSet, error) {
	a := &ActionSet{dim: t.Dim(), limit: t.Sparsity.MaxFeatures}
	var errs []error
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		u, err := compileUnit(f)
		if err == nil && (f.Offset != at || f.Width < 1) {
			err = fmt.Errorf("inputs %d to %d do not follow on input %d", f.Offset, f.Offset+f.Width-1, at-1)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("recourse: feature %q: %w", f.Name, err))
		}
		at = f.Offset + f.Width
		if u.kind != fixed {
			a.free = append(a.free, i)
		}
		a.units = append(a.units, u)
	}
	if a.limit <= 0 || a.limit > len(a.units) {
		a.limit = len(a.units)
	}
	if err := a.compileCost(t); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return a, nil
}

func compileUnit(f *task.Feature) (unit, error) {
	u := unit{name: f.Name, first: f.Offset, width: f.Width, lo: math.Inf(-1), hi: math.Inf(1), up: math.Inf(1), down: math.Inf(1)}
	if !f.Actionable {
		return u, nil
	}
	switch f.Direction {
	case task.Increase:
		u.down = 0
	case task.Decrease:
		u.up = 0
	case task.Any, "":
	default:
		return u, fmt.Errorf("unknown direction %q", f.Direction)
	}
	switch f.Kind {
	case task.Numeric, task.Ordinal:
		return u, u.compileNumeric(f)
	case task.Binary:
		u.kind, u.values = domain, []float64{0, 1}
		return u, nil
	case task.OneHot:
		return u, u.compileGroup(f)
	}
	return u, fmt.Errorf("unknown kind %q", f.Kind)
}

func (u *unit) compileNumeric(f *task.Feature) error {
	if !(f.Std > 0) || math.IsInf(f.Std, 0) {
		return fmt.Errorf("std is %g, must be positive", f.Std)
	}
	if f.Bounds[0] > f.Bounds[1] {
		return fmt.Errorf("lower bound %g above upper bound %g", f.Bounds[0], f.Bounds[1])
	}
	if f.MaxIncrease < 0 || f.MaxDecrease < 0 || f.MaxChange < 0 || f.Step < 0 {
		return errors.New("step and largest changes must not be negative")
	}
	// Rounded as a person's own value is, so that one who stands on a bound stands on it here.
	encode := func(raw float64) float64 { return float64(float32((raw - f.Mean) / f.Std)) }
	u.lo, u.hi = encode(f.Bounds[0]), encode(f.Bounds[1])
	u.up = min(u.up, f.MaxIncrease/f.Std, f.MaxChange/f.Std, far)
	u.down = min(u.down, f.MaxDecrease/f.Std, f.MaxChange/f.Std, far)
	switch {
	case f.Kind == task.Ordinal && len(f.Levels) > 0:
		u.kind = domain
		for _, v := range f.Levels {
			u.values = append(u.values, encode(v))
		}
		slices.Sort(u.values)
		u.values = slices.Compact(u.values)
	case f.Kind == task.Ordinal && f.Step == 0:
		u.kind, u.step = grid, 1/f.Std
	case f.Step > 0:
		u.kind, u.step = grid, f.Step/f.Std
	default:
		u.kind = continuous
	}
	return nil
}

func (u *unit) compileGroup(f *task.Feature) error {
	if len(f.Values) != f.Width {
		return fmt.Errorf("%d values over %d inputs", len(f.Values), f.Width)
	}
	u.kind = group
	u.next = make([][]int, f.Width+1)
	if f.Transitions == nil {
		for from := range u.next {
			for to := range f.Width {
				if to != from {
					u.next[from] = append(u.next[from], to)
				}
			}
		}
		return nil
	}
	// A missing value is no key of the table, so it stays missing.
	var errs []error
	for from, targets := range f.Transitions {
		i := slices.Index(f.Values, from)
		if i < 0 {
			errs = append(errs, fmt.Errorf("transition from unknown value %q", from))
			continue
		}
		for _, to := range targets {
			switch j := slices.Index(f.Values, to); {
			case j < 0:
				errs = append(errs, fmt.Errorf("transition from %q to unknown value %q", from, to))
			case j != i:
				u.next[i] = append(u.next[i], j)
			}
		}
		slices.Sort(u.next[i])
		u.next[i] = slices.Compact(u.next[i])
	}
	slices.SortFunc(errs, func(a, b error) int {
		switch {
		case a.Error() < b.Error():
			return -1
		case a.Error() > b.Error():
			return 1
		}
		return 0
	})
	return errors.Join(errs...)
}

// Dim returns the number of model inputs.
func (a *ActionSet) Dim() int { return a.dim }

func (u *unit) changed(delta []float32) bool {
	for _, v := range delta[u.first : u.first+u.width] {
		if v != 0 {
			return true
		}
	}
	return false
}

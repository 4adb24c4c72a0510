package recourse

import (
	"errors"
	"fmt"
	"maps"
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
	free    []int  // indices of the units that an action can change
	limit   int    // most features an action may change; len(units) when unlimited
	weights []float64
	norm    task.Norm
	ratio   float64 // of Mixed
	links   []link  // in an order in which what drags comes before what it drags
	rules   []rule
	subsets []subset
	task    *task.Task
	own     map[int]*ActionSet // of people with constraints of their own, by row
}

// far stands for no limit on a change, so that no action is infinite.
const far = 1e30

// kind says how a unit's values may change.
type kind uint8

const (
	fixed      kind = iota
	linked          // changes with others only
	continuous      // any value in the box
	grid            // the factual value and whole steps away from it
	domain          // a list of values; also binary features
	group           // one-hot
	ladder          // thermometer
)

// unit is one feature: the granule of sparsity and of the solvers' moves.
type unit struct {
	name         string
	kind         kind
	form         kind // what kind would be if an action could change it
	joint        bool // drags others along, or stands in a rule
	first, width int
	lo, hi       float64 // bounds on the new value; ±Inf when absent
	up, down     float64 // largest change in either direction, >= 0; 0 when the direction is forbidden
	scale        float64 // of the distances that a change may go, see Tighten; else 1
	step         float64 // of a grid
	values       []float64
	// next holds for each current value of a group (the last row: none), or level of a ladder, the
	// values it may become, ascending, without itself.
	next    [][]int
	ordered bool    // the values of the group stand in an order
	quantum float64 // of a continuous one: raw units that a new value is rounded to
	price   price
	feature *task.Feature
}

// Compile turns the task file's constraints, which are in raw units, into model-input
// units. The error names every feature that has an impossible constraint.
func Compile(t *task.Task) (*ActionSet, error) { return compileWith(t, t.Features) }

// compileWith is Compile with the ranges of these features behind the weights of inverse_range: a person whose bounds are narrower than other
// people's does not pay more for it.
func compileWith(t *task.Task, ranges []task.Feature) (*ActionSet, error) {
	a := &ActionSet{dim: t.Dim(), limit: t.Sparsity.MaxFeatures, task: t}
	var errs []error
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		u, err := compileUnit(f, t.Drags(f.Name))
		if err == nil && (f.Offset != at || f.Width < 1) {
			err = fmt.Errorf("inputs %d to %d do not follow on input %d", f.Offset, f.Offset+f.Width-1, at-1)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("recourse: feature %q: %w", f.Name, err))
		}
		at = f.Offset + f.Width
		if u.kind > linked {
			a.free = append(a.free, i)
		}
		a.units = append(a.units, u)
	}
	if a.limit <= 0 || a.limit > len(a.units) {
		a.limit = len(a.units)
	}
	if len(errs) == 0 {
		errs = append(errs, a.compileCost(t, ranges), a.compileJoint(t))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return a, nil
}

// compileUnit compiles what holds for one feature by itself; dragged features have bounds, but no cost.
func compileUnit(f *task.Feature, dragged bool) (unit, error) {
	u := unit{name: f.Name, first: f.Offset, width: f.Width, lo: math.Inf(-1), hi: math.Inf(1), up: math.Inf(1), down: math.Inf(1), scale: 1, feature: f}
	if !f.Actionable && !dragged {
		return u, nil
	}
	if f.Actionable && dragged {
		return u, errors.New("a link drags it along, so it must not be actionable by itself")
	}
	err := u.compileForm(f)
	u.kind = u.form
	if dragged {
		u.kind = linked
	}
	return u, err
}

func (u *unit) compileForm(f *task.Feature) error {
	switch f.Direction {
	case task.Increase:
		u.down = 0
	case task.Decrease:
		u.up = 0
	case task.Any, "":
	default:
		return fmt.Errorf("unknown direction %q", f.Direction)
	}
	switch f.Kind {
	case task.Numeric, task.Ordinal:
		return u.compileNumeric(f)
	case task.Binary:
		u.form, u.values = domain, []float64{0, 1}
		return nil
	case task.OneHot:
		return u.compileGroup(f)
	case task.Thermometer:
		u.form, u.ordered, u.next = ladder, true, u.places(f, f.Width+1)
		return nil
	}
	return fmt.Errorf("unknown kind %q", f.Kind)
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
		u.form = domain
		for _, v := range f.Levels {
			u.values = append(u.values, encode(v))
		}
		slices.Sort(u.values)
		u.values = slices.Compact(u.values)
	case f.Kind == task.Ordinal && f.Step == 0:
		u.form, u.step = grid, 1/f.Std
	case f.Step > 0:
		u.form, u.step = grid, f.Step/f.Std
	default:
		u.form, u.quantum = continuous, math.Pow10(int(math.Floor(math.Log10(spread(f))))-4)
	}
	return nil
}

// spread is the size of a number's changes in raw units: its standard deviation, or less where bounds are closer together.
func spread(f *task.Feature) float64 {
	if width := f.Bounds[1] - f.Bounds[0]; width > 0 && width < f.Std {
		return width
	}
	return f.Std
}

func (u *unit) compileGroup(f *task.Feature) error {
	if len(f.Values) != f.Width {
		return fmt.Errorf("%d values over %d inputs", len(f.Values), f.Width)
	}
	u.form, u.ordered = group, f.Ordered
	u.next = make([][]int, f.Width+1)
	if f.Transitions == nil {
		u.next = u.places(f, f.Width)
		any := []int{}
		for to := range f.Width {
			any = append(any, to)
		}
		if u.ordered && (u.up == 0 || u.down == 0 || !math.IsInf(min(f.MaxIncrease, f.MaxDecrease, f.MaxChange), 1)) {
			any = nil // a missing value has no place to count from
		}
		u.next = append(u.next, any)
		return nil
	}
	// A missing value is no key of the table, so it stays missing.
	near := u.places(f, f.Width)
	var errs []error
	for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
		i := slices.Index(f.Values, from)
		if i < 0 {
			errs = append(errs, fmt.Errorf("transition from unknown value %q", from))
			continue
		}
		for _, to := range f.Transitions[from] {
			switch j := slices.Index(f.Values, to); {
			case j < 0:
				errs = append(errs, fmt.Errorf("transition from %q to unknown value %q", from, to))
			case slices.Contains(near[i], j):
				u.next[i] = append(u.next[i], j)
			}
		}
		slices.Sort(u.next[i])
		u.next[i] = slices.Compact(u.next[i])
	}
	return errors.Join(errs...)
}

// places returns for each of n values in order those that direction and largest changes let it become. Without an order all of
// them are.
func (u *unit) places(f *task.Feature, n int) [][]int {
	up, down := math.Inf(1), math.Inf(1)
	if u.ordered || u.form == ladder {
		up, down = min(f.MaxIncrease, f.MaxChange), min(f.MaxDecrease, f.MaxChange)
		if u.up == 0 {
			up = 0
		}
		if u.down == 0 {
			down = 0
		}
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

func (u *unit) changed(delta []float32) bool {
	for _, v := range delta[u.first : u.first+u.width] {
		if v != 0 {
			return true
		}
	}
	return false
}

// Dim returns the number of model inputs.
func (a *ActionSet) Dim() int { return a.dim }

// Numbers returns the inputs that stand for numbers which actions may change, ascending: those in which people may end near
// a recourse point instead of on it.
func (a *ActionSet) Numbers() []int {
	var at []int
	for _, i := range a.free {
		if u := &a.units[i]; u.kind == continuous || u.kind == grid {
			at = append(at, u.first)
		}
	}
	return at
}

package constraint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"cfq/task"
)

type moveKind uint8

const (
	fixed       moveKind = iota
	dependent            // changes with others only
	continuous           // any value in the box
	grid                 // the factual value and whole steps away from it
	discrete             // a list of values; also binary features
	oneHot               // one-hot
	thermometer          // thermometer
)

// Feature is one feature of a task: the granule of sparsity and of the solvers' moves.
type Feature struct {
	Name         string
	Index        int // among the set's features
	kind         moveKind
	form         moveKind // what kind would be if an action could change it
	First, Width int
	featureTies
	reachLimits
	newValues
	valueSwitches
	weights []float64 // per input: what a change of 1 costs; none when an action cannot change it
	spec    *task.Feature
}

type featureTies struct {
	Joint  bool // others depend on it, or it stands in a rule
	Tabled bool // others depend on it by a table
}

// newValues are those that a feature of one input may take within its limits.
type newValues struct {
	Step    float64   // of a grid
	Quantum float64   // of a continuous one: raw units that a new value is rounded to
	values  []float64 // of a discrete one
}

type reachLimits struct {
	lo, hi   float64   // bounds on the new value; ±Inf when absent
	up, down float64   // largest change in either direction, >= 0; 0 when the direction is forbidden
	scale    float64   // of the distances that a change may go, see Tighten; else 1
	missing  []float32 // numbers that mean "not known"
}

type valueSwitches struct {
	// next holds for each current value of a group (the last row: none), or level of a thermometer, the values it may
	// become, ascending, without itself.
	next    [][]int
	ordered bool // the values of the group stand in an order
}

func compileFeature(f *task.Feature, index int, follows bool) Feature {
	u := Feature{
		Name: f.Name, Index: index, First: f.Offset, Width: f.Width, spec: f,
		reachLimits: reachLimits{lo: math.Inf(-1), hi: math.Inf(1), up: math.Inf(1), down: math.Inf(1), scale: 1},
	}
	if f.Actionable || follows {
		u.compileForm(f)
		u.kind = u.form
	}
	if follows {
		u.kind = dependent
	}
	return u
}

func (u *Feature) compileForm(f *task.Feature) {
	switch f.Direction {
	case "increase":
		u.down = 0
	case "decrease":
		u.up = 0
	}
	switch e := f.Encoding.(type) {
	case *task.Standardized:
		u.compileNumeric(f, e)
	case *task.Binary:
		u.form, u.values = discrete, []float64{0, 1}
	case *task.OneHot:
		u.compileGroup(f, e)
	case *task.Thermometer:
		u.form, u.ordered, u.next = thermometer, true, u.places(f, f.Width+1)
	}
}

func (u *Feature) tighten(scale float64) {
	if !u.ordered && u.spec.Number() == nil {
		return
	}
	u.scale *= scale
	switch u.form {
	case thermometer:
		u.next = u.places(u.spec, u.spec.Width+1)
	case oneHot:
		u.compileForm(u.spec)
	}
}

// Changed reports whether delta moves the feature.
func (u *Feature) Changed(delta []float32) bool {
	if u.Width == 1 {
		return delta[u.First] != 0
	}
	return slices.ContainsFunc(u.inputs(delta), isChange)
}

func isChange(v float32) bool { return v != 0 }

// Numeric says whether the feature moves along a line rather than by switches.
func (u *Feature) Numeric() bool { return u.kind == continuous || u.kind == grid }

func (u *Feature) project(x, d []float32, clip bool) {
	switch {
	case u.kind == dependent:
	case u.kind == fixed:
		clear(d)
	case u.form >= oneHot:
		u.projectCategory(x, d, clip)
	default:
		d[0] = u.Nearest(x[0], d[0])
	}
}

// coarse is the largest number of steps a grid has to be worth trying one by one.
const coarse = 12

// Options returns the values that a discrete feature may change to: for a category the index of the value, for a
// domain the index into it, for a grid with few steps the number of steps.
func (u *Feature) Options(x []float32) []int {
	if u.kind == grid {
		if first, last := u.ticks(x[u.First]); last-first > coarse {
			return nil
		}
	}
	return u.AllOptions(x, coarse)
}

// AllOptions is Options with all steps of a grid, at most most in either direction, nearest first.
func (u *Feature) AllOptions(x []float32, most int) (options []int) {
	switch u.kind {
	case oneHot, thermometer:
		return u.options(u.place(u.inputs(x), nil))
	case discrete:
		for o, v := range u.values {
			if _, ok := u.changeToValue(x[u.First], v); ok {
				options = append(options, o)
			}
		}
	case grid:
		first, last := u.ticks(x[u.First])
		for n := 1; n <= min(max(-int(first), int(last)), most); n++ {
			if -n >= int(first) {
				options = append(options, -n)
			}
			if n <= int(last) {
				options = append(options, n)
			}
		}
	}
	return options
}

// Set makes d the change to one of the options.
func (u *Feature) Set(x, d []float32, option int) { u.become(u.inputs(x), u.inputs(d), option) }

func (u *Feature) changeTo(x float32, option int) float32 {
	if u.form == discrete {
		return float32(u.values[option] - float64(x))
	}
	return u.Tick(float64(option))
}

func (u *Feature) inputs(x []float32) []float32 { return x[u.First : u.First+u.Width] }

// check says which constraint a change of one feature breaks; "" when none. A change of a number is taken for what
// lies within float32 noise of it: an action may have been written in raw units and read again.
func (u *Feature) check(x, d []float32) (Constraint, string) {
	for _, v := range d {
		if v-v != 0 {
			return Finite, fmt.Sprintf("change is %g", v)
		}
	}
	if u.form >= oneHot {
		return u.checkCategory(x, d)
	}
	return u.checkNumber(x[0], d[0])
}

// checkDependent is check for a feature that links have moved. Steps and transitions do not bind it.
func (u *Feature) checkDependent(x, d []float32) (Constraint, string) {
	if u.form >= oneHot {
		return u.checkKnown(u.place(u.inputs(x), nil), u.place(u.inputs(x), u.inputs(d)), false)
	}
	switch c, detail := u.check(u.inputs(x), u.inputs(d)); {
	case c != Step:
		return c, detail
	case !u.within(x[u.First], d[u.First]): // by less than half a step
		lo, hi := u.span(x[u.First])
		return Bounds, fmt.Sprintf("a change of %s, allowed are %s to %s",
			u.amount(float64(d[u.First])), u.amount(float64(lo)), u.amount(float64(hi)))
	}
	return "", ""
}

// option returns the raw value of a link, which the task's reader has tried, as an option of a category or as a model
// input.
func (u *Feature) option(raw string) float64 {
	if c := u.spec.Category(); c != nil {
		place, _ := c.PlaceOf(raw)
		return float64(place)
	}
	x := make([]float32, 1)
	_ = u.spec.Encode(raw, x)
	return float64(x[0])
}

func (u *Feature) publish(point, x, d []float32, number func(u *Feature, x, d float32) float32) {
	if !u.Changed(d) {
		return
	}
	if u.form == continuous || u.form == grid {
		point[u.First] = number(u, x[u.First], d[u.First])
		return
	}
	for j := u.First; j < u.First+u.Width; j++ {
		point[j] = x[j] + d[j]
	}
	if u.form == discrete { // whose values are exact
		distance := func(v float64) float64 { return math.Abs(v - float64(x[u.First]+d[u.First])) }
		point[u.First] = float32(slices.MinFunc(u.values, func(v, w float64) int {
			return cmp.Compare(distance(v), distance(w))
		}))
	}
}

func (u *Feature) text(x []float32) string {
	s, err := u.spec.Decode(u.inputs(x))
	if err != nil {
		return strconv.FormatFloat(float64(x[u.First]), 'g', -1, 32)
	}
	return s
}

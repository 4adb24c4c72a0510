package constraint

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"cfq/task"
)

// kind says how a feature's values may change.
type kind uint8

const (
	fixed       kind = iota
	dependent        // changes with others only
	continuous       // any value in the box
	grid             // the factual value and whole steps away from it
	discrete         // a list of values; also binary features
	oneHot           // one-hot
	thermometer      // thermometer
)

// Feature is one feature of a task: the granule of sparsity and of the solvers' moves.
type Feature struct {
	Name         string
	Index        int // among the set's features
	kind         kind
	form         kind // what kind would be if an action could change it
	Joint        bool // others depend on it, or it stands in a rule
	Tabled       bool // others depend on it by a table
	First, Width int
	lo, hi       float64 // bounds on the new value; ±Inf when absent
	up, down     float64 // largest change in either direction, >= 0; 0 when the direction is forbidden
	scale        float64 // of the distances that a change may go, see Tighten; else 1
	Step         float64 // of a grid
	values       []float64
	missing      []float32 // numbers that mean "not known"
	// next holds for each current value of a group (the last row: none), or level of a thermometer, the
	// values it may become, ascending, without itself.
	next    [][]int
	ordered bool      // the values of the group stand in an order
	Quantum float64   // of a continuous one: raw units that a new value is rounded to
	weights []float64 // per input: what a change of 1 costs; none when an action cannot change it
	spec    *task.Feature
}

// compileFeature compiles what holds for one feature by itself; dependent features have bounds, but no cost.
func compileFeature(f *task.Feature, follows bool) (Feature, error) {
	u := Feature{
		Name: f.Name, First: f.Offset, Width: f.Width, lo: math.Inf(-1), hi: math.Inf(1), up: math.Inf(1),
		down: math.Inf(1), scale: 1, spec: f,
	}
	if !f.Actionable && !follows {
		return u, nil
	}
	if f.Actionable && follows {
		return u, errors.New("it follows another feature by a link, so it must not be actionable")
	}
	err := u.compileForm(f)
	u.kind = u.form
	if follows {
		u.kind = dependent
	}
	return u, err
}

func (u *Feature) compileForm(f *task.Feature) error {
	switch f.Direction {
	case task.Increase:
		u.down = 0
	case task.Decrease:
		u.up = 0
	case task.Any, "":
	default:
		return fmt.Errorf("unknown direction %q", f.Direction)
	}
	switch e := f.Encoding.(type) {
	case *task.Standardized:
		return u.compileNumeric(f, e)
	case *task.Binary:
		u.form, u.values = discrete, []float64{0, 1}
		return nil
	case *task.OneHot:
		return u.compileGroup(f, e)
	case *task.Thermometer:
		u.form, u.ordered, u.next = thermometer, true, u.places(f, f.Width+1)
		return nil
	}
	return fmt.Errorf("encoding %T cannot change", f.Encoding)
}

func (u *Feature) compileNumeric(f *task.Feature, n *task.Standardized) error {
	if !(n.Std > 0) || math.IsInf(n.Std, 0) {
		return fmt.Errorf("std is %g, must be positive", n.Std)
	}
	if f.Bounds[0] > f.Bounds[1] {
		return fmt.Errorf("lower bound %g above upper bound %g", f.Bounds[0], f.Bounds[1])
	}
	if f.MaxIncrease < 0 || f.MaxDecrease < 0 || f.MaxChange < 0 || f.Step < 0 {
		return errors.New("step and largest changes must not be negative")
	}
	// Rounded as a person's own value is, so that one who stands on a bound stands on it here.
	encode := func(raw float64) float64 { return float64(n.ToInput(raw)) }
	u.lo, u.hi = encode(f.Bounds[0]), encode(f.Bounds[1])
	u.up = min(u.up, f.MaxIncrease/n.Std, f.MaxChange/n.Std, far)
	u.down = min(u.down, f.MaxDecrease/n.Std, f.MaxChange/n.Std, far)
	for _, v := range n.Missing {
		u.missing = append(u.missing, n.ToInput(v))
	}
	switch {
	case n.Ordinal && len(n.Levels) > 0:
		u.form = discrete
		for _, v := range n.Levels {
			u.values = append(u.values, encode(v))
		}
		slices.Sort(u.values)
		u.values = slices.Compact(u.values)
	case n.Ordinal && f.Step == 0:
		u.form, u.Step = grid, 1/n.Std
	case f.Step > 0:
		u.form, u.Step = grid, f.Step/n.Std
	default:
		spread := n.Std // or less where bounds are closer together
		if width := f.Bounds[1] - f.Bounds[0]; width > 0 {
			spread = min(spread, width)
		}
		u.form, u.Quantum = continuous, math.Pow10(int(math.Floor(math.Log10(spread)))-4)
	}
	return nil
}

func (u *Feature) compileGroup(f *task.Feature, e *task.OneHot) error {
	if len(e.Values) != f.Width {
		return fmt.Errorf("%d values over %d inputs", len(e.Values), f.Width)
	}
	u.form, u.ordered = oneHot, e.Ordered
	var known []int // the values that do not mean "not known", which alone are places of an order
	for i := range f.Width {
		if !u.notKnown(i) {
			known = append(known, i)
		}
	}
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
		return nil
	}
	u.next = make([][]int, f.Width+1) // a missing value is no key of the table, so it stays missing
	var errs []error
	for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
		i := slices.Index(e.Values, from)
		if i < 0 {
			errs = append(errs, fmt.Errorf("transition from unknown value %q", from))
			continue
		}
		for _, to := range f.Transitions[from] {
			switch j := slices.Index(e.Values, to); {
			case j < 0:
				errs = append(errs, fmt.Errorf("transition from %q to unknown value %q", from, to))
			case slices.Contains(near[i], j), u.notKnown(i):
				u.next[i] = append(u.next[i], j)
			}
		}
		slices.Sort(u.next[i])
		u.next[i] = slices.Compact(u.next[i])
	}
	return errors.Join(errs...)
}

// notKnown says whether a value of a one-hot means "not known".
func (u *Feature) notKnown(value int) bool {
	e, ok := u.spec.Encoding.(*task.OneHot)
	return ok && value >= 0 && slices.Contains(e.MissingValues, e.Values[value])
}

// places returns for each of n values in order those that direction and largest changes let it become. Without an
// order all of them are.
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

func (u *Feature) tighten(scale float64) error {
	if !u.ordered && u.spec.Number() == nil {
		return nil
	}
	u.scale *= scale
	switch u.form {
	case thermometer:
		u.next = u.places(u.spec, u.spec.Width+1)
	case oneHot:
		return u.compileForm(u.spec)
	}
	return nil
}

// room returns how far a number at v may go in one direction when its largest change and the distance to its bound
// are as given, as float32 rounded down.
func (u *Feature) room(largest, distance, v float64, up bool) float32 {
	r := min(largest, distance)
	if u.scale != 1 {
		switch {
		case u.form == discrete && up:
			r = min(r, u.values[len(u.values)-1]-v)
		case u.form == discrete:
			r = min(r, v-u.values[0])
		}
		if r < far {
			r = min(r*u.scale, far)
		}
	}
	return towardsZero(max(r, 0))
}

// steps returns how many places a category with an order may go in one direction of that many.
func (u *Feature) steps(largest float64, places int) float64 {
	r := min(largest, float64(places))
	if u.scale != 1 {
		r = math.Floor(r*u.scale + 1e-9) // 0.1 of 10 places is one
	}
	return r
}

// Changed reports whether delta moves the feature.
func (u *Feature) Changed(delta []float32) bool {
	if u.Width == 1 {
		return delta[u.First] != 0
	}
	return slices.ContainsFunc(u.inputs(delta), func(v float32) bool { return v != 0 })
}

// Numeric says whether the feature moves along a line rather than by switches.
func (u *Feature) Numeric() bool { return u.kind == continuous || u.kind == grid }

// span returns the interval of changes that bounds, direction and largest changes
// leave, as float32 rounded towards zero; it contains 0, and nothing else when the factual value is no finite number.
func (u *Feature) span(x float32) (lo, hi float32) {
	lo, _ = u.side(x, false)
	_, hi = u.side(x, true)
	return lo, hi
}

// side is span with the other direction left out.
func (u *Feature) side(x float32, up bool) (lo, hi float32) {
	switch v := float64(x); {
	case x-x != 0 || u.keeps(x):
		return 0, 0
	case up:
		return 0, u.room(u.up, u.hi-v, v, true)
	default:
		return -u.room(u.down, v-u.lo, v, false), 0
	}
}

// keeps says whether the value is missing, or beyond a missing one that lies out of bounds: no action changes it.
func (u *Feature) keeps(x float32) bool {
	for _, v := range u.missing {
		if v == x || u.form != discrete && (float64(v) < u.lo && x < v || float64(v) > u.hi && x > v) {
			return true
		}
	}
	return false
}

// ticks returns the first and last whole number of steps inside the span.
func (u *Feature) ticks(x float32) (first, last float64) { return -u.most(x, false), u.most(x, true) }

// most returns the largest whole number of steps in one direction inside the span. The
// factual value carries float32 noise, so a tick that misses a bound by no more than that counts as inside.
func (u *Feature) most(x float32, up bool) float64 {
	const most = 1 << 22 // beyond, a tick is not recovered from its float32 change
	lo, hi := u.side(x, up)
	room := float64(max(-lo, hi))
	if room == 0 {
		return 0
	}
	noise := min(0.25, 1e-6+2.4e-7*(math.Abs(float64(x))+room)/u.Step)
	return min(math.Floor(room/u.Step+noise), most)
}

// Tick returns the change, in model inputs, of n whole steps.
func (u *Feature) Tick(n float64) float32 {
	if n == 0 {
		return 0
	}
	return float32(n * u.Step)
}

// onTick says whether the change v is that of n steps.
func (u *Feature) onTick(x, v float32, n float64) bool {
	return math.Abs(float64(v)-n*u.Step) <= noise(x, v)
}

// within says whether the change d is inside the span but for float32 noise.
func (u *Feature) within(x, d float32) bool {
	lo, hi := u.span(x)
	slack := noise(x, d)
	return float64(d) >= float64(lo)-slack && float64(d) <= float64(hi)+slack
}

// reach returns the change from x to the domain value v and whether it is a change and inside the span.
func (u *Feature) reach(x float32, v float64) (float32, bool) {
	lo, hi := u.span(x)
	d := v - float64(x)
	noise := 1e-6 * (1 + math.Abs(v))
	if !(math.Abs(d) > noise) || math.IsInf(d, 0) || d < float64(lo)-noise || d > float64(hi)+noise {
		return 0, false
	}
	return float32(d), true
}

// project does imm, box and cat for one feature. What links move is left for join.
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

// Nearest returns the feasible change closest to d, which is d itself when that is feasible but for float32 noise.
func (u *Feature) Nearest(x, d float32) float32 {
	if d != d || d == 0 {
		return 0
	}
	switch u.form {
	case continuous:
		if u.within(x, d) {
			return d
		}
		return u.Outward(x, float64(d), true)
	case grid:
		n := roundToZero(float64(d) / u.Step)
		if n > 0 {
			n = min(n, u.most(x, true))
		} else if n < 0 {
			n = max(n, -u.most(x, false))
		}
		if n != 0 && u.onTick(x, d, n) {
			return d
		}
		return u.Tick(n)
	case discrete:
		return u.nearestValue(x, d)
	}
	return 0
}

// nearestValue returns the change to the domain value nearest to x+d.
func (u *Feature) nearestValue(x, d float32) float32 {
	lo, hi := u.span(x)
	at := float64(min(max(d, lo), hi))
	best, dist := float32(0), math.Abs(at)
	for _, v := range u.values {
		c, ok := u.reach(x, v)
		if !ok {
			continue
		}
		if same(x, d, c) {
			return d
		}
		e := math.Abs(at - (v - float64(x)))
		if e < dist || e == dist && abs32(c) < abs32(best) {
			best, dist = c, e
		}
	}
	return best
}

// widest stands for no limit on a change under an affine model, in input units.
const widest = 1e4

// Positions returns the range of changes of a numeric feature in steps, of a free one in input units, and the size
// of one.
func (u *Feature) Positions(x float32) (first, last, step float64) {
	if u.kind == grid {
		first, last = u.ticks(x)
		return first, last, u.Step
	}
	lo, hi := u.span(x)
	return max(float64(lo), -widest), min(float64(hi), widest), 1
}

// Endless reports whether a feature without steps may change farther than Positions says.
func (u *Feature) Endless(x float32) bool {
	lo, hi := u.span(x)
	return float64(lo) < -widest || float64(hi) > widest
}

// End returns the last change that a numeric feature can make in the direction.
func (u *Feature) End(x float32, up bool) float32 {
	if up {
		return u.Outward(x, far, true)
	}
	return u.Outward(x, -far, false)
}

// StepBack returns the change of a feature with steps that is one step less than d.
func (u *Feature) StepBack(d float32) float32 {
	return u.Tick(roundToZero(float64(d)/u.Step) - math.Copysign(1, float64(d)))
}

// Outward returns the feasible change at d or, on a grid, the next one beyond it in the given direction; where
// there is no room, the last one.
func (u *Feature) Outward(x float32, d float64, up bool) float32 {
	if u.kind == grid {
		n := math.Floor(d/u.Step + 1e-4)
		if up {
			n = math.Ceil(d/u.Step - 1e-4)
		}
		if n > 0 {
			return u.Tick(min(n, u.most(x, true)))
		}
		return u.Tick(max(n, -u.most(x, false)))
	}
	lo, hi := u.span(x)
	return min(max(float32(d), lo), hi) + 0 // + 0: no negative zero
}

// Farthest returns the largest feasible change in the direction. Where nothing limits it, 64 (of
// what is a standard deviation, when the task file standardises) stands for as far as anyone goes.
func (u *Feature) Farthest(x float32, up bool) float32 {
	lo, hi := u.span(x)
	end := lo
	if up {
		end = hi
	}
	if abs32(end) > 0.9*far {
		end = float32(math.Copysign(64, float64(end)))
	}
	return u.Nearest(x, end)
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
		return u.options(u.current(u.inputs(x)))
	case discrete:
		for o, v := range u.values {
			if _, ok := u.reach(x[u.First], v); ok {
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

// changeTo returns the change of a feature of one input to one of its options.
func (u *Feature) changeTo(x float32, option int) float32 {
	if u.form == discrete {
		return float32(u.values[option] - float64(x))
	}
	return u.Tick(float64(option))
}

// inputs returns the feature's part of a row.
func (u *Feature) inputs(x []float32) []float32 { return x[u.First : u.First+u.Width] }

// current returns the value of a category: for a group the largest entry above one half.
func (u *Feature) current(x []float32) int {
	if u.form == thermometer {
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
func (u *Feature) options(cur int) []int {
	if cur < 0 {
		return u.next[u.Width]
	}
	return u.next[cur]
}

// ideal returns what input j of the category is at the value to.
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

// after returns the value of the category after the change d.
func (u *Feature) after(x, d []float32) int {
	to := -1
	if u.form == thermometer {
		to = 0
	}
	for j := range d {
		switch v := x[j] + d[j]; {
		case u.form == oneHot && v > 0.5:
			to = j
		case u.form == thermometer && v > 0.5:
			to = j + 1
		}
	}
	return to
}

// projectCategory moves d to the nearest reachable value, see Project.
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
	value := func(j int) float32 {
		if v := x[j] + d[j]; clip {
			return min(max(v, 0), 1)
		} else {
			return v
		}
	}
	// worth says how near the values are to each of those that the category may have; of a thermometer, it is by how
	// much its inputs are above one half in sum.
	worth := func(to int) (sum float32) {
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
	cur := u.current(x)
	to, best := cur, worth(cur)
	for _, o := range u.options(cur) {
		if u.form == oneHot && x[o]+d[o] <= best { // clipping makes it no more, as best is not negative
			continue
		}
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
	v := d[0]
	if v == 0 || u.Nearest(x[0], v) == v || u.form == grid && u.onTick(x[0], v, 0) {
		return "", ""
	}
	for _, at := range []float32{x[0], x[0] + v} {
		number := u.spec.Number()
		if number == nil {
			break
		}
		if raw := task.Decimal(number.Raw(at)); number.IsMissing(at) {
			return Missing, fmt.Sprintf("no action leads from or to %s, which means \"not known\"", raw)
		} else if u.keeps(at) {
			return Missing, fmt.Sprintf("no action leads from or to %s, beyond a number that means \"not known\"", raw)
		}
	}
	lo32, hi32 := u.span(x[0])
	lo, hi := float64(lo32), float64(hi32)
	switch u.form {
	case grid:
		n := roundToZero(float64(v) / u.Step)
		first, last := u.ticks(x[0])
		if n >= first && n <= last {
			return Step, fmt.Sprintf("a change of %s is not a whole number of steps of %s", u.amount(float64(v)),
				u.amount(u.Step))
		}
		lo, hi = first*u.Step, last*u.Step
	case discrete:
		if u.within(x[0], v) {
			return Category, fmt.Sprintf("a change of %s does not lead to one of the %d values", u.amount(float64(v)),
				len(u.values))
		}
	}
	return Bounds, fmt.Sprintf("a change of %s, allowed are %s to %s", u.amount(float64(v)), u.amount(lo), u.amount(hi))
}

// checkDependent is check for a feature that links have moved. Steps and transitions do not bind it.
func (u *Feature) checkDependent(x, d []float32) (Constraint, string) {
	if u.form >= oneHot {
		return u.checkKnown(u.current(u.inputs(x)), u.after(u.inputs(x), u.inputs(d)), false)
	}
	if c, detail := u.check(u.inputs(x), u.inputs(d)); c != Step {
		return c, detail
	}
	return "", ""
}

// checkCategory says which constraint a change of a category breaks; "" when none.
func (u *Feature) checkCategory(x, d []float32) (Constraint, string) {
	cur, to := u.current(x), u.after(x, d)
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

// word names a value of the category.
func (u *Feature) word(value int) string {
	x := make([]float32, u.Width)
	for j := range x {
		x[j] = u.ideal(j, value)
	}
	if s, err := u.spec.Decode(x); err == nil && s != "" {
		return s
	}
	return "a missing value"
}

// amount writes a change of an input for people: in raw units where the feature has them.
func (u *Feature) amount(change float64) string {
	if n := u.spec.Number(); n != nil {
		change *= n.Std
	}
	text := strconv.FormatFloat(change+0, 'g', 6, 64) // beyond is float32 noise; -0 is 0
	digits, err := strconv.ParseFloat(text, 64)
	if a := math.Abs(digits); err != nil || !(a < 1e15 && a >= 1e-5) {
		return text
	}
	return strconv.FormatFloat(digits, 'f', -1, 64)
}

// option returns the raw value as an option of a category, or as a model input.
func (u *Feature) option(raw string) (float64, error) {
	if c := u.spec.Category(); c != nil {
		place, err := c.PlaceOf(raw)
		return float64(place), err
	}
	x := make([]float32, 1)
	err := u.spec.Encode(raw, x)
	return float64(x[0]), err
}

// publish sets the feature's part of point to the person after the change d; a number that changes becomes number.
func (u *Feature) publish(point, x, d []float32, number func(u *Feature, d float32) float32) {
	if !u.Changed(d) {
		return
	}
	if u.form == continuous || u.form == grid {
		point[u.First] = number(u, d[u.First])
		return
	}
	for j := u.First; j < u.First+u.Width; j++ {
		point[j] = x[j] + d[j]
	}
	if u.form == discrete { // whose values are exact
		at, best := float64(point[u.First]), math.Inf(1)
		for _, v := range u.values {
			if e := math.Abs(v - at); e < best {
				best, point[u.First] = e, float32(v)
			}
		}
	}
}

// written returns the input of the value that stands for the change d; more is how many quanta farther it goes.
func (u *Feature) written(x, d float32, more float64) float32 {
	f := u.spec.Number()
	from, away := f.Raw(x), math.Copysign(1, float64(d))
	if u.form == grid {
		first, last := u.ticks(x)
		n := min(max(roundToZero(float64(d)/u.Step)+more*away, first), last)
		return f.ToInput(task.Rounded(from+n*u.Step*f.Std, 12))
	}
	if more == 0 && math.Abs(float64(d)*f.Std) < u.Quantum/2 {
		return x // left over from a search; the rounding of the others makes up for it
	}
	n := math.Ceil(away*(from+float64(d)*f.Std)/u.Quantum - 1e-6)
	raw, limit := away*(n+more)*u.Quantum+0, u.limit(x, from, away) // + 0: no negative zero
	if raw*away < limit*away {
		return f.ToInput(task.Rounded(raw, 12))
	}
	return f.ToInput(task.Rounded(limit, 12)) // the bound as the task file has it
}

// limit returns the raw value that a change from the given one, whose input is x, may go to, upwards or (away below
// 0) downwards.
func (u *Feature) limit(x float32, from, away float64) float64 {
	f, std := u.spec, u.spec.Number().Std
	lo, hi := u.span(x)
	switch {
	case u.scale != 1 && away < 0:
		return from + float64(lo)*std
	case u.scale != 1:
		return from + float64(hi)*std
	case away < 0:
		return max(f.Bounds[0], from-f.MaxDecrease, from-f.MaxChange)
	}
	return min(f.Bounds[1], from+f.MaxIncrease, from+f.MaxChange)
}

// follow returns the input of the value that stands for the change d of a linked feature, with as few digits as say it.
func (u *Feature) follow(x, d float32) float32 {
	f := u.spec.Number()
	raw := f.Raw(x) + float64(d)*f.Std
	for digits := 7; digits < 17; digits++ {
		if at := f.ToInput(task.Rounded(raw, digits)); math.Abs(float64(at)-float64(x)-float64(d)) <= noise(x, d)/2 {
			return at
		}
	}
	return x + d
}

// text is the feature's raw value as it stands in a data file; what no data file can hold is a number.
func (u *Feature) text(x []float32) string {
	s, err := u.spec.Decode(u.inputs(x))
	if err != nil {
		return strconv.FormatFloat(float64(x[u.First]), 'g', -1, 32)
	}
	return s
}

// noise is how far two float32 changes of x by v may lie apart and still be the same.
func noise(x, v float32) float64 {
	n := 2.4e-7*(math.Abs(float64(x))+math.Abs(float64(v))) + 1e-9
	if math.IsInf(n, 1) {
		return 0
	}
	return n
}

// same says whether d and e are the same change of x but for float32 noise.
func same(x, d, e float32) bool { return d == e || math.Abs(float64(d)-float64(e)) <= noise(x, d) }

func abs32(v float32) float32 { return float32(math.Abs(float64(v))) }

// towardsZero rounds a non-negative v to float32, never up.
func towardsZero(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// roundToZero rounds to the nearest whole number, ties to the one nearer to zero.
func roundToZero(v float64) float64 {
	return math.Copysign(math.Ceil(math.Abs(v)-0.5), v)
}

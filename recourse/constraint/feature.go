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
	First, Width int
	lo, hi       float64 // bounds on the new value; ±Inf when absent
	up, down     float64 // largest change in either direction, >= 0; 0 when the direction is forbidden
	scale        float64 // of the distances that a change may go, see Tighten; else 1
	Step         float64 // of a grid
	values       []float64
	// next holds for each current value of a group (the last row: none), or level of a thermometer, the
	// values it may become, ascending, without itself.
	next    [][]int
	ordered bool    // the values of the group stand in an order
	Quantum float64 // of a continuous one: raw units that a new value is rounded to
	price   price
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
	switch f.Kind {
	case task.Numeric, task.Ordinal:
		return u.compileNumeric(f)
	case task.Binary:
		u.form, u.values = discrete, []float64{0, 1}
		return nil
	case task.OneHot:
		return u.compileGroup(f)
	case task.Thermometer:
		u.form, u.ordered, u.next = thermometer, true, u.places(f, f.Width+1)
		return nil
	}
	return fmt.Errorf("unknown kind %q", f.Kind)
}

func (u *Feature) compileNumeric(f *task.Feature) error {
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
		u.form = discrete
		for _, v := range f.Levels {
			u.values = append(u.values, encode(v))
		}
		slices.Sort(u.values)
		u.values = slices.Compact(u.values)
	case f.Kind == task.Ordinal && f.Step == 0:
		u.form, u.Step = grid, 1/f.Std
	case f.Step > 0:
		u.form, u.Step = grid, f.Step/f.Std
	default:
		spread := f.Std // or less where bounds are closer together
		if width := f.Bounds[1] - f.Bounds[0]; width > 0 {
			spread = min(spread, width)
		}
		u.form, u.Quantum = continuous, math.Pow10(int(math.Floor(math.Log10(spread)))-4)
	}
	return nil
}

func (u *Feature) compileGroup(f *task.Feature) error {
	if len(f.Values) != f.Width {
		return fmt.Errorf("%d values over %d inputs", len(f.Values), f.Width)
	}
	u.form, u.ordered = oneHot, f.Ordered
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

// places returns for each of n values in order those that direction and largest changes let it become. Without an
// order all of them are.
func (u *Feature) places(f *task.Feature, n int) [][]int {
	up, down := math.Inf(1), math.Inf(1)
	if u.ordered || u.form == thermometer {
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

func (u *Feature) tighten(scale float64) error {
	switch {
	case u.form == thermometer:
		u.scale *= scale
		u.next = u.places(u.spec, u.spec.Width+1)
	case u.form == oneHot && u.ordered:
		u.scale *= scale
		return u.compileGroup(u.spec)
	case u.spec.Kind.IsNumber():
		u.scale *= scale
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
	return slices.ContainsFunc(u.inputs(delta), func(v float32) bool { return v != 0 })
}

// Numeric says whether the feature moves along a line rather than by switches.
func (u *Feature) Numeric() bool { return u.kind == continuous || u.kind == grid }

// span returns the interval of changes that bounds, direction and largest changes
// leave, as float32 rounded towards zero; it contains 0, and nothing else when the factual value is no finite number.
func (u *Feature) span(x float32) (lo, hi float32) {
	if x-x != 0 {
		return 0, 0
	}
	v := float64(x)
	return -u.room(u.down, v-u.lo, v, false), u.room(u.up, u.hi-v, v, true)
}

// ticks returns the first and last whole number of steps inside the span. The
// factual value carries float32 noise, so a tick that misses a bound by no more than that counts as inside.
func (u *Feature) ticks(x, lo, hi float32) (first, last float64) {
	const most = 1 << 22 // beyond, a tick is not recovered from its float32 change
	if lo == 0 && hi == 0 {
		return 0, 0
	}
	count := func(room float32) float64 {
		noise := min(0.25, 1e-6+2.4e-7*(math.Abs(float64(x))+float64(room))/u.Step)
		return min(math.Floor(float64(room)/u.Step+noise), most)
	}
	return -count(-lo), count(hi)
}

// Tick returns the change, in model inputs, of n whole steps.
func (u *Feature) Tick(n float64) float32 {
	if n == 0 {
		return 0
	}
	return float32(n * u.Step)
}

// within says whether the change d is inside the span but for float32 noise.
func (u *Feature) within(x, d, lo, hi float32) bool {
	slack := noise(x, d)
	return float64(d) >= float64(lo)-slack && float64(d) <= float64(hi)+slack
}

// onTick says whether the change v is that of n steps.
func (u *Feature) onTick(x, v float32, n float64) bool {
	return math.Abs(float64(v)-n*u.Step) <= noise(x, v)
}

// reach returns the change from x to the domain value v and whether it is a change and inside the span.
func (u *Feature) reach(x float32, v float64, lo, hi float32) (float32, bool) {
	d := v - float64(x)
	noise := 1e-6 * (1 + math.Abs(v))
	if !(math.Abs(d) > noise) || math.IsInf(d, 0) || d < float64(lo)-noise || d > float64(hi)+noise {
		return 0, false
	}
	return float32(d), true
}

// project does imm, box and cat for one feature and returns its largest |delta|. Linked features are left for join.
func (u *Feature) project(x, d []float32, clip bool) float32 {
	switch {
	case u.kind == dependent:
		return 0
	case u.kind == fixed:
		clear(d)
		return 0
	case u.form >= oneHot:
		return u.projectCategory(x, d, clip)
	}
	d[0] = u.Nearest(x[0], d[0])
	return abs32(d[0])
}

// Nearest returns the feasible change closest to d, which is d itself when that is feasible but for float32 noise.
func (u *Feature) Nearest(x, d float32) float32 {
	if d != d || d == 0 {
		return 0
	}
	lo, hi := u.span(x)
	switch u.form {
	case continuous:
		if u.within(x, d, lo, hi) {
			return d
		}
		return min(max(d, lo), hi) + 0 // + 0: no negative zero
	case grid:
		first, last := u.ticks(x, lo, hi)
		n := min(max(roundToZero(float64(d)/u.Step), first), last)
		if n != 0 && u.onTick(x, d, n) {
			return d
		}
		return u.Tick(n)
	case discrete:
		return u.nearestValue(x, d, lo, hi)
	}
	return 0
}

// nearestValue returns the change to the domain value nearest to x+d.
func (u *Feature) nearestValue(x, d, lo, hi float32) float32 {
	at := float64(min(max(d, lo), hi))
	best, dist := float32(0), math.Abs(at)
	for _, v := range u.values {
		c, ok := u.reach(x, v, lo, hi)
		if !ok {
			continue
		}
		if math.Abs(float64(c)-float64(d)) <= noise(x, d) {
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
	lo, hi := u.span(x)
	if u.kind == grid {
		first, last = u.ticks(x, lo, hi)
		return first, last, u.Step
	}
	return max(float64(lo), -widest), min(float64(hi), widest), 1
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
	lo, hi := u.span(x)
	if u.kind == grid {
		first, last := u.ticks(x, lo, hi)
		n := d / u.Step
		if up {
			n = math.Ceil(n - 1e-4)
		} else {
			n = math.Floor(n + 1e-4)
		}
		return u.Tick(min(max(n, first), last))
	}
	return min(max(float32(d), lo), hi) + 0
}

// Farthest returns the largest feasible change in the direction. Where nothing limits it, 64 (of
// what is a standard deviation, when the task file standardises) stands for as far as anyone goes.
func (u *Feature) Farthest(x float32, up bool) float32 {
	lo, hi := u.span(x)
	if lo < -0.9*far {
		lo = -64
	}
	if hi > 0.9*far {
		hi = 64
	}
	if up {
		return u.Nearest(x, hi)
	}
	return u.Nearest(x, lo)
}

// coarse is the largest number of steps a grid has to be worth trying one by one.
const coarse = 12

// Each calls do for every value that a discrete feature may change to: for a group the index of the value, for a
// domain the index into it, for a grid with few steps the number of steps.
func (u *Feature) Each(x []float32, do func(option int)) {
	switch u.kind {
	case oneHot, thermometer:
		for _, o := range u.options(u.current(u.inputs(x))) {
			do(o)
		}
	case discrete:
		lo, hi := u.span(x[u.First])
		for o, v := range u.values {
			if _, ok := u.reach(x[u.First], v, lo, hi); ok {
				do(o)
			}
		}
	case grid:
		lo, hi := u.span(x[u.First])
		first, last := u.ticks(x[u.First], lo, hi)
		if last-first > coarse {
			return
		}
		for n := int(first); n <= int(last); n++ {
			if n != 0 {
				do(n)
			}
		}
	}
}

// Every is each with all steps of a grid, the nearest most in either direction, nearest first.
func (u *Feature) Every(x []float32, most int, do func(option int)) {
	if u.kind != grid {
		u.Each(x, do)
		return
	}
	lo, hi := u.span(x[u.First])
	first, last := u.ticks(x[u.First], lo, hi)
	for n := 1; n <= min(max(-int(first), int(last)), most); n++ {
		if -n >= int(first) {
			do(-n)
		}
		if n <= int(last) {
			do(n)
		}
	}
}

// Set makes d the change to an option of each.
func (u *Feature) Set(x, d []float32, option int) { u.become(u.inputs(x), u.inputs(d), option) }

// changeTo returns the change of a feature of one input to an option of each.
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

// become makes d the change of x to an option of each (a group's -1: none) and returns its largest entry.
func (u *Feature) become(x, d []float32, to int) float32 {
	if u.form < oneHot {
		d[0] = u.changeTo(x[0], to)
		return abs32(d[0])
	}
	largest := float32(0)
	for j := range d {
		d[j] = u.ideal(j, to) - x[j] + 0 // + 0: no negative zero
		largest = max(largest, abs32(d[j]))
	}
	return largest
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

// projectCategory moves d to the nearest reachable value, see Project, and returns its largest |delta|.
func (u *Feature) projectCategory(x, d []float32, clip bool) float32 {
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
	if u.form == thermometer {
		return u.projectThermometer(x, d, value)
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

// projectThermometer goes to the level nearest to the values: the one whose inputs are above one half by most in sum.
func (u *Feature) projectThermometer(x, d []float32, value func(j int) float32) float32 {
	cur := u.current(x)
	above := make([]float32, u.Width+1)
	for j := range u.Width {
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

// check says which constraint a change of one feature breaks; "" when none.
func (u *Feature) check(x, d []float32) (Constraint, string) {
	for _, v := range d {
		if v-v != 0 {
			return Finite, fmt.Sprintf("change is %g", v)
		}
	}
	if u.form >= oneHot {
		return u.checkCategory(x, d)
	}
	return u.checkLine(x[0], d[0])
}

// checkLine is check for a feature of one input. A change is taken for what lies within float32 noise of it: an
// action may have been written in raw units and read again.
func (u *Feature) checkLine(x, v float32) (Constraint, string) {
	lo, hi := u.span(x)
	inside := u.within(x, v, lo, hi)
	switch u.form {
	case continuous:
		if !inside {
			return Bounds, u.outside(v, float64(lo), float64(hi))
		}
	case grid:
		n := roundToZero(float64(v) / u.Step)
		if first, last := u.ticks(x, lo, hi); n < first || n > last {
			return Bounds, u.outside(v, first*u.Step, last*u.Step)
		}
		if !u.onTick(x, v, n) {
			return Step, fmt.Sprintf("a change of %s is not a whole number of steps of %s", u.amount(float64(v)),
				u.amount(u.Step))
		}
	case discrete:
		for _, t := range u.values {
			if c, ok := u.reach(x, t, lo, hi); ok && math.Abs(float64(c)-float64(v)) <= noise(x, v) {
				return "", ""
			}
		}
		if !inside {
			return Bounds, u.outside(v, float64(lo), float64(hi))
		}
		return Category, fmt.Sprintf("a change of %s does not lead to one of the %d values", u.amount(float64(v)),
			len(u.values))
	}
	return "", ""
}

// outOfBounds says which constraint a number breaks that links have moved; "" when none. Its steps are its own affair.
func (u *Feature) outOfBounds(x, d []float32) (Constraint, string) {
	if u.form >= oneHot || !u.Changed(d) {
		return "", ""
	}
	if c, detail := u.checkLine(x[u.First], d[u.First]); c == Bounds || c == Category {
		return c, detail
	}
	return "", ""
}

// outside says that the change v is not within [lo, hi].
func (u *Feature) outside(v float32, lo, hi float64) string {
	return fmt.Sprintf("a change of %s, allowed are %s to %s", u.amount(float64(v)), u.amount(lo), u.amount(hi))
}

// checkCategory says which constraint a change of a category breaks; "" when none.
func (u *Feature) checkCategory(x, d []float32) (Constraint, string) {
	after := make([]float32, len(x))
	for j := range after {
		after[j] = x[j] + d[j]
	}
	cur, to := u.current(x), u.after(x, d)
	if to < 0 {
		return Category, "a one-hot group cannot become empty"
	}
	for j := range d {
		if after[j] != u.ideal(j, to) {
			return Category, fmt.Sprintf("input %d of the category becomes %g", j, after[j])
		}
	}
	if slices.Contains(u.options(cur), to) {
		return "", ""
	}
	return Transition, u.word(cur) + " may not become " + u.word(to)
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
	if f := u.spec; f.Kind == task.Numeric || f.Kind == task.Ordinal {
		change *= f.Std
	}
	change += 0 // -0 is 0
	if a := math.Abs(change); a >= 1e15 || a < 1e-5 {
		return strconv.FormatFloat(change, 'g', 6, 64)
	}
	digits, err := strconv.ParseFloat(strconv.FormatFloat(change, 'g', 6, 64), 64) // beyond is float32 noise
	if err != nil {
		return strconv.FormatFloat(change, 'g', 6, 64) // not a number
	}
	return strconv.FormatFloat(digits, 'f', -1, 64)
}

// noise is how far two float32 changes of x by v may lie apart and still be the same.
func noise(x, v float32) float64 {
	n := 2.4e-7*(math.Abs(float64(x))+math.Abs(float64(v))) + 1e-9
	if math.IsInf(n, 1) {
		return 0
	}
	return n
}

func abs32(v float32) float32 {
	return math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
}

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

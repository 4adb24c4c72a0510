package recourse

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"cfq/task"
)

// Constraint names a part of the action set.
type Constraint string

// The constraints, by the names that users know from the task file.
const (
	Immutable  Constraint = "immutable"
	Bounds     Constraint = "bounds, direction or largest change"
	Step       Constraint = "step"
	Category   Constraint = "category"
	Transition Constraint = "transitions"
	Sparsity   Constraint = "sparsity"
	Linkage    Constraint = "links"
	Relation   Constraint = "constraints"
	Subset     Constraint = "at_most"
	Finite     Constraint = "finite"
)

// Violation is one broken constraint.
type Violation struct {
	Feature    string // "" for Sparsity
	Constraint Constraint
	Detail     string
}

func (v *Violation) Error() string {
	if v.Feature == "" {
		return fmt.Sprintf("recourse: %s: %s", v.Constraint, v.Detail)
	}
	return fmt.Sprintf("recourse: feature %q: %s: %s", v.Feature, v.Constraint, v.Detail)
}

// Check returns nil when delta is a feasible action for the person x, and otherwise
// every violation, joined; errors.As finds the first. It is exact: what
// Project returns passes, and what passes, Project returns unchanged.
//
// Reference: app:eq:A_template with the categorical constraints of
// app:eq:proj_cat_ordinal and app:eq:proj_cat_onehot.
func (a *ActionSet) Check(x, delta []float32) error {
	if len(x) != a.dim || len(delta) != a.dim {
		return fmt.Errorf("recourse: person has %d inputs and action %d, want %d", len(x), len(delta), a.dim)
	}
	var errs []error
	changed := 0
	for _, i := range a.free {
		u := &a.units[i]
		if !u.changed(delta) {
			continue
		}
		changed++
		if c, detail := u.check(x[u.first:u.first+u.width], delta[u.first:u.first+u.width]); c != "" {
			errs = append(errs, &Violation{Feature: u.name, Constraint: c, Detail: detail})
		}
	}
	errs = append(errs, a.checkOthers(x, delta)...)
	if changed > a.limit {
		errs = append(errs, &Violation{Constraint: Sparsity, Detail: fmt.Sprintf("%d features changed, at most %d may", changed, a.limit)})
	}
	if b := a.firstBroken(x, delta); b != nil {
		errs = append(errs, &Violation{Constraint: b.kind, Detail: b.text})
	}
	return errors.Join(errs...)
}

// checkOthers checks the features that an action cannot change by itself: the immutable and the linked ones.
func (a *ActionSet) checkOthers(x, delta []float32) []error {
	var errs []error
	want := slices.Clone(delta)
	a.drag(x, want)
	for i := range a.units {
		u := &a.units[i]
		for j := u.first; j < u.first+u.width && u.kind <= linked; j++ {
			d, w := float64(delta[j]), float64(want[j])
			switch {
			case u.kind == fixed && d != 0:
				errs = append(errs, &Violation{Feature: u.name, Constraint: Immutable, Detail: "changed by " + u.amount(d)})
			case u.kind == linked && !(math.Abs(d-w) <= noise(x[j], delta[j])):
				errs = append(errs, &Violation{Feature: u.name, Constraint: Linkage, Detail: fmt.Sprintf("changed by %s, the features that drag it along make it %s", u.amount(d), u.amount(w))})
			default:
				continue
			}
			break
		}
	}
	return errs
}

// check says which constraint a change of one feature breaks; "" when none.
func (u *unit) check(x, d []float32) (Constraint, string) {
	for _, v := range d {
		if v-v != 0 {
			return Finite, fmt.Sprintf("change is %g", v)
		}
	}
	if u.form >= group {
		return u.checkCategory(x, d)
	}
	return u.checkLine(x[0], d[0])
}

// checkLine is check for a feature of one input. A change is taken for what lies within float32 noise of it: an action may have been
// written in raw units and read again.
func (u *unit) checkLine(x, v float32) (Constraint, string) {
	lo, hi := u.span(x)
	slack := noise(x, v)
	inside := float64(v) >= float64(lo)-slack && float64(v) <= float64(hi)+slack
	switch u.form {
	case continuous:
		if !inside {
			return Bounds, u.outside(v, float64(lo), float64(hi))
		}
	case grid:
		n := roundToZero(float64(v) / u.step)
		if first, last := u.ticks(x, lo, hi); n < first || n > last {
			return Bounds, u.outside(v, first*u.step, last*u.step)
		}
		if !u.onTick(x, v, n) {
			return Step, fmt.Sprintf("a change of %s is not a whole number of steps of %s", u.amount(float64(v)), u.amount(u.step))
		}
	case domain:
		for _, t := range u.values {
			if c, ok := u.reach(x, t, lo, hi); ok && math.Abs(float64(c)-float64(v)) <= slack {
				return "", ""
			}
		}
		if !inside {
			return Bounds, u.outside(v, float64(lo), float64(hi))
		}
		return Category, fmt.Sprintf("a change of %s does not lead to one of the %d values", u.amount(float64(v)), len(u.values))
	}
	return "", ""
}

// outside says that the change v is not within [lo, hi].
func (u *unit) outside(v float32, lo, hi float64) string {
	return fmt.Sprintf("a change of %s, allowed are %s to %s", u.amount(float64(v)), u.amount(lo), u.amount(hi))
}

// amount writes a change of an input for people: in raw units where the feature has them.
func (u *unit) amount(change float64) string {
	if f := u.feature; f.Kind == task.Numeric || f.Kind == task.Ordinal {
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

// onTick says whether the change v is that of n steps.
func (u *unit) onTick(x, v float32, n float64) bool {
	return math.Abs(float64(v)-n*u.step) <= noise(x, v)
}

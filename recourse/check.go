package recourse

import (
	"errors"
	"fmt"
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
	for i := range a.units {
		u := &a.units[i]
		if !u.changed(delta) {
			continue
		}
		changed++
		if c, detail := u.check(x[u.first:u.first+u.width], delta[u.first:u.first+u.width]); c != "" {
			errs = append(errs, &Violation{Feature: u.name, Constraint: c, Detail: detail})
		}
	}
	if changed > a.limit {
		errs = append(errs, &Violation{Constraint: Sparsity, Detail: fmt.Sprintf("%d features changed, at most %d may", changed, a.limit)})
	}
	return errors.Join(errs...)
}

// check says which constraint a change of one feature breaks; "" when none.
func (u *unit) check(x, d []float32) (Constraint, string) {
	for _, v := range d {
		if v-v != 0 {
			return Finite, fmt.Sprintf("change is %g", v)
		}
	}
	switch u.kind {
	case fixed:
		return Immutable, fmt.Sprintf("changed by %g", d[0])
	case group:
		return u.checkGroup(x, d)
	}
	v := d[0]
	lo, hi := u.span(x[0])
	switch u.kind {
	case continuous:
		if v < lo || v > hi {
			return Bounds, fmt.Sprintf("change %g outside [%g, %g]", v, lo, hi)
		}
	case grid:
		n := roundToZero(float64(v) / u.step)
		if first, last := u.ticks(x[0], lo, hi); n < first || n > last {
			return Bounds, fmt.Sprintf("change by %g steps, allowed %g to %g", n, first, last)
		}
		if u.tick(n) != v {
			return Step, fmt.Sprintf("change %g is not a whole number of steps of %g", v, u.step)
		}
	case domain:
		for _, t := range u.values {
			if c, ok := u.reach(x[0], t, lo, hi); ok && c == v {
				return "", ""
			}
		}
		if v < lo || v > hi {
			return Bounds, fmt.Sprintf("change %g outside [%g, %g]", v, lo, hi)
		}
		return Category, fmt.Sprintf("%g + %g is not one of the %d values", x[0], v, len(u.values))
	}
	return "", ""
}

func (u *unit) checkGroup(x, d []float32) (Constraint, string) {
	to := -1
	for j := range d {
		if x[j]+d[j] > 0.5 {
			to = j
			break
		}
	}
	cur := current(x)
	if to < 0 {
		return Category, "a one-hot group cannot become empty"
	}
	for j := range d {
		want := -x[j]
		if j == to {
			want = 1 - x[j]
		}
		if d[j] != want {
			return Category, fmt.Sprintf("input %d of the group becomes %g", j, x[j]+d[j])
		}
	}
	for _, t := range u.options(cur) {
		if t == to {
			return "", ""
		}
	}
	return Transition, fmt.Sprintf("value %d may not become %d", cur, to)
}

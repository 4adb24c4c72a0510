package constraint

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
		return fmt.Sprintf("%s: %s", v.Constraint, v.Detail)
	}
	return fmt.Sprintf("feature %q: %s: %s", v.Feature, v.Constraint, v.Detail)
}

// Check returns nil when delta is a feasible action for the person x, and otherwise
// every violation, joined; errors.As finds the first. It is exact: what
// Project returns passes, and what passes, Project returns unchanged.
//
// Reference: app:eq:A_template with the categorical constraints of
// app:eq:proj_cat_ordinal and app:eq:proj_cat_onehot.
func (a *Set) Check(x, delta []float32) error {
	if len(x) != a.dim || len(delta) != a.dim {
		return fmt.Errorf("person has %d inputs and action %d, want %d", len(x), len(delta), a.dim)
	}
	var errs []error
	changed := 0
	for _, u := range a.free {
		if !u.Changed(delta) {
			continue
		}
		changed++
		if c, detail := u.check(u.inputs(x), u.inputs(delta)); c != "" {
			errs = append(errs, &Violation{Feature: u.Name, Constraint: c, Detail: detail})
		}
	}
	errs = append(errs, a.checkOthers(x, delta)...)
	if changed > a.limit {
		errs = append(errs, &Violation{Constraint: Sparsity, Detail: fmt.Sprintf("%d features changed, at most %d may",
			changed, a.limit)})
	}
	if b := a.firstBroken(x, delta); b != nil {
		errs = append(errs, &Violation{Constraint: b.kind, Detail: b.text})
	}
	return errors.Join(errs...)
}

// checkOthers checks the features that an action cannot change by itself: the immutable and the linked ones.
func (a *Set) checkOthers(x, delta []float32) []error {
	var errs []error
	want := slices.Clone(delta)
	a.Propagate(x, want)
	for i := range a.features {
		u := &a.features[i]
		for j := u.First; j < u.First+u.Width && u.kind <= dependent; j++ {
			d, w := float64(delta[j]), float64(want[j])
			switch {
			case u.kind == fixed && d != 0:
				errs = append(errs, &Violation{Feature: u.Name, Constraint: Immutable, Detail: "changed by " + u.amount(d)})
			case u.kind == dependent && !(math.Abs(d-w) <= noise(x[j], delta[j])):
				errs = append(errs, &Violation{
					Feature: u.Name, Constraint: Linkage,
					Detail: fmt.Sprintf("changed by %s, the features that it follows make it %s", u.amount(d), u.amount(w)),
				})
			default:
				continue
			}
			break
		}
	}
	return errs
}

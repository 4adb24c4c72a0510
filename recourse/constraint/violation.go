package constraint

import "fmt"

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

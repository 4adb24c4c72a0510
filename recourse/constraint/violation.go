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

// TooFar is what an action breaks that ends at an image so far from the person's; nil where the task allows it.
func (a *Set) TooFar(distance float32) *Violation {
	const rounding = 1e-6 // of the distance, in the sums that make it
	l := a.task.Latent
	if l == nil || l.Pixels == 0 || float64(distance) <= l.Pixels*(1+rounding) {
		return nil
	}
	detail := fmt.Sprintf("the image is %.6g from the person's, at most %g is allowed", distance, l.Pixels)
	return &Violation{Constraint: Pixels, Detail: detail}
}

// Package constraint is what people can change: the action set of a task file in model-input units, with the cost
// of an action.
//
// In: a task file (see [Compile]) and people as model inputs. Out: feasible actions (see [Set.Project]), the
// reasons why an action is not (see [Set.Check]), its cost (see [Set.Cost]) and its new values as a promises file
// has them (see [Set.Publish]); for the solvers, the moves that lead from one feasible action to another
// ([Set.Apply], [Feature.Each], [Feature.Outward]).
//
// The invariant: Project returns what Check accepts, and leaves what Check accepts unchanged.
//
// A set is a list of features, each with its own constraints (a feature is one unit of sparsity, whatever the
// number of its inputs), and of what ties them: links, by which some features follow others free of cost, rules
// that must hold between the new values, and limits on how many of some features change.
//
// References: the paper's section "Recourse Optimization and Constraints": cost (app:eq:weighted_cost), weights
// (app:eq:weight_std), action set (app:eq:A_template), projection (app:eq:proj_comp with proj_imm, proj_box,
// proj_cat_ordinal, proj_cat_onehot, proj_sparse; Algorithm alg:projection_action_set).
package constraint

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/task"
)

// Set is what people can change, in model-input units: the set A(x) of the paper for every x, with the cost of an
// action. It is immutable and safe for concurrent use.
type Set struct {
	dim      int
	features []Feature  // all features, in the order of the inputs
	free     []*Feature // those of them that an action can change
	limit    int        // most features an action may change; len(features) when unlimited
	norm     Norm
	links    []link // sources before what depends on them
	rules    []rule
	subsets  []subset
	task     *task.Task
	own      map[int]*Set // of people with constraints of their own, by row
}

// far stands for no limit on a change, so that no action is infinite.
const far = 1e30

// Compile turns the task file's constraints, which are in raw units, into model-input
// units. The error names every feature that has an impossible constraint.
func Compile(t *task.Task) (*Set, error) { return compileWith(t, t.Features) }

// compileWith is Compile with the ranges of these features behind the weights of inverse_range: a person whose
// bounds are narrower than other people's does not pay more for it.
func compileWith(t *task.Task, ranges []task.Feature) (*Set, error) {
	a := &Set{dim: t.Dim(), limit: t.Sparsity.MaxFeatures, task: t}
	var errs []error
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		u, err := compileFeature(f, t.Moves(f.Name))
		if err == nil && (f.Offset != at || f.Width < 1) {
			err = fmt.Errorf("inputs %d to %d do not follow on input %d", f.Offset, f.Offset+f.Width-1, at-1)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("feature %q: %w", f.Name, err))
		}
		at = f.Offset + f.Width
		u.Index = i
		a.features = append(a.features, u)
	}
	a.collectFree()
	if a.limit <= 0 || a.limit > len(a.features) {
		a.limit = len(a.features)
	}
	if len(errs) == 0 {
		errs = append(errs, a.compileCost(t, ranges), a.compileJoint(t))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return a, nil
}

// collectFree sets the features that an action can change.
func (a *Set) collectFree() {
	a.free = nil
	for i := range a.features {
		if u := &a.features[i]; u.kind > dependent {
			a.free = append(a.free, u)
		}
	}
}

// Free returns the features that an action can change, in the order of the inputs. The slice is the set's own.
func (a *Set) Free() []*Feature { return a.free }

// Task returns the task that the set was compiled from.
func (a *Set) Task() *task.Task { return a.task }

// Features returns the number of features, those included that cannot change.
func (a *Set) Features() int { return len(a.features) }

// Norm returns what makes the cost of an action.
func (a *Set) Norm() *Norm { return &a.norm }

// Limit returns the largest number of features that an action may change.
func (a *Set) Limit() int { return a.limit }

// HasRules reports whether rules between the new values of features have to hold.
func (a *Set) HasRules() bool { return len(a.rules) > 0 }

// HasLinks reports whether some features follow others.
func (a *Set) HasLinks() bool { return len(a.links) > 0 }

// HasOverrides reports whether single people have constraints of their own.
func (a *Set) HasOverrides() bool { return len(a.own) > 0 }

// joint reports whether anything ties features to each other.
func (a *Set) joint() bool { return len(a.links)+len(a.rules)+len(a.subsets) > 0 }

// Dim returns the number of model inputs.
func (a *Set) Dim() int { return a.dim }

// Numbers returns the inputs that stand for numbers which actions may change, ascending: those in which people may
// end near a recourse point instead of on it.
func (a *Set) Numbers() []int {
	var at []int
	for _, u := range a.free {
		if u.kind == continuous || u.kind == grid {
			at = append(at, u.First)
		}
	}
	return at
}

// Budget returns the largest number of features that an action can change.
func (a *Set) Budget() int { return min(a.limit, len(a.free)) }

// Override returns the action set with constraints of single people in place: row i of the people is given to it
// as Row i, until Select says otherwise. A weight of their own counts; all else that costs come from stays the task's.
func (a *Set) Override(overrides []task.Override) (*Set, error) {
	by := map[int][]task.Override{}
	for _, o := range overrides {
		by[o.Row] = append(by[o.Row], o)
	}
	b := *a
	b.own = map[int]*Set{}
	var errs []error
	for _, row := range slices.Sorted(maps.Keys(by)) {
		t := *a.task
		t.Features = slices.Clone(t.Features)
		for _, o := range by[row] {
			t.Features[o.Feature] = o.With
		}
		own, err := compileWith(&t, a.task.Features)
		if err != nil {
			errs = append(errs, fmt.Errorf("row %d: %w", row, err))
		}
		b.own[row] = own
	}
	return &b, errors.Join(errs...)
}

// Select returns the action set for people of whom the i-th is row rows[i] of those it is for now.
func (a *Set) Select(rows []int) *Set {
	if len(a.own) == 0 {
		return a
	}
	b := *a
	b.own = map[int]*Set{}
	for i, row := range rows {
		if own := a.own[row]; own != nil {
			b.own[i] = own
		}
	}
	return &b
}

// Person returns the action set of the person in the given row: what Check, Cost and Changes mean for them.
func (a *Set) Person(row int) *Set {
	if own := a.own[row]; own != nil {
		return own
	}
	return a
}

// Tighten returns the action set with limits that are tighter or looser: k is the largest number of features that
// an action may change (0: as it is), and scale multiplies how far a feature may go from the person's own value.
//
//   - A number may go from x to x + scale*(hi-x) upwards, hi the nearer of its bound and its largest change, and
//     downwards likewise. It stays on its steps, and where there was no limit there is none.
//   - Of an ordinal feature with values, hi is the last value that it could reach; the values within the scaled
//     distance remain.
//   - Thermometers and one-hot groups with an order go the scaled number of places, rounded down; a table of
//     transitions is not widened.
//   - Binary features and other categories are as they were: they have no distances. What only links change keeps
//     its bounds.
//
// What is feasible after tightening (scale <= 1, and k no larger than the limit) was so before. Tighten returns the
// set itself when nothing changes. What holds for single people is tightened for each of them, so Override comes first.
//
// References: "Constraint regimes", the sparsity budget k and the bound scale gamma.
func (a *Set) Tighten(k int, scale float64) (*Set, error) {
	switch {
	case k < 0:
		return nil, fmt.Errorf("a limit of %d features: it must be 1 or more, or 0 for the task's own", k)
	case !(scale > 0) || math.IsInf(scale, 1):
		return nil, fmt.Errorf("a scale of %v for how far features may go: it must be a number above 0", scale)
	}
	if scale == 1 && (k == 0 || k == a.limit) {
		return a, nil
	}
	b := *a
	if k > 0 {
		b.limit = min(k, len(a.features))
	}
	if scale != 1 {
		b.features = slices.Clone(a.features)
		b.collectFree()
		for _, u := range b.free {
			if err := u.tighten(scale); err != nil {
				return nil, fmt.Errorf("feature %q: %w", u.Name, err)
			}
		}
	}
	if a.own != nil {
		b.own = map[int]*Set{}
	}
	for row, own := range a.own {
		t, err := own.Tighten(k, scale)
		if err != nil {
			return nil, err
		}
		b.own[row] = t
	}
	return &b, nil
}

// Cost returns the cost of the action delta of the person x: the norm that the task names of weighted changes in
// model-input units. A change of a category counts as one change, however many inputs it has, unless the task says
// "encoded".
//
// References: app:eq:weighted_cost, app:eq:weight_std.
func (a *Set) Cost(x, delta []float32) float64 {
	sum := 0.0
	for _, u := range a.free {
		if u.Changed(delta) {
			sum += a.norm.Term(u, x, delta)
		}
	}
	return a.norm.close(sum)
}

// Changed counts the features that the action changes.
func (a *Set) Changed(d []float32) int {
	n := 0
	for _, u := range a.free {
		if u.Changed(d) {
			n++
		}
	}
	return n
}

// Movable says whether the person can change anything.
func (a *Set) Movable(x []float32) bool {
	for _, u := range a.free {
		if u.Numeric() {
			if u.Farthest(x[u.First], true) != 0 || u.Farthest(x[u.First], false) != 0 {
				return true
			}
			continue
		}
		some := false
		u.Each(x, func(int) { some = true })
		if some {
			return true
		}
	}
	return false
}

// Jitter returns the people x as others like them: every number that a person can change moves by size standard
// deviations (the feature's own, by which changes are weighed) times a standard normal draw. The new value is
// brought back into the bounds, or to a value outside of them where the person stood already, and onto the steps or
// values that the feature has. Direction and largest changes do not count, because these are not actions. Dependent
// features follow, within its bounds; all other inputs stay as they are to the bit. Rules between features are not
// looked at. Each person has random numbers of their own, by seed and row.
//
// References: equation feature_noise_shift.
func (a *Set) Jitter(x []float32, size float64, seed uint64) []float32 {
	out := make([]float32, len(x))
	everyone := a.bounded()
	for i := range len(x) / a.dim {
		b := everyone
		if own := a.own[i]; own != nil {
			b = own.bounded()
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		b.jitter(out[i*a.dim:(i+1)*a.dim], x[i*a.dim:(i+1)*a.dim], size, rng.NormFloat64)
	}
	return out
}

// bounded returns the set of which only the bounds and steps count, as those of where people can be.
func (a *Set) bounded() *Set {
	b := *a
	b.features = slices.Clone(a.features)
	for i := range b.features {
		b.features[i].up, b.features[i].down, b.features[i].scale = far, far, 1
	}
	b.collectFree()
	return &b
}

func (a *Set) jitter(dst, x []float32, size float64, normal func() float64) {
	d := make([]float32, a.dim)
	for _, u := range a.free {
		if u.spec.Kind.IsNumber() {
			d[u.First] = u.Nearest(x[u.First], float32(size*sigma(u.spec, 0)*normal()))
		}
	}
	a.write(dst, x, d, func(u *Feature) float32 {
		if u.form == grid {
			return u.written(x[u.First], d[u.First], 0)
		}
		return x[u.First] + d[u.First]
	})
	for i := range a.links {
		if u := &a.features[a.links[i].to]; u.form == continuous || u.form == grid {
			lo, hi := u.span(x[u.First])
			dst[u.First] = min(max(dst[u.First], x[u.First]+lo), x[u.First]+hi)
		}
	}
}

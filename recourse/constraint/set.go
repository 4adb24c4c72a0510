// Package constraint is what people can change: the action set of a task file in model-input units, with the cost
// of an action.
//
// In: a task file (see [Compile]) and people as model inputs. Out: feasible actions (see [Set.Project]), the
// reasons why an action is not (see [Set.Check]), its cost (see [Set.Cost]) and its new values as a promises file
// has them (see [Set.Publish]); for the solvers, the moves that lead from one feasible action to another
// ([Set.Apply], [Feature.Options], [Feature.Outward]).
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
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/task"
)

// Set is what people can change, in model-input units: the set A(x) of the paper for every x, with the cost of an
// action. It is immutable and safe for concurrent use.
type Set struct {
	dim      int
	features []Feature  // all features, in the order of the inputs
	free     []*Feature // the features that an action can change
	numeric  []*Feature // of these, those that move along a line
	limit    int        // most features an action may change; len(features) when unlimited
	norm     Norm
	radius   float64 // the most that an action may cost; 0 is no limit
	task     *task.Task
	own      map[int]*Set // of people with constraints of their own, by row
	// What ties features together.
	links     []link         // sources before what depends on them
	relations []relation     // the limits on subsets, then the bounds of what links move, then the rules
	sources   [][]linkSource // per feature: the free features that it depends on
}

// far stands for no limit on a change, so that no action is infinite.
const far = 1e30

// Compile turns the task file's constraints, which are in raw units, into model-input units. What the file may say has
// been checked where it was read; a feature whose change would cost nothing, or be beyond price, is an error.
func Compile(t *task.Task) (*Set, error) { return compileWith(t, t.Features) }

// compileWith is Compile with the ranges of these features behind the weights of inverse_range: a person whose
// bounds are narrower than other people's does not pay more for it.
func compileWith(t *task.Task, ranges []task.Feature) (*Set, error) {
	a := &Set{dim: t.Dim(), limit: t.MaxFeatures, task: t}
	if t.Latent != nil {
		a.radius = t.Latent.Radius
	}
	for i := range t.Features {
		f := &t.Features[i]
		a.features = append(a.features, compileFeature(f, i, t.Moves(f.Name)))
	}
	a.collectFree()
	if a.limit <= 0 || a.limit > len(a.features) {
		a.limit = len(a.features)
	}
	a.compileTies(t)
	if err := a.compileCost(&t.Cost, ranges); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Set) collectFree() {
	a.free, a.numeric = nil, nil
	for i := range a.features {
		u := &a.features[i]
		if u.kind > dependent {
			a.free = append(a.free, u)
		}
		if u.Numeric() {
			a.numeric = append(a.numeric, u)
		}
	}
}

// Free returns the features that an action can change, in the order of the inputs. The slice is the set's own.
func (a *Set) Free() []*Feature { return a.free }

// Numeric returns those of the free features that move along a line.
func (a *Set) Numeric() []*Feature { return a.numeric }

// Task returns the task that the set was compiled from.
func (a *Set) Task() *task.Task { return a.task }

// Norm returns what makes the cost of an action.
func (a *Set) Norm() *Norm { return &a.norm }

// Limit returns the largest number of features that an action may change.
func (a *Set) Limit() int { return a.limit }

// HasRules reports whether rules between the new values of features have to hold.
func (a *Set) HasRules() bool {
	return slices.ContainsFunc(a.relations, func(r relation) bool { return r.kind == Relation })
}

// HasLinks reports whether some features follow others.
func (a *Set) HasLinks() bool { return len(a.links) > 0 }

// HasOverrides reports whether single people have constraints of their own.
func (a *Set) HasOverrides() bool { return len(a.own) > 0 }

// Dim returns the number of model inputs.
func (a *Set) Dim() int { return a.dim }

// Numbers returns the inputs that stand for numbers which actions may change, ascending: those in which people may
// end near a recourse point instead of on it.
func (a *Set) Numbers() []int { return lists.Map(a.numeric, func(u *Feature) int { return u.First }) }

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
			t.Features[o.Feature].Action = o.With
		}
		own, err := compileWith(&t, a.task.Features)
		if err != nil {
			errs = append(errs, fmt.Errorf("row %d: %w", row, err))
		}
		b.own[row] = own
	}
	return &b, errors.Join(errs...)
}

// AtAnyCost returns the action set without a limit to what an action may cost.
func (a *Set) AtAnyCost() *Set {
	if a.radius == 0 {
		return a
	}
	b := *a
	b.radius, b.own = 0, maps.Clone(a.own)
	for row, own := range b.own {
		b.own[row] = own.AtAnyCost()
	}
	return &b
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
//   - A number may go upwards by scale times the distance to the nearer of its bound and its largest change, and
//     downwards likewise. It stays on its steps and values. Where there was no limit there is none.
//   - Thermometers and one-hot groups with an order go the scaled number of places, rounded down; a table of
//     transitions is not widened.
//   - Binary features and other categories are as they were: they have no distances. What only links change keeps
//     its bounds.
//
// What is feasible after tightening (scale <= 1, and k no larger than the limit) was so before. What holds for single
// people is tightened for each of them, so Override comes first.
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
			u.tighten(scale)
		}
	}
	b.own = map[int]*Set{}
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
func (a *Set) Cost(x, delta []float32) float64 { return a.norm.Of(a.sums(x, delta)) }

// Separable says why features' changes do not add up, "" when they do.
func (a *Set) Separable() string {
	for k := range a.features {
		u := &a.features[k]
		if u.kind == continuous && u.Tabled {
			return fmt.Sprintf("%q has no steps, and others follow it by a table", u.Name)
		}
		if s := a.sources[k]; len(s) > 1 && slices.ContainsFunc(s, func(s linkSource) bool { return s.table }) {
			return fmt.Sprintf("%q follows several features, one of them by a table", u.Name)
		}
	}
	return ""
}

// Unordered says why actions cannot be listed by their cost, "" when they can.
func (a *Set) Unordered() string {
	if a.norm.isMixed() && a.norm.encoded {
		return "a mixed cost with switches: encoded has no order of changes"
	}
	return ""
}

func (a *Set) sums(x, delta []float32) (all Sums) {
	for _, u := range a.free {
		if u.Changed(delta) {
			all = all.Plus(a.norm.Sums(u, x, delta))
		}
	}
	return all
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
	return slices.ContainsFunc(a.free, func(u *Feature) bool {
		if u.Numeric() {
			return u.Farthest(x[u.First], true) != 0 || u.Farthest(x[u.First], false) != 0
		}
		return len(u.Options(x)) > 0
	})
}

// Factual counts the people of x (rows x inputs) who fulfil each rule, but limits on how many features change, as they
// are.
func (a *Set) Factual(x []float32) []task.RuleCount {
	counts := []task.RuleCount{}
	stay := make([]float32, a.dim)
	for _, r := range a.relations {
		if r.kind != Relation {
			continue
		}
		n := task.RuleCount{Text: r.text}
		for person := range slices.Chunk(x, a.dim) {
			fails := func(c condition) bool { return !c.holds(person, stay) }
			if slices.ContainsFunc(r.when, fails) {
				continue
			}
			n.Applies++
			if slices.ContainsFunc(r.then, fails) {
				n.Broken++
			}
		}
		counts = append(counts, n)
	}
	return counts
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
	for i := range len(x) / a.dim {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		a.Person(i).jitter(out[i*a.dim:(i+1)*a.dim], x[i*a.dim:(i+1)*a.dim], size, rng)
	}
	return out
}

func (a *Set) jitter(dst, x []float32, size float64, rng *rand.Rand) {
	b, d := *a, make([]float32, a.dim)
	b.features = slices.Clone(a.features)
	for i := range b.features {
		b.features[i].up, b.features[i].down, b.features[i].scale = far, far, 1
	}
	b.collectFree()
	for _, u := range b.free {
		if u.spec.Number() != nil {
			d[u.First] = u.Nearest(x[u.First], float32(size*u.spec.Encoding.Sigma(0)*rng.NormFloat64()))
		}
	}
	b.write(dst, x, d, func(u *Feature, x, d float32) float32 {
		if u.form == grid {
			return u.written(x, d, 0)
		}
		return x + d
	})
	for i := range b.links {
		if u := &b.features[b.links[i].to]; u.form == continuous || u.form == grid {
			lo, hi := u.span(x[u.First])
			dst[u.First] = min(max(dst[u.First], x[u.First]+lo), x[u.First]+hi)
		}
	}
}

// Project replaces delta, one person's proposed action, by a feasible one: the
// paper's composition sparse . cat . box . imm. It allocates nothing for action sets of
// up to 128 features, is the identity on feasible actions and idempotent to the bit.
//
//   - imm: features that are not actionable do not change. A delta that is NaN is no change.
//   - box: bounds, direction and largest changes are one interval around the factual value. When the factual value lies
//     outside the bounds, they are widened to it.
//   - cat: values on a step grid, ordinal and binary values go to the nearest reachable one, ties to the smaller
//     change. A one-hot group goes to the largest of its allowed values; ties favour staying, then the first value.
//     In an all-zero group (a missing value) the zero vector counts as one half, so that the group goes to the
//     nearest vertex and stays when nothing pushes it.
//   - sparse: the features with the largest changes are kept, up to the limit. A group counts once, with the largest
//     |delta| of its inputs; ties keep the earlier feature.
//   - joint: linked features follow. While a rule between features is broken, the change that repairs it at the
//     least cost is made, or else one of its changes taken back.
//   - radius: numbers change by less, all by the same share, until the action costs no more than it may. One that costs
//     more still, or breaks a rule, is no action.
//
// References: app:eq:proj_comp, Algorithm alg:projection_action_set; eq:latent_action_set.
func (a *Set) Project(x, delta []float32) { a.project(x, delta, true) }

// ProjectRelaxed is Project for an iterate of Relax, whose categories may have left their range: the order of their
// entries decides.
func (a *Set) ProjectRelaxed(x, delta []float32) { a.project(x, delta, false) }

// project is Project; with clip false the groups skip the box, which is the same as
// projecting them onto the simplex first: the order of their entries decides.
func (a *Set) project(x, delta []float32, clip bool) {
	x, delta = x[:a.dim], delta[:a.dim]
	for i := range a.features {
		u := &a.features[i]
		u.project(u.inputs(x), u.inputs(delta), clip)
	}
	a.sparse(delta)
	a.join(x, delta)
	a.shorten(x, delta)
}

// radiusTolerance is the share of the radius by which an action may cost more, as rounding makes it.
const radiusTolerance = 1e-6

// InReach says whether an action of that cost may be allowed, be it by a change of its last digits.
func (a *Set) InReach(cost float64) bool {
	const slack = 1e-3
	return a.radius == 0 || cost <= a.radius*(1+slack)
}

func (a *Set) affordable(x, d []float32) bool {
	return a.radius == 0 || a.Cost(x, d) <= a.radius*(1+radiusTolerance)
}

func (a *Set) shorten(x, d []float32) {
	if a.affordable(x, d) {
		return
	}
	const attempts, less = 8, 0.9 // steps may round up
	whole := slices.Clone(d)
	share := a.radius / a.Cost(x, d)
	for range attempts {
		for _, u := range a.numeric {
			d[u.First] = u.Nearest(x[u.First], float32(share*float64(whole[u.First])))
		}
		a.Propagate(x, d)
		if a.affordable(x, d) {
			break
		}
		share *= less
	}
	if !a.affordable(x, d) || a.firstBroken(x, d) != nil {
		clear(d)
	}
}

// Consistent reports whether an action that respects each feature's own constraints, and whose links are
// propagated, respects the joint ones and costs no more than it may.
func (a *Set) Consistent(x, d []float32) bool {
	return a.firstBroken(x, d) == nil && a.affordable(x, d)
}

// Relax sets dst to u - alpha g with the box and immutability kept: numeric features in their span, groups free.
func (a *Set) Relax(x, dst, u, g []float32, alpha float64) {
	for i := range a.features {
		f := &a.features[i]
		switch f.kind {
		case fixed, dependent: // what is linked follows the projection
			clear(dst[f.First : f.First+f.Width])
		case oneHot, thermometer:
			for j := f.First; j < f.First+f.Width; j++ {
				dst[j] = u[j] - float32(alpha)*g[j]
			}
		default:
			lo, hi := f.span(x[f.First])
			dst[f.First] = min(max(u[f.First]-float32(alpha)*g[f.First], lo), hi)
		}
	}
}

func (a *Set) sparse(delta []float32) {
	if a.Changed(delta) <= a.limit {
		return
	}
	type change struct {
		u    *Feature
		size float32
	}
	var buf [128]change
	changed := buf[:0]
	for _, u := range a.free {
		c := change{u: u}
		for _, v := range u.inputs(delta) {
			c.size = max(c.size, abs32(v))
		}
		if c.size > 0 {
			changed = append(changed, c)
		}
	}
	slices.SortStableFunc(changed, func(c, d change) int { return cmp.Compare(d.size, c.size) })
	for _, c := range changed[a.limit:] {
		clear(c.u.inputs(delta))
	}
}

func (a *Set) join(x, d []float32) {
	if a.propagated(x, d) && a.firstBroken(x, d) == nil {
		return
	}
	if a.Propagate(x, d); a.firstBroken(x, d) == nil {
		return
	}
	repaired := slices.Clone(d)
	for ; !a.repair(x, repaired, nil, false); copy(repaired, d) {
		// What cannot be repaired is undone, the smallest change of those concerned first; without changes nothing is
		// broken. That is done to the action as it was: remedies that undo each other would alternate for ever.
		if u := a.smallest(x, d, a.firstBroken(x, d)); u != nil {
			clear(u.inputs(d))
			a.Propagate(x, d)
		} else {
			clear(d)
		}
	}
	copy(d, repaired)
}

// repair changes d, whose links are propagated, until it respects the joint constraints: each time by the change of
// one feature that ends a breach at the least cost or, with near, closest to d. (The cheapest repair takes back
// what was achieved, which is no way on for a search.) The feature keep, if any, stays as it is. It reports
// success; else d is of no use, but feasible feature by feature.
func (a *Set) repair(x, d []float32, keep *Feature, near bool) bool {
	for range 4 + 2*(len(a.relations)-len(a.links)) {
		b := a.firstBroken(x, d)
		if b == nil {
			return true
		}
		var best []float32
		least := math.Inf(1)
		a.remedies(x, d, b, keep, func(t []float32) {
			c := a.Cost(x, t)
			if near {
				c = a.distance(d, t)
			}
			if c < least && a.Changed(t) <= a.limit && !a.breaks(b, x, t) {
				least, best = c, slices.Clone(t)
			}
		})
		if best == nil {
			return false
		}
		copy(d, best)
	}
	return a.firstBroken(x, d) == nil
}

func (a *Set) distance(d, t []float32) float64 {
	sum := 0.0
	for _, u := range a.free {
		for k, w := range u.weights {
			j := u.First + k
			sum += w * math.Abs(float64(t[j])-float64(d[j]))
		}
	}
	return sum
}

func (a *Set) remedies(x, d []float32, b *relation, keep *Feature, try func(t []float32)) {
	scratch := make([]float32, len(d))
	for _, k := range a.concerned(b) {
		u := &a.features[k]
		if u == keep || u.kind <= dependent {
			continue
		}
		propose := func(set func()) {
			copy(scratch, d)
			set()
			a.Propagate(x, scratch)
			try(scratch)
		}
		propose(func() { clear(u.inputs(scratch)) })
		if b.kind == Relation && !u.Numeric() {
			for _, option := range u.Options(x) {
				propose(func() { u.Set(x, scratch, option) })
			}
			continue
		}
		for _, c := range b.then {
			over := c.excess(x, d)
			if c.strict {
				over += 3 * c.noise(x, d)
			}
			for _, e := range c.terms {
				if e.input == u.First && e.coef != 0 {
					propose(func() {
						scratch[u.First] = u.Outward(x[u.First], float64(d[u.First])-over/e.coef, e.coef < 0)
					})
				}
			}
		}
	}
}

func (a *Set) smallest(x, d []float32, b *relation) (pick *Feature) {
	least := math.Inf(1)
	for _, k := range a.concerned(b) {
		u := &a.features[k]
		if u.kind <= dependent || !u.Changed(d) {
			continue
		}
		if t := a.norm.Term(u, x, d); t < least {
			pick, least = u, t
		}
	}
	return pick
}

// Check returns nil when delta is a feasible action for the person x, and otherwise the Violations, joined; errors.As
// finds the first.
func (a *Set) Check(x, delta []float32) error {
	if len(x) != a.dim || len(delta) != a.dim {
		return fmt.Errorf("person has %d inputs and action %d, want %d", len(x), len(delta), a.dim)
	}
	errs := lists.Map(a.Violations(x, delta), func(v *Violation) error { return v })
	return errors.Join(errs...)
}

// Violations returns every constraint that the action delta of the person x breaks. It is exact: what
// Project returns passes, and what passes, Project returns unchanged.
//
// Reference: app:eq:A_template with the categorical constraints of
// app:eq:proj_cat_ordinal and app:eq:proj_cat_onehot.
func (a *Set) Violations(x, delta []float32) (broken []*Violation) {
	add := func(feature string, c Constraint, format string, args ...any) {
		broken = append(broken, &Violation{feature, c, fmt.Sprintf(format, args...)})
	}
	followed := slices.Clone(delta)
	a.Propagate(x, followed)
	for i := range a.features {
		u := &a.features[i]
		d := u.inputs(delta)
		switch {
		case u.kind == dependent:
			for j, to := range u.inputs(followed) {
				if !same(x[u.First+j], d[j], to) {
					add(u.Name, Linkage, "changed by %s, the features that it follows make it %s", u.amount(float64(d[j])),
						u.amount(float64(to)))
					break
				}
			}
		case !u.Changed(delta):
		case u.kind == fixed:
			add(u.Name, Immutable, "changed by %s", u.amount(float64(d[slices.IndexFunc(d, isChange)])))
		default:
			if c, detail := u.check(u.inputs(x), d); c != "" {
				add(u.Name, c, "%s", detail)
			}
		}
	}
	if n := a.Changed(delta); n > a.limit {
		add("", Sparsity, "%d features changed, at most %d may", n, a.limit)
	}
	if r := a.firstBroken(x, delta); r != nil {
		switch r.kind {
		case Relation:
			add("", r.kind, "%s", r.text)
		case Subset:
			add("", r.kind, "%d features changed, at most %d may: %s", a.changes(r, delta), r.most, r.text)
		default:
			u := &a.features[r.features[0]]
			c, detail := u.checkDependent(x, delta)
			add("", c, "%q, which changes along: %s", u.Name, detail)
		}
	}
	if !a.affordable(x, delta) {
		add("", Radius, "the action costs %.6g, at most %g is allowed", a.Cost(x, delta), a.radius)
	}
	return broken
}

// Publish sets point to the person after the action d, as reading the written values makes it; the feature more, if
// any, goes this many quanta further in the direction of its change.
func (a *Set) Publish(point, x, d []float32, more *Feature, quanta float64) {
	a.write(point, x, d, func(u *Feature, x, d float32) float32 {
		if u == more {
			return u.written(x, d, quanta)
		}
		return u.written(x, d, 0)
	})
}

// PublishUnrounded is Publish with as many digits as it takes to say the very change.
func (a *Set) PublishUnrounded(point, x, d []float32) {
	a.write(point, x, d, func(u *Feature, x, d float32) float32 {
		if u.form == grid {
			return u.written(x, d, 0)
		}
		away, to := math.Copysign(1, float64(d)), x+d
		n := u.spec.Number()
		limit := n.ToInput(u.limit(x, n.Raw(x), away))
		if float64(to)*away > float64(limit)*away {
			return limit
		}
		return to
	})
}

func (a *Set) write(point, x, d []float32, number func(u *Feature, x, d float32) float32) {
	copy(point, x)
	for _, u := range a.free {
		u.publish(point, x, d, number)
	}
	if len(a.links) == 0 {
		return
	}
	moved := make([]float32, len(d))
	Difference(moved, x, point)
	a.Propagate(x, moved)
	for i := range a.links {
		a.features[a.links[i].to].publish(point, x, moved, (*Feature).follow)
	}
}

// Difference sets d to the action that leads from x to point.
func Difference(d, x, point []float32) {
	for j := range d {
		d[j] = point[j] - x[j]
	}
}

// Change is what an action does to one feature, in raw values as they stand in a data file.
type Change struct {
	Feature, From, To string
	Linked            bool // it follows from other changes
}

// Changes lists how point differs from the person x, in the order of the features. Values that no data file can
// hold are written as numbers.
func (a *Set) Changes(x, point []float32) (out []Change) {
	for i := range a.features {
		u := &a.features[i]
		if slices.Equal(u.inputs(x), u.inputs(point)) {
			continue
		}
		if from, to := u.text(x), u.text(point); from != to {
			out = append(out, Change{Feature: u.Name, From: from, To: to, Linked: u.kind == dependent})
		}
	}
	return out
}

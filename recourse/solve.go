package recourse

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse/constraint"
)

// SolveOptions are the settings of Solve; the zero value is the default. All budgets are counts, so
// that results do not depend on the machine.
type SolveOptions struct {
	// Margin is the logit margin that an action must reach; 0 = any favourable one.
	Margin float64
	// Steps is the number of steps of one gradient search; 0 = 16.
	Steps int
	// Restarts is the number of gradient searches with random feature weights; 0 = 4, negative = none.
	Restarts int
	// Rounds is how often the discrete choices are expanded by one more switch; 0 = 3, negative = none.
	Rounds int
	// Beam is the number of discrete choices that a round keeps; 0 = 4.
	Beam int
	// Seed drives the restarts. A person's random numbers depend on it and the person's inputs only.
	Seed uint64
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

const (
	solveChunk = 256  // people searched together
	solveBatch = 8192 // most rows of one model call
)

// Solve finds for every person an action of (nearly) minimal cost that reaches the required margin:
// the evaluation solver behind delta*_f and delta*_q. People who meet the requirement get no action; people who are
// favourable by less than the required margin get one that reaches it, so that costs under two models pay for the same.
//
// The search has three parts, all of them batched over people.
//
//  1. Gradient search from the factual point: the move with the most margin per cost according to the gradient,
//     numeric or a switch of a one-hot, ordinal or binary feature; also with numeric moves only, and with random
//     feature weights. Single numeric features are scanned over their whole range. A feasibility phase without
//     regard to cost follows for people without a valid action.
//  2. Rounds over discrete choices: all single switches of the kept choices are evaluated, those that cost more
//     than the best action are dropped, the most promising ones by the linearised cost of completing them are
//     completed by numeric moves.
//  3. Refinement of each valid action: needless changes are dropped, switches replaced by cheaper ones, every
//     numeric change is pulled back to the required margin, and cost is shifted to numeric features that achieve
//     more with it, or to those of a finer grid that fill what a coarse one would round up.
//
// The search aims 1e-5 (relative to 1+Margin) above the required margin, so that rounding differences between
// batches do not undo an action. The margin of the result is evaluated once more at the end and decides.
//
// References: app:eq:recourse_general; section "Practical recourse solver used in training and evaluation".
func Solve(ctx context.Context, m Model, a *constraint.Set, x []float32, o SolveOptions) ([]Action, error) {
	n, err := checkArgs(m, a, x)
	if err != nil {
		return nil, err
	}
	if err := checkMargin(o.Margin); err != nil {
		return nil, err
	}
	o.Steps = defaulted(o.Steps, 16)
	o.Restarts = defaulted(o.Restarts, 4)
	o.Rounds = defaulted(o.Rounds, 3)
	o.Beam = max(defaulted(o.Beam, 4), 1)
	actions := make([]Action, n)
	err = chunks(ctx, n, solveChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		s := &search{ctx: ctx, m: m, a: a, o: o, target: float32(o.Margin + slackAbove(o.Margin))}
		return s.run(x[lo*a.Dim():hi*a.Dim()], lo, actions[lo:hi])
	})
	if err != nil {
		return nil, err
	}
	return actions, nil
}

func defaulted(v, def int) int {
	switch {
	case v == 0:
		return def
	case v < 0:
		return 0
	}
	return v
}

// search is the state of Solve for one piece of people; one goroutine owns it.
type search struct {
	ctx    context.Context
	m      Model
	a      *constraint.Set
	o      SolveOptions
	target float32 // the margin searched for
	people []*person
	points []float32
}

// person is one who falls short of the required margin.
type person struct {
	a     *constraint.Set
	x     []float32
	row   int // in the piece
	start candidate
	best  []float32 // valid when cost is finite
	cost  float64
	seen  map[uint64]bool // discrete choices evaluated so far
	kept  []*candidate    // discrete choices to expand
}

// candidate is one point of a person's search.
type candidate struct {
	p      *person
	of     *candidate // what it is a copy of
	d      []float32
	cost   float64
	margin float32
	g      []float32 // margin gradient where it was last asked for
	state  searchState
}

func (s *search) run(x []float32, first int, actions []Action) error {
	dim := s.a.Dim()
	all := make([]*candidate, len(actions))
	zero := make([]float32, dim)
	for i := range all {
		p := &person{a: s.a.Person(first + i), x: row(x, i, dim), row: i, cost: math.Inf(1)}
		p.start = candidate{p: p, d: zero}
		all[i] = &p.start
	}
	if err := s.eval(all, true); err != nil {
		return err
	}
	for i, c := range all {
		actions[i] = Action{Status: AlreadyFavourable, Point: c.p.x, Delta: make([]float32, dim), Margin: float64(c.margin)}
		if !valid(c.margin, float32(s.o.Margin)) {
			actions[i].Status = NoneFound
			if !c.p.a.Movable(c.p.x) {
				actions[i].Status = NoneExists
				continue
			}
			c.p.best = make([]float32, dim)
			s.people = append(s.people, c.p)
		}
	}
	if err := s.improve(); err != nil {
		return err
	}
	return s.conclude(actions)
}

// improve is the search proper.
func (s *search) improve() error {
	if err := s.fromFactual(); err != nil {
		return err
	}
	for range s.o.Rounds {
		more, err := s.expand()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// fromFactual is the first part: gradient search and scans from the factual point.
func (s *search) fromFactual() error {
	var ls []*candidate
	for _, p := range s.people {
		ls = append(ls, s.newCandidate(p, nil, false, nil), s.newCandidate(p, nil, true, nil))
		rng := rand.New(rand.NewPCG(s.o.Seed, fingerprint(p.x)))
		for range s.o.Restarts {
			weights := make([]float64, p.a.Features())
			for i := range weights {
				weights[i] = math.Exp(rng.NormFloat64())
			}
			ls = append(ls, s.newCandidate(p, nil, false, weights))
		}
	}
	if err := s.gradientSearch(ls); err != nil {
		return err
	}
	scanned, err := s.scan()
	if err != nil {
		return err
	}
	if err := s.refine(s.cheapest(append(ls, scanned...), 3, 2)); err != nil {
		return err
	}
	return s.feasibilityPhase()
}

// eval sets the margins, and gradients when asked for, of the candidates. What joint constraints forbid is never valid.
func (s *search) eval(ls []*candidate, grads bool) error {
	dim := s.a.Dim()
	for len(ls) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		part := ls[:min(len(ls), solveBatch)]
		ls = ls[len(part):]
		if need := len(part) * dim; cap(s.points) < need {
			s.points = make([]float32, need)
		}
		points := s.points[:len(part)*dim]
		for i, c := range part {
			c.p.a.Propagate(c.p.x, c.d)
			Point(row(points, i, dim), c.p.x, c.d)
		}
		var m, g []float32
		var err error
		if grads {
			m, g, err = s.m.MarginGrads(s.ctx, points)
		} else {
			m, err = s.m.Margins(s.ctx, points)
		}
		if err := call(dim, len(part), m, g, err); err != nil {
			return err
		}
		for i, c := range part {
			c.margin = m[i]
			if grads {
				c.g = row(g, i, dim)
				c.p.a.Pullback(c.g)
			}
			if !c.p.a.Consistent(c.p.x, c.d) {
				c.margin = float32(math.Inf(-1)) // worse than any point that is feasible
			}
		}
	}
	return nil
}

// updateIncumbent makes valid candidates their person's best action where they are cheaper.
func (s *search) updateIncumbent(ls []*candidate) {
	for _, c := range ls {
		if valid(c.margin, s.target) && c.cost < c.p.cost {
			c.p.cost = c.cost
			copy(c.p.best, c.d)
		}
	}
}

// cheapest returns for every person the valid candidates of least cost, at most most of them, none that costs more than
// slack times the person's best. Candidates of one person follow their order in ls when they cost the same.
func (s *search) cheapest(ls []*candidate, most int, slack float64) []*candidate {
	by := map[*person][]*candidate{}
	for _, c := range ls {
		if valid(c.margin, s.target) && c.cost <= slack*c.p.cost {
			by[c.p] = append(by[c.p], c)
		}
	}
	var out []*candidate
	for _, p := range s.people {
		cs := by[p]
		slices.SortStableFunc(cs, func(a, b *candidate) int { return cmp.Compare(a.cost, b.cost) })
		n := 0
		for i, c := range cs {
			if n < most && (i == 0 || !slices.Equal(c.d, cs[i-1].d)) {
				out = append(out, c)
				n++
			}
		}
	}
	return out
}

func (s *search) copyOf(c *candidate) *candidate {
	return &candidate{p: c.p, of: c, d: slices.Clone(c.d)}
}

// conclude writes everybody's best action in raw units, runs the model at the very points that reading it back
// makes, and reports those that are feasible and reach the required margin. Where rounding lost it, one feature
// after the other is given more; where it broke a rule between features, or nothing else helps, nothing is rounded.
func (s *search) conclude(actions []Action) error {
	dim := s.a.Dim()
	const attempts = 8
	var open []*candidate
	unrounded := map[*candidate]bool{}
	for _, p := range s.people {
		if !math.IsInf(p.cost, 1) {
			open = append(open, &candidate{p: p, d: p.best})
		}
	}
	for attempt := 0; len(open) > 0 && attempt < attempts; attempt++ {
		var asked []*candidate
		var points []float32
		for _, c := range open {
			point := make([]float32, dim)
			if unrounded[c] || attempt == attempts-1 {
				c.p.a.PublishUnrounded(point, c.p.x, c.d)
			} else {
				pick, quanta := s.spare(c, attempt), float64(int(1)<<attempt)
				if attempt == 0 {
					quanta = 0
				}
				c.p.a.Publish(point, c.p.x, c.d, pick, quanta)
			}
			asked, points = append(asked, c), append(points, point...)
		}
		margins, err := s.m.Margins(s.ctx, points)
		if err := call(dim, len(asked), margins, nil, err); err != nil {
			return err
		}
		open = open[:0]
		for i, c := range asked {
			delta := make([]float32, dim)
			point := row(points, i, dim)
			constraint.Difference(delta, c.p.x, point)
			feasible := c.p.a.Check(c.p.x, delta) == nil
			if !valid(margins[i], float32(s.o.Margin)) || !feasible {
				unrounded[c] = !feasible && !unrounded[c]
				open = append(open, c)
				continue
			}
			actions[c.p.row] = Action{
				Status: Found, Point: point, Delta: delta, Cost: c.p.a.Cost(c.p.x, delta),
				Margin: float64(margins[i]),
			}
		}
	}
	return nil
}

// spare returns the numeric feature to give more to: the changed ones in turn.
func (s *search) spare(c *candidate, attempt int) *constraint.Feature {
	var changed []*constraint.Feature
	for _, u := range c.p.a.Free() {
		if u.Numeric() && u.Changed(c.d) {
			changed = append(changed, u)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return changed[attempt%len(changed)]
}

// fingerprint is a hash of a person's inputs.
func fingerprint(x []float32) uint64 {
	h := fnv.New64a()
	var b [4]byte
	for _, v := range x {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		h.Write(b[:])
	}
	return h.Sum64()
}

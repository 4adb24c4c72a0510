package recourse

import (
	"context"
	"math"
	"math/rand/v2"
)

// SolveOptions are the settings of Solve; the zero value is the default. All budgets are counts, so
// that results do not depend on the machine.
type SolveOptions struct {
	// Margin is the logit margin that an action must reach; 0 = any favourable one.
	Margin float64
	// Steps is the number of gradient steps of one climb; 0 = 16.
	Steps int
	// Restarts is the number of climbs with randomly perturbed preferences; 0 = 4, negative = none.
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
// the evaluation solver behind delta*_f and delta*_q. Who meets the requirement as they are gets no action; who is
// favourable by less than the required margin is told how to reach it, so that costs under two models pay for the same.
//
// The search has three parts, all of them batched over people.
//
//  1. Climbs from the factual point: the move with the most margin per cost according to the gradient, numeric or a switch of a one-hot,
//     ordinal or binary feature; also with numeric moves only, and with randomly perturbed preferences. Single numeric features
//     are scanned over their whole range. Whoever has no valid action then climbs regardless of cost.
//  2. Rounds over discrete choices: all single switches of the kept choices are evaluated, those that cost more than the best
//     action are dropped, the most promising ones by the linearised cost of completing them climb with numeric moves.
//  3. Refinement of each valid action: needless changes are dropped, switches replaced by cheaper ones, every numeric change
//     is pulled back to the required margin, and cost is shifted to numeric features that achieve more with it, or to those of
//     a finer grid that fill what a coarse one would round up.
//
// The search aims 1e-5 (relative to 1+Margin) above the required margin, so that rounding differences between batches do not
// undo an action. The margin of the result is evaluated once more at the end and decides.
//
// References: app:eq:recourse_general; section "Practical recourse solver used in training and evaluation".
func Solve(ctx context.Context, m Model, a *ActionSet, x []float32, o SolveOptions) ([]Action, error) {
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
		s := &search{ctx: ctx, m: m, a: a, o: o, need: float32(o.Margin + slackAbove(o.Margin))}
		return s.run(x[lo*a.dim:hi*a.dim], lo, actions[lo:hi])
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
	a      *ActionSet
	o      SolveOptions
	need   float32 // the margin searched for
	people []*person
	points []float32
	slab   slab
}

// person is one who falls short of the required margin.
type person struct {
	a     *ActionSet
	x     []float32
	row   int // in the piece
	start lane
	best  []float32 // valid when cost is finite
	cost  float64
	seen  map[uint64]bool // discrete choices evaluated so far
	kept  []*lane         // discrete choices to expand
}

// lane is one point of a person's search.
type lane struct {
	p      *person
	d      []float32
	cost   float64
	margin float32
	g      []float32 // margin gradient at the point, when it was asked for
	climb  climb
}

func (s *search) run(x []float32, first int, actions []Action) error {
	dim := s.a.dim
	all := make([]*lane, len(actions))
	zero := make([]float32, dim)
	for i := range all {
		p := &person{a: s.a.Person(first + i), x: row(x, i, dim), row: i, cost: math.Inf(1)}
		p.start = lane{p: p, d: zero}
		all[i] = &p.start
	}
	if err := s.eval(all, true); err != nil {
		return err
	}
	for i, l := range all {
		actions[i] = Action{Status: AlreadyFavourable, Point: l.p.x, Delta: make([]float32, dim), Margin: float64(l.margin)}
		if !valid(l.margin, float32(s.o.Margin)) {
			actions[i].Status = NoneFound
			if !l.p.a.movable(l.p.x) {
				actions[i].Status = NoneExists
				continue
			}
			l.p.best = make([]float32, dim)
			s.people = append(s.people, l.p)
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
		s.slab.reset()
		more, err := s.expand()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// fromFactual is the first part: climbs and scans that start at the factual point.
func (s *search) fromFactual() error {
	var ls []*lane
	for _, p := range s.people {
		ls = append(ls, s.climber(p, nil, false, nil), s.climber(p, nil, true, nil))
		rng := rand.New(rand.NewPCG(s.o.Seed, fingerprint(p.x)))
		for range s.o.Restarts {
			taste := make([]float64, len(p.a.units))
			for i := range taste {
				taste[i] = math.Exp(rng.NormFloat64())
			}
			ls = append(ls, s.climber(p, nil, false, taste))
		}
	}
	if err := s.ascend(ls); err != nil {
		return err
	}
	scanned, err := s.scan()
	if err != nil {
		return err
	}
	if err := s.refine(s.cheapest(append(ls, scanned...), 3, 2)); err != nil {
		return err
	}
	return s.rescue()
}

// offer makes valid lanes their people's best action where they are cheaper.
func (s *search) offer(ls []*lane) {
	for _, l := range ls {
		if valid(l.margin, s.need) && l.cost < l.p.cost {
			l.p.cost = l.cost
			copy(l.p.best, l.d)
		}
	}
}

// slab hands out rows that live until reset.
type slab struct {
	blocks [][]float32
	block  int
	used   int
}

func (b *slab) row(dim int) []float32 {
	const block = 1 << 16
	for {
		if b.block == len(b.blocks) {
			b.blocks = append(b.blocks, make([]float32, max(block, dim)))
		}
		if free := b.blocks[b.block][b.used:]; len(free) >= dim {
			b.used += dim
			return free[:dim:dim]
		}
		b.block, b.used = b.block+1, 0
	}
}

func (b *slab) reset() { b.block, b.used = 0, 0 }

package recourse

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse/constraint"
	"cfq/recourse/proof"
)

type strategy struct {
	// phases, and then those of last, stand between the evaluation of the factual points and the conclusion, in order.
	// last makes actions that were found cheaper, and finds one for a few.
	phases, last []func(s *pieceSearch) error
	// restart returns a further start of a person's gradient searches, by random feature weights.
	restart func(p *applicant, target float32, weights []float64) *candidate
	// climb is the gradient search: it moves candidates towards the target margin until they are valid, stuck, or out of
	// steps.
	climb func(s *pieceSearch, candidates []*candidate) error
	// scan returns valid candidates that gradients do not lead to; nil = none.
	scan func(s *pieceSearch) ([]*candidate, error)
	// refinement are the stages that make valid candidates cheaper.
	refinement []func(s *pieceSearch, candidates []*candidate) error
	// rush moves a candidate to a larger margin at any cost, in steps of a share of the way.
	rush func(c *candidate, share float64)
	// patient: a rush goes on where the margin did not rise.
	patient bool
	// keepsNumbers: numeric features with few steps are not discrete choices.
	keepsNumbers bool
}

func strategyOf(set *constraint.Set) strategy {
	way := tabular()
	if len(set.Numeric()) > pixelsFrom {
		way = pixels()
	}
	if set.Task().Latent != nil {
		way = codes(way)
	}
	return way
}

type pieceSearch struct {
	ctx      context.Context
	m        Model
	set      *constraint.Set // at any cost: what a person has to pay at least says whether that is allowed
	check    *constraint.Set
	o        SolveOptions
	strategy strategy
	target   float32     // the margin searched for
	pair     *proof.Pair // of the model; nil: there is no branch and bound
	actions  []Action
	first    int // the row of the first of the piece
	people   []*applicant
	points   []float32 // scratch
}

func (s *pieceSearch) run(x []float32) error {
	if err := s.evalFactual(x); err != nil {
		return err
	}
	for _, phase := range slices.Concat(s.strategy.phases, s.strategy.last) {
		if err := phase(s); err != nil {
			return err
		}
	}
	return s.conclude()
}

func (s *pieceSearch) evalFactual(x []float32) error {
	dim := s.set.Dim()
	all := make([]*candidate, len(s.actions))
	zero := make([]float32, dim)
	for i := range all {
		p := &applicant{
			set: s.set.Person(s.first + i), x: row(x, i, dim), row: i, lowest: math.Inf(1), searched: math.Inf(1),
		}
		p.start = candidate{applicant: p, d: zero}
		all[i] = &p.start
	}
	if err := s.eval(all, true); err != nil {
		return err
	}
	for i, c := range all {
		s.actions[i] = Action{Status: AlreadyFavourable, Point: c.x, Delta: make([]float32, dim), Margin: float64(c.margin)}
		switch {
		case valid(c.margin, float32(s.o.Margin)):
		case !c.set.Movable(c.x):
			s.actions[i].Status = NoneExists
		default:
			s.actions[i].Status = NoneFound
			c.best, c.bestMargin = make([]float32, dim), c.margin
			s.people = append(s.people, c.applicant)
		}
	}
	return nil
}

func (s *pieceSearch) searchFactual() error {
	var candidates []*candidate
	for _, p := range s.people {
		candidates = append(candidates, p.candidate(nil, false, nil))
		if len(p.set.Numeric()) < len(p.set.Free()) {
			candidates = append(candidates, p.candidate(nil, true, nil))
		}
		if k := s.first + p.row; k < len(s.o.Starts) && s.o.Starts[k] != nil {
			candidates = append(candidates, p.candidate(s.o.Starts[k], false, nil))
		}
		p.rng = rand.New(rand.NewPCG(s.o.Seed, fingerprint(p.x)))
		for range s.o.Restarts {
			candidates = append(candidates, s.strategy.restart(p, s.target, p.randomWeights()))
		}
	}
	if err := s.strategy.climb(s, candidates); err != nil {
		return err
	}
	if s.strategy.scan != nil {
		found, err := s.strategy.scan(s)
		if err != nil {
			return err
		}
		candidates = append(candidates, found...)
	}
	return s.refine(s.cheapest(candidates, 3, 2))
}

// climbBy is a gradient search by single steps. A candidate gives up when it costs half as much again as the incumbent.
func (s *pieceSearch) climbBy(candidates []*candidate, steps int, step func(c *candidate, target float32) bool) error {
	active := slices.Clone(candidates)
	for left := steps; left >= 0; left-- {
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			c.price()
			return valid(c.margin, s.target) || left == 0 || c.cost > 1.5*c.lowest || !step(c, s.target)
		})
	}
	s.approach(candidates)
	return nil
}

// feasibilityPhase ignores costs for everyone who has no valid action: features go to where the gradient
// gains most, the best ones up to the sparsity limit, and again from there. For a linear model the first such point
// has the largest margin there is. What is valid is refined.
func (s *pieceSearch) feasibilityPhase() error {
	const rounds = 6
	var candidates []*candidate
	for _, p := range s.people {
		if math.IsInf(p.lowest, 1) {
			candidates = append(candidates, p.candidate(nil, false, nil))
		}
	}
	err := s.climbBy(candidates, rounds, func(c *candidate, _ float32) bool {
		if c.before.d != nil && !(c.margin > c.before.value) && !s.strategy.patient {
			return false
		}
		c.save()
		s.strategy.rush(c, 1./rounds)
		return !slices.Equal(c.d, c.before.d)
	})
	if err != nil {
		return err
	}
	return s.refine(s.cheapest(candidates, 1, 1))
}

func (s *pieceSearch) refine(candidates []*candidate) error {
	for _, stage := range s.strategy.refinement {
		if err := stage(s, candidates); err != nil {
			return err
		}
	}
	s.updateIncumbent(candidates)
	return nil
}

func (s *pieceSearch) eval(candidates []*candidate, grads bool) error {
	dim := s.set.Dim()
	if err := s.ctx.Err(); err != nil || len(candidates) == 0 {
		return err
	}
	s.points = sized(s.points, len(candidates)*dim)
	for i, c := range candidates {
		c.set.Propagate(c.x, c.d)
		Point(row(s.points, i, dim), c.x, c.d)
	}
	var m, g []float32
	var err error
	if grads {
		m, g, err = s.m.MarginGrads(s.ctx, s.points)
	} else {
		m, err = s.m.Margins(s.ctx, s.points)
	}
	if err := call(dim, len(candidates), m, g, err); err != nil {
		return err
	}
	for i, c := range candidates {
		c.margin = m[i]
		if grads {
			c.g = row(g, i, dim)
			c.set.Pullback(c.g)
		}
		if !c.set.Consistent(c.x, c.d) {
			c.margin = float32(math.Inf(-1)) // worse than any point that is feasible
		}
	}
	return nil
}

func sized(v []float32, n int) []float32 { return slices.Grow(v[:0], n)[:n] }

func (s *pieceSearch) updateIncumbent(candidates []*candidate) {
	for _, c := range candidates {
		if valid(c.margin, s.target) && c.cost < c.lowest {
			c.lowest = c.cost
			copy(c.best, c.d)
		}
	}
}

func (s *pieceSearch) approach(candidates []*candidate) {
	for _, c := range candidates {
		if math.IsInf(c.lowest, 1) && c.margin > c.bestMargin && !valid(c.margin, s.target) {
			c.bestMargin = c.margin
			copy(c.best, c.d)
		}
	}
}

// cheapest returns for every person the valid candidates of least cost, at most most of them, none that costs more than
// slack times the person's best. Candidates of one person keep their order when they cost the same.
func (s *pieceSearch) cheapest(candidates []*candidate, most int, slack float64) (out []*candidate) {
	by := map[*applicant][]*candidate{}
	for _, c := range candidates {
		if valid(c.margin, s.target) && c.cost <= slack*c.lowest {
			by[c.applicant] = append(by[c.applicant], c)
		}
	}
	for _, p := range s.people {
		slices.SortStableFunc(by[p], func(a, b *candidate) int { return cmp.Compare(a.cost, b.cost) })
		distinct := slices.CompactFunc(by[p], func(a, b *candidate) bool { return slices.Equal(a.d, b.d) })
		out = append(out, distinct[:min(len(distinct), most)]...)
	}
	return out
}

// conclude writes everybody's best action in raw units, runs the model at the very points that reading it back
// makes, and reports those that are feasible and reach the required margin. Where rounding lost it, one feature
// after the other is given more; where it broke a rule between features, or nothing else helps, nothing is rounded.
func (s *pieceSearch) conclude() error {
	dim := s.set.Dim()
	const attempts = 8
	var open []*candidate
	unrounded := map[*candidate]bool{}
	for _, p := range s.people {
		if !math.IsInf(p.lowest, 1) {
			open = append(open, &candidate{applicant: p, d: p.best})
		}
	}
	for attempt := 0; len(open) > 0 && attempt < attempts; attempt++ {
		points := make([]float32, len(open)*dim)
		for i, c := range open {
			point := row(points, i, dim)
			if unrounded[c] || attempt == attempts-1 {
				c.set.PublishUnrounded(point, c.x, c.d)
				continue
			}
			var more *constraint.Feature // the numeric features that change in turn, but not at first
			if changed := c.changedNumbers(); attempt > 0 && len(changed) > 0 {
				more = changed[attempt%len(changed)]
			}
			c.set.Publish(point, c.x, c.d, more, float64(int(1)<<attempt))
		}
		margins, err := judge(s.ctx, s.m, points)
		if err != nil {
			return err
		}
		asked := open
		open = nil
		for i, c := range asked {
			point, delta := row(points, i, dim), make([]float32, dim)
			constraint.Difference(delta, c.x, point)
			feasible := s.check.Person(s.first+c.row).Check(c.x, delta) == nil
			if !valid(margins[i], float32(s.o.Margin)) || !feasible {
				unrounded[c] = !feasible && !unrounded[c]
				open = append(open, c)
				continue
			}
			s.actions[c.row] = Action{
				Status: Found, Point: point, Delta: delta, Cost: c.set.Cost(c.x, delta), Margin: float64(margins[i]),
			}
		}
	}
	return nil
}

// prove looks for cheaper actions by branch and bound. People whose action it proves are left as they are from then on.
func (s *pieceSearch) prove() error {
	const gap = 0.001 // what is not cheaper by more than this does not matter
	if s.pair == nil {
		return nil
	}
	for _, p := range s.people {
		set, answer := s.check.Person(s.first+p.row), Action{Cost: p.lowest}
		if set.Separable() != "" {
			continue
		}
		if !math.IsInf(p.lowest, 1) {
			answer.Status = Found
		}
		t := &treeSearch{s.pair, s.m, set, p.x, s.o.Margin, s.o.Nodes}
		best, err := t.improve(s.ctx, &answer, gap, false)
		if err != nil {
			return err
		}
		if best.Point != nil {
			p.lowest = answer.Cost
			copy(p.best, answer.Delta)
		}
		if !best.Proved {
			continue
		}
		if p.searched = math.Inf(-1); answer.Status != Found {
			s.actions[p.row].Status = NoneExists
		}
	}
	return nil
}

// perturb starts gradient searches near the incumbents and from the factual points, see [applicant.perturbed]. It goes
// on for those whom it helps, and ends for a person when searches come back to the incumbent, which speaks against a
// better one, or after as many as the incumbent's changes are worth.
func (s *pieceSearch) perturb() error {
	const rounds, perChange, returns, futile = 200, 8, 2, 30
	open := slices.DeleteFunc(slices.Clone(s.people), func(p *applicant) bool { return math.IsInf(p.searched, -1) })
	for _, p := range open {
		p.stage = p.firstStage()
	}
	for range rounds {
		var candidates []*candidate
		before := map[*applicant]float64{}
		for _, p := range open {
			before[p] = p.shortfall(s.target)
			candidates = append(candidates, p.perturbed()...)
		}
		if err := s.strategy.climb(s, candidates); err != nil {
			return err
		}
		refined := s.cheapest(candidates, 1, 1.5)
		if err := s.refine(refined); err != nil {
			return err
		}
		for _, c := range refined {
			if c.cost <= c.lowest*(1+leastGain) {
				c.returned++
			}
		}
		open = slices.DeleteFunc(open, func(p *applicant) bool {
			if p.stage++; p.shortfall(s.target) < before[p]*(1-leastGain) {
				p.stage, p.returned = p.firstStage(), 0
			}
			if math.IsInf(p.lowest, 1) {
				return p.stage == futile
			}
			return p.returned >= returns || p.stage >= perChange*p.set.Changed(p.best)
		})
	}
	return nil
}

// shortfall is what the incumbent can be bettered by: its cost or, beyond any cost, what its margin lacks.
func (p *applicant) shortfall(target float32) float64 {
	if math.IsInf(p.lowest, 1) {
		return 1e30 * (1 + float64(target-p.bestMargin))
	}
	return p.lowest
}

// firstStage is where the perturbation begins: localSearch has taken single changes back already.
func (p *applicant) firstStage() int {
	if math.IsInf(p.lowest, 1) {
		return 0
	}
	return 2
}

// perturbed returns starts near the incumbent: without one of the features that it changes, which stays out then;
// at the next stage without two of them; then, with random feature weights, without up to three and from the factual
// point.
func (p *applicant) perturbed() (candidates []*candidate) {
	changed := changedOf(p.set.Free(), p.best)
	none := math.IsInf(p.lowest, 1)
	start := func(from []float32, weights []float64, without ...*constraint.Feature) {
		c := p.candidate(from, false, weights)
		c.anyCost = none
		for _, f := range without {
			c.without(f)
			c.banned = append(c.banned, f)
		}
		c.allow()
		candidates = append(candidates, c)
	}
	switch p.stage {
	case 0:
		for _, f := range changed {
			start(p.best, nil, f)
		}
	case 1:
		for i, f := range changed {
			for _, v := range changed[:i] {
				start(p.best, nil, f, v)
			}
		}
	default:
		climbs := 2
		if none {
			climbs = 4
		}
		for range climbs {
			start(nil, p.randomWeights())
			p.rng.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
			start(p.best, p.randomWeights(), changed[:min(len(changed), 1+p.rng.IntN(3))]...)
		}
	}
	return candidates
}

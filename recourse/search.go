package recourse

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse/constraint"
)

// search is the state of Solve for one piece of people; one goroutine owns it.
type search struct {
	ctx    context.Context
	m      Model
	a      *constraint.Set // at any cost: what a person has to pay at least says whether that is allowed
	check  *constraint.Set
	o      SolveOptions
	target float32 // the margin searched for
	first  int     // the row of the first of the piece
	people []*person
	// Room that is used again, for what nobody keeps.
	points, actions []float32
	lines           []constraint.Line
	trials          int // of the last neighbourhoods that were tried: the next ones are about as many
}

func (s *search) run(x []float32, actions []Action) error {
	dim := s.a.Dim()
	all := make([]*candidate, len(actions))
	zero := make([]float32, dim)
	for i := range all {
		p := &person{a: s.a.Person(s.first + i), x: row(x, i, dim), row: i, lowest: math.Inf(1), searched: math.Inf(1)}
		p.start = candidate{person: p, d: zero}
		all[i] = &p.start
	}
	if err := s.eval(all, true); err != nil {
		return err
	}
	for i, c := range all {
		actions[i] = Action{Status: AlreadyFavourable, Point: c.x, Delta: make([]float32, dim), Margin: float64(c.margin)}
		switch {
		case valid(c.margin, float32(s.o.Margin)):
		case !c.a.Movable(c.x):
			actions[i].Status = NoneExists
		default:
			actions[i].Status = NoneFound
			c.best, c.person.margin = make([]float32, dim), c.margin
			s.people = append(s.people, c.person)
		}
	}
	if err := s.fromFactual(); err != nil {
		return err
	}
	for range s.o.Rounds {
		more, err := s.expand()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if s.wide() || s.coded() {
		return s.conclude(actions)
	}
	if err := s.localSearch(); err != nil {
		return err
	}
	if err := s.perturb(); err != nil {
		return err
	}
	if err := s.localSearch(); err != nil {
		return err
	}
	return s.conclude(actions)
}

// fromFactual is the first part: gradient search and scans from the factual point.
func (s *search) fromFactual() error {
	var ls []*candidate
	for _, p := range s.people {
		ls = append(ls, p.candidate(nil, false, nil))
		if !s.coded() || len(p.a.Numeric()) < len(p.a.Free()) { // else it is the same
			ls = append(ls, p.candidate(nil, true, nil))
		}
		p.rng = rand.New(rand.NewPCG(s.o.Seed, p.fingerprint()))
		for range s.o.Restarts {
			c := p.candidate(nil, false, p.randomWeights())
			if s.coded() {
				c = p.scattered(s.target)
			}
			ls = append(ls, c)
		}
	}
	if err := s.gradientSearch(ls); err != nil {
		return err
	}
	var scanned []*candidate
	if !s.wide() && !s.coded() {
		var err error
		if scanned, err = s.scan(); err != nil {
			return err
		}
	}
	if err := s.refine(s.cheapest(append(ls, scanned...), 3, 2)); err != nil {
		return err
	}
	if s.coded() {
		if err := s.sample(); err != nil {
			return err
		}
	}
	return s.feasibilityPhase()
}

// eval sets the margins, and gradients when asked for, of the candidates. What joint constraints forbid is never valid.
func (s *search) eval(ls []*candidate, grads bool) error {
	dim := s.a.Dim()
	for part := range slices.Chunk(ls, solveBatch) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.points = sized(s.points, len(part)*dim)
		for i, c := range part {
			c.a.Propagate(c.x, c.d)
			Point(row(s.points, i, dim), c.x, c.d)
		}
		var m, g []float32
		var err error
		if grads {
			m, g, err = s.m.MarginGrads(s.ctx, s.points)
		} else {
			m, err = s.m.Margins(s.ctx, s.points)
		}
		if err := call(dim, len(part), m, g, err); err != nil {
			return err
		}
		for i, c := range part {
			c.margin = m[i]
			if grads {
				c.g = row(g, i, dim)
				c.a.Pullback(c.g)
			}
			if !c.a.Consistent(c.x, c.d) {
				c.margin = float32(math.Inf(-1)) // worse than any point that is feasible
			}
		}
	}
	return nil
}

// sized returns v, or room instead, with n numbers.
func sized(v []float32, n int) []float32 { return slices.Grow(v[:0], n)[:n] }

// updateIncumbent makes valid candidates their person's best action where they are cheaper.
func (s *search) updateIncumbent(ls []*candidate) {
	for _, c := range ls {
		if valid(c.margin, s.target) && c.cost < c.lowest {
			c.lowest = c.cost
			copy(c.best, c.d)
		}
	}
}

// approach makes candidates that are not valid the best action of people without a valid one where their margin is
// larger.
func (s *search) approach(ls []*candidate) {
	for _, c := range ls {
		if p := c.person; math.IsInf(p.lowest, 1) && c.margin > p.margin && !valid(c.margin, s.target) {
			p.margin = c.margin
			copy(p.best, c.d)
		}
	}
}

// cheapest returns for every person the valid candidates of least cost, at most most of them, none that costs more than
// slack times the person's best. Candidates of one person follow their order in ls when they cost the same.
func (s *search) cheapest(ls []*candidate, most int, slack float64) []*candidate {
	by := map[*person][]*candidate{}
	for _, c := range ls {
		if valid(c.margin, s.target) && c.cost <= slack*c.lowest {
			by[c.person] = append(by[c.person], c)
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

// perturb starts gradient searches near the incumbents and anew, see [person.perturbed]. It goes on for those whom it
// helps, and ends for a person when searches come back to the incumbent, which speaks against a better one, or after
// as many as the incumbent's changes are worth.
func (s *search) perturb() error {
	const rounds, perChange, returns, futile = 200, 8, 2, 30
	open := slices.Clone(s.people)
	for _, p := range open {
		p.stage = p.firstStage()
	}
	for range rounds {
		var ls []*candidate
		before := map[*person]float64{}
		for _, p := range open {
			before[p] = p.shortfall(s.target)
			ls = append(ls, p.perturbed()...)
		}
		if err := s.gradientSearch(ls); err != nil {
			return err
		}
		refined := s.cheapest(ls, 1, 1.5)
		if err := s.refine(refined); err != nil {
			return err
		}
		for _, c := range refined {
			if c.cost <= c.lowest*(1+leastGain) {
				c.returned++
			}
		}
		open = slices.DeleteFunc(open, func(p *person) bool {
			if p.stage++; p.shortfall(s.target) < before[p]*(1-leastGain) {
				p.stage, p.returned = p.firstStage(), 0
			}
			if math.IsInf(p.lowest, 1) {
				return p.stage == futile
			}
			return p.returned >= returns || p.stage >= perChange*p.a.Changed(p.best)
		})
	}
	return nil
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
		if !math.IsInf(p.lowest, 1) {
			open = append(open, &candidate{person: p, d: p.best})
		}
	}
	for attempt := 0; len(open) > 0 && attempt < attempts; attempt++ {
		points := make([]float32, len(open)*dim)
		for i, c := range open {
			point := row(points, i, dim)
			if unrounded[c] || attempt == attempts-1 {
				c.a.PublishUnrounded(point, c.x, c.d)
				continue
			}
			var more *constraint.Feature // the numeric features that change in turn, but not at first
			if changed := c.changedNumbers(); attempt > 0 && len(changed) > 0 {
				more = changed[attempt%len(changed)]
			}
			c.a.Publish(point, c.x, c.d, more, float64(int(1)<<attempt))
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
			actions[c.row] = Action{
				Status: Found, Point: point, Delta: delta, Cost: c.a.Cost(c.x, delta), Margin: float64(margins[i]),
			}
		}
	}
	return nil
}

// gradientSearch moves the candidates towards the target margin until they are valid, stuck, or out of steps. A
// candidate gives up when it costs half as much again as the incumbent.
func (s *search) gradientSearch(ls []*candidate) error {
	switch {
	case s.coded():
		return s.shortest(ls)
	case s.wide():
		return s.ascend(ls)
	}
	active := slices.Clone(ls)
	for range s.o.Steps + 1 {
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			c.price()
			return valid(c.margin, s.target) || c.cost > 1.5*c.lowest || !c.step(s.target)
		})
	}
	// Candidates that are left moved after their last evaluation.
	for _, c := range active {
		c.price()
	}
	if err := s.eval(active, true); err != nil {
		return err
	}
	s.approach(ls)
	return nil
}

const scanned = 12 // numeric features per person that are scanned

// scan tries single numeric features over their whole range, in case the margin is not monotone, and returns
// the cheapest valid point of each line, pulled back towards the factual one.
func (s *search) scan() ([]*candidate, error) {
	var tries []*candidate
	var pulls []*pull
	for _, p := range s.people {
		for _, u := range p.start.scannable() {
			for _, up := range []bool{false, true} {
				end := u.Farthest(p.x[u.First], up)
				last := float32(0)
				for _, share := range []float64{1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 3. / 4, 1} {
					// Only what costs less than the best action.
					reach := math.Copysign(min(math.Abs(float64(end)), p.a.Norm().Affords(u, p.lowest)), float64(end))
					d := u.Outward(p.x[u.First], reach*share, up)
					if d == 0 || d == last {
						continue
					}
					action := sized(p.attempted, s.a.Dim())
					p.attempted = action
					clear(action)
					if !p.a.Apply(constraint.Move{Feature: u, To: d}, p.x, action) {
						continue
					}
					cost := p.a.Cost(p.x, action)
					if cost >= p.lowest {
						break
					}
					c := &candidate{person: p, d: slices.Clone(action), cost: cost}
					tries = append(tries, c)
					pulls = append(pulls, &pull{c: c, u: u, bad: last, good: d})
					last = d
				}
			}
		}
	}
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	var found []*candidate
	var narrowed []*pull
	for i, c := range tries {
		before := c.start.margin // of the point before on the same line
		if pulls[i].bad != 0 {
			before = tries[i-1].margin
		}
		if valid(c.margin, s.target) && !valid(before, s.target) {
			pulls[i].goodM, pulls[i].badM = c.margin, before
			found, narrowed = append(found, c), append(narrowed, pulls[i])
		}
	}
	return found, s.narrow(narrowed)
}

// scannable returns the numeric features with the largest margin gradient per cost.
func (c *candidate) scannable() []*constraint.Feature {
	if len(c.a.Numeric()) <= scanned {
		return c.a.Numeric()
	}
	fs := slices.Clone(c.a.Numeric())
	slices.SortStableFunc(fs, func(a, b *constraint.Feature) int {
		return -cmp.Compare(c.worth(a), c.worth(b))
	})
	return fs[:scanned]
}

// expand is one round over discrete choices. It reports whether there was anything to expand.
func (s *search) expand() (bool, error) {
	var children []*candidate
	by := map[*person][]*candidate{}
	for _, p := range s.people {
		by[p] = s.switches(p)
		children = append(children, by[p]...)
	}
	if len(children) == 0 {
		return false, nil
	}
	if err := s.eval(children, true); err != nil {
		return false, err
	}
	s.updateIncumbent(children)
	var starts []*candidate
	for _, p := range s.people {
		for _, c := range by[p] {
			c.estimate = s.completion(c, 0)
		}
		p.kept = slices.Clone(mostPromising(by[p], s.o.Beam))
		for _, c := range p.kept {
			if c.cost < p.lowest && c.estimate < 1.5*p.lowest {
				starts = append(starts, p.candidate(c.d, true, nil))
			}
		}
	}
	if err := s.gradientSearch(starts); err != nil {
		return false, err
	}
	for _, c := range children {
		if valid(c.margin, s.target) {
			starts = append(starts, c)
		}
	}
	if err := s.refine(s.cheapest(starts, 2, 1.5)); err != nil {
		return false, err
	}
	return true, s.keepBest()
}

// mostPromising returns the most candidates of the lowest estimates; it sorts cs.
func mostPromising(cs []*candidate, most int) []*candidate {
	slices.SortStableFunc(cs, func(a, b *candidate) int { return cmp.Compare(a.estimate, b.estimate) })
	return cs[:min(len(cs), most)]
}

// keepBest adds the discrete part of the best actions to what the next round expands.
func (s *search) keepBest() error {
	var fresh []*candidate
	for _, p := range s.people {
		if math.IsInf(p.lowest, 1) {
			continue
		}
		c := &candidate{person: p, d: slices.Clone(p.best)}
		for _, u := range p.a.Numeric() {
			c.d[u.First] = 0
		}
		if p.visit(c.d) {
			c.price()
			p.kept, fresh = append(p.kept, c), append(fresh, c)
		}
	}
	return s.eval(fresh, true)
}

// switches returns the new discrete choices that are one switch away from those kept, are within the
// sparsity limit and cost less than the best action; of too many, the most promising by the gradient.
func (s *search) switches(p *person) []*candidate {
	parents := p.kept
	if p.seen == nil {
		p.visit(p.start.d)
		parents = []*candidate{&p.start}
	}
	var out []*candidate
	scratch := make([]float32, s.a.Dim())
	for _, from := range parents {
		full := from.full()
		for _, u := range p.a.Free() {
			if full && !u.Changed(from.d) {
				continue
			}
			child := func(m constraint.Move, gain, rise float64) {
				if from.cost+rise >= p.lowest || gain == 0 && rise == 0 {
					return
				}
				copy(scratch, from.d)
				if !p.a.Apply(m, p.x, scratch) || !p.visit(scratch) {
					return
				}
				c := &candidate{
					person: p, d: slices.Clone(scratch), cost: p.a.Cost(p.x, scratch), g: from.g, margin: from.margin,
				}
				c.estimate = s.completion(c, gain)
				out = append(out, c)
			}
			if s.wide() && u.Numeric() {
				continue
			}
			for _, m := range p.switchesOf(u) {
				gain, rise := p.a.Gain(m, p.x, from.d, from.g)
				child(m, gain, rise)
			}
		}
	}
	perKept := 4
	if math.IsInf(p.lowest, 1) {
		perKept = 16
	}
	if most := perKept * s.o.Beam; len(out) > most {
		return mostPromising(out, most)
	}
	return out
}

// completion estimates the cost of a valid action with the candidate's discrete choices: its cost and, by the
// gradient, that of the cheapest numeric moves that close the gap, gain of which is closed already. What cannot be
// closed comes last, by what is left.
func (s *search) completion(c *candidate, gain float64) float64 {
	gap := float64(s.target-c.margin) - gain
	if !(gap > 0) {
		return c.cost
	}
	s.lines = c.appendLines(s.lines[:0], c.a.Limit()-c.a.Changed(c.d))
	return c.a.Fill(c.x, c.d, c.cost, s.lines, gap)
}

// feasibilityPhase ignores costs for everyone who has no valid action: all features go to where the gradient
// gains most, the best ones up to the sparsity limit, and again from there. For a linear model the first such point
// has the largest margin there is. What is valid is refined.
func (s *search) feasibilityPhase() error {
	const rounds = 6
	var active []*candidate
	for _, p := range s.people {
		if math.IsInf(p.lowest, 1) {
			c := p.candidate(nil, false, nil)
			c.margin, c.g = p.start.margin, p.start.g
			active = append(active, c)
		}
	}
	all := slices.Clone(active)
	for range rounds {
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			copy(c.prev, c.d)
			c.prevM = c.margin
			if s.wide() {
				c.push(1. / rounds)
			} else {
				c.greatest()
			}
			return slices.Equal(c.d, c.prev)
		})
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			c.price()
			return valid(c.margin, s.target) || !(c.margin > c.prevM) && !s.wide()
		})
	}
	s.approach(all)
	return s.refine(s.cheapest(all, 1, 1))
}

// refine makes valid candidates cheaper and updates the incumbents.
func (s *search) refine(ls []*candidate) error {
	if s.wide() {
		return s.refineWide(ls)
	}
	for _, stage := range []func([]*candidate) error{s.simplify, s.shrink, s.exchange, s.simplify, s.shrink} {
		if err := stage(ls); err != nil {
			return err
		}
	}
	s.updateIncumbent(ls)
	return nil
}

// simplify drops needless changes and replaces switches by cheaper ones, the largest saving first, until nothing
// more can go.
func (s *search) simplify(ls []*candidate) error {
	active := slices.Clone(ls)
	for len(active) > 0 {
		var tries []*candidate
		for _, c := range active {
			for _, u := range c.a.Free() {
				if !u.Changed(c.d) {
					continue
				}
				t := c.clone()
				clear(t.d[u.First : u.First+u.Width])
				tries = append(tries, t)
				for _, m := range c.switchesOf(u) {
					if _, rise := c.a.Gain(m, c.x, c.d, c.d); rise < 0 {
						t := c.clone()
						u.Set(c.x, t.d, m.Option)
						tries = append(tries, t)
					}
				}
			}
		}
		for _, t := range tries {
			t.price()
		}
		var err error
		if active, err = s.accept(active, tries, 0); err != nil {
			return err
		}
	}
	return nil
}

// accept evaluates tries, whose costs are known, and gives the candidate that each was copied from its action when
// that is valid and saves more than the share gain of the candidate's cost. It returns the candidates that changed;
// ls is used for them.
func (s *search) accept(ls, tries []*candidate, gain float64) ([]*candidate, error) {
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	better := map[*candidate]bool{}
	for _, t := range tries {
		if c := t.of; valid(t.margin, s.target) && t.cost < c.cost*(1-gain) {
			copy(c.d, t.d)
			c.margin, c.cost, better[c] = t.margin, t.cost, true
		}
	}
	return slices.DeleteFunc(ls, func(c *candidate) bool { return !better[c] }), nil
}

// shrink pulls every numeric change back to the required margin, the least effective feature first.
func (s *search) shrink(ls []*candidate) error {
	if err := s.eval(ls, true); err != nil {
		return err
	}
	orders := make([][]*constraint.Feature, len(ls))
	longest := 0
	for i, c := range ls {
		orders[i] = c.byEffect()
		longest = max(longest, len(orders[i]))
	}
	for k := range longest {
		var ps []*pull
		for i, c := range ls {
			if k < len(orders[i]) {
				u := orders[i][k]
				d := c.d[u.First]
				ps = append(ps, &pull{c: c, u: u, good: d, goodM: c.margin, badM: c.margin - c.g[u.First]*d})
			}
		}
		if err := s.narrow(ps); err != nil {
			return err
		}
	}
	return nil
}

// narrow brackets the smallest valid change of every pull, by interpolation with every third step a bisection.
func (s *search) narrow(ps []*pull) error {
	const steps = 9
	active := slices.Clone(ps)
	for _, p := range active {
		if p.u.Joint {
			p.base = slices.Clone(p.c.d)
		}
	}
	for k := range steps {
		keep := active[:0]
		var ls []*candidate
		for _, p := range active {
			// Precision is measured against the change of the feature that is worth the whole action.
			if p.next(s.target, k%3 == 2, 1e-4*(p.c.cost/p.c.a.Norm().Weight(p.u))) {
				p.set()
				keep, ls = append(keep, p), append(ls, p.c)
			}
		}
		active = keep
		if err := s.eval(ls, false); err != nil {
			return err
		}
		for _, p := range active {
			p.judge(s.target)
		}
	}
	for _, p := range ps {
		p.c.cost = p.c.a.Cost(p.c.x, p.c.d)
	}
	return nil
}

// leastGain is the share of the cost that a transfer must save to be worth it.
const leastGain = 1e-4

// exchange shifts cost between numeric features: less of the one that gains least margin for its
// cost, as much more of the one that gains most as keeps the margin. With a piecewise linear
// model and the l1 norm a local minimum has at most one numeric change inside its range, so whole transfers
// are tried first.
func (s *search) exchange(ls []*candidate) error {
	const rounds = 4
	active := slices.Clone(ls)
	for range rounds {
		if len(active) == 0 {
			return nil
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		var tries []*candidate
		for _, c := range active {
			tries = s.refits(c, s.fills(c, s.transfers(c, tries)))
		}
		var err error
		if active, err = s.accept(active, tries, leastGain); err != nil {
			return err
		}
		if err := s.shrink(active); err != nil {
			return err
		}
	}
	return nil
}

// attempt adds to tries the copy of c with the action that set makes of its own, when that is cheaper.
func (c *candidate) attempt(tries []*candidate, set func(d []float32)) []*candidate {
	c.attempted = append(c.attempted[:0], c.d...)
	d := c.attempted
	set(d)
	if cost := c.a.Cost(c.x, d); cost < c.cost*(1-leastGain) {
		tries = append(tries, &candidate{person: c.person, of: c, d: slices.Clone(d), cost: cost})
	}
	return tries
}

// transfers tries to shift all or part of the least worthwhile numeric change to the most worthwhile ones.
func (s *search) transfers(c *candidate, tries []*candidate) []*candidate {
	order := c.byEffect()
	if len(order) == 0 {
		return tries
	}
	from, full := order[0], c.full()
	for _, to := range c.mostWorth(from, 2) {
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if full && share < 1 && !to.Changed(c.d) {
				break
			}
			tries = c.attempt(tries, func(d []float32) {
				before := float64(d[from.First])
				d[from.First] = from.Nearest(c.x[from.First], float32(before*(1-share)))
				lost := float64(c.g[from.First]) * (before - float64(d[from.First]))
				slope := float64(c.g[to.First])
				d[to.First] = to.Outward(c.x[to.First], float64(d[to.First])+max(lost*1.03, 0)/slope, slope > 0)
			})
		}
	}
	return tries
}

// fills tries to take a change on a grid one step or all the way back and have one other numeric feature, however
// little it is worth, close the gap. Where the most worthwhile feature has to round up to a coarse grid, a finer one is
// the cheaper way to the rest.
func (s *search) fills(c *candidate, tries []*candidate) []*candidate {
	full := c.full()
	for _, u := range c.byEffect() {
		if u.Step == 0 {
			continue
		}
		before := c.d[u.First]
		for _, at := range slices.Compact([]float32{u.StepBack(before), 0}) {
			gap := float64(s.target-c.margin) + float64(c.g[u.First])*float64(before-at)
			for _, v := range c.a.Numeric() {
				slope, held := float64(c.g[v.First]), c.d[v.First]
				if v == u || full && at != 0 && held == 0 || slope == 0 || slope != slope {
					continue
				}
				to := v.Outward(c.x[v.First], float64(held)+gap*1.001/slope, slope > 0)
				if slope*float64(to-held) >= gap {
					tries = c.attempt(tries, func(d []float32) { d[u.First], d[v.First] = at, to })
				}
			}
		}
	}
	return tries
}

// refits tries the same discrete choices with all numeric changes chosen anew, for the norms under which the best ones
// spread over features: by the closed form for the margin's linearisation, aimed a little beyond it, and with all of
// them scaled down.
func (s *search) refits(c *candidate, tries []*candidate) []*candidate {
	a := c.a
	if a.Norm().IsL1() {
		return tries
	}
	for _, factor := range []float64{0.5, 0.8, 0.9, 0.95, 0.98, 0.995} {
		tries = c.attempt(tries, func(d []float32) {
			for _, u := range c.changedNumbers() {
				d[u.First] = u.Nearest(c.x[u.First], float32(float64(d[u.First])*factor))
			}
		})
	}
	gap, room := float64(s.target-c.margin), a.Limit() // what the numeric changes have to close, and how many may
	fixed := slices.Clone(c.d)
	for _, u := range a.Free() {
		if u.Numeric() {
			gap += float64(c.g[u.First]) * float64(c.d[u.First])
			fixed[u.First] = 0
		} else if u.Changed(c.d) {
			room--
		}
	}
	lines := c.lines(room)
	const little = 1.03 // beyond the gap
	aims := []float64{1, little, 1.1}
	if a.HasRules() { // which hold some features back
		aims = append(aims, 1.25, 1.5, 2, 3)
	}
	for _, beyond := range aims {
		moves, ok := a.Spread(c.x, fixed, lines, gap*beyond)
		if !ok {
			continue
		}
		tries = c.attempt(tries, func(d []float32) { c.spread(d, lines, moves) })
		if beyond != little {
			continue
		}
		for _, part := range []float32{0.5, 0.25, 0.1} { // of the way there, should the margin bend
			tries = c.attempt(tries, func(d []float32) {
				c.spread(d, lines, moves)
				for _, u := range a.Numeric() {
					j := u.First
					d[j] = u.Nearest(c.x[j], c.d[j]+part*(d[j]-c.d[j]))
				}
				a.Project(c.x, d)
			})
		}
	}
	return tries
}

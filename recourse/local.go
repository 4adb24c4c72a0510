package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

type neighbourhood struct {
	*candidate
	undone *constraint.Feature // the change that is taken back altogether
	lines  []constraint.Line   // that may complete it, best first
}

type localTrial struct {
	*neighbourhood
	move           constraint.Move
	cost, estimate float64
	margin         float32
}

func (s *pieceSearch) localSearch() error {
	const rounds = 8
	open := slices.DeleteFunc(slices.Clone(s.people), func(p *applicant) bool { return !(p.lowest < p.searched) })
	for range rounds {
		var around []*neighbourhood
		var bases []*candidate
		for _, p := range open {
			for _, n := range p.neighbourhoods() {
				around, bases = append(around, n), append(bases, n.candidate)
			}
		}
		if err := s.eval(bases, true); err != nil {
			return err
		}
		tries := map[*applicant][]*localTrial{}
		for part := range slices.Chunk(around, 64) {
			if err := s.tryAll(part, tries); err != nil {
				return err
			}
		}
		var starts []*candidate
		for _, p := range open {
			p.searched = p.lowest
			starts = append(starts, mostPromisingTrials(tries[p])...)
		}
		if err := s.strategy.climb(s, starts); err != nil {
			return err
		}
		if err := s.refine(s.cheapest(starts, 1, worthRefining)); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(p *applicant) bool { return !(p.lowest < p.searched*(1-leastGain)) })
	}
	return nil
}

func (p *applicant) neighbourhoods() (out []*neighbourhood) {
	for _, f := range changedOf(p.set.Free(), p.best) {
		ats := []float32{0}
		if f.Numeric() {
			if half := f.Nearest(p.x[f.First], p.best[f.First]/2); half != 0 && half != p.best[f.First] {
				ats = append(ats, half)
			}
		}
		for _, at := range ats {
			n := &neighbourhood{candidate: p.candidate(p.best, false, nil)}
			n.candidate.without(f)
			if n.d[f.First] = at; at == 0 {
				n.undone = f
			}
			n.allow()
			n.price()
			out = append(out, n)
		}
	}
	return out
}

func (s *pieceSearch) tryAll(around []*neighbourhood, tries map[*applicant][]*localTrial) error {
	dim := s.set.Dim()
	var all []localTrial
	for _, n := range around {
		all = n.trials(all)
	}
	s.points = sized(s.points, len(all)*dim)
	ds, points := make([]float32, len(all)*dim), s.points
	for i, t := range all {
		d := row(ds, i, dim)
		copy(d, t.d)
		t.set.Apply(t.move, t.x, d) // one that rules forbid changes nothing, and costs no less than the incumbent
		Point(row(points, i, dim), t.x, d)
	}
	margins, err := judge(s.ctx, s.m, points)
	if err != nil {
		return err
	}
	for i := range all {
		t := &all[i]
		t.margin = margins[i]
		if t.estimated(row(ds, i, dim), s.target); t.estimate <= worthRefining*t.lowest {
			tries[t.applicant] = append(tries[t.applicant], t)
		}
	}
	return nil
}

func (n *neighbourhood) trials(all []localTrial) []localTrial {
	p, set := n.applicant, n.set
	n.lines = n.candidate.lines(len(set.Numeric()))
	add := func(m constraint.Move) {
		_, rise := set.Gain(m, p.x, n.d, n.g)
		if cost := n.cost + rise; cost < p.lowest {
			all = append(all, localTrial{neighbourhood: n, move: m, cost: cost})
		}
	}
	full, numeric := n.full(), n.scannable()
	for _, f := range set.Free() {
		switch held := n.d[f.First]; {
		case full && !f.Changed(n.d):
		case !f.Numeric():
			for _, m := range p.switchesOf(f) {
				add(m)
			}
		case held != 0 || f == n.undone || slices.Contains(numeric, f):
			for _, to := range n.changes(f) {
				if to != held && (f != n.undone || to != p.best[f.First]) {
					add(constraint.Move{Feature: f, To: to})
				}
			}
		}
	}
	return all
}

func (n *neighbourhood) changes(f *constraint.Feature) (ds []float32) {
	_, back := n.set.Gain(constraint.Move{Feature: f}, n.x, n.d, n.g)
	most := n.set.Norm().Left(n.lowest, n.cost+back) / n.set.Norm().Weight(f)
	for _, up := range []bool{false, true} {
		ds = append(ds, n.along(f, up, most, 1./16, 1./8, 1./4, 1./2, 3./4, 0.98)...)
	}
	return ds
}

func (t *localTrial) estimated(d []float32, target float32) {
	n := t.neighbourhood
	gap, rise := float64(target-t.margin), t.margin-n.margin
	switch t.estimate = t.cost; {
	case t.margin != t.margin:
		t.estimate = math.Inf(1)
	case gap > 0:
		slack := n.set.Limit() - n.set.Changed(d)
		t.estimate = n.set.Fill(n.x, d, t.cost, n.lines[:min(len(n.lines), max(slack, 0))], gap)
	case rise > 0 && !math.IsInf(float64(rise), 1):
		t.estimate = n.cost + (t.cost-n.cost)*float64((target-n.margin)/rise)
	}
}

// worthRefining is how much more than the incumbent a start of a local search may cost.
const worthRefining = 1.2

func mostPromisingTrials(ts []*localTrial) (out []*candidate) {
	const most = 8
	slices.SortStableFunc(ts, func(a, b *localTrial) int { return cmp.Compare(a.estimate, b.estimate) })
	for _, t := range ts[:min(len(ts), most)] {
		c := t.applicant.candidate(t.d, false, nil)
		if t.set.Apply(t.move, t.x, c.d) {
			out = append(out, c)
		}
	}
	return out
}

// exchange makes valid candidates cheaper, from the gradient at them, by the actions that propose adds to tries: as
// long as one saves more than the share least of the cost. What then changed goes through finish, unless it is nil.
func (s *pieceSearch) exchange(candidates []*candidate, rounds int, least float64,
	propose func(c *candidate, tries []*candidate) []*candidate, finish func([]*candidate) error,
) error {
	active := slices.Clone(candidates)
	for range rounds {
		if len(active) == 0 {
			break
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		var tries []*candidate
		for _, c := range active {
			tries = propose(c, tries)
		}
		var err error
		if active, err = s.accept(active, tries, least); err != nil {
			return err
		}
		if finish != nil {
			if err := finish(active); err != nil {
				return err
			}
		}
	}
	return nil
}

// accept evaluates tries, whose costs are known, and gives the candidate that each was copied from its action when
// that is valid and saves more than the share least of the candidate's cost. It returns the candidates that changed;
// active is used for them.
func (s *pieceSearch) accept(active, tries []*candidate, least float64) ([]*candidate, error) {
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	better := map[*candidate]bool{}
	for _, t := range tries {
		if c := t.of; valid(t.margin, s.target) && t.cost < c.cost*(1-least) {
			copy(c.d, t.d)
			c.margin, c.cost, better[c] = t.margin, t.cost, true
		}
	}
	return slices.DeleteFunc(active, func(c *candidate) bool { return !better[c] }), nil
}

// leastGain is the share of the cost that a proposal must save to be evaluated.
const leastGain = 1e-4

func (c *candidate) attempt(tries []*candidate, set func(d []float32)) []*candidate {
	c.scratch = append(c.scratch[:0], c.d...)
	d := c.scratch
	set(d)
	if cost := c.set.Cost(c.x, d); cost < c.cost*(1-leastGain) {
		tries = append(tries, &candidate{applicant: c.applicant, of: c, d: slices.Clone(d), cost: cost})
	}
	return tries
}

// refits tries the same discrete choices with all numeric changes chosen again, for the norms under which the best ones
// spread over features: by the closed form for the margin's linearisation, aimed a little beyond it, and with all of
// them scaled down.
func (s *pieceSearch) refits(c *candidate, tries []*candidate) []*candidate {
	set := c.set
	if set.Norm().IsL1() {
		return tries
	}
	for _, factor := range []float64{0.5, 0.8, 0.9, 0.95, 0.98, 0.995} {
		tries = c.attempt(tries, func(d []float32) {
			for _, f := range c.changedNumbers() {
				d[f.First] = f.Nearest(c.x[f.First], float32(float64(d[f.First])*factor))
			}
		})
	}
	gap, most := float64(s.target-c.margin), set.Limit() // what the numeric changes have to close, and how many may
	fixed := slices.Clone(c.d)
	for _, f := range set.Free() {
		if f.Numeric() {
			gap += float64(c.g[f.First]) * float64(c.d[f.First])
			fixed[f.First] = 0
		} else if f.Changed(c.d) {
			most--
		}
	}
	lines := c.lines(most)
	const little = 1.03 // beyond the gap
	aims := []float64{1, little, 1.1}
	if set.HasRules() { // which hold some features back
		aims = append(aims, 1.25, 1.5, 2, 3)
	}
	for _, beyond := range aims {
		moves, ok := set.Spread(c.x, fixed, lines, gap*beyond)
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
				for _, f := range set.Numeric() {
					j := f.First
					d[j] = f.Nearest(c.x[j], c.d[j]+part*(d[j]-c.d[j]))
				}
				set.Project(c.x, d)
			})
		}
	}
	return tries
}

// lineSearch moves one numeric feature of a valid candidate towards a change that is not valid, as
// far as the margin allows: from good towards bad. badMargin may be an estimate.
type lineSearch struct {
	c                     *candidate
	f                     *constraint.Feature
	bad, good             float32
	badMargin, goodMargin float32
	try                   float32
	base                  []float32 // of a feature that others depend on: the action with good in place
}

func (l *lineSearch) set() {
	c := l.c
	if l.base != nil {
		copy(c.d, l.base)
		if c.set.Apply(constraint.Move{Feature: l.f, To: l.try}, c.x, c.d) {
			return
		}
	}
	c.d[l.f.First] = l.try
}

func (l *lineSearch) judge(target float32) {
	c, set := l.c, l.c.set
	good := valid(c.margin, target)
	if good && l.base != nil {
		if good = set.Cost(c.x, c.d) < set.Cost(c.x, l.base); good {
			copy(l.base, c.d)
		}
	}
	if good {
		l.good, l.goodMargin = l.try, c.margin
	} else {
		l.bad, l.badMargin = l.try, c.margin
	}
	if l.base != nil {
		copy(c.d, l.base)
	}
	c.d[l.f.First], c.margin = l.good, l.goodMargin
}

func (l *lineSearch) next(target float32, middle bool, precision float64) bool {
	bad, good := float64(l.bad), float64(l.good)
	if math.Abs(good-bad) <= precision {
		return false
	}
	share := 0.5
	// What is not feasible has a margin of -Inf, which says nothing about how far to go.
	if den := float64(l.goodMargin) - float64(l.badMargin); !middle && den > 0 && !math.IsInf(den, 1) {
		// Aim just inside, so that the next bracket is short on both sides.
		share = min(max((float64(target)-float64(l.badMargin))/den+0.005, 0.02), 0.98)
	}
	at, step := bad+share*(good-bad), l.f.Step
	if step > 0 {
		first, last := math.Round(bad/step), math.Round(good/step)
		lo, hi := min(first, last)+1, max(first, last)-1
		if lo > hi {
			return false
		}
		l.try = l.f.Tick(min(max(math.Round(at/step), lo), hi))
		return true
	}
	l.try = float32(at)
	return l.try != l.bad && l.try != l.good
}

func (s *pieceSearch) narrow(searches []*lineSearch) error {
	const steps = 9
	active := slices.Clone(searches)
	for _, l := range active {
		if l.f.Joint {
			l.base = slices.Clone(l.c.d)
		}
	}
	for k := range steps {
		var candidates []*candidate
		active = slices.DeleteFunc(active, func(l *lineSearch) bool {
			// Precision is measured against the change of the feature that is worth the whole action.
			if !l.next(s.target, k%3 == 2, 1e-4*(l.c.cost/l.c.set.Norm().Weight(l.f))) {
				return true
			}
			l.set()
			candidates = append(candidates, l.c)
			return false
		})
		if err := s.eval(candidates, false); err != nil {
			return err
		}
		for _, l := range active {
			l.judge(s.target)
		}
	}
	for _, l := range searches {
		l.c.price()
	}
	return nil
}

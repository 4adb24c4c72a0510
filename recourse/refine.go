package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// refine makes valid candidates cheaper and updates the incumbents.
func (s *search) refine(ls []*candidate) error {
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
			for _, u := range c.p.a.Free() {
				if !u.Changed(c.d) {
					continue
				}
				t := s.copyOf(c)
				clear(t.d[u.First : u.First+u.Width])
				tries = append(tries, t)
				for _, o := range u.Options(c.p.x) {
					if _, rise := c.p.a.Gain(u.Move(c.p.x, o), c.p.x, c.d, c.d); rise < 0 {
						t := s.copyOf(c)
						u.Set(c.p.x, t.d, o)
						tries = append(tries, t)
					}
				}
			}
		}
		for _, t := range tries {
			t.cost = t.p.a.Cost(t.p.x, t.d)
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
		orders[i] = s.byEffect(c)
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

// byEffect orders the numeric features that the candidate changes by margin per cost.
func (s *search) byEffect(c *candidate) []*constraint.Feature {
	var order []*constraint.Feature
	for _, u := range c.p.a.Free() {
		if u.Numeric() && u.Changed(c.d) {
			order = append(order, u)
		}
	}
	slices.SortStableFunc(order, func(a, b *constraint.Feature) int {
		return cmp.Compare(c.worth(a), c.worth(b))
	})
	return order
}

// worth is the margin that a little more of the candidate's change of a numeric feature gains, per cost.
// An unchanged feature counts in the direction in which it helps.
func (c *candidate) worth(u *constraint.Feature) float64 {
	slope, d := float64(c.g[u.First]), c.d[u.First]
	switch {
	case d == 0:
		slope = math.Abs(slope)
	case d < 0:
		slope = -slope
	}
	return slope / max(c.p.a.Norm().Marginal(u, d), 1e-12)
}

// pull moves one numeric feature of a valid candidate towards a change that is not valid, as
// far as the margin allows: from good towards bad. badM may be an estimate.
type pull struct {
	c           *candidate
	u           *constraint.Feature
	bad, good   float32
	badM, goodM float32
	try         float32
	base        []float32 // of a feature that others depend on: the action with good in place
}

// set tries a change; what rules between features make necessary comes along.
func (p *pull) set() {
	c, j := p.c, p.u.First
	if p.base != nil {
		copy(c.d, p.base)
		if c.p.a.Apply(constraint.Move{Feature: p.u, To: p.try}, c.p.x, c.d) {
			return
		}
	}
	c.d[j] = p.try
}

// judge narrows the bracket by the margin at what was tried, and goes back to the last good change.
func (p *pull) judge(target float32) {
	c, a := p.c, p.c.p.a
	good := valid(c.margin, target)
	if good && p.base != nil {
		if good = a.Cost(c.p.x, c.d) < a.Cost(c.p.x, p.base); good {
			copy(p.base, c.d)
		}
	}
	if good {
		p.good, p.goodM = p.try, c.margin
	} else {
		p.bad, p.badM = p.try, c.margin
	}
	if p.base != nil {
		copy(c.d, p.base)
	}
	c.d[p.u.First], c.margin = p.good, p.goodM
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
			if p.next(s.target, k%3 == 2, 1e-4*(p.c.cost/p.c.p.a.Norm().Weight(p.u))) {
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
		p.c.cost = p.c.p.a.Cost(p.c.p.x, p.c.d)
	}
	return nil
}

// next chooses the change to try and says whether the bracket is still worth narrowing.
func (p *pull) next(target float32, middle bool, precision float64) bool {
	bad, good := float64(p.bad), float64(p.good)
	if math.Abs(good-bad) <= precision {
		return false
	}
	share := 0.5
	// What is not feasible has a margin of -Inf, which says nothing about how far to go.
	if den := float64(p.goodM) - float64(p.badM); !middle && den > 0 && !math.IsInf(den, 1) {
		// Aim just inside, so that the next bracket is short on both sides.
		share = min(max((float64(target)-float64(p.badM))/den+0.005, 0.02), 0.98)
	}
	at := bad + share*(good-bad)
	if p.u.Step > 0 {
		first, last := math.Round(bad/p.u.Step), math.Round(good/p.u.Step)
		n := math.Round(at / p.u.Step)
		lo, hi := min(first, last)+1, max(first, last)-1
		if lo > hi {
			return false
		}
		p.try = p.u.Tick(min(max(n, lo), hi))
		return true
	}
	p.try = float32(at)
	return p.try != p.bad && p.try != p.good
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
			tries = slices.Concat(tries, s.transfers(c), s.fills(c), s.refits(c))
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

// transfers returns the cheaper points that shift all or part of the least worthwhile
// numeric change to the most worthwhile ones.
func (s *search) transfers(c *candidate) []*candidate {
	order := s.byEffect(c)
	if len(order) == 0 {
		return nil
	}
	from := order[0]
	full := c.p.a.Changed(c.d) >= c.p.a.Limit()
	var out []*candidate
	for _, to := range s.mostWorth(c, from, 2) {
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if full && share < 1 && !to.Changed(c.d) {
				break
			}
			t := s.copyOf(c)
			s.transfer(t, c.g, from, to, share)
			if t.cost = t.p.a.Cost(t.p.x, t.d); t.cost < c.cost*(1-leastGain) {
				out = append(out, t)
			}
		}
	}
	return out
}

// transfer takes a share of the change of one numeric feature back and has another make up for the lost margin.
func (s *search) transfer(t *candidate, g []float32, a, b *constraint.Feature, share float64) {
	before := float64(t.d[a.First])
	t.d[a.First] = a.Nearest(t.p.x[a.First], float32(before*(1-share)))
	lost := float64(g[a.First]) * (before - float64(t.d[a.First]))
	slope := float64(g[b.First])
	at := float64(t.d[b.First]) + max(lost*1.03, 0)/slope
	t.d[b.First] = b.Outward(t.p.x[b.First], at, slope > 0)
}

// fills returns the cheaper points that take a change on a grid one step or all the way back and have one other
// numeric feature, however little it is worth, close the gap. Where the most worthwhile feature has to round up to
// a coarse grid, a finer one is the cheaper way to the rest.
func (s *search) fills(c *candidate) []*candidate {
	full := c.p.a.Changed(c.d) >= c.p.a.Limit()
	var out []*candidate
	for _, a := range s.byEffect(c) {
		if a.Step == 0 {
			continue
		}
		before := c.d[a.First]
		back := a.StepBack(before)
		for _, at := range []float32{back, 0} {
			gap := float64(s.target-c.margin) + float64(c.g[a.First])*float64(before-at)
			for _, b := range c.p.a.Free() {
				if b == a || full && at != 0 && !b.Changed(c.d) {
					continue
				}
				if t := s.fill(c, a, at, b, gap); t != nil {
					out = append(out, t)
				}
			}
			if back == 0 {
				break
			}
		}
	}
	return out
}

// fill returns the point where the feature u changes by at and the feature f makes up for the gap, nil when that is
// not cheaper.
func (s *search) fill(c *candidate, u *constraint.Feature, at float32, b *constraint.Feature, gap float64) *candidate {
	slope := float64(c.g[b.First])
	if !b.Numeric() || slope == 0 || slope != slope {
		return nil
	}
	to := b.Outward(c.p.x[b.First], float64(c.d[b.First])+gap*1.001/slope, slope > 0)
	was, held := c.d[u.First], c.d[b.First]
	c.d[u.First], c.d[b.First] = at, to
	defer func() { c.d[u.First], c.d[b.First] = was, held }()
	cost := c.p.a.Cost(c.p.x, c.d)
	if cost >= c.cost*(1-leastGain) || slope*float64(to-held) < gap {
		return nil
	}
	t := s.copyOf(c)
	t.cost = cost
	return t
}

// mostWorth returns the most numeric features, other than from, that gain more margin for their cost than from does
// and have room, best first.
func (s *search) mostWorth(c *candidate, from *constraint.Feature, most int) []*constraint.Feature {
	floor := c.worth(from)
	var best []*constraint.Feature
	for range most {
		var pick *constraint.Feature
		top := floor
		for _, u := range c.p.a.Free() {
			if u == from || !u.Numeric() || slices.Contains(best, u) {
				continue
			}
			slope := float64(c.g[u.First])
			away := float64(c.d[u.First])*slope >= 0
			room := u.End(c.p.x[u.First], slope > 0) != c.d[u.First]
			if v := c.worth(u); away && room && slope != 0 && v > top {
				pick, top = u, v
			}
		}
		if pick == nil {
			break
		}
		best = append(best, pick)
	}
	return best
}

// refits returns points with the same discrete choices whose numeric changes are all chosen anew, for the norms
// under which the best ones spread over features: by the closed form for the margin's linearisation, aimed a little
// beyond it, and with all of them scaled down.
func (s *search) refits(c *candidate) []*candidate {
	a := c.p.a
	if a.Norm().IsL1() {
		return nil
	}
	var out []*candidate
	propose := func(set func(d []float32)) {
		t := s.copyOf(c)
		set(t.d)
		if t.cost = a.Cost(t.p.x, t.d); t.cost < c.cost*(1-leastGain) {
			out = append(out, t)
		}
	}
	for _, factor := range []float64{0.5, 0.8, 0.9, 0.95, 0.98, 0.995} {
		propose(func(d []float32) {
			for _, u := range a.Free() {
				if u.Numeric() && u.Changed(d) {
					d[u.First] = u.Nearest(c.p.x[u.First], float32(float64(d[u.First])*factor))
				}
			}
		})
	}
	gap, room := float64(s.target-c.margin), a.Limit() // what the numeric changes have to close, and how many may
	for _, u := range a.Free() {
		if u.Numeric() {
			gap += float64(c.g[u.First]) * float64(c.d[u.First])
		} else if u.Changed(c.d) {
			room--
		}
	}
	lines := c.lines(room)
	aims := []float64{1, 1.03, 1.1}
	if a.HasRules() { // which hold some features back
		aims = append(aims, 1.25, 1.5, 2, 3)
	}
	for _, beyond := range aims {
		if moves, ok := a.Norm().Spread(lines, gap*beyond); ok {
			propose(func(d []float32) { c.spread(d, lines, moves) })
		}
	}
	return out
}

// spread replaces the numeric changes in d by moves along the lines, as far as the rules between features let them.
func (c *candidate) spread(d []float32, lines []constraint.Line, moves []float64) {
	a := c.p.a
	for _, u := range a.Free() {
		if u.Numeric() {
			d[u.First] = 0
		}
	}
	for i, l := range lines {
		u, at := l.Feature, moves[i]
		if !u.Changed(d) && a.Changed(d) >= a.Limit() {
			continue
		}
		if !l.Up {
			at = -at
		}
		to := a.Allowed(u, c.p.x, d, u.Outward(c.p.x[u.First], at, l.Up))
		a.Apply(constraint.Move{Feature: u, To: to}, c.p.x, d)
	}
}

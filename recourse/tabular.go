package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

func tabular() strategy {
	return strategy{
		phases: []func(*pieceSearch) error{
			(*pieceSearch).searchFactual, (*pieceSearch).feasibilityPhase, (*pieceSearch).expand,
		},
		last: []func(*pieceSearch) error{
			(*pieceSearch).prove, (*pieceSearch).localSearch, (*pieceSearch).perturb, (*pieceSearch).localSearch,
		},
		restart: func(p *applicant, _ float32, weights []float64) *candidate {
			return p.candidate(nil, false, weights)
		},
		climb: func(s *pieceSearch, candidates []*candidate) error {
			return s.climbBy(candidates, climbSteps+1, (*candidate).moveOne)
		},
		scan: (*pieceSearch).scan,
		refinement: []func(*pieceSearch, []*candidate) error{
			(*pieceSearch).simplify, (*pieceSearch).shrink, (*pieceSearch).shiftCost,
			(*pieceSearch).simplify, (*pieceSearch).shrink,
		},
		rush: func(c *candidate, _ float64) { c.greatest() },
	}
}

func (c *candidate) moveOne(target float32) bool {
	if c.last != nil && !(c.margin > c.before.value) {
		f := c.last
		if f.Numeric() && !c.shortened {
			c.shortened = true
			before, after := float64(c.before.d[f.First]), float64(c.d[f.First])
			d := f.Nearest(c.x[f.First], float32(before+(after-before)/4))
			if d != c.before.d[f.First] && d != c.d[f.First] {
				c.d[f.First] = d
				return true
			}
		}
		c.restore()
		c.banned = append(c.banned, c.last)
	}
	c.save()
	c.shortened = false
	return c.advance(float64(target-c.margin)) || c.drop()
}

func (c *candidate) advance(gap float64) bool {
	full := c.full()
	var pick constraint.Move
	best := 0.0
	for _, f := range c.set.Free() {
		if slices.Contains(c.banned, f) || full && !f.Changed(c.d) {
			continue
		}
		weight := 1.0
		if c.weights != nil {
			weight = c.weights[f.Index]
		}
		try := func(m constraint.Move, gain, cost float64) {
			if c.anyCost {
				cost = 1
			}
			// More than the gap is of no use.
			if eff := effectiveness(min(gain, gap), cost) * weight; eff > best {
				best, pick = eff, m
			}
		}
		if f.Numeric() {
			try(c.set.Toward(f, c.x, c.d, c.g, gap))
		} else if !c.onlyNumeric {
			for _, m := range c.switchesOf(f) {
				gain, cost := c.set.Gain(m, c.x, c.d, c.g)
				try(m, gain, cost)
			}
		}
	}
	c.last = pick.Feature
	return pick.Feature != nil && c.set.Apply(pick, c.x, c.d)
}

// effectiveness is gain per cost. Gains that cost nothing come first, larger ones before smaller.
func effectiveness(gain, cost float64) float64 {
	switch {
	case !(gain > 0):
		return 0
	case cost <= 0:
		return 1e12 * (1 + gain)
	}
	return gain / cost
}

// drop takes back the change that achieves least, for another one under the sparsity limit.
func (c *candidate) drop() bool {
	c.last = nil
	if !c.full() {
		return false
	}
	var pick *constraint.Feature
	least := math.Inf(1)
	for _, f := range changedOf(c.set.Free(), c.d) {
		if c.onlyNumeric && !f.Numeric() {
			continue
		}
		gain := 0.0
		for j := f.First; j < f.First+f.Width; j++ {
			if c.d[j] != 0 {
				gain += float64(c.g[j]) * float64(c.d[j])
			}
		}
		if gain < least {
			least, pick = gain, f
		}
	}
	if pick == nil {
		return false
	}
	c.without(pick)
	c.banned = append(c.banned, pick)
	return true
}

func (c *candidate) greatest() {
	gains, moves := map[*constraint.Feature]float64{}, []constraint.Move{}
	zero := c.start.d
	for _, f := range c.set.Free() {
		best, most := constraint.Move{Feature: f}, 0.0
		if f.Numeric() {
			slope := float64(c.g[f.First])
			best.To = c.set.Allowed(f, c.x, zero, f.Farthest(c.x[f.First], slope > 0))
			most = slope * float64(best.To)
		} else {
			for _, m := range c.switchesOf(f) {
				if gain, _ := c.set.Gain(m, c.x, zero, c.g); gain > most {
					best, most = m, gain
				}
			}
		}
		if most > 0 {
			gains[f], moves = most, append(moves, best)
		}
	}
	slices.SortStableFunc(moves, func(a, b constraint.Move) int { return cmp.Compare(gains[b.Feature], gains[a.Feature]) })
	clear(c.d)
	for _, m := range moves {
		if c.full() && !m.Feature.Changed(c.d) {
			continue
		}
		if m.Feature.Numeric() {
			m.To = c.set.Allowed(m.Feature, c.x, c.d, m.To)
		}
		c.set.Apply(m, c.x, c.d)
	}
}

// scanned is the number of numeric features per person that are tried one by one.
const scanned = 12

func (c *candidate) scannable() []*constraint.Feature {
	if len(c.set.Numeric()) <= scanned {
		return c.set.Numeric()
	}
	return c.mostWorth(c.set.Numeric(), scanned)
}

// scan tries single numeric features over their whole range, and returns the cheapest valid point of each line, pulled
// back towards the factual one: under rules, where one feature moves others, and gradients lead elsewhere.
func (s *pieceSearch) scan() ([]*candidate, error) {
	if !s.check.HasRules() {
		return nil, nil
	}
	var tries []*candidate
	var searches []*lineSearch
	for _, p := range s.people {
		for _, f := range p.start.scannable() {
			for _, up := range []bool{false, true} {
				last, most := float32(0), p.lowest/p.set.Norm().Weight(f) // only what costs less than the best action
				for _, d := range p.along(f, up, most, 1./64, 1./32, 1./16, 1./8, 1./4, 1./2, 3./4, 1) {
					p.scratch = sized(p.scratch, len(p.x))
					clear(p.scratch)
					if !p.set.Apply(constraint.Move{Feature: f, To: d}, p.x, p.scratch) {
						continue
					}
					cost := p.set.Cost(p.x, p.scratch)
					if cost >= p.lowest {
						break
					}
					c := &candidate{applicant: p, d: slices.Clone(p.scratch), cost: cost}
					tries = append(tries, c)
					searches = append(searches, &lineSearch{c: c, f: f, bad: last, good: d})
					last = d
				}
			}
		}
	}
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	var found []*candidate
	var narrowed []*lineSearch
	for i, c := range tries {
		l, before := searches[i], c.start.margin // of the point before on the same line
		if l.bad != 0 {
			before = tries[i-1].margin
		}
		if valid(c.margin, s.target) && !valid(before, s.target) {
			l.goodMargin, l.badMargin = c.margin, before
			found, narrowed = append(found, c), append(narrowed, l)
		}
	}
	return found, s.narrow(narrowed)
}

// along returns the changes of a numeric feature at shares of the way to its end, or to the most that is given.
func (p *applicant) along(f *constraint.Feature, up bool, most float64, shares ...float64) (ds []float32) {
	x, last := p.x[f.First], float32(0)
	end := float64(f.Farthest(x, up))
	reach := math.Copysign(min(math.Abs(end), most), end)
	for _, share := range shares {
		if d := f.Outward(x, reach*share, up); d != last {
			ds, last = append(ds, d), d
		}
	}
	return ds
}

func (s *pieceSearch) simplify(candidates []*candidate) error {
	active := slices.Clone(candidates)
	for len(active) > 0 {
		var tries []*candidate
		for _, c := range active {
			for _, f := range changedOf(c.set.Free(), c.d) {
				t := c.clone()
				t.without(f)
				tries = append(tries, t)
				for _, m := range c.switchesOf(f) {
					if _, rise := c.set.Gain(m, c.x, c.d, c.d); rise < 0 {
						t := c.clone()
						m.Set(c.x, t.d)
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

func (s *pieceSearch) shrink(candidates []*candidate) error {
	return s.pullNumbersBack(candidates, math.MaxInt)
}

// pullNumbersBack moves up to most numbers of each candidate towards the person, those that gain least first.
func (s *pieceSearch) pullNumbersBack(candidates []*candidate, most int) error {
	if err := s.eval(candidates, true); err != nil {
		return err
	}
	orders := make([][]*constraint.Feature, len(candidates))
	longest := 0
	for i, c := range candidates {
		orders[i] = c.byEffect()
		longest = max(longest, len(orders[i]))
	}
	for k := range min(longest, most) {
		var searches []*lineSearch
		for i, c := range candidates {
			if k < len(orders[i]) {
				f := orders[i][k]
				l := &lineSearch{c: c, f: f, good: c.d[f.First], goodMargin: c.margin}
				l.badMargin = c.margin - c.g[f.First]*l.good
				searches = append(searches, l)
			}
		}
		if err := s.narrow(searches); err != nil {
			return err
		}
	}
	return nil
}

// shiftCost exchanges numeric changes: less of the one that gains least margin for its cost, as much more of the one
// that gains most as keeps the margin. With a piecewise linear model and the l1 norm a local minimum has at most one
// numeric change inside its range, so whole transfers are tried first.
func (s *pieceSearch) shiftCost(candidates []*candidate) error {
	const rounds = 4
	return s.exchange(candidates, rounds, leastGain, func(c *candidate, tries []*candidate) []*candidate {
		return s.refits(c, s.fills(c, c.transfers(tries)))
	}, s.shrink)
}

func (c *candidate) transfers(tries []*candidate) []*candidate {
	order := c.byEffect()
	if len(order) == 0 {
		return tries
	}
	from, full := order[0], c.full()
	better := slices.DeleteFunc(slices.Clone(c.set.Numeric()), func(f *constraint.Feature) bool {
		slope := float64(c.g[f.First])
		onwards := float64(c.d[f.First])*slope >= 0 && f.End(c.x[f.First], slope > 0) != c.d[f.First]
		return f == from || !onwards || slope == 0 || !(c.worth(f) > c.worth(from))
	})
	for _, to := range c.mostWorth(better, 2) {
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
func (s *pieceSearch) fills(c *candidate, tries []*candidate) []*candidate {
	full := c.full()
	for _, f := range c.byEffect() {
		if f.Step == 0 {
			continue
		}
		before := c.d[f.First]
		for _, at := range slices.Compact([]float32{f.StepBack(before), 0}) {
			gap := float64(s.target-c.margin) + float64(c.g[f.First])*float64(before-at)
			for _, v := range c.set.Numeric() {
				slope, held := float64(c.g[v.First]), c.d[v.First]
				if v == f || full && at != 0 && held == 0 || slope == 0 || slope != slope {
					continue
				}
				to := v.Outward(c.x[v.First], float64(held)+gap*1.001/slope, slope > 0)
				if slope*float64(to-held) >= gap {
					tries = c.attempt(tries, func(d []float32) { d[f.First], d[v.First] = at, to })
				}
			}
		}
	}
	return tries
}

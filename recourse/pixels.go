package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// pixelsFrom is the number of numeric features from which one feature is too little to look at alone: images.
const pixelsFrom = 64

// pixels moves many features between two runs of the model, by the linearised margin, and leaves out what goes feature
// by feature.
func pixels() strategy {
	way := tabular()
	way.last = nil
	way.climb = func(s *pieceSearch, candidates []*candidate) error {
		return s.climbBy(candidates, 2*climbSteps, (*candidate).leap)
	}
	way.scan = nil
	way.refinement = []func(*pieceSearch, []*candidate) error{(*pieceSearch).exchangeMany, (*pieceSearch).dropLeast}
	way.rush, way.patient = (*candidate).ascend, true
	way.keepsNumbers = true
	return way
}

// leap closes a share of the gap by the features that gain most for their cost. The share grows while the margin rises
// about as its gradient says, and where it falls the last leap is taken back and tried with less.
func (c *candidate) leap(target float32) bool {
	const first, least = 0.25, 0.004 // share
	switch {
	case c.share == 0:
		c.share = first
	case c.margin > c.before.value:
		if float64(c.margin-c.before.value) > 0.5*c.share*float64(target-c.before.value) {
			c.share = min(2*c.share, 1)
		}
	default:
		c.restore()
		c.share /= 4
	}
	c.save()
	c.greedyStep(c.d, float64(target-c.margin)*aim*c.share, nil)
	if c.share < least || slices.Equal(c.d, c.before.d) {
		copy(c.d, c.before.d)
		return false
	}
	return true
}

func (c *candidate) ascend(share float64) {
	set := c.set
	moved := set.Changed(c.d)
	for _, m := range c.ratedMoves() {
		f, j := m.f, m.f.First
		changed := f.Changed(c.d)
		if !changed && moved >= set.Limit() {
			continue
		}
		up := m.slope > 0
		step := share * math.Abs(float64(f.Farthest(c.x[j], up)-f.Farthest(c.x[j], !up)))
		to := f.Outward(c.x[j], float64(c.d[j])+math.Copysign(step, m.slope), up)
		if set.Apply(constraint.Move{Feature: f, To: set.Allowed(f, c.x, c.d, to)}, c.x, c.d) && !changed && f.Changed(c.d) {
			moved++
		}
	}
}

// aim is how far beyond the linearised gap a move goes.
const aim = 1.02

type ratedMove struct {
	f     *constraint.Feature
	slope float64
	worth float64 // margin per cost
}

func (c *candidate) greedyStep(d []float32, gap float64, refused func(m ratedMove) bool) {
	set := c.set
	for _, m := range c.ratedMoves() {
		if gap <= 0 {
			break
		}
		f, j := m.f, m.f.First
		if refused != nil && refused(m) || !f.Changed(d) && set.Changed(d) >= set.Limit() {
			continue
		}
		at := float64(d[j])
		to := set.Allowed(f, c.x, d, f.Outward(c.x[j], at+gap/m.slope, m.slope > 0))
		if gain := m.slope * (float64(to) - at); gain > 0 && set.Apply(constraint.Move{Feature: f, To: to}, c.x, d) {
			gap -= gain
		}
	}
}

func (c *candidate) ratedMoves() []ratedMove {
	if c.rated != nil && &c.ratedAt[0] == &c.g[0] {
		return c.rated
	}
	var all []ratedMove
	for _, f := range c.set.Numeric() {
		slope := float64(c.g[f.First])
		if slope == 0 || slope != slope {
			continue
		}
		m := ratedMove{f, slope, math.Abs(slope) / c.set.Norm().Weight(f)}
		if c.weights != nil {
			m.worth *= c.weights[f.Index]
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b ratedMove) int { return cmp.Compare(b.worth, a.worth) })
	c.rated, c.ratedAt = all, c.g
	return all
}

// exchangeMany moves cost from the changes that gain least margin for it to the features that gain most, as much at
// once as the margin bears: a linear program of the linearised margin, of which shorter and shorter ways are tried.
// Under norms other than l1 it solves that of least norm.
func (s *pieceSearch) exchangeMany(candidates []*candidate) error {
	const rounds, least = 12, 1e-3
	return s.exchange(candidates, rounds, least, func(c *candidate, tries []*candidate) []*candidate {
		if !s.set.Norm().IsL1() {
			return s.refits(c, tries)
		}
		for _, share := range []float64{1, 0.5, 0.25, 0.12, 0.06, 0.03} {
			tries = c.attempt(tries, func(d []float32) { c.swap(d, share, float64(s.target-c.margin)) })
		}
		return tries
	}, nil)
}

func (c *candidate) swap(d []float32, share, gap float64) {
	set, norm := c.set, c.set.Norm()
	left := share * c.cost
	undone := map[*constraint.Feature]bool{}
	worst := math.Inf(-1) // of what was undone
	for _, f := range c.byEffect() {
		j := f.First
		before := float64(d[j])
		worth := c.worth(f)
		back := math.Min(math.Abs(before), left/norm.Weight(f))
		to := f.Nearest(c.x[j], float32(before-math.Copysign(back, before)))
		if left <= 0 || to == d[j] || !set.Apply(constraint.Move{Feature: f, To: to}, c.x, d) {
			break
		}
		left -= norm.Weight(f) * math.Abs(before-float64(d[j]))
		gap += float64(c.g[j]) * (before - float64(d[j]))
		undone[f], worst = true, worth
	}
	c.greedyStep(d, gap*aim, func(m ratedMove) bool { return undone[m.f] || m.worth <= worst })
}

func (s *pieceSearch) dropLeast(candidates []*candidate) error {
	if err := s.eval(candidates, true); err != nil {
		return err
	}
	const most = 16
	var tries []*candidate
	for _, c := range candidates {
		d, order := c.d, c.byEffect()
		for _, f := range order[:min(most, len(order))] {
			t := &candidate{applicant: c.applicant, of: c, d: slices.Clone(d)}
			t.set.Apply(constraint.Move{Feature: f}, t.x, t.d)
			t.price()
			d, tries = t.d, append(tries, t)
		}
	}
	if _, err := s.accept(slices.Clone(candidates), tries, 0); err != nil {
		return err
	}
	return s.pullNumbersBack(candidates, 1)
}

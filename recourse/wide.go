package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// wideFrom is the number of numeric features from which one feature is too little to look at alone: images. Searches
// then move many features between two runs of the model, by the linearised margin, and leave out what goes feature by
// feature.
const wideFrom = 64

// wide says whether there are too many numeric features to try them one by one.
func (s *search) wide() bool { return len(s.a.Numeric()) > wideFrom }

// ascend is gradientSearch for many features: each step closes a share of the gap by the features that gain most for
// their cost. The share grows while the margin rises about as its gradient says, and where it falls the step is taken
// back and tried with less.
func (s *search) ascend(ls []*candidate) error {
	const first, least = 0.25, 0.004 // share
	active := slices.Clone(ls)
	for _, c := range active {
		c.share = first
	}
	for step := range 2*s.o.Steps + 1 {
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			c.price()
			if valid(c.margin, s.target) || step == 2*s.o.Steps || c.cost > 1.5*c.lowest {
				return true
			}
			switch {
			case step == 0:
			case c.margin > c.prevM:
				if float64(c.margin-c.prevM) > 0.5*c.share*float64(s.target-c.prevM) {
					c.share = min(2*c.share, 1)
				}
			default:
				copy(c.d, c.prev)
				c.margin, c.g = c.prevM, c.prevG
				c.share /= 4
			}
			copy(c.prev, c.d)
			c.prevM, c.prevG = c.margin, c.g
			c.buy(c.d, float64(s.target-c.margin)*aim*c.share, nil)
			stuck := c.share < least || slices.Equal(c.d, c.prev)
			if stuck {
				copy(c.d, c.prev)
			}
			return stuck
		})
	}
	s.approach(ls)
	return nil
}

// push moves the features of the largest gradients, as many as may change, by a share of their room.
func (c *candidate) push(share float64) {
	a := c.a
	moved := a.Changed(c.d)
	all := c.purchases()
	for _, p := range all {
		u, j := p.u, p.u.First
		changed := u.Changed(c.d)
		if !changed && moved >= a.Limit() {
			continue
		}
		up := p.slope > 0
		step := share * math.Abs(float64(u.Farthest(c.x[j], up)-u.Farthest(c.x[j], !up)))
		to := u.Outward(c.x[j], float64(c.d[j])+math.Copysign(step, p.slope), up)
		if a.Apply(constraint.Move{Feature: u, To: a.Allowed(u, c.x, c.d, to)}, c.x, c.d) && !changed && u.Changed(c.d) {
			moved++
		}
	}
}

// aim is how far beyond the linearised gap a move goes.
const aim = 1.02

// purchase is what moving a feature further gains.
type purchase struct {
	u     *constraint.Feature
	slope float64
	worth float64 // margin per cost
}

// buy moves the features that gain most margin for their cost, by the gradient at the candidate, until they have closed
// the gap, but none that is refused.
func (c *candidate) buy(d []float32, gap float64, refused func(p purchase) bool) {
	a := c.a
	for _, p := range c.purchases() {
		if gap <= 0 {
			break
		}
		u, j := p.u, p.u.First
		if refused != nil && refused(p) || !u.Changed(d) && a.Changed(d) >= a.Limit() {
			continue
		}
		at := float64(d[j])
		to := a.Allowed(u, c.x, d, u.Outward(c.x[j], at+gap/p.slope, p.slope > 0))
		if gain := p.slope * (float64(to) - at); gain > 0 && a.Apply(constraint.Move{Feature: u, To: to}, c.x, d) {
			gap -= gain
		}
	}
}

// purchases are the numeric features that can raise the linearised margin, those that gain most for their cost first.
func (c *candidate) purchases() []purchase {
	if c.shop != nil && &c.shopG[0] == &c.g[0] {
		return c.shop
	}
	var all []purchase
	for _, u := range c.a.Numeric() {
		j := u.First
		slope := float64(c.g[j])
		if slope == 0 || slope != slope {
			continue
		}
		p := purchase{u: u, slope: slope, worth: math.Abs(slope) / c.a.Norm().Weight(u)}
		if c.weights != nil {
			p.worth *= c.weights[u.Index]
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b purchase) int { return -cmp.Compare(a.worth, b.worth) })
	c.shop, c.shopG = all, c.g
	return all
}

// trade makes valid candidates cheaper by moving cost from the changes that gain least margin for it to the features
// that gain most, as much at once as the margin bears: a linear program of the linearised margin, of which shorter and
// shorter ways are tried. Under norms other than l1 it solves that of least norm.
func (s *search) trade(ls []*candidate) error {
	const rounds = 12
	active := slices.Clone(ls)
	for range rounds {
		if len(active) == 0 {
			break
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		var tries []*candidate
		for _, c := range active {
			if !s.a.Norm().IsL1() {
				tries = s.refits(c, tries)
				continue
			}
			for _, share := range []float64{1, 0.5, 0.25, 0.12, 0.06, 0.03} {
				tries = c.attempt(tries, func(d []float32) { c.swap(d, share, float64(s.target-c.margin)) })
			}
		}
		var err error
		if active, err = s.accept(active, tries, leastTrade); err != nil {
			return err
		}
	}
	return nil
}

// leastTrade is the share of the cost that a trade must save to be worth another.
const leastTrade = 1e-3

// swap takes changes back that are worth least, up to the share of the candidate's cost, and buys the margin that is
// lost, together with the gap, from the features that are worth more.
func (c *candidate) swap(d []float32, share, gap float64) {
	a, norm := c.a, c.a.Norm()
	left := share * c.cost
	sold := map[*constraint.Feature]bool{}
	worst := math.Inf(-1) // of what was sold
	for _, u := range c.byEffect() {
		j := u.First
		before := float64(d[j])
		worth := c.worth(u)
		back := math.Min(math.Abs(before), left/norm.Weight(u))
		to := u.Nearest(c.x[j], float32(before-math.Copysign(back, before)))
		if left <= 0 || to == d[j] || !a.Apply(constraint.Move{Feature: u, To: to}, c.x, d) {
			break
		}
		left -= norm.Weight(u) * math.Abs(before-float64(d[j]))
		gap += float64(c.g[j]) * (before - float64(d[j]))
		sold[u], worst = true, worth
	}
	c.buy(d, gap*aim, func(p purchase) bool { return sold[p.u] || p.worth <= worst })
}

// refineWide is refine for many features.
func (s *search) refineWide(ls []*candidate) error {
	for _, stage := range []func([]*candidate) error{s.trade, s.dropLeast} {
		if err := stage(ls); err != nil {
			return err
		}
	}
	s.updateIncumbent(ls)
	return nil
}

// dropLeast takes back as many changes as the margin bears, those of least worth first, and then as much of the next
// one.
func (s *search) dropLeast(ls []*candidate) error {
	if err := s.eval(ls, true); err != nil {
		return err
	}
	const most = 16
	var tries []*candidate
	for _, c := range ls {
		t := c
		for _, u := range c.byEffect()[:min(most, len(c.byEffect()))] {
			t = &candidate{person: c.person, of: c, d: slices.Clone(t.d)}
			t.a.Apply(constraint.Move{Feature: u}, t.x, t.d)
			t.price()
			tries = append(tries, t)
		}
	}
	if _, err := s.accept(slices.Clone(ls), tries, 0); err != nil {
		return err
	}
	if err := s.eval(ls, true); err != nil {
		return err
	}
	var ps []*pull
	for _, c := range ls {
		if order := c.byEffect(); len(order) > 0 {
			u := order[0]
			d := c.d[u.First]
			ps = append(ps, &pull{c: c, u: u, good: d, goodM: c.margin, badM: c.margin - c.g[u.First]*d})
		}
	}
	return s.narrow(ps)
}

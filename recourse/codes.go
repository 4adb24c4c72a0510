package recourse

import (
	"cmp"
	"math"
	"slices"
)

// coded says whether people move in a space of codes, all of which have a say in everything: a search looks at all of
// them together, and tries few points, each of which a decoder has to run for.
func (s *search) coded() bool { return s.a.Task().Latent != nil }

// shortest is gradientSearch for codes. Each step goes towards the next point at which the linearised margin is
// the target, no further than a length that grows; from the first valid point on, towards that of least (weighted l2)
// norm, by a length that becomes less and less. Where actions have a limit, the linearised limit is kept, too, and the
// length becomes less where a step left the limit or lost margin. A candidate ends at the cheapest valid point that it
// came by.
//
// Reference: Hasofer, Lind, Rackwitz and Fiessler's algorithm for the most probable point of failure.
func (s *search) shortest(ls []*candidate) error {
	const steps, grow, decay, back, first = 40, 1.1, 0.85, 0.5, 0.25
	if len(ls) == 0 {
		return nil
	}
	reach, found := make([]float64, len(ls)), make([]*candidate, len(ls))
	around, before := make([]linearised, len(ls)), make([]float32, len(ls))
	for i, c := range ls {
		around[i].margin = c.atStart()
	}
	for step := range steps + 1 {
		if err := s.eval(ls, true); err != nil {
			return err
		}
		limits, err := s.limits(ls)
		if err != nil {
			return err
		}
		for i, c := range ls {
			c.price()
			if valid(c.margin, s.target) && (found[i] == nil || c.cost < found[i].cost) {
				found[i] = &candidate{d: slices.Clone(c.d), cost: c.cost, margin: c.margin}
			}
			if step == steps {
				continue
			}
			at := plane{d: slices.Clone(c.d), value: c.margin, g: c.g}
			if limits != nil && limits[i] < 0 && c.margin >= limits[i] {
				around[i].limit = &at
			} else {
				around[i].margin = at
			}
			to, length := c.nearest(&around[i], s.target, found[i] == nil)
			switch {
			case step == 0:
				reach[i] = first * length
			case found[i] != nil:
				reach[i] *= decay
			case limits != nil && c.margin < before[i]:
				reach[i] *= back
			default:
				reach[i] = min(reach[i]*grow, length)
			}
			before[i] = c.margin
			c.towards(to, min(1, reach[i]/length))
		}
	}
	s.approach(ls)
	for i, c := range ls {
		if f := found[i]; f != nil {
			copy(c.d, f.d)
			c.cost, c.margin = f.cost, f.margin
		}
	}
	return nil
}

// limits tells what is left of what limits the margins of the candidates, below 0 where it is exceeded; nil where
// nothing limits them.
func (s *search) limits(ls []*candidate) ([]float32, error) {
	m, ok := s.m.(within)
	if !ok {
		return nil, nil
	}
	dim := s.a.Dim()
	x := make([]float32, len(ls)*dim)
	for i, c := range ls {
		Point(row(x, i, dim), c.x, c.d)
	}
	_, limits, err := m.Limits(s.ctx, x)
	return limits, err
}

// plane is a value at an action, and its gradient there.
type plane struct {
	d     []float32
	value float32
	g     []float32
}

// atStart is the margin of the person as they are.
func (p *person) atStart() plane { return plane{p.start.d, p.start.margin, p.start.g} }

// linearised are the last planes of a candidate's margin, and of its limit, which is not below 0 in what is allowed.
type linearised struct {
	margin plane
	limit  *plane // nil where it was never exceeded
}

// nearest is the action of least norm, or the one next to the candidate's, at which the linearised margin is the
// target, and the linearised limit kept, by numeric feature, and how long the way there is.
func (c *candidate) nearest(l *linearised, target float32, from bool) (to []float64, length float64) {
	numeric, norm := c.a.Numeric(), c.a.Norm()
	base := func(j int) float64 {
		if from {
			return float64(c.d[j])
		}
		return 0
	}
	gap := func(p *plane, target float32) float64 { // from the base to the target
		sum := float64(target - p.value)
		for _, u := range numeric {
			sum += float64(p.g[u.First]) * (float64(p.d[u.First]) - base(u.First))
		}
		return sum
	}
	product := func(p, q *plane) (sum float64) {
		for _, u := range numeric {
			w := norm.Weight(u)
			sum += float64(p.g[u.First]) * float64(q.g[u.First]) / (w * w)
		}
		return sum
	}
	m, bound := &l.margin, l.limit
	// The way is a sum of both gradients, each by a share.
	square, missing := product(m, m), gap(m, target)
	margin, limit, of := missing, 0.0, square
	if bound != nil {
		both, own, room := product(m, bound), product(bound, bound), gap(bound, 0)
		if det := square*own - both*both; both*missing < room*square && own > 0 {
			if margin, limit, of = 0, room, own; det > 1e-6*square*own {
				margin, limit, of = own*missing-both*room, square*room-both*missing, det
			}
		}
	}
	for _, u := range numeric {
		j, w := u.First, norm.Weight(u)
		v := 0.0
		if of > 0 {
			v = float64(m.g[j]) / (w * w) * margin / of
		}
		if limit != 0 {
			v += float64(bound.g[j]) / (w * w) * limit / of
		}
		v += base(j)
		to, length = append(to, v), math.Hypot(length, w*(v-float64(c.d[j])))
	}
	return to, max(length, 1e-12)
}

// towards takes a share of the way.
func (c *candidate) towards(to []float64, share float64) {
	for k, u := range c.a.Numeric() {
		j := u.First
		c.d[j] = u.Nearest(c.x[j], c.d[j]+float32(share*(to[k]-float64(c.d[j]))))
	}
	c.a.Project(c.x, c.d)
}

// scattered starts a candidate at a random point about as far away as the gradient says that it has to go.
func (p *person) scattered(target float32) *candidate {
	c := p.candidate(nil, false, nil)
	_, length := c.nearest(&linearised{margin: p.atStart()}, target, true)
	numeric := c.a.Numeric()
	for _, u := range numeric {
		j, size := u.First, length/c.a.Norm().Weight(u)/math.Sqrt(float64(min(len(numeric), c.a.Limit())))
		c.d[j] = u.Nearest(c.x[j], float32(p.rng.NormFloat64()*size))
	}
	c.a.Project(c.x, c.d)
	return c
}

// sample tries random points for people without an action that is allowed so far, and for all where few codes may
// change, and searches from the best ones and from others: within limits the way may be far from where the gradient
// leads, or among codes that it says little of.
func (s *search) sample() error {
	const points, others, best, halvings = 256, 12, 4, 4
	var ls []*candidate
	few := s.a.Limit() < len(s.a.Numeric())
	for _, p := range s.people {
		check := s.check.Person(s.first + p.row)
		if !few && !math.IsInf(p.lowest, 1) && check.Consistent(p.x, p.best) {
			continue
		}
		tries := make([]*candidate, points)
		for i := range tries {
			c := p.scattered(s.target)
			for j := range c.d {
				c.d[j] = float32(math.Ldexp(float64(c.d[j]), 1-i%halvings))
			}
			check.Project(c.x, c.d)
			tries[i] = c
		}
		if err := s.eval(tries, false); err != nil {
			return err
		}
		slices.SortStableFunc(tries[others:], func(a, b *candidate) int { return cmp.Compare(b.margin, a.margin) })
		ls = append(ls, tries[:others+best]...)
	}
	if err := s.alternate(ls); err != nil {
		return err
	}
	if err := s.gradientSearch(ls); err != nil {
		return err
	}
	return s.refine(s.cheapest(ls, 1, 1))
}

// alternate moves candidates until they are valid: up the lesser of margin and limit, by steps that become shorter,
// with momentum, which finds the way between the two.
func (s *search) alternate(ls []*candidate) error {
	const steps, furthest, momentum = 120, 0.3, 0.9
	type state struct {
		length float64
		by     []float64
	}
	of := make(map[*candidate]*state, len(ls))
	active := slices.Clone(ls)
	for step := range steps {
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			if valid(c.margin, s.target) {
				return true
			}
			numeric, norm := c.a.Numeric(), c.a.Norm()
			m := of[c]
			if m == nil {
				_, length := c.nearest(&linearised{margin: c.atStart()}, s.target, true)
				m = &state{furthest * length, make([]float64, len(numeric))}
				of[c] = m
			}
			size := 0.0
			for _, u := range numeric {
				size = math.Hypot(size, float64(c.g[u.First])/norm.Weight(u))
			}
			to := make([]float64, len(numeric))
			share := m.length * (1 - float64(step)/steps)
			for k, u := range numeric {
				w := norm.Weight(u)
				m.by[k] = momentum*m.by[k] + (1-momentum)*float64(c.g[u.First])/w/max(size, 1e-12)
				to[k] = float64(c.d[u.First]) + share*m.by[k]/w
			}
			c.towards(to, 1)
			return false
		})
	}
	return nil
}

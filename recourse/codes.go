package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/internal/lists"
)

// codes searches a space of codes, all of which have a say in everything: it looks at all of them together, and tries
// few points, each of which a decoder has to run for. What is valid is refined as way does it.
func codes(way strategy) strategy {
	way.phases = []func(*pieceSearch) error{
		(*pieceSearch).searchFactual, (*pieceSearch).sample, (*pieceSearch).feasibilityPhase, (*pieceSearch).expand,
	}
	way.restart = func(p *applicant, target float32, _ []float64) *candidate { return p.scattered(target) }
	way.climb = (*pieceSearch).shortest
	way.scan, way.last = nil, nil
	return way
}

// shortest is the gradient search for codes. Each step goes towards the next point at which the linearised margin is
// the target, no further than a length that grows; from the first valid point on, towards that of least (weighted l2)
// norm, by a length that becomes less and less. Where actions have a limit, the linearised limit is kept, too, and the
// length becomes less where a step left the limit or lost margin. A candidate ends at the cheapest valid point that it
// came by.
//
// Reference: Hasofer, Lind, Rackwitz and Fiessler's algorithm for the most probable point of failure.
func (s *pieceSearch) shortest(candidates []*candidate) error {
	const steps, grow, decay, back, first = 40, 1.1, 0.85, 0.5, 0.25
	if len(candidates) == 0 {
		return nil
	}
	reach, found := make([]float64, len(candidates)), make([]*candidate, len(candidates))
	around, before := make([]nearPlanes, len(candidates)), make([]float32, len(candidates))
	for i, c := range candidates {
		around[i].margin = c.start.linearized()
	}
	for step := range steps + 1 {
		if err := s.eval(candidates, true); err != nil {
			return err
		}
		limits, err := s.limits(candidates)
		if err != nil {
			return err
		}
		for i, c := range candidates {
			c.price()
			if valid(c.margin, s.target) && (found[i] == nil || c.cost < found[i].cost) {
				found[i] = &candidate{d: slices.Clone(c.d), cost: c.cost, margin: c.margin}
			}
			if step == steps {
				continue
			}
			at := linearization{d: slices.Clone(c.d), value: c.margin, g: c.g}
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
	s.approach(candidates)
	for i, c := range candidates {
		if f := found[i]; f != nil {
			copy(c.d, f.d)
			c.cost, c.margin = f.cost, f.margin
		}
	}
	return nil
}

func (s *pieceSearch) limits(candidates []*candidate) ([]float32, error) {
	m, ok := s.m.(within)
	if !ok {
		return nil, nil
	}
	dim := s.set.Dim()
	x := make([]float32, len(candidates)*dim)
	for i, c := range candidates {
		Point(row(x, i, dim), c.x, c.d)
	}
	_, limits, err := m.Limits(s.ctx, x)
	return limits, err
}

// nearPlanes are the last linearizations of a candidate's margin, and of its limit, which is not below 0 in what is
// allowed.
type nearPlanes struct {
	margin linearization
	limit  *linearization // nil where it was never exceeded
}

// nearest is the action of least norm, or the one next to the candidate's, at which the linearised margin is the
// target, and the linearised limit kept, by numeric feature, and how long the way there is.
func (c *candidate) nearest(l *nearPlanes, target float32, from bool) (to []float64, length float64) {
	numeric, norm := c.set.Numeric(), c.set.Norm()
	base := func(j int) float64 {
		if from {
			return float64(c.d[j])
		}
		return 0
	}
	gap := func(p *linearization, target float32) float64 { // from the base to the target
		sum := float64(target - p.value)
		for _, f := range numeric {
			sum += float64(p.g[f.First]) * (float64(p.d[f.First]) - base(f.First))
		}
		return sum
	}
	product := func(p, q *linearization) (sum float64) {
		for _, f := range numeric {
			w := norm.Weight(f)
			sum += float64(p.g[f.First]) * float64(q.g[f.First]) / (w * w)
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
	for _, f := range numeric {
		j, w := f.First, norm.Weight(f)
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

func (c *candidate) towards(to []float64, share float64) {
	for k, f := range c.set.Numeric() {
		j := f.First
		c.d[j] = f.Nearest(c.x[j], c.d[j]+float32(share*(to[k]-float64(c.d[j]))))
	}
	c.set.Project(c.x, c.d)
}

func (p *applicant) scattered(target float32) *candidate {
	c := p.candidate(nil, false, nil)
	_, length := c.nearest(&nearPlanes{margin: p.start.linearized()}, target, true)
	numeric := c.set.Numeric()
	for _, f := range numeric {
		j, size := f.First, length/c.set.Norm().Weight(f)/math.Sqrt(float64(min(len(numeric), c.set.Limit())))
		c.d[j] = f.Nearest(c.x[j], float32(p.rng.NormFloat64()*size))
	}
	c.set.Project(c.x, c.d)
	return c
}

// sample tries random points for people without an action that is allowed so far, and for all where few codes may
// change, and searches from the best ones and from others: within limits the way may be far from where the gradient
// leads, or among codes that it says little of.
func (s *pieceSearch) sample() error {
	const points, others, best, halvings = 256, 12, 4, 4
	var candidates []*candidate
	few := s.set.Limit() < len(s.set.Numeric())
	for _, p := range s.people {
		check := s.check.Person(s.first + p.row)
		if !few && !math.IsInf(p.lowest, 1) && check.Consistent(p.x, p.best) {
			continue
		}
		tries := lists.Make(points, func(i int) *candidate {
			c := p.scattered(s.target)
			for j := range c.d {
				c.d[j] = float32(math.Ldexp(float64(c.d[j]), 1-i%halvings))
			}
			check.Project(c.x, c.d)
			return c
		})
		if err := s.eval(tries, false); err != nil {
			return err
		}
		slices.SortStableFunc(tries[others:], func(a, b *candidate) int { return cmp.Compare(b.margin, a.margin) })
		candidates = append(candidates, tries[:others+best]...)
	}
	if err := s.alternate(candidates); err != nil {
		return err
	}
	if err := s.strategy.climb(s, candidates); err != nil {
		return err
	}
	return s.refine(s.cheapest(candidates, 1, 1))
}

// alternate moves candidates until they are valid: up the lesser of margin and limit, by steps that become shorter,
// with momentum, which finds the way between the two.
func (s *pieceSearch) alternate(candidates []*candidate) error {
	const steps, furthest, momentum = 120, 0.3, 0.9
	lengths, speeds := map[*candidate]float64{}, map[*candidate][]float64{}
	active := slices.Clone(candidates)
	for step := range steps {
		if err := s.eval(active, true); err != nil {
			return err
		}
		active = slices.DeleteFunc(active, func(c *candidate) bool {
			if valid(c.margin, s.target) {
				return true
			}
			numeric, norm := c.set.Numeric(), c.set.Norm()
			if speeds[c] == nil {
				_, length := c.nearest(&nearPlanes{margin: c.start.linearized()}, s.target, true)
				lengths[c], speeds[c] = furthest*length, make([]float64, len(numeric))
			}
			speed := speeds[c]
			size := 0.0
			for _, f := range numeric {
				size = math.Hypot(size, float64(c.g[f.First])/norm.Weight(f))
			}
			to := make([]float64, len(numeric))
			share := lengths[c] * (1 - float64(step)/steps)
			for k, f := range numeric {
				w := norm.Weight(f)
				speed[k] = momentum*speed[k] + (1-momentum)*float64(c.g[f.First])/w/max(size, 1e-12)
				to[k] = float64(c.d[f.First]) + share*speed[k]/w
			}
			c.towards(to, 1)
			return false
		})
	}
	return nil
}

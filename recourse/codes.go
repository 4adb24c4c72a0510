package recourse

import (
	"math"
	"slices"
)

// coded says whether people move in a space of codes, all of which have a say in everything: a search looks at all of
// them together, and tries few points, each of which a decoder has to run for.
func (s *search) coded() bool { return s.a.Task().Latent != nil }

// shortest is gradientSearch for codes. Each step goes towards the next point at which the linearised margin is
// the target, no further than a length that grows; from the first valid point on, towards that of least (weighted l2)
// norm, by a length that becomes less and less. A candidate ends at the cheapest valid point that it came by.
//
// Reference: Hasofer, Lind, Rackwitz and Fiessler's algorithm for the most probable point of failure.
func (s *search) shortest(ls []*candidate) error {
	const steps, grow, decay, first = 40, 1.1, 0.85, 0.25
	reach, found := make([]float64, len(ls)), make([]*candidate, len(ls))
	for step := range steps + 1 {
		if err := s.eval(ls, true); err != nil {
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
			to, length := c.nearest(s.target, found[i] == nil)
			switch {
			case step == 0:
				reach[i] = first * length
			case found[i] == nil:
				reach[i] = min(reach[i]*grow, length)
			default:
				reach[i] *= decay
			}
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

// nearest is the action of least norm, or the one next to the candidate's, at which the linearised margin is the
// target, by numeric feature, and how long the way there is.
func (c *candidate) nearest(target float32, from bool) (to []float64, length float64) {
	gap, square := float64(target-c.margin), 0.0
	for _, u := range c.a.Numeric() {
		g, w := float64(c.g[u.First]), c.a.Norm().Weight(u)
		if !from {
			gap += g * float64(c.d[u.First])
		}
		square += g * g / (w * w)
	}
	for _, u := range c.a.Numeric() {
		w := c.a.Norm().Weight(u)
		v := 0.0
		if square > 0 {
			v = float64(c.g[u.First]) / (w * w) * gap / square
		}
		if from {
			v += float64(c.d[u.First])
		}
		to = append(to, v)
		length = math.Hypot(length, w*(v-float64(c.d[u.First])))
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
	_, length := p.start.nearest(target, true)
	numeric := c.a.Numeric()
	for _, u := range numeric {
		j, size := u.First, length/c.a.Norm().Weight(u)/math.Sqrt(float64(len(numeric)))
		c.d[j] = u.Nearest(c.x[j], float32(p.rng.NormFloat64()*size))
	}
	c.a.Project(c.x, c.d)
	return c
}

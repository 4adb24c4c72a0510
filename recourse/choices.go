package recourse

import (
	"cmp"
	"math"
	"slices"
)

func (s *pieceSearch) expand() error {
	for range s.o.Rounds {
		var children []*candidate
		by := map[*applicant][]*candidate{}
		for _, p := range s.people {
			by[p] = s.switches(p)
			children = append(children, by[p]...)
		}
		if len(children) == 0 {
			return nil
		}
		if err := s.eval(children, true); err != nil {
			return err
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
		if err := s.strategy.climb(s, starts); err != nil {
			return err
		}
		for _, c := range children {
			if valid(c.margin, s.target) {
				starts = append(starts, c)
			}
		}
		if err := s.refine(s.cheapest(starts, 2, 1.5)); err != nil {
			return err
		}
		if err := s.keepBest(); err != nil {
			return err
		}
	}
	return nil
}

func mostPromising(candidates []*candidate, most int) []*candidate {
	slices.SortStableFunc(candidates, func(a, b *candidate) int { return cmp.Compare(a.estimate, b.estimate) })
	return candidates[:min(len(candidates), most)]
}

func (s *pieceSearch) keepBest() error {
	var added []*candidate
	for _, p := range s.people {
		if math.IsInf(p.lowest, 1) {
			continue
		}
		c := &candidate{applicant: p, d: slices.Clone(p.best)}
		for _, f := range p.set.Numeric() {
			c.d[f.First] = 0
		}
		if p.visit(c.d) {
			c.price()
			p.kept, added = append(p.kept, c), append(added, c)
		}
	}
	return s.eval(added, true)
}

// switches returns the new discrete choices that are one switch away from those kept, are within the
// sparsity limit and cost less than the best action; of too many, the most promising by the gradient.
func (s *pieceSearch) switches(p *applicant) []*candidate {
	parents := p.kept
	if p.seen == nil {
		p.visit(p.start.d)
		parents = []*candidate{&p.start}
	}
	var out []*candidate
	d := make([]float32, s.set.Dim())
	for _, from := range parents {
		full := from.full()
		for _, f := range p.set.Free() {
			if full && !f.Changed(from.d) || s.strategy.keepsNumbers && f.Numeric() {
				continue
			}
			for _, m := range p.switchesOf(f) {
				gain, rise := p.set.Gain(m, p.x, from.d, from.g)
				if from.cost+rise >= p.lowest || gain == 0 && rise == 0 {
					continue
				}
				copy(d, from.d)
				if !p.set.Apply(m, p.x, d) || !p.visit(d) {
					continue
				}
				c := &candidate{applicant: p, d: slices.Clone(d), cost: p.set.Cost(p.x, d), g: from.g, margin: from.margin}
				c.estimate = s.completion(c, gain)
				out = append(out, c)
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
func (s *pieceSearch) completion(c *candidate, gain float64) float64 {
	gap := float64(s.target-c.margin) - gain
	if !(gap > 0) {
		return c.cost
	}
	return c.set.Fill(c.x, c.d, c.cost, c.lines(c.set.Limit()-c.set.Changed(c.d)), gap)
}

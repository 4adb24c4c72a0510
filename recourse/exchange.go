package recourse

import "slices"

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

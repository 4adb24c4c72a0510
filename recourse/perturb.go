package recourse

import (
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// perturb starts gradient searches near the incumbents and from the factual points, see [applicant.perturbed]. It goes
// on for those whom it helps, and ends for a person when searches come back to the incumbent, which speaks against a
// better one, or after as many as the incumbent's changes are worth.
func (s *pieceSearch) perturb() error {
	const rounds, perChange, returns, futile = 200, 8, 2, 30
	open := slices.Clone(s.people)
	for _, p := range open {
		p.stage = p.firstStage()
	}
	for range rounds {
		var candidates []*candidate
		before := map[*applicant]float64{}
		for _, p := range open {
			before[p] = p.shortfall(s.target)
			candidates = append(candidates, p.perturbed()...)
		}
		if err := s.strategy.climb(s, candidates); err != nil {
			return err
		}
		refined := s.cheapest(candidates, 1, 1.5)
		if err := s.refine(refined); err != nil {
			return err
		}
		for _, c := range refined {
			if c.cost <= c.lowest*(1+leastGain) {
				c.returned++
			}
		}
		open = slices.DeleteFunc(open, func(p *applicant) bool {
			if p.stage++; p.shortfall(s.target) < before[p]*(1-leastGain) {
				p.stage, p.returned = p.firstStage(), 0
			}
			if math.IsInf(p.lowest, 1) {
				return p.stage == futile
			}
			return p.returned >= returns || p.stage >= perChange*p.set.Changed(p.best)
		})
	}
	return nil
}

// shortfall is what the incumbent can be bettered by: its cost or, beyond any cost, what its margin lacks.
func (p *applicant) shortfall(target float32) float64 {
	if math.IsInf(p.lowest, 1) {
		return 1e30 * (1 + float64(target-p.bestMargin))
	}
	return p.lowest
}

// firstStage is where the perturbation begins: localSearch has taken single changes back already.
func (p *applicant) firstStage() int {
	if math.IsInf(p.lowest, 1) {
		return 0
	}
	return 2
}

// perturbed returns starts near the incumbent: without one of the features that it changes, which stays out then;
// at the next stage without two of them; then, with random feature weights, without up to three and from the factual
// point.
func (p *applicant) perturbed() (candidates []*candidate) {
	changed := changedOf(p.set.Free(), p.best)
	none := math.IsInf(p.lowest, 1)
	start := func(from []float32, weights []float64, without ...*constraint.Feature) {
		c := p.candidate(from, false, weights)
		c.anyCost = none
		for _, f := range without {
			c.without(f)
			c.banned = append(c.banned, f)
		}
		c.allow()
		candidates = append(candidates, c)
	}
	switch p.stage {
	case 0:
		for _, f := range changed {
			start(p.best, nil, f)
		}
	case 1:
		for i, f := range changed {
			for _, v := range changed[:i] {
				start(p.best, nil, f, v)
			}
		}
	default:
		climbs := 2
		if none {
			climbs = 4
		}
		for range climbs {
			start(nil, p.randomWeights())
			p.rng.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
			start(p.best, p.randomWeights(), changed[:min(len(changed), 1+p.rng.IntN(3))]...)
		}
	}
	return candidates
}

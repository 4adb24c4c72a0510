package recourse

import (
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// lineSearch moves one numeric feature of a valid candidate towards a change that is not valid, as
// far as the margin allows: from good towards bad. badMargin may be an estimate.
type lineSearch struct {
	c                     *candidate
	f                     *constraint.Feature
	bad, good             float32
	badMargin, goodMargin float32
	try                   float32
	base                  []float32 // of a feature that others depend on: the action with good in place
}

func (c *candidate) pullBack(f *constraint.Feature) *lineSearch {
	d := c.d[f.First]
	return &lineSearch{c: c, f: f, good: d, goodMargin: c.margin, badMargin: c.margin - c.g[f.First]*d}
}

func (l *lineSearch) set() {
	c := l.c
	if l.base != nil {
		copy(c.d, l.base)
		if c.set.Apply(constraint.Move{Feature: l.f, To: l.try}, c.x, c.d) {
			return
		}
	}
	c.d[l.f.First] = l.try
}

func (l *lineSearch) judge(target float32) {
	c, set := l.c, l.c.set
	good := valid(c.margin, target)
	if good && l.base != nil {
		if good = set.Cost(c.x, c.d) < set.Cost(c.x, l.base); good {
			copy(l.base, c.d)
		}
	}
	if good {
		l.good, l.goodMargin = l.try, c.margin
	} else {
		l.bad, l.badMargin = l.try, c.margin
	}
	if l.base != nil {
		copy(c.d, l.base)
	}
	c.d[l.f.First], c.margin = l.good, l.goodMargin
}

func (l *lineSearch) next(target float32, middle bool, precision float64) bool {
	bad, good := float64(l.bad), float64(l.good)
	if math.Abs(good-bad) <= precision {
		return false
	}
	share := 0.5
	// What is not feasible has a margin of -Inf, which says nothing about how far to go.
	if den := float64(l.goodMargin) - float64(l.badMargin); !middle && den > 0 && !math.IsInf(den, 1) {
		// Aim just inside, so that the next bracket is short on both sides.
		share = min(max((float64(target)-float64(l.badMargin))/den+0.005, 0.02), 0.98)
	}
	at, step := bad+share*(good-bad), l.f.Step
	if step > 0 {
		first, last := math.Round(bad/step), math.Round(good/step)
		lo, hi := min(first, last)+1, max(first, last)-1
		if lo > hi {
			return false
		}
		l.try = l.f.Tick(min(max(math.Round(at/step), lo), hi))
		return true
	}
	l.try = float32(at)
	return l.try != l.bad && l.try != l.good
}

func (s *pieceSearch) narrow(searches []*lineSearch) error {
	const steps = 9
	active := slices.Clone(searches)
	for _, l := range active {
		if l.f.Joint {
			l.base = slices.Clone(l.c.d)
		}
	}
	for k := range steps {
		var candidates []*candidate
		active = slices.DeleteFunc(active, func(l *lineSearch) bool {
			// Precision is measured against the change of the feature that is worth the whole action.
			if !l.next(s.target, k%3 == 2, 1e-4*(l.c.cost/l.c.set.Norm().Weight(l.f))) {
				return true
			}
			l.set()
			candidates = append(candidates, l.c)
			return false
		})
		if err := s.eval(candidates, false); err != nil {
			return err
		}
		for _, l := range active {
			l.judge(s.target)
		}
	}
	for _, l := range searches {
		l.c.price()
	}
	return nil
}

package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

type neighbourhood struct {
	*candidate
	undone *constraint.Feature // the change that is taken back altogether
	lines  []constraint.Line   // that may complete it, best first
}

type localTrial struct {
	*neighbourhood
	move           constraint.Move
	cost, estimate float64
	margin         float32
}

func (s *pieceSearch) localSearch() error {
	const rounds = 8
	open := slices.DeleteFunc(slices.Clone(s.people), func(p *applicant) bool { return !(p.lowest < p.searched) })
	for range rounds {
		var around []*neighbourhood
		var bases []*candidate
		for _, p := range open {
			for _, n := range p.neighbourhoods() {
				around, bases = append(around, n), append(bases, n.candidate)
			}
		}
		if err := s.eval(bases, true); err != nil {
			return err
		}
		tries := map[*applicant][]*localTrial{}
		for part := range slices.Chunk(around, 64) {
			if err := s.tryAll(part, tries); err != nil {
				return err
			}
		}
		var starts []*candidate
		for _, p := range open {
			p.searched = p.lowest
			starts = append(starts, mostPromisingTrials(tries[p])...)
		}
		if err := s.strategy.climb(s, starts); err != nil {
			return err
		}
		if err := s.refine(s.cheapest(starts, 1, worthRefining)); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(p *applicant) bool { return !(p.lowest < p.searched*(1-leastGain)) })
	}
	return nil
}

func (p *applicant) neighbourhoods() (out []*neighbourhood) {
	for _, f := range changedOf(p.set.Free(), p.best) {
		ats := []float32{0}
		if f.Numeric() {
			if half := f.Nearest(p.x[f.First], p.best[f.First]/2); half != 0 && half != p.best[f.First] {
				ats = append(ats, half)
			}
		}
		for _, at := range ats {
			n := &neighbourhood{candidate: p.candidate(p.best, false, nil)}
			n.candidate.without(f)
			if n.d[f.First] = at; at == 0 {
				n.undone = f
			}
			n.allow()
			n.price()
			out = append(out, n)
		}
	}
	return out
}

func (s *pieceSearch) tryAll(around []*neighbourhood, tries map[*applicant][]*localTrial) error {
	dim := s.set.Dim()
	var all []localTrial
	for _, n := range around {
		all = n.trials(all)
	}
	s.points = sized(s.points, len(all)*dim)
	ds, points := make([]float32, len(all)*dim), s.points
	for i, t := range all {
		d := row(ds, i, dim)
		copy(d, t.d)
		t.set.Apply(t.move, t.x, d) // one that rules forbid changes nothing, and costs no less than the incumbent
		Point(row(points, i, dim), t.x, d)
	}
	margins, err := judge(s.ctx, s.m, points)
	if err != nil {
		return err
	}
	for i := range all {
		t := &all[i]
		t.margin = margins[i]
		if t.estimated(row(ds, i, dim), s.target); t.estimate <= worthRefining*t.lowest {
			tries[t.applicant] = append(tries[t.applicant], t)
		}
	}
	return nil
}

func (n *neighbourhood) trials(all []localTrial) []localTrial {
	p, set := n.applicant, n.set
	n.lines = n.candidate.lines(len(set.Numeric()))
	add := func(m constraint.Move) {
		_, rise := set.Gain(m, p.x, n.d, n.g)
		if cost := n.cost + rise; cost < p.lowest {
			all = append(all, localTrial{neighbourhood: n, move: m, cost: cost})
		}
	}
	full, numeric := n.full(), n.scannable()
	for _, f := range set.Free() {
		switch held := n.d[f.First]; {
		case full && !f.Changed(n.d):
		case !f.Numeric():
			for _, m := range p.switchesOf(f) {
				add(m)
			}
		case held != 0 || f == n.undone || slices.Contains(numeric, f):
			for _, to := range n.changes(f) {
				if to != held && (f != n.undone || to != p.best[f.First]) {
					add(constraint.Move{Feature: f, To: to})
				}
			}
		}
	}
	return all
}

func (n *neighbourhood) changes(f *constraint.Feature) (ds []float32) {
	_, back := n.set.Gain(constraint.Move{Feature: f}, n.x, n.d, n.g)
	most := n.set.Norm().Left(n.lowest, n.cost+back) / n.set.Norm().Weight(f)
	for _, up := range []bool{false, true} {
		ds = append(ds, n.along(f, up, most, 1./16, 1./8, 1./4, 1./2, 3./4, 0.98)...)
	}
	return ds
}

func (t *localTrial) estimated(d []float32, target float32) {
	n := t.neighbourhood
	gap, rise := float64(target-t.margin), t.margin-n.margin
	switch t.estimate = t.cost; {
	case t.margin != t.margin:
		t.estimate = math.Inf(1)
	case gap > 0:
		slack := n.set.Limit() - n.set.Changed(d)
		t.estimate = n.set.Fill(n.x, d, t.cost, n.lines[:min(len(n.lines), max(slack, 0))], gap)
	case rise > 0 && !math.IsInf(float64(rise), 1):
		t.estimate = n.cost + (t.cost-n.cost)*float64((target-n.margin)/rise)
	}
}

// worthRefining is how much more than the incumbent a start of a local search may cost.
const worthRefining = 1.2

func mostPromisingTrials(ts []*localTrial) (out []*candidate) {
	const most = 8
	slices.SortStableFunc(ts, func(a, b *localTrial) int { return cmp.Compare(a.estimate, b.estimate) })
	for _, t := range ts[:min(len(ts), most)] {
		c := t.applicant.candidate(t.d, false, nil)
		if t.set.Apply(t.move, t.x, c.d) {
			out = append(out, c)
		}
	}
	return out
}

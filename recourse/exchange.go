package recourse

import (
	"math"
	"slices"
)

// leastGain is the share of the cost that a transfer must save to be worth it.
const leastGain = 1e-4

// exchange shifts cost between numeric features: less of the one that gains least margin for its
// cost, as much more of the one that gains most as keeps the margin. With a piecewise linear
// model and the l1 norm a local minimum has at most one numeric change inside its range, so whole transfers
// are tried first.
func (s *search) exchange(ls []*lane) error {
	const rounds = 4
	active := slices.Clone(ls)
	for range rounds {
		if len(active) == 0 {
			return nil
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		var tries []*lane
		var owner []int
		for i, l := range active {
			for _, t := range slices.Concat(s.transfers(l), s.fills(l), s.refits(l)) {
				tries, owner = append(tries, t), append(owner, i)
			}
		}
		var err error
		if active, err = s.accept(active, tries, owner, leastGain); err != nil {
			return err
		}
		if err := s.shrink(active); err != nil {
			return err
		}
	}
	return nil
}

// transfers returns the cheaper points that shift all or part of the least worthwhile
// numeric change to the most worthwhile ones.
func (s *search) transfers(l *lane) []*lane {
	order := s.leastEffective(l)
	if len(order) == 0 {
		return nil
	}
	from := order[0]
	full := l.p.a.changes(l.d) >= l.p.a.limit
	var out []*lane
	for _, to := range s.mostWorth(l, from, 2) {
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if full && share < 1 && !l.p.a.units[to].changed(l.d) {
				break
			}
			t := s.copyOf(l)
			s.transfer(t, l.g, from, to, share)
			if t.cost = t.p.a.Cost(t.p.x, t.d); t.cost < l.cost*(1-leastGain) {
				out = append(out, t)
			}
		}
	}
	return out
}

// transfer takes a share of the change of one numeric feature back and has another make up for the lost margin.
func (s *search) transfer(t *lane, g []float32, from, to int, share float64) {
	a, b := &t.p.a.units[from], &t.p.a.units[to]
	before := float64(t.d[a.first])
	t.d[a.first] = a.nearest(t.p.x[a.first], float32(before*(1-share)))
	lost := float64(g[a.first]) * (before - float64(t.d[a.first]))
	slope := float64(g[b.first])
	at := float64(t.d[b.first]) + max(lost*1.03, 0)/slope
	t.d[b.first] = b.outward(t.p.x[b.first], at, slope > 0)
}

// fills returns the cheaper points that take a change on a grid one step or all the way back and have one other
// numeric feature, however little it is worth, close the gap. Where the most worthwhile feature has to round up to a coarse
// grid, a finer one is the cheaper way to the rest.
func (s *search) fills(l *lane) []*lane {
	full := l.p.a.changes(l.d) >= l.p.a.limit
	var out []*lane
	for _, from := range s.leastEffective(l) {
		a := &l.p.a.units[from]
		if a.kind != grid {
			continue
		}
		before := l.d[a.first]
		back := a.tick(roundToZero(float64(before)/a.step) - math.Copysign(1, float64(before)))
		for _, at := range []float32{back, 0} {
			gap := float64(s.need-l.margin) + float64(l.g[a.first])*float64(before-at)
			for _, f := range l.p.a.free {
				if f == from || full && at != 0 && !l.p.a.units[f].changed(l.d) {
					continue
				}
				if t := s.fill(l, a, at, f, gap); t != nil {
					out = append(out, t)
				}
			}
			if back == 0 {
				break
			}
		}
	}
	return out
}

// fill returns the point where the feature u changes by at and the feature f makes up for the gap, nil when that is not cheaper.
func (s *search) fill(l *lane, u *unit, at float32, f int, gap float64) *lane {
	b := &l.p.a.units[f]
	slope := float64(l.g[b.first])
	if !b.numeric() || slope == 0 || slope != slope {
		return nil
	}
	to := b.outward(l.p.x[b.first], float64(l.d[b.first])+gap*1.001/slope, slope > 0)
	was, held := l.d[u.first], l.d[b.first]
	l.d[u.first], l.d[b.first] = at, to
	defer func() { l.d[u.first], l.d[b.first] = was, held }()
	cost := l.p.a.Cost(l.p.x, l.d)
	if cost >= l.cost*(1-leastGain) || slope*float64(to-held) < gap {
		return nil
	}
	t := s.copyOf(l)
	t.cost = cost
	return t
}

// mostWorth returns the most numeric features, other than from, that gain more margin for their cost than from does
// and have room, best first.
func (s *search) mostWorth(l *lane, from, most int) []int {
	floor := l.p.a.worth(from, l)
	var best []int
	for range most {
		pick, top := -1, floor
		for _, f := range l.p.a.free {
			u := &l.p.a.units[f]
			if f == from || !u.numeric() || slices.Contains(best, f) {
				continue
			}
			slope := float64(l.g[u.first])
			away := float64(l.d[u.first])*slope >= 0
			room := u.outward(l.p.x[u.first], math.Copysign(far, slope), slope > 0) != l.d[u.first]
			if v := l.p.a.worth(f, l); away && room && slope != 0 && v > top {
				pick, top = f, v
			}
		}
		if pick < 0 {
			break
		}
		best = append(best, pick)
	}
	return best
}

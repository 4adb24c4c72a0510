package recourse

import (
	"math"
	"slices"
)

// exchange shifts cost between numeric features: less of the one that gains least margin for its
// cost, as much more of the one that gains most as keeps the margin. With a piecewise linear
// model and the l1 norm a local minimum has at most one numeric change inside its range, so whole transfers
// are tried first.
func (s *search) exchange(ls []*lane) error {
	rounds := 4
	if s.a.norm == l2 {
		rounds = 10 // the optimum spreads over features: many partial transfers
	}
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
			for _, t := range s.transfers(l) {
				tries, owner = append(tries, t), append(owner, i)
			}
		}
		if err := s.eval(tries, false); err != nil {
			return err
		}
		better := make([]bool, len(active))
		for k, t := range tries {
			if l := active[owner[k]]; valid(t.margin, s.need) && t.cost < l.cost*(1-1e-4) {
				copy(l.d, t.d)
				l.margin, l.cost, better[owner[k]] = t.margin, t.cost, true
			}
		}
		keep := active[:0]
		for i, l := range active {
			if better[i] {
				keep = append(keep, l)
			}
		}
		active = keep
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
	full := s.a.changes(l.d) >= s.a.limit
	var out []*lane
	for _, to := range s.mostWorth(l, from, 2) {
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			if full && share < 1 && !s.a.units[to].changed(l.d) {
				break
			}
			t := s.copyOf(l)
			s.transfer(t, l.g, from, to, share)
			if t.cost = s.a.Cost(t.d); t.cost < l.cost*(1-1e-4) {
				out = append(out, t)
			}
		}
	}
	return out
}

// transfer takes a share of the change of one numeric feature back and has another make up for the lost margin.
func (s *search) transfer(t *lane, g []float32, from, to int, share float64) {
	a, b := &s.a.units[from], &s.a.units[to]
	before := float64(t.d[a.first])
	t.d[a.first] = a.nearest(t.p.x[a.first], float32(before*(1-share)))
	lost := float64(g[a.first]) * (before - float64(t.d[a.first]))
	slope := float64(g[b.first])
	at := float64(t.d[b.first]) + max(lost*1.03, 0)/slope
	t.d[b.first] = b.outward(t.p.x[b.first], at, slope > 0)
}

// mostWorth returns the most numeric features, other than from, that gain more margin for their cost than from does
// and have room, best first.
func (s *search) mostWorth(l *lane, from, most int) []int {
	floor := s.a.worth(from, l)
	var best []int
	for range most {
		pick, top := -1, floor
		for _, f := range s.a.free {
			u := &s.a.units[f]
			if f == from || !u.numeric() || slices.Contains(best, f) {
				continue
			}
			slope := float64(l.g[u.first])
			away := float64(l.d[u.first])*slope >= 0
			room := u.outward(l.p.x[u.first], math.Copysign(far, slope), slope > 0) != l.d[u.first]
			if v := s.a.worth(f, l); away && room && slope != 0 && v > top {
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

package recourse

import (
	"cmp"
	"math"
	"slices"
)

// rescue climbs regardless of cost for everyone who has no valid action: all features go to where the gradient
// gains most, the best ones up to the sparsity limit, and again from there. For a linear model the first such point has the
// largest margin there is. What is valid is refined.
func (s *search) rescue() error {
	const rounds = 6
	var active []*lane
	for _, p := range s.people {
		if !math.IsInf(p.cost, 1) {
			continue
		}
		l := s.climber(p, nil, false, nil)
		l.margin, l.g = p.start.margin, p.start.g
		active = append(active, l)
	}
	all := slices.Clone(active)
	for range rounds {
		keep := active[:0]
		for _, l := range active {
			copy(l.climb.prev, l.d)
			l.climb.prevM = l.margin
			s.greatest(l, l.d)
			if !slices.Equal(l.d, l.climb.prev) {
				keep = append(keep, l)
			}
		}
		active = keep
		if err := s.eval(active, true); err != nil {
			return err
		}
		keep = active[:0]
		for _, l := range active {
			l.cost = l.p.a.Cost(l.p.x, l.d)
			if !valid(l.margin, s.need) && l.margin > l.climb.prevM {
				keep = append(keep, l)
			}
		}
		active = keep
	}
	return s.refine(s.cheapest(all, 1, 1))
}

// greatest sets d to the action with the largest margin, linearised at the lane, by features in the order of their gain.
func (s *search) greatest(l *lane, d []float32) {
	type gain struct {
		f, option int
		to        float32
		gain      float64
	}
	var gains []gain
	x, zero := l.p.x, l.p.start.d
	for _, f := range l.p.a.free {
		u := &l.p.a.units[f]
		best := gain{f: f}
		if u.numeric() {
			slope := float64(l.g[u.first])
			to := u.farthest(x[u.first], slope > 0)
			best.to = l.p.a.allowed(u, x, zero, to)
			best.gain = slope * float64(best.to)
		} else {
			u.each(x, func(o int) {
				if v, _ := l.p.a.switchGain(u, x, zero, l.g, o); v > best.gain {
					best.option, best.gain = o, v
				}
			})
		}
		if best.gain > 0 {
			gains = append(gains, best)
		}
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return -cmp.Compare(a.gain, b.gain) })
	clear(d)
	for _, b := range gains {
		u := &l.p.a.units[b.f]
		if l.p.a.changes(d) >= l.p.a.limit && !u.changed(d) {
			continue
		}
		to := b.to
		if u.numeric() {
			to = l.p.a.allowed(u, x, d, to)
		}
		l.p.a.apply(u, x, d, func(d []float32) {
			if u.numeric() {
				d[u.first] = to
			} else {
				u.set(x, d, b.option)
			}
		})
	}
}

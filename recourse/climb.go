package recourse

import (
	"cmp"
	"math"
	"slices"
)

// climb is the state of a lane that climbs towards the required margin.
type climb struct {
	numeric bool      // discrete features stay as they are
	taste   []float64 // factor on every feature's effectiveness; nil = 1
	banned  []int     // features whose moves have failed
	last    int       // feature moved last, -1: none
	short   bool      // the last move was already shortened
	prev    []float32 // the point before the last move, its margin and gradient
	prevM   float32
	prevG   []float32
}

// climber returns a lane at the action from (nil: no change).
func (s *search) climber(p *person, from []float32, numeric bool, taste []float64) *lane {
	l := &lane{p: p, d: s.slab.row(s.a.dim), climb: climb{numeric: numeric, taste: taste, last: -1, prev: s.slab.row(s.a.dim)}}
	clear(l.d)
	copy(l.d, from)
	return l
}

// ascend climbs until the lanes are valid, stuck, or out of steps. A lane gives up
// when it costs half as much again as the person's best action.
func (s *search) ascend(ls []*lane) error {
	active := slices.Clone(ls)
	for range s.o.Steps + 1 {
		if len(active) == 0 {
			return nil
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		keep := active[:0]
		for _, l := range active {
			l.cost = l.p.a.Cost(l.p.x, l.d)
			if valid(l.margin, s.need) || l.cost > 1.5*l.p.cost {
				continue
			}
			if s.step(l) {
				keep = append(keep, l)
			}
		}
		active = keep
	}
	// Who is left moved after its last evaluation.
	for _, l := range active {
		l.cost = l.p.a.Cost(l.p.x, l.d)
	}
	return s.eval(active, true)
}

// step undoes the last move if it did not raise the margin, and makes the next one.
func (s *search) step(l *lane) bool {
	c := &l.climb
	if c.last >= 0 && !(l.margin > c.prevM) {
		u := &l.p.a.units[c.last]
		if u.numeric() && !c.short {
			c.short = true
			before, after := float64(c.prev[u.first]), float64(l.d[u.first])
			d := u.nearest(l.p.x[u.first], float32(before+(after-before)/4))
			if d != c.prev[u.first] && d != l.d[u.first] {
				l.d[u.first] = d
				return true
			}
		}
		copy(l.d, c.prev)
		l.margin, l.g = c.prevM, c.prevG
		c.banned = append(c.banned, c.last)
	}
	copy(c.prev, l.d)
	c.prevM, c.prevG, c.short = l.margin, l.g, false
	gap := float64(s.need - l.margin)
	var ok bool
	if c.last, ok = s.advance(l, gap); ok {
		return true
	}
	return s.drop(l)
}

// advance makes the move with the most linearised margin per cost and returns its feature.
func (s *search) advance(l *lane, gap float64) (int, bool) {
	c, x := &l.climb, l.p.x
	full := l.p.a.changes(l.d) >= l.p.a.limit
	best, pick, to := 0.0, -1, float32(0)
	option := -1
	for _, f := range l.p.a.free {
		u := &l.p.a.units[f]
		if slices.Contains(c.banned, f) || full && !u.changed(l.d) {
			continue
		}
		taste := 1.0
		if c.taste != nil {
			taste = c.taste[f]
		}
		if u.numeric() {
			d, eff := l.p.a.numericMove(u, x, l.d, l.g, gap)
			if eff *= taste; eff > best {
				best, pick, to, option = eff, f, d, -1
			}
			continue
		}
		if c.numeric {
			continue
		}
		u.each(x, func(o int) {
			gain, cost := l.p.a.switchGain(u, x, l.d, l.g, o)
			// More than the gap is of no use.
			eff := effectiveness(min(gain, gap), cost) * taste
			if eff > best {
				best, pick, option = eff, f, o
			}
		})
	}
	if pick < 0 {
		return -1, false
	}
	u := &l.p.a.units[pick]
	ok := l.p.a.apply(u, x, l.d, func(d []float32) {
		if option >= 0 {
			u.set(x, d, option)
		} else {
			d[u.first] = to
		}
	})
	return pick, ok
}

// numericMove returns the change of a numeric feature that closes the gap by the gradient, or as much of it as
// there is room for, and its margin gain per cost; 0 when it cannot help.
func (a *ActionSet) numericMove(u *unit, x, d, g []float32, gap float64) (float32, float64) {
	j := u.first
	slope, at := float64(g[j]), float64(d[j])
	if slope == 0 || slope != slope {
		return 0, 0
	}
	to := a.allowed(u, x, d, u.outward(x[j], at+gap/slope, slope > 0))
	gain := slope * (float64(to) - at)
	if !(gain > 0) {
		return 0, 0
	}
	if u.joint {
		gain, cost := a.jointGain(u, x, d, g, func(t []float32) { t[j] = to })
		for range 2 { // what comes along takes some of the gain back, so go farther
			if !(gain > 0 && gain < gap) {
				break
			}
			more := a.allowed(u, x, d, u.outward(x[j], at+(float64(to)-at)*gap/gain*1.001, slope > 0))
			farther, dearer := a.jointGain(u, x, d, g, func(t []float32) { t[j] = more })
			if !(farther > gain) {
				break
			}
			to, gain, cost = more, farther, dearer
		}
		return to, effectiveness(min(gain, gap), cost)
	}
	return to, effectiveness(min(gain, gap), a.rise(u, x, d, a.lineTerm(u, to)))
}

// effectiveness is gain per cost. Gains that cost nothing come first, larger ones before smaller.
func effectiveness(gain, cost float64) float64 {
	switch {
	case !(gain > 0):
		return 0
	case cost <= 0:
		return 1e12 * (1 + gain)
	}
	return gain / cost
}

// drop takes back the change that achieves least, to make room under the sparsity limit.
func (s *search) drop(l *lane) bool {
	c := &l.climb
	c.last = -1
	if l.p.a.changes(l.d) < l.p.a.limit {
		return false
	}
	least, pick := math.Inf(1), -1
	for _, f := range l.p.a.free {
		u := &l.p.a.units[f]
		if !u.changed(l.d) || c.numeric && !u.numeric() {
			continue
		}
		if v := u.dot(l.g, l.d); v < least {
			least, pick = v, f
		}
	}
	if pick < 0 {
		return false
	}
	u := &l.p.a.units[pick]
	clear(l.d[u.first : u.first+u.width])
	c.banned = append(c.banned, pick)
	return true
}

// cheapest returns for every person the valid lanes of least cost, at most most of them, none that costs more than
// slack times the person's best. Lanes of one person follow their order in ls when they cost the same.
func (s *search) cheapest(ls []*lane, most int, slack float64) []*lane {
	by := map[*person][]*lane{}
	for _, l := range ls {
		if valid(l.margin, s.need) && l.cost <= slack*l.p.cost {
			by[l.p] = append(by[l.p], l)
		}
	}
	var out []*lane
	for _, p := range s.people {
		c := by[p]
		slices.SortStableFunc(c, func(a, b *lane) int { return cmp.Compare(a.cost, b.cost) })
		n := 0
		for i, l := range c {
			if n < most && (i == 0 || !slices.Equal(l.d, c[i-1].d)) {
				out = append(out, l)
				n++
			}
		}
	}
	return out
}

package recourse

import (
	"cmp"
	"math"
	"slices"
)

// widest stands for no limit on a change under an affine model, in input units.
const widest = 1e4

// problemOf writes down what the person x can do when the margin is w delta, gap of which is needed. Under a cost that the
// costliest change makes, no change may cost more than top.
func (a *ActionSet) problemOf(x, w []float32, gap, top float64) *problem {
	j := a.jointOf(x)
	p := &problem{need: append([]float64{gap}, j.need...), limit: a.limit}
	d := make([]float32, a.dim)
	acts := func() []float64 {
		a.drag(x, d)
		return append([]float64{gainOf(w, d)}, j.acts(d)...)
	}
	for _, f := range a.free {
		var l lever
		if u := &a.units[f]; u.numeric() && !a.tabled(f) {
			l = a.lineOf(u, x, d, top, acts)
			if most := math.Ceil(gap/math.Abs(l.acts[0])) + 1; len(p.need) == 1 && most < 1e15 {
				l.first, l.final = max(l.first, -most), min(l.final, most) // more than the gap is of no use
			}
		} else {
			l = a.listOf(u, x, d, top, acts)
			if len(p.need) == 1 {
				l.options = undominated(l.options)
			}
		}
		for k := range l.options {
			if l.options[k].id == stay {
				l.zero = float64(k)
			}
		}
		l.feature = f
		p.levers = append(p.levers, l)
		clear(d)
	}
	if j.conditional() {
		j.link(p)
		p.broken, p.settled = j.broken, []*either{&j.rounding}
	}
	return p
}

// lineOf makes the lever of a numeric feature. d is zero at first; acts says what it does.
func (a *ActionSet) lineOf(u *unit, x, d []float32, top float64, acts func() []float64) lever {
	at := x[u.first]
	l := lever{line: true, whole: u.kind == grid}
	lo, hi := u.span(at)
	step := 1.0
	l.first, l.final = max(float64(lo), -widest), min(float64(hi), widest)
	if l.whole {
		step = u.step
		l.first, l.final = u.ticks(at, lo, hi)
	}
	if a.bottleneck() {
		l.first, l.final = -a.within(u, x, -l.first, step, -1, top), a.within(u, x, l.final, step, 1, top)
		l.lin = a.weights[u.first] * step
	} else {
		// lin |n| + quad n^2 goes through the costs of one and two input units.
		one, two := a.lineTerm(u, at, 1), a.lineTerm(u, at, 2)
		l.quad = (two/2 - one) * step * step
		l.lin = (2*one - two/2) * step
	}
	d[u.first] = 1
	l.acts = acts()
	for r := range l.acts {
		l.acts[r] *= step
	}
	return l
}

// within returns how many positions of the size step the feature can go in a direction, no more than room, when its change may cost top.
func (a *ActionSet) within(u *unit, x []float32, room, step, sign, top float64) float64 {
	fits := func(n float64) bool {
		return a.lineTerm(u, x[u.first], float32(sign*n*step)) <= top*(1+closeEnough/100)
	}
	if room == 0 || fits(room) {
		return room
	}
	low, high := 0.0, room
	for range 60 {
		mid := (low + high) / 2
		if u.kind == grid {
			mid = math.Floor(mid)
		}
		if mid <= low {
			break
		}
		if fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// listOf makes the lever of a feature with a list of values, by ascending margin.
func (a *ActionSet) listOf(u *unit, x, d []float32, top float64, acts func() []float64) lever {
	options := []option{{id: stay, acts: acts()}}
	u.every(x, mostTabled, func(id int) {
		u.set(x, d, id)
		if cost := a.term(u, x, d); !a.bottleneck() || cost <= top*(1+closeEnough/100) {
			options = append(options, option{id: id, cost: cost, acts: acts()})
		}
		clear(d)
	})
	slices.SortStableFunc(options, func(p, q option) int { return cmp.Compare(p.acts[0], q.acts[0]) })
	return lever{options: options}
}

// undominated returns the options, none of which is outdone by one that costs no more and raises the margin as much.
func undominated(options []option) []option {
	slices.SortStableFunc(options, func(p, q option) int {
		return cmp.Or(cmp.Compare(p.cost, q.cost), cmp.Compare(q.acts[0], p.acts[0]))
	})
	most := math.Inf(-1)
	return slices.DeleteFunc(options, func(o option) bool {
		if o.acts[0] <= most && o.id != stay {
			return true
		}
		most = max(most, o.acts[0])
		return false
	})
}

func gainOf(w, d []float32) float64 {
	sum := 0.0
	for j, v := range d {
		if v != 0 {
			sum += float64(w[j]) * float64(v)
		}
	}
	return sum
}

// carryOut sets d to the action of the plan.
func (a *ActionSet) carryOut(p *problem, c *plan, x, d []float32) {
	clear(d)
	for i := range p.levers {
		l := &p.levers[i]
		u := &a.units[l.feature]
		switch {
		case !l.line:
			if o := &l.options[int(c.pos[i])]; o.id != stay {
				u.set(x, d, o.id)
			}
		case l.whole:
			d[u.first] = u.tick(c.pos[i])
		default:
			d[u.first] = u.nearest(x[u.first], float32(c.pos[i]))
		}
	}
	a.drag(x, d)
}

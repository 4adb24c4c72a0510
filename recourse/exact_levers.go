package recourse

import (
	"cmp"
	"math"
	"slices"
)

// widest stands for no limit on a change under an affine model, in input units.
const widest = 1e4

// problemOf writes down what the person x can do when the margin is w delta, gap of which is needed.
func (a *ActionSet) problemOf(x, w []float32, gap float64) *problem {
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
			l = a.lineOf(u, x, d, acts)
			if most := math.Ceil(gap/math.Abs(l.acts[0])) + 1; len(p.need) == 1 && most < 1e15 {
				l.first, l.final = max(l.first, -most), min(l.final, most) // more than the gap is of no use
			}
		} else {
			l = a.listOf(u, x, d, acts)
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
func (a *ActionSet) lineOf(u *unit, x, d []float32, acts func() []float64) lever {
	at := x[u.first]
	l := lever{line: true, whole: u.kind == grid}
	lo, hi := u.span(at)
	step := 1.0
	l.first, l.final = max(float64(lo), -widest), min(float64(hi), widest)
	if l.whole {
		step = u.step
		l.first, l.final = u.ticks(at, lo, hi)
	}
	// lin |n| + quad n^2 goes through the costs of one and two input units.
	one, two := a.lineTerm(u, 1), a.lineTerm(u, 2)
	l.quad = (two/2 - one) * step * step
	l.lin = (2*one - two/2) * step
	d[u.first] = 1
	l.acts = acts()
	for r := range l.acts {
		l.acts[r] *= step
	}
	return l
}

// listOf makes the lever of a feature with a list of values, by ascending margin.
func (a *ActionSet) listOf(u *unit, x, d []float32, acts func() []float64) lever {
	options := []option{{id: stay, acts: acts()}}
	u.every(x, mostTabled, func(id int) {
		u.set(x, d, id)
		options = append(options, option{id: id, cost: a.term(u, x, d), acts: acts()})
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

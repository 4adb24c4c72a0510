package proof

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/recourse/constraint"
)

// actions are what one person can change: a position of every variable, at most limit of them off the one that is no
// change, whose costs add up to at most a budget. What links and rules between features forbid besides is left out.
type actions struct {
	set       *constraint.Set
	x         []float32
	variables []variable
	effects   [][]term // of each slot on the inputs
	linear    *constraint.Linear
	noise     []float64   // by how much allowed actions may miss each row of linear
	rules     [][]float64 // what each slot adds to each row of linear
	limits    []constraint.Limit
	limit     int
	budget    float64 // on the sum of the variables' costs
	reserve   float64 // of the budget, for what writing a number without steps adds
	beyond    float64 // the least cost of a change that is farther than the variables go

	dualMaximum
}

// dualMaximum is what the last maximum of a plane left behind, and scratch.
type dualMaximum struct {
	rich, poor assignment // that maximise it
	price      float64    // of costs, at which it is bounded best
	spare      assignment
	gains      []gain
}

// variable is one feature that a person can change. Its position is the index of an option, the first of which is no
// change, or on a line the number of steps or, without steps, the change itself.
type variable struct {
	feature *constraint.Feature
	slot    int // the first of the effects: one for each option or, on a line, one for a change by 1

	line, whole bool
	lin, quad   float64 // on a line, n steps cost lin |n| + quad n^2

	options []int // of Feature.AllOptions; stay first
	costs   []float64
}

const stay = -1

// domain is the positions of a variable that are left: from lo to hi, or the options listed.
type domain struct {
	lo, hi  float64
	options []int32
	in      bool // it counts as changed wherever it stands
}

// term is a change of one input.
type term struct {
	input int
	by    float64
}

// mostTabled bounds the options of a number that others follow by a table.
const mostTabled = 1 << 12

// newActions returns the person's actions and the domains of all of them.
func newActions(a *constraint.Set, x []float32) (p *actions, domains []domain) {
	p = &actions{set: a, x: x, linear: a.Linear(x), limit: a.Limit(), budget: math.Inf(1), beyond: math.Inf(1)}
	p.limits, p.rules = p.linear.Limits, make([][]float64, len(p.linear.Need))
	d := make([]float32, a.Dim())
	effect := func(step float64) {
		a.Propagate(x, d)
		var e []term
		for j, v := range d {
			if v != 0 {
				e = append(e, term{j, step * float64(v)})
			}
		}
		p.effects = append(p.effects, e)
		for r, sum := range p.linear.Effects(d) {
			p.rules[r] = append(p.rules[r], step*sum)
		}
		clear(d)
	}
	for _, u := range a.Free() {
		v := variable{feature: u, slot: len(p.effects)}
		if u.Numeric() && !u.Tabled {
			first, last, step := u.Positions(x[u.First])
			v.line, v.whole = true, u.Step > 0
			v.lin, v.quad = a.Norm().Quadratic(u, step)
			d[u.First] = 1
			effect(step)
			domains = append(domains, domain{lo: first, hi: last})
			if u.Step == 0 && u.Endless(x[u.First]) {
				p.beyond = min(p.beyond, v.cost(max(-first, last)))
			}
		} else {
			v.options, v.costs = []int{stay}, []float64{0}
			effect(1)
			for _, id := range u.AllOptions(x, mostTabled) {
				u.Set(x, d, id)
				v.options, v.costs = append(v.options, id), append(v.costs, a.Norm().Term(u, x, d))
				effect(1)
			}
			all := make([]int32, len(v.options))
			for k := range all {
				all[k] = int32(k)
			}
			domains = append(domains, domain{options: all})
			if len(all) > mostTabled {
				p.beyond = min(p.beyond, slices.Max(v.costs))
			}
		}
		p.variables = append(p.variables, v)
	}
	return p, domains
}

// blur is how much less than its steps and options an allowed action may cost, whose numbers are off by the noise of
// float32 in the person's own.
func (p *actions) blur() (most float64) {
	var each []float64
	for i := range p.variables {
		if u := p.variables[i].feature; u.Width == 1 && (!p.variables[i].line || p.variables[i].whole) {
			each = append(each, p.set.Norm().Weight(u)*(2.4e-7*math.Abs(float64(p.x[u.First]))+1e-9))
		}
	}
	slices.Sort(each)
	return floats.Sum(each[max(len(each)-p.limit, 0):])
}

// afford sets the budget to what actions of at most this cost add up to.
func (p *actions) afford(cost float64) {
	p.budget = p.set.Norm().Budget(cost, min(p.limit, len(p.variables))) * (1 + 1e-12)
}

// settled says whether one position is left.
func (d *domain) settled(v *variable) bool {
	if v.line {
		return d.lo == d.hi
	}
	return len(d.options) == 1
}

// stays says whether no change is left among the positions.
func (d *domain) stays(v *variable) bool {
	if v.line {
		return !d.in && d.lo <= 0 && d.hi >= 0
	}
	return !d.in && d.options[0] == 0
}

// width is the range of the plane over the domain.
func (d *domain) width(v *variable, plane []float64) float64 {
	if v.line {
		return math.Abs(plane[v.slot]) * (d.hi - d.lo)
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, k := range d.options {
		e := plane[v.slot+int(k)]
		least, most = min(least, e), max(most, e)
	}
	return most - least
}

// gain is the best position of a variable that need not change.
type gain struct {
	at    int
	pos   float64
	value float64 // of the plane, less what the position costs at the price
	cost  float64
}

// best returns the position of the largest value at a price of costs, the first of equals.
func (d *domain) best(v *variable, plane []float64, price float64) (pos, value, cost float64) {
	if v.line {
		return d.bestOnLine(v, plane[v.slot], price)
	}
	value = math.Inf(-1)
	for _, k := range d.options {
		if e := plane[v.slot+int(k)] - price*v.costs[k]; e > value {
			pos, value, cost = float64(k), e, v.costs[k]
		}
	}
	return pos, value, cost
}

func (d *domain) bestOnLine(v *variable, slope, price float64) (pos, value, cost float64) {
	quad := price * v.quad
	switch most := math.Abs(slope) - price*v.lin; {
	case !(most > 0):
		if d.lo <= 0 && d.hi >= 0 {
			return 0, 0, 0
		}
	case quad == 0:
		pos = math.Copysign(math.Inf(1), slope)
	default:
		pos = math.Copysign(most/(2*quad), slope)
	}
	if pos = min(max(pos, d.lo), d.hi); v.whole {
		pos = math.Round(pos)
	}
	if pos == 0 {
		return 0, 0, 0
	}
	cost = v.lin*math.Abs(pos) + v.quad*pos*pos
	return pos, slope*pos - price*cost, cost
}

// assignment is a position of every variable, with the plane's value there and what it costs.
type assignment struct {
	pos         []float64
	value, cost float64
}

// assign sets to to the assignment of the largest value at a price of costs, and returns that; -Inf when more variables
// change than may.
func (p *actions) assign(to *assignment, dom []domain, plane []float64, price float64) float64 {
	to.value, to.cost = 0, 0
	p.gains = p.gains[:0]
	used, total := 0, 0.0
	for i := range dom {
		v, d := &p.variables[i], &dom[i]
		pos, value, cost := d.best(v, plane, price)
		to.pos[i] = 0
		if !d.stays(v) {
			used++
			to.pos[i] = pos
			total += value
			to.cost += cost
		} else if value > 0 {
			p.gain(gain{i, pos, value, cost})
		}
	}
	room := p.limit - used
	if room < 0 {
		return math.Inf(-1)
	}
	for _, g := range p.gains[:min(len(p.gains), room)] {
		to.pos[g.at] = g.pos
		total += g.value
		to.cost += g.cost
	}
	to.value = p.at(plane, to.pos)
	return total
}

// gain puts one of the largest gains in order, the first of equals first; there are never more than may change.
func (p *actions) gain(g gain) {
	k := len(p.gains)
	if k < p.limit {
		p.gains = append(p.gains, g)
	} else if k--; k < 0 || p.gains[k].value >= g.value {
		return
	}
	for ; k > 0 && p.gains[k-1].value < g.value; k-- {
		p.gains[k] = p.gains[k-1]
	}
	p.gains[k] = g
}

// at returns the value of the plane.
func (p *actions) at(plane, pos []float64) float64 {
	sum := 0.0
	for i := range p.variables {
		sum += p.variables[i].at(plane, pos[i])
	}
	return sum
}

func (v *variable) at(plane []float64, pos float64) float64 {
	if v.line {
		return plane[v.slot] * pos
	}
	return plane[v.slot+int(pos)]
}

// maximum bounds the plane over the actions of the domains from above: the Lagrangian dual of the budget, whose inner
// maximum is exact, steps, options and limit included. rich and poor are set to the last assignments above and within
// the budget. It is -Inf when there is no action.
func (p *actions) maximum(dom []domain, plane []float64, rounds int) float64 {
	rich, poor, spare := &p.rich, &p.poor, &p.spare
	bound := p.assign(rich, dom, plane, 0)
	p.price = 0
	if rich.cost <= p.budget {
		copy(poor.pos, rich.pos)
		poor.value, poor.cost = rich.value, rich.cost
		return bound
	}
	cost, changed := p.cheapest(poor.pos, dom)
	if poor.cost, poor.value = cost, p.at(plane, poor.pos); changed > p.limit || cost > p.budget {
		return math.Inf(-1)
	}
	for range rounds {
		price := (rich.value - poor.value) / (rich.cost - poor.cost)
		if !(price > 0) || math.IsInf(price, 0) {
			break
		}
		value := p.assign(spare, dom, plane, price) + price*p.budget
		if value < bound {
			bound, p.price = value, price
		}
		line := rich.value + price*(p.budget-rich.cost)
		if value <= line+1e-12*(math.Abs(line)+price*p.budget) || spare.cost == rich.cost || spare.cost == poor.cost {
			break
		}
		if spare.cost > p.budget {
			*rich, *spare = *spare, *rich
		} else {
			*poor, *spare = *spare, *poor
		}
	}
	return bound
}

// dual bounds the plane as maximum does, from the price that was best for a plane like it, which it sets anew.
func (p *actions) dual(dom []domain, plane []float64, price *float64) float64 {
	const up, down = 1.4, 0.7
	if *price == 0 {
		bound := p.maximum(dom, plane, few)
		*price = p.price
		return bound
	}
	bound, at := math.Inf(1), *price
	for range 2 {
		value := p.assign(&p.spare, dom, plane, at) + at*p.budget
		if value < bound {
			bound, *price = value, at
		}
		if p.spare.cost > p.budget {
			at *= up
		} else {
			at *= down
		}
	}
	if p.spare.cost < p.budget/2 {
		*price = 0
	}
	return bound
}

// cheapest returns the position of the least cost.
func (d *domain) cheapest(v *variable) (pos, cost float64) {
	if v.line {
		pos = min(max(0, d.lo), d.hi)
	} else {
		pos = float64(slices.MinFunc(d.options, func(a, b int32) int { return cmp.Compare(v.costs[a], v.costs[b]) }))
	}
	return pos, v.cost(pos)
}

// cheapest sets pos to the positions of the least cost, which it returns with how many variables change.
func (p *actions) cheapest(pos []float64, dom []domain) (cost float64, changed int) {
	for i := range dom {
		v, d := &p.variables[i], &dom[i]
		pos[i] = 0
		if d.stays(v) {
			continue
		}
		at, one := d.cheapest(v)
		pos[i] = at
		cost += one
		changed++
	}
	return cost, changed
}

// action returns the change of the inputs at the positions.
func (p *actions) action(pos []float64) []float32 {
	d := make([]float32, p.set.Dim())
	for i := range p.variables {
		v := &p.variables[i]
		u := v.feature
		switch {
		case pos[i] == 0:
		case !v.line:
			u.Set(p.x, d, v.options[int(pos[i])])
		case v.whole:
			d[u.First] = u.Tick(pos[i])
		default:
			d[u.First] = u.Nearest(p.x[u.First], float32(pos[i]))
		}
	}
	p.set.Propagate(p.x, d)
	return d
}

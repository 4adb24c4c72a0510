package recourse

import "math"

// affine answers for people under an affine model. Whom the model refuses at the optimum, for a rounding of
// its arithmetic or of raw values, aims a little higher the next time.
func (e *exactSearch) affine(open []int) error {
	const attempts = 8
	aims := make([]float64, len(e.actions)) // above the required margin, in parts of slack
	for i := range aims {
		aims[i] = 1
	}
	for attempt := 0; len(open) > 0; attempt++ {
		var asked []int
		var points []float32
		for _, i := range open {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			if point := e.aim(i, &aims[i], attempt == 0); point != nil {
				asked, points = append(asked, i), append(points, point...)
			}
		}
		margins, err := e.judge(points)
		if err != nil {
			return err
		}
		open = open[:0]
		for k, i := range asked {
			switch {
			case valid(margins[k], float32(e.o.Margin)) && e.settle(i, row(points, k, e.a.dim), margins[k]):
				e.methods[i] = Affine
			case aims[i] < 1 || attempt == attempts:
				e.methods[i] = Refused
			default:
				aims[i] += max(math.Exp2(float64(attempt)), 1.5*(e.o.Margin-float64(margins[k]))/e.slack)
				open = append(open, i)
			}
		}
	}
	return nil
}

// aim returns person i at the cheapest action that reaches the aim, as it is written in raw units. When there is none, the first time,
// it lowers the aim: there may be something between it and the required margin, and what lies below by no more than noise could be there. A person
// for whom there is none even so has the proof.
func (e *exactSearch) aim(i int, aim *float64, first bool) []float32 {
	a, x := e.a.Person(e.first+i), row(e.x, i, e.a.dim)
	for {
		d, proved := a.optimum(x, e.w, e.o.Margin+*aim*e.slack-e.actions[i].Margin)
		switch {
		case d != nil:
			point := make([]float32, a.dim)
			a.publish(point, x, d, asItIs)
			return point
		case !proved:
			e.methods[i] = TooHard
			return nil
		case !first:
			e.methods[i] = Refused
			return nil
		case *aim <= -1:
			e.actions[i].Status, e.methods[i] = NoneExists, Affine
			return nil
		}
		*aim -= 0.5
	}
}

// optimum returns the cheapest action of the person x that gains gap under an affine model, nil when there is none; proved says
// whether it is the cheapest, or that there is none.
func (a *ActionSet) optimum(x, w []float32, gap float64) (d []float32, proved bool) {
	top := math.Inf(1)
	p := a.problemOf(x, w, gap, top)
	var out outcome
	if a.bottleneck() {
		p, out = a.leastTop(x, w, gap)
	} else {
		out = p.solve()
	}
	if out.best == nil {
		return nil, math.IsInf(out.lower, 1)
	}
	if out.lower < out.best.cost*(1-1e-4) {
		return nil, false
	}
	d = make([]float32, a.dim)
	a.carryOut(p, out.best, x, d)
	return d, true
}

// leastTop is the optimum when the costliest change makes the cost: the least top for which there is an action none of whose changes costs
// more, by bisection; a feature can be given all that its top allows for free. Of the actions of that cost it takes one of least l1 cost.
func (a *ActionSet) leastTop(x, w []float32, gap float64) (*problem, outcome) {
	d := make([]float32, a.dim)
	within := func(top float64) (float64, bool) {
		p := a.problemOf(x, w, gap, top)
		p.free()
		out := p.solve()
		if out.best == nil {
			return 0, false
		}
		a.carryOut(p, out.best, x, d)
		return a.Cost(x, d), true
	}
	high, ok := within(math.Inf(1))
	if ok {
		for low := 0.0; high-low > closeEnough*high; {
			mid := low + (high-low)/2
			if cost, ok := within(mid); ok {
				high = min(cost, mid)
			} else {
				low = mid
			}
		}
	} else {
		high = math.Inf(1)
	}
	p := a.problemOf(x, w, gap, high*(1+closeEnough))
	return p, p.solve()
}

// free makes every change cost nothing.
func (p *problem) free() {
	for i := range p.levers {
		l := &p.levers[i]
		l.lin, l.quad = 0, 0
		for k := range l.options {
			l.options[k].cost = 0
		}
	}
}

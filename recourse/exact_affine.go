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
	p := a.problemOf(x, w, gap)
	out := p.solve()
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

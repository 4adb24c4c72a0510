package recourse

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/recourse/constraint"
)

// affine answers for people under an affine model. When the model refuses the optimum, for a rounding of its
// arithmetic or of raw values, the next attempt aims a little higher.
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
		margins, err := judge(e.ctx, e.m, points)
		if err != nil {
			return err
		}
		open = open[:0]
		for k, i := range asked {
			switch {
			case valid(margins[k], float32(e.o.Margin)) && e.settle(i, row(points, k, e.a.Dim()), margins[k]):
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

// aim returns person i at the cheapest action that reaches the aim, as it is written in raw units. When there is
// none, the first time, it lowers the aim: there may be something between it and the required margin, and what lies
// below by no more than noise could be there. When there is none even so, that is the proof.
func (e *exactSearch) aim(i int, aim *float64, first bool) []float32 {
	a, x := e.a.Person(e.first+i), row(e.x, i, e.a.Dim())
	for {
		d, method := optimum(a, x, e.net.rows[0], e.o.Margin+*aim*e.slack-e.actions[i].Margin)
		switch {
		case d != nil:
			point := make([]float32, a.Dim())
			a.Publish(point, x, d, nil, 0)
			return point
		case method != Affine:
			e.methods[i] = method
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

// optimum returns the cheapest action of the person x that gains gap under an affine model, nil when there is none. The
// method is Affine when that is proved.
func optimum(a *constraint.Set, x []float32, w []float64, gap float64) (d []float32, method Method) {
	p := newProblem(a, x, [][]float64{w}, []float64{gap})
	best, lower := p.solve()
	switch {
	case best == nil && !math.IsInf(lower, 1), best != nil && lower < best.cost*(1-1e-4):
		return nil, TooHard
	case best == nil && !math.IsInf(p.beyond, 1), best != nil && best.cost > p.beyond:
		return nil, TooWide
	case best == nil:
		return nil, Affine
	}
	return p.action(best), Affine
}

const maxTabled = 1 << 16 // steps of a feature that others follow by a table

// newProblem writes down what the person x can do when sums of delta, each with its weights, have to reach needs.
func newProblem(a *constraint.Set, x []float32, weights [][]float64, need []float64) *problem {
	lin := a.Linear(x)
	p := &problem{
		a: a, x: x, linear: lin, need: append(need, lin.Need...), sums: len(need), limit: a.Limit(), beyond: math.Inf(1),
	}
	d := make([]float32, a.Dim())
	coefficients := func() []float64 {
		a.Propagate(x, d)
		sums := make([]float64, len(weights), len(p.need))
		for r, w := range weights {
			sums[r] = gainOf(w, d)
		}
		return append(sums, lin.Effects(d)...)
	}
	for _, u := range a.Free() {
		p.beyond = min(p.beyond, beyond(a, u, x[u.First]))
		if u.Numeric() && !u.Tabled {
			p.variables = append(p.variables, p.line(u, d, coefficients))
		} else {
			p.variables = append(p.variables, p.list(u, d, coefficients))
		}
		clear(d)
	}
	return p
}

// beyond is the least that a change costs which is farther than a problem looks, +Inf when there is none.
func beyond(a *constraint.Set, u *constraint.Feature, x float32) float64 {
	if !u.Numeric() {
		return math.Inf(1)
	}
	first, last, step := u.Positions(x)
	far := max(-first, last)
	if u.Tabled && far > maxTabled {
		far = maxTabled
	} else if u.Step > 0 || !u.Endless(x) {
		return math.Inf(1)
	}
	linear, quadratic := a.Norm().Quadratic(u, step)
	return linear*far + quadratic*far*far
}

// line makes the variable of a numeric feature. d is zero at first; coefficients says what it does.
func (p *problem) line(u *constraint.Feature, d []float32, coefficients func() []float64) variable {
	first, final, step := u.Positions(p.x[u.First])
	v := variable{feature: u, line: true, whole: u.Step > 0, span: span{first: first, final: final}}
	v.lin, v.quad = p.a.Norm().Quadratic(u, step)
	d[u.First] = 1
	v.coef = coefficients()
	floats.Scale(step, v.coef)
	return v
}

// list makes the variable of a feature with a list of values, by ascending margin.
func (p *problem) list(u *constraint.Feature, d []float32, coefficients func() []float64) variable {
	options := []option{{id: stay, coef: coefficients()}}
	for _, id := range u.AllOptions(p.x, maxTabled) {
		u.Set(p.x, d, id)
		options = append(options, option{id: id, cost: p.a.Norm().Term(u, p.x, d), coef: coefficients()})
		clear(d)
	}
	slices.SortStableFunc(options, func(p, q option) int { return cmp.Compare(p.coef[0], q.coef[0]) })
	zero := slices.IndexFunc(options, func(o option) bool { return o.id == stay })
	return variable{
		feature: u, options: options, zero: float64(zero), span: span{final: float64(len(options) - 1)},
	}
}

func gainOf(w []float64, d []float32) float64 {
	sum := 0.0
	for j, v := range d {
		if v != 0 {
			sum += w[j] * float64(v)
		}
	}
	return sum
}

// action returns the action of the assignment.
func (p *problem) action(c *assignment) []float32 {
	d := make([]float32, p.a.Dim())
	for i := range p.variables {
		v := &p.variables[i]
		u := v.feature
		switch {
		case !v.line:
			if o := &v.options[int(c.pos[i])]; o.id != stay {
				u.Set(p.x, d, o.id)
			}
		case v.whole:
			d[u.First] = u.Tick(c.pos[i])
		default:
			d[u.First] = u.Nearest(p.x[u.First], float32(c.pos[i]))
		}
	}
	p.a.Propagate(p.x, d)
	return d
}

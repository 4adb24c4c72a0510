package recourse

import (
	"context"
	"math"
	"slices"
	"time"

	"cfq/recourse/constraint"
	"cfq/recourse/mip"
)

// network is a model of Relu units, see networkModel.
type network struct {
	rows  [][]float64
	bias  []float64
	units int
}

// networkOf returns the network that a model is; without one, why says what it is.
func networkOf(ctx context.Context, m Model) (_ *network, why string, err error) {
	f, ok := m.(networkModel)
	if !ok {
		return nil, "the model is not affine", nil
	}
	n := &network{}
	n.rows, n.bias, n.units, why, err = f.Network(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case err != nil:
		why = err.Error()
	case why == "":
		return n, "", nil
	}
	return nil, "the model is no network of Relu units: " + why, nil
}

// affine says whether the margin is affine.
func (n *network) affine() bool { return n != nil && n.units == 0 && len(n.rows) == 1 }

// margin computes the margin of the inputs x.
func (n *network) margin(x []float32) float64 {
	v := make([]float64, len(x)+n.units)
	for j, a := range x {
		v[j] = float64(a)
	}
	least := math.Inf(1)
	for r, row := range n.rows {
		sum := n.bias[r]
		for j, w := range row {
			sum += w * v[j]
		}
		if r < n.units {
			v[len(x)+r] = max(sum, 0)
		} else {
			least = min(least, sum)
		}
	}
	return least
}

// off returns the largest difference of the network's margins of the people x from the model's.
func (n *network) off(x, margins []float32) (off float64) {
	if n == nil || n.affine() {
		return 0 // an affine one is only asked for differences
	}
	dim := len(x) / len(margins)
	for i, m := range margins {
		off = max(off, math.Abs(n.margin(x[i*dim:(i+1)*dim])-float64(m)))
	}
	return off
}

// maxOff is the difference from which the network is not the model.
const maxOff = 1e-3

// noProgram says why there is no mixed-integer program for the action set, "" when there is one.
func (e *exactSearch) noProgram(a *constraint.Set) string {
	if e.why != "" {
		return e.why
	}
	if why := a.Separable(); why != "" {
		return why
	}
	if slices.ContainsFunc(a.Numeric(), func(u *constraint.Feature) bool {
		_, quadratic := a.Norm().Quadratic(u, 1)
		return quadratic != 0
	}) {
		return "the model is a network, and the cost is not linear"
	}
	return ""
}

// program answers for people by mixed-integer programs, which look for something cheaper than what Solve finds.
func (e *exactSearch) program(open []int) error {
	if len(open) == 0 {
		return nil
	}
	dim := e.a.Dim()
	var x []float32
	rows := make([]int, len(open))
	for k, i := range open {
		rows[k] = e.first + i
		x = append(x, row(e.x, i, dim)...)
	}
	o := e.o.Search
	o.Margin, o.Workers = e.o.Margin, 1
	known, err := Solve(e.ctx, e.m, e.a.Select(rows), x, o)
	if err != nil {
		return err
	}
	for k, i := range open {
		err := e.improve(i, known[k])
		if e.ctx.Err() != nil {
			return context.Cause(e.ctx)
		}
		if err != nil { // others have their proofs
			e.methods[i] = Method("none: " + err.Error())
		}
	}
	return nil
}

// improve looks for the cheapest action of person i, of which one is known or none. When the model refuses an optimum,
// for a rounding of its arithmetic or of raw values, the next one aims a little higher: not much, or it is no optimum.
func (e *exactSearch) improve(i int, known Action) error {
	const highest = 100 // aims: 0.001 logits
	a, x := e.a.Person(e.first+i), row(e.x, i, e.a.Dim())
	lowest := -1 - 2*e.off/e.slack // nothing there is no rounding any more
	aim, cut := 1.0, math.Inf(1)
	if known.Status == Found {
		cut = 0
		for _, u := range a.Free() {
			cut += a.Norm().Term(u, x, known.Delta)
		}
	}
	end := time.Now().Add(e.o.Time)
	for attempt := 0; ; attempt++ {
		d, method, err := e.cheapest(a, x, e.o.Margin+aim*e.slack, cut*(1-closeToKnown), end)
		switch {
		case err != nil:
			return err
		case method != Program:
			e.methods[i] = method
			return nil
		case d == nil && attempt == 0 && known.Status == Found: // there is nothing cheaper
			e.actions[i], e.methods[i] = known, Program
			return nil
		case d == nil && attempt == 0:
			aim = lowest
			continue
		case d == nil && aim == lowest:
			e.actions[i].Status, e.methods[i] = NoneExists, Program
			return nil
		case d == nil:
			e.methods[i] = Refused
			return nil
		}
		point := make([]float32, a.Dim())
		a.Publish(point, x, d, nil, 0)
		margin, err := judge(e.ctx, e.m, point)
		switch {
		case err != nil:
			return err
		case valid(margin[0], float32(e.o.Margin)) && e.settle(i, point, margin[0]):
			if e.methods[i] = Program; known.Status == Found && known.Cost <= e.actions[i].Cost {
				e.actions[i] = known
			}
			return nil
		}
		aim += max(math.Exp2(float64(attempt)), 1.5*(e.o.Margin-float64(margin[0]))/e.slack)
		if aim < 1 || aim > highest {
			e.methods[i] = Refused
			return nil
		}
	}
}

// closeToKnown is by how much, relative to its cost, an action has to be cheaper than a known one to be looked for.
const closeToKnown = 1e-5

// cheapest returns the cheapest action with the margin, and of no higher cost than most (a sum of terms): nil when
// there is none. The method says whether that is proved.
func (e *exactSearch) cheapest(
	a *constraint.Set, x []float32, margin, most float64, end time.Time,
) ([]float32, Method, error) {
	weights := make([][]float64, len(e.net.rows))
	for r, row := range e.net.rows {
		weights[r] = row[:len(x)]
	}
	p := newProblem(a, x, weights, make([]float64, len(weights)))
	var settled []*constraint.Disjunction
	for {
		b := newBuilder(p, e.net, margin, most, settled)
		left := time.Until(end)
		switch {
		case b.wide > widestSum || most > p.beyond:
			return nil, TooWide, nil
		case left <= 0:
			return nil, TooLong, nil
		}
		s, err := e.o.Solver.Solve(e.ctx, &b.program, left)
		switch {
		case err != nil:
			return nil, "", err
		case s.Status == mip.Unknown:
			return nil, TooLong, nil
		case s.Status == mip.Infeasible:
			return nil, Program, nil
		}
		c := b.assignment(s.X)
		broken := p.violated(c, append([]*constraint.Disjunction{p.linear.Rounding}, settled...))
		switch {
		case broken == nil:
			return p.action(c), Program, nil
		case broken == p.linear.Rounding:
			return nil, Refused, nil
		case len(broken.Alternatives) == 0 || slices.Contains(settled, broken):
			return nil, Undivided, nil
		}
		settled = append(settled, broken)
	}
}

// widestSum bounds the sums of a program: a solver takes a binary variable that is off by 1e-8 for whole.
const widestSum = 1e5

// builder makes the mixed-integer program of a problem under a network.
type builder struct {
	p       *problem
	net     *network
	program mip.Program
	most    float64 // cost
	scale   float64 // of the program's costs
	// parts are the program's variables of each of the problem's: of a line how far up and down, of a list its options,
	// -1 for the one that changes nothing.
	parts   [][]int
	changed []int // 1 unless the variable is at zero
	units   []unitBounds
	base    []float64 // the rows of an action that changes nothing
	wide    float64   // the largest sum that a binary variable switches
}

// unitBounds is a unit that has been added.
type unitBounds struct {
	variable  int // -1: always 0
	low, high float64
}

// newBuilder builds the program: the cheapest action of no higher cost than most, with the margin, that fulfils an
// alternative of each of the disjunctions.
func newBuilder(p *problem, n *network, margin, most float64, settled []*constraint.Disjunction) *builder {
	b := &builder{p: p, net: n, most: most, scale: 1, base: make([]float64, len(p.need))}
	copy(b.base, n.bias)
	for r := range n.rows {
		b.base[r] += gainOf(n.rows[r][:len(p.x)], p.x)
	}
	b.rescale()
	b.variables(len(settled) > 0)
	for k := range n.units {
		b.unit(k)
	}
	for r := n.units; r < len(n.rows); r++ {
		terms, _, _ := b.row(r)
		b.program.AtLeast(margin-b.base[r], terms...)
	}
	for r := p.sums; r < len(p.need); r++ {
		if need := p.need[r]; !math.IsInf(need, -1) {
			terms, _, _ := b.row(r)
			b.program.AtLeast(need-b.base[r], terms...)
		}
	}
	for _, e := range settled {
		b.disjunction(e)
	}
	return b
}

// rescale makes the program's costs large: solvers compare them with absolute tolerances.
func (b *builder) rescale() {
	const size = 1e3
	largest := 0.0
	for i := range b.p.variables {
		v := &b.p.variables[i]
		largest = max(largest, v.lin)
		for _, o := range v.options {
			largest = max(largest, o.cost)
		}
	}
	if largest = min(largest, b.most); largest > 0 {
		b.scale = size / largest
	}
}

// variables adds the problem's variables, with indicators of change where there is a limit, or conditions ask for them.
func (b *builder) variables(asked bool) {
	var cost []mip.Term
	limits := b.p.linear.Limits()
	if b.p.limit < len(b.p.variables) {
		whole := constraint.Limit{Most: b.p.limit}
		for i := range b.p.variables {
			whole.Features = append(whole.Features, i)
		}
		limits = append(limits, whole)
	}
	for i := range b.p.variables {
		v := &b.p.variables[i]
		var parts []int
		if v.line {
			for _, far := range []float64{v.final, -v.first} {
				if far = max(far, 0); v.lin > 0 {
					far = min(far, b.most/v.lin)
				}
				parts = append(parts, b.program.Add(mip.Variable{High: far, Cost: v.lin * b.scale, Integer: v.whole}))
			}
		} else {
			var sum []mip.Term
			for o := range v.options {
				if v.options[o].id == stay {
					parts = append(parts, -1)
					continue
				}
				part := b.program.Add(mip.Variable{High: 1, Cost: v.options[o].cost * b.scale, Integer: true})
				parts, sum = append(parts, part), append(sum, mip.Term{Variable: part, Coef: 1})
			}
			b.program.AtMost(1, sum...)
			for r, c := range v.options[int(v.zero)].coef {
				b.base[r] += c
			}
		}
		b.parts = append(b.parts, parts)
		for _, part := range parts {
			if part >= 0 {
				cost = append(cost, mip.Term{Variable: part, Coef: b.program.Variables[part].Cost})
			}
		}
		if len(limits) > 0 || asked {
			b.indicator(i)
		}
	}
	for _, limit := range limits {
		var count []mip.Term
		for _, i := range limit.Features {
			count = append(count, mip.Term{Variable: b.changed[i], Coef: 1})
		}
		b.program.AtMost(float64(limit.Most), count...)
	}
	if !math.IsInf(b.most, 1) {
		b.program.AtMost(b.most*b.scale, cost...)
	}
}

// indicator adds the variable that is 1 when variable i changes: it lets a line move in one direction.
func (b *builder) indicator(i int) {
	whole := mip.Variable{High: 1, Integer: true}
	at := b.program.Add(whole)
	b.changed = append(b.changed, at)
	if !b.p.variables[i].line {
		terms := []mip.Term{{Variable: at, Coef: -1}}
		for _, part := range b.parts[i] {
			if part >= 0 {
				terms = append(terms, mip.Term{Variable: part, Coef: 1})
			}
		}
		b.program.Rows = append(b.program.Rows, mip.Row{Terms: terms}) // = 0
		return
	}
	up := b.program.Add(whole)
	b.program.AtMost(0, mip.Term{Variable: up, Coef: 1}, mip.Term{Variable: at, Coef: -1})
	for k, part := range b.parts[i] {
		far := b.program.Variables[part].High
		terms := []mip.Term{{Variable: part, Coef: 1}, {Variable: up, Coef: -far}}
		if k == 1 { // down: within far where the line changes, and not up
			terms = append(terms, mip.Term{Variable: at, Coef: -far})
			terms[1].Coef = far
		}
		b.program.AtMost(0, terms...)
		b.wide = max(b.wide, far)
	}
}

// row returns the terms of row r, and what it is at least and at most without its base: units within their bounds, and
// of the variables as many as may change.
func (b *builder) row(r int) (terms []mip.Term, low, high float64) {
	var lows, highs []float64
	for i := range b.p.variables {
		v := &b.p.variables[i]
		lo, hi := 0.0, 0.0
		for k, part := range b.parts[i] {
			if part < 0 {
				continue
			}
			coef := 0.0
			switch {
			case !v.line:
				coef = v.options[k].coef[r] - v.options[int(v.zero)].coef[r]
			case k == 0:
				coef = v.coef[r]
			default:
				coef = -v.coef[r]
			}
			if coef == 0 {
				continue
			}
			terms = append(terms, mip.Term{Variable: part, Coef: coef})
			far := coef * b.program.Variables[part].High
			if v.line || v.options[k].cost <= b.most {
				lo, hi = min(lo, far), max(hi, far)
			}
		}
		lows, highs = append(lows, lo), append(highs, hi)
	}
	slices.Sort(lows)
	slices.Sort(highs)
	for k := range min(b.p.limit, len(lows)) {
		low, high = low+lows[k], high+highs[len(highs)-1-k]
	}
	if r >= len(b.net.rows) {
		return terms, low, high
	}
	for k, u := range b.units {
		if w := b.net.rows[r][len(b.p.x)+k]; w != 0 && u.variable >= 0 {
			terms = append(terms, mip.Term{Variable: u.variable, Coef: w})
			low, high = low+min(w*u.low, w*u.high), high+max(w*u.low, w*u.high)
		}
	}
	return terms, low, high
}

// unit adds unit k: its value is that of its row where that is above 0, as a binary variable says, and else 0.
func (b *builder) unit(k int) {
	terms, low, high := b.row(k)
	base := b.base[k]
	low, high = low+base, high+base
	if high <= 0 {
		b.units = append(b.units, unitBounds{variable: -1})
		return
	}
	u := unitBounds{low: max(low, 0), high: high}
	u.variable = b.program.Add(mip.Variable{Low: u.low, High: high})
	b.units = append(b.units, u)
	for i := range terms {
		terms[i].Coef = -terms[i].Coef
	}
	terms = append(terms, mip.Term{Variable: u.variable, Coef: 1}) // the value less the row
	if low >= 0 {
		b.program.Rows = append(b.program.Rows, mip.Row{Terms: terms, Low: base, High: base})
		return
	}
	on := b.program.Add(mip.Variable{High: 1, Integer: true})
	b.wide = max(b.wide, high, -low)
	b.program.AtLeast(base, terms...)
	b.program.AtMost(base-low, append(slices.Clone(terms), mip.Term{Variable: on, Coef: -low})...)
	b.program.AtMost(0, mip.Term{Variable: u.variable, Coef: 1}, mip.Term{Variable: on, Coef: -high})
}

// disjunction adds that one of the alternatives holds.
func (b *builder) disjunction(e *constraint.Disjunction) {
	var some []mip.Term
	for _, w := range e.Alternatives {
		holds := b.program.Add(mip.Variable{High: 1, Integer: true})
		some = append(some, mip.Term{Variable: holds, Coef: 1})
		for _, i := range w.Unchanged {
			b.program.AtMost(1, mip.Term{Variable: holds, Coef: 1}, mip.Term{Variable: b.changed[i], Coef: 1})
		}
		for _, i := range w.Changed {
			b.program.AtMost(0, mip.Term{Variable: holds, Coef: 1}, mip.Term{Variable: b.changed[i], Coef: -1})
		}
		for k, r := range w.Rows {
			terms, low, _ := b.row(b.p.sums + r)
			need := w.Need[k] - b.base[b.p.sums+r]
			b.wide = max(b.wide, need-low)
			b.program.AtLeast(low, append(terms, mip.Term{Variable: holds, Coef: low - need})...)
		}
	}
	b.program.AtLeast(1, some...)
}

// assignment reads the positions of the problem's variables off a solution.
func (b *builder) assignment(x []float64) *assignment {
	pos := make([]float64, len(b.p.variables))
	for i := range pos {
		v := &b.p.variables[i]
		pos[i] = v.zero
		switch {
		case v.line:
			pos[i] = min(max(x[b.parts[i][0]]-x[b.parts[i][1]], v.first), v.final)
			if v.whole {
				pos[i] = math.Round(pos[i])
			}
		default:
			for k, part := range b.parts[i] {
				if part >= 0 && x[part] > 0.5 {
					pos[i] = float64(k)
				}
			}
		}
	}
	return b.p.assign(pos)
}

// Package proof answers questions about all actions that a person may take, by one branch and bound over what the
// person can change.
//
// In: a network of Relu units, or two of the same structure, and a person's action set. Out: the cheapest action that
// reaches a margin ([Pair.Cheapest]); the largest margin that an action has which the other network refuses
// ([Pair.Transfer]). The invariant: no action that the task allows is outside of the bounds, as ONNX Runtime computes
// in float32.
//
// # Method
//
// The inputs disappear: a network is a function of the positions of a person's variables (a number and its steps, a
// list of options), which every unit of the first layer adds up. A node of the tree leaves each variable some
// positions. Its bound is that of CROWN and DeepPoly (Zhang et al., NeurIPS 2018; Singh et al., POPL 2019): units are
// replaced by linear bounds, the last ones first, until a sum over the variables is left. Of two networks the second is
// written as its difference from the first, unit by unit (ReluDiff; Paulsen et al., ICSE 2020), so that what they share
// cancels. The sum is maximised over the actions themselves, not over a box: the limit of features, steps and options
// included, the budget of costs by its Lagrangian dual. That another network refuses is a constraint of the bound, by
// multipliers, too.
//
// Rules between features prune nodes; else they are left out of the bounds, and every action that is returned is
// checked by the action set. Budgets are nodes, so that results do not depend on the machine.
//
// # Rounding
//
// A sum of n products in float32, in any order, fused or not, is off by at most (n+10) 2^-24 times the sum of their
// magnitudes: added up over the layers at the bounds of all actions of a person. Numbers that read as an action may be
// off by as much as the action set allows.
package proof

import (
	"context"
	"errors"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// Goal is what an action has to reach. Cost is that of the best action known, +Inf without one.
type Goal struct {
	Margin float64 // that must be reached
	Aim    float64 // what an action of the network is worth being judged for, a little above
	Cost   float64
	Gap    float64 // relative: an action that costs less than this below the best one matters
	Nodes  int     // that are looked at
	// Real leaves float32 out of the proof: for gaps below its rounding.
	Real bool
}

// Optimum is what [Pair.Cheapest] found.
type Optimum struct {
	Point  []float32 // of the person after an action that is cheaper than the one known; nil: there is none
	Cost   float64   // of the cheapest action known
	Proved bool      // no action that costs less than Cost by Within reaches the margin
	Within float64   // relative: the gap, and what rounding new values added
	Wide   bool      // an action that is farther than is looked at might be cheaper
	Nodes  int
}

// Cheapest looks for actions of the person x that reach the goal's margin and cost less than what is known, by more
// than the gap, until there are none. judge has the last word on a point: whether the model accepts it.
func (k *Pair) Cheapest(ctx context.Context, a *constraint.Set, x []float32, g Goal,
	judge func(point []float32) (bool, error),
) (best Optimum, err error) {
	p := k.newProblem(a, x)
	best.Cost = g.Cost
	least := g.Cost * (1 - g.Gap) // what actions have to cost less than
	p.prepare(least)
	s := &search{problem: p, floor: g.Margin, nodes: g.Nodes, aim: g.Aim}
	if p.real = g.Real; g.Real {
		s.floor = g.Aim
	}
	point, d := make([]float32, len(x)), make([]float32, len(x))
	s.accept = func(action []float32, margin, _ float64, alone bool) {
		if margin < g.Aim && !alone || err != nil {
			return
		}
		a.Project(x, action)
		raw := a.Cost(x, action)
		if raw > least {
			return
		}
		a.Publish(point, x, action, nil, 0)
		constraint.Difference(d, x, point)
		if cost := a.Cost(x, d); cost < best.Cost*(1-1e-9) {
			if a.Check(x, d) != nil {
				return
			}
			var ok bool
			if ok, err = judge(point); !ok {
				return
			}
			best.Point, best.Cost = slices.Clone(point), cost
			if math.IsInf(g.Cost, 1) {
				s.nodes = 0 // what is near can be bounded better
			}
		} else if margin < g.Aim {
			return
		}
		least = min(raw, best.Cost) * (1 - g.Gap) // also when it is written as what is known
		p.afford(least)
	}
	upper, failed := s.run(ctx, []int{-1})
	if err == nil {
		err = failed
	}
	best.Nodes = s.seen
	if err == nil && math.IsInf(g.Cost, 1) && best.Point != nil {
		found := best
		g.Cost = found.Cost
		if best, err = k.Cheapest(ctx, a, x, g, judge); best.Point == nil {
			best.Point = found.Point
		}
		best.Nodes += found.Nodes
		return best, err
	}
	best.Wide = p.budget > p.beyond
	best.Proved = upper <= s.floor && !best.Wide
	if best.Within = g.Gap; !math.IsInf(best.Cost, 1) { // an action may have been cheaper before it was written
		best.Within = max(g.Gap, 1-least/best.Cost)
	}
	return best, err
}

// Difference is the answer of [Pair.Transfer].
type Difference struct {
	Upper   float64   // no action that the other network refuses has a larger margin
	Lower   float64   // an action has that is refused, but for rounding; -Inf without one
	Refuted []float32 // the person after that action
	Nodes   int
}

// Transfer bounds the largest margin that an action of the person x has in the network, of those that cost at most so
// much and that the other network refuses, to the tolerance; below 0 it does not matter.
func (k *Pair) Transfer(ctx context.Context, a *constraint.Set, x []float32, cost, tolerance float64, nodes int) (
	out Difference, err error,
) {
	p := k.newProblem(a, x)
	if !p.pair() {
		return out, errors.New("a proof about two networks needs the other one: see NewPair")
	}
	p.afford(cost * (1 - 1e-4)) // which writing a number may add
	least := p.budget
	p.prepare(cost*(1+1e-6) + p.blur()) // numbers read as an action within the noise of float32
	p.reserve = p.budget - least
	s := &search{problem: p, tolerance: tolerance, nodes: nodes, aim: math.Inf(1)}
	d := make([]float32, len(x))
	out.Lower = math.Inf(-1)
	s.accept = func(action []float32, margin, other float64, _ bool) {
		reached := math.Inf(-1) // by what ONNX Runtime may make of it
		if slack, twin := p.slack(p.z, p.e); other <= twin {
			reached = margin + slack
		}
		if reached <= s.best && (other > 0 || margin <= out.Lower) {
			return
		}
		point := make([]float32, len(x))
		a.Publish(point, x, action, nil, 0)
		if constraint.Difference(d, x, point); a.Check(x, d) != nil || a.Cost(x, d) > cost*(1+1e-6) {
			return
		}
		if s.best = max(s.best, reached); other <= 0 && margin > out.Lower {
			out.Lower, out.Refuted = margin, point
		}
	}
	rows := make([]int, k.margins)
	for r := range rows {
		rows[r] = r
	}
	upper, err := s.run(ctx, rows)
	out.Upper, out.Nodes = max(upper, 0), s.seen
	if p.budget > p.beyond {
		out.Upper = math.Inf(1)
	}
	return out, err
}

// prepare bounds the networks over all actions of at most this cost, and their rounding.
func (p *problem) prepare(cost float64) {
	if !math.IsInf(cost, 1) {
		p.afford(cost)
	}
	p.root = noBounds(p.units, p.pair())
	if !p.tighten(p.all) || !p.narrow(p.root, p.all, true) {
		p.root = nil
		return
	}
	inputs, off := p.ranges()
	unclear := slices.Clone(off)
	for j, size := range inputs {
		unclear[j] += 3e-7 * (1 + size)
	}
	p.noise = p.linear.Noise(unclear)
	p.rounding = p.roundingOf(&p.of, off)
	if p.pair() {
		p.otherRounding = p.roundingOf(&p.other, off)
	}
}

// ranges returns how large each input gets, and how far it may be from what an action says.
func (p *problem) ranges() (inputs, off []float64) {
	inputs, off = make([]float64, p.inputs), make([]float64, p.inputs)
	follows := make([]float64, p.inputs)
	for i := range p.all {
		v, d := &p.variables[i], &p.all[i]
		most := map[int]float64{}
		if v.line {
			first := v.feature.First
			for _, t := range p.effects[v.slot] {
				most[t.input] = math.Abs(t.by) * max(-d.lo, d.hi)
				if t.input != first { // it follows, and with it what the other is off by
					follows[t.input] += math.Abs(t.by) / p.size(i) * 2.4e-7 * math.Abs(float64(p.x[first]))
				}
			}
		}
		for _, k := range d.options {
			for _, t := range p.effects[v.slot+int(k)] {
				most[t.input] = max(most[t.input], math.Abs(t.by))
			}
		}
		for j, by := range most {
			inputs[j] += by
			if by != 1 {
				off[j] = 1
			}
		}
	}
	for j, v := range p.x {
		inputs[j] += math.Abs(float64(v))
		off[j] *= 2e-6 * (1 + inputs[j])
		off[j] += follows[j]
	}
	return inputs, off
}

// size is that of a variable's step on a line.
func (p *problem) size(i int) float64 {
	if u := p.variables[i].feature; u.Step > 0 {
		return u.Step
	}
	return 1
}

// rounding is that of a network's rows: the magnitudes that inputs add to each, how far they are off, and their number.
type rounding struct{ size, off, terms, sums []float64 }

func (p *problem) roundingOf(s *side, off []float64) (r rounding) {
	for k, w := range s.input {
		size, by, terms := math.Abs(s.bias[k]), 0.0, 10.0
		for j, v := range w {
			by += math.Abs(v) * off[j]
			if v != 0 && p.x[j] != 0 {
				size += math.Abs(v * float64(p.x[j]))
				terms++
			}
		}
		for i := range p.variables {
			if w != nil {
				most, count := p.largest(i, w)
				size += most
				terms += count
			}
		}
		r.size, r.off, r.terms = append(r.size, size), append(r.off, by), append(r.terms, terms)
	}
	r.sums = make([]float64, len(r.size))
	return r
}

// largest returns the magnitudes that a variable adds to a row of these weights at most, and their number.
func (p *problem) largest(i int, w []float64) (most, terms float64) {
	v, d := &p.variables[i], &p.all[i]
	add := func(slot int, times float64) {
		size, n := 0.0, 0.0
		for _, t := range p.effects[slot] {
			if w[t.input] != 0 {
				size += times * math.Abs(w[t.input]*t.by)
				n++
			}
		}
		most, terms = max(most, size), max(terms, n)
	}
	if v.line {
		add(v.slot, max(-d.lo, d.hi))
	}
	for _, k := range d.options {
		add(v.slot+int(k), 1)
	}
	return most, terms
}

// slack returns how far margins in float32 may be from those of the networks, whose units give at most hi and twin.
func (p *problem) slack(hi, twin []float64) (of, other float64) {
	if p.real {
		return 0, 0
	}
	if of = p.rounding.margin(&p.of, hi, p.units); p.pair() {
		other = p.otherRounding.margin(&p.other, twin, p.units)
	}
	return of, other
}

func (r *rounding) margin(s *side, hi []float64, units int) (worst float64) {
	for k, weights := range s.weight {
		size, off, terms := r.size[k], r.off[k], r.terms[k]
		for i, w := range weights {
			if u := s.first[k] + i; w != 0 && hi[u]+r.sums[u] > 0 {
				size += math.Abs(w) * max(hi[u], 0)
				off += math.Abs(w) * r.sums[u]
				terms++
			}
		}
		if r.sums[k] = 1.001 * (off + terms*math.Exp2(-24)*size); k >= units {
			worst = max(worst, r.sums[k])
		}
	}
	return worst
}

package constraint

import (
	"cmp"
	"fmt"
	"math"

	"cfq/task"
)

// Norm makes the cost of an action out of weighted changes: each feature adds its term, ratio times the change plus
// 1-ratio times its square; l2 takes the root of their sum.
type Norm struct {
	ratio   float64 // 1: l1; 0: squares
	root    bool    // l2
	encoded bool    // a one-hot switch costs what both of its inputs do
}

// compileCost sets the norm and the weight of every input that an action can change; what only a link moves is free.
//
// The standard deviation of a numeric input is 1, because mean and std of the task file standardise it; that of an
// input that is 0 or 1 follows from its training share p as sqrt(p(1-p)). Without shares, p is 1/len(values) for a
// one-hot group and 1/2 otherwise. MAD and range are divided by std for the same reason; a MAD of 0 (more than half
// of the rows have the same value) falls back to the standard deviation.
func (a *Set) compileCost(c *task.Cost, ranges []task.Feature) error {
	a.norm = Norm{encoded: c.Switches == task.Encoded}
	switch cmp.Or(c.Norm, task.L1) {
	case task.L1:
		a.norm.ratio = 1
	case task.L2:
		a.norm.root = true
	case task.Mixed:
		a.norm.ratio = c.L1Ratio
	default:
		return fmt.Errorf("unknown cost norm %q", c.Norm)
	}
	for _, u := range a.free {
		u.weights = make([]float64, u.Width)
		for j := range u.weights {
			w, err := weight(c, u.spec, &ranges[u.Index], j)
			if err == nil && (!(w > 0) || math.IsInf(w, 0)) {
				err = fmt.Errorf("cost weight %g, must be positive", w)
			}
			if err != nil {
				return fmt.Errorf("feature %q: %w", u.Name, err)
			}
			u.weights[j] = w
		}
	}
	return nil
}

// weight returns what a change of input j by 1 costs.
func weight(c *task.Cost, f, ranges *task.Feature, j int) (float64, error) {
	switch cmp.Or(c.Weights, task.InverseStd) {
	case task.InverseStd:
		return f.Weight / (sigma(f, j) + c.Eps), nil
	case task.InverseMAD:
		return f.Weight / (mad(f) + c.Eps), nil
	case task.InverseRange:
		return f.Weight / (valueRange(ranges) + c.Eps), nil
	case task.Given:
		return f.Weight, nil
	case task.Uniform:
		return 1, nil
	}
	return 0, fmt.Errorf("unknown cost weights %q", c.Weights)
}

func sigma(f *task.Feature, j int) float64 {
	if f.Kind.IsNumber() {
		return 1
	}
	p := 0.5 // the training share of the rows whose input is 1
	switch {
	case j < len(f.Shares):
		p = f.Shares[j]
	case f.Kind == task.OneHot:
		p = 1 / float64(max(f.Width, 2))
	}
	return math.Sqrt(max(p*(1-p), 0))
}

func mad(f *task.Feature) float64 {
	if f.MAD > 0 && f.Kind.IsNumber() {
		return f.MAD / f.Std
	}
	return 1
}

// valueRange is the range of the training rows, else of the values that there are, else of the bounds, in input
// units; that of a category's inputs is 1.
func valueRange(f *task.Feature) float64 {
	width := 0.0
	switch {
	case !f.Kind.IsNumber():
		return 1
	case len(f.Quantiles) > 0:
		width = f.Quantiles[len(f.Quantiles)-1] - f.Quantiles[0]
	case len(f.Levels) > 0:
		width = f.Levels[len(f.Levels)-1] - f.Levels[0]
	default:
		width = f.Bounds[1] - f.Bounds[0]
	}
	if !(width > 0) || math.IsInf(width, 0) {
		return 1
	}
	return width / f.Std
}

// Term returns what one feature's change adds to the sum that makes the cost.
func (n *Norm) Term(u *Feature, x, delta []float32) float64 {
	return n.term(u, u.inputs(x), u.inputs(delta))
}

// term is Term with the feature's inputs only.
func (n *Norm) term(u *Feature, x, d []float32) float64 {
	if u.form < oneHot {
		return n.line(u, d[0])
	}
	return n.category(u, x, d)
}

// line is Term for a feature of one input.
func (n *Norm) line(u *Feature, d float32) float64 {
	if d == 0 {
		return 0
	}
	w := u.weights[0] * math.Abs(float64(d))
	return n.part(w, w*w)
}

// category is Term for a category.
func (n *Norm) category(u *Feature, x, d []float32) float64 {
	changed, linear, square := 0, 0.0, 0.0
	for j, v := range d {
		if v != 0 {
			w := u.weights[j]
			changed, linear, square = changed+1, linear+w, square+w*w
		}
	}
	if changed == 0 {
		return 0
	}
	places := 1.0
	if u.ordered {
		if from, to := u.current(x), u.after(x, d); from >= 0 && to >= 0 {
			places = math.Abs(float64(to - from))
		}
	}
	switch {
	case u.spec.SwitchCost > 0:
		linear = u.spec.SwitchCost * places
	case n.encoded:
		return n.part(linear, square)
	case u.form == oneHot:
		linear = linear / float64(changed) * places
	}
	return n.part(linear, linear*linear)
}

// part is what weighted changes, given as their sum and their sum of squares, add to the cost.
func (n *Norm) part(linear, square float64) float64 { return n.ratio*linear + (1-n.ratio)*square }

// close makes the cost of the sum of the features' terms.
func (n *Norm) close(sum float64) float64 {
	if n.root {
		return math.Sqrt(sum)
	}
	return sum
}

// IsL1 reports whether the cost is the sum of weighted changes.
func (n *Norm) IsL1() bool { return n.ratio == 1 }

// Weight returns the weight of a change of the feature's first input.
func (n *Norm) Weight(u *Feature) float64 { return u.weights[0] }

// Marginal returns what a little more of the change d of a numeric feature adds to the sum of terms, but for a
// common factor.
func (n *Norm) Marginal(u *Feature, d float32) float64 {
	w, size := u.weights[0], math.Abs(float64(d))
	if n.root {
		return w * w * max(size, 1e-6)
	}
	return w * (n.ratio + 2*(1-n.ratio)*w*size)
}

// Quadratic returns the term of a change of a numeric feature by k steps as linear |k| + quadratic k^2.
func (n *Norm) Quadratic(u *Feature, step float64) (linear, quadratic float64) {
	w := u.weights[0] * step
	return n.ratio * w, (1 - n.ratio) * w * w
}

// Slope sets g to the gradient of the cost by the action, Dim entries; it is 0 where the action changes nothing. The
// cost of a category jumps: its changed inputs share what it adds.
func (a *Set) Slope(x, delta, g []float32) {
	clear(g[:a.dim])
	root := 1.0
	if a.norm.root {
		root = 2 * a.Cost(x, delta)
	}
	for _, u := range a.free {
		if !u.Changed(delta) {
			continue
		}
		slope := func(j int) float64 { // of the sum of terms, by the size of the change of input j
			w := u.weights[0]
			return w * (a.norm.ratio + 2*(1-a.norm.ratio)*w*math.Abs(float64(delta[j])))
		}
		if u.form >= oneHot {
			changed := 0
			for _, v := range u.inputs(delta) {
				if v != 0 {
					changed++
				}
			}
			share := a.norm.Term(u, x, delta) / float64(changed)
			if a.norm.root {
				share *= 2
			}
			slope = func(int) float64 { return share }
		}
		for j := u.First; j < u.First+u.Width; j++ {
			if v := float64(delta[j]); v != 0 {
				g[j] = float32(math.Copysign(slope(j)/root, v))
			}
		}
	}
}

// Line is a numeric feature as the linearised margin sees it: logits per unit of change, the room in the helpful
// direction, and what a unit of change costs.
type Line struct {
	Feature             *Feature
	Up                  bool
	Slope, Room, Weight float64
}

// Worth returns logits per cost.
func (l *Line) Worth() float64 { return l.Slope / l.Weight }

// Fill estimates the cost of an action that costs cost already and closes the gap with the lines, of which it may
// move all, the one of most worth first.
func (n *Norm) Fill(cost float64, lines []Line, gap float64) float64 {
	if n.IsL1() {
		for _, l := range lines {
			part := min(gap, l.Slope*l.Room)
			cost += part / l.Worth()
			if gap -= part; gap <= 0 {
				return cost
			}
		}
		return 1e12 * (1 + gap)
	}
	moves, ok := n.Spread(lines, gap)
	if !ok {
		return 1e12 * (1 + gap)
	}
	if n.root {
		cost *= cost
	}
	for k, v := range moves {
		w := lines[k].Weight * v
		cost += n.part(w, w*w)
	}
	return n.close(cost)
}

// Spread returns the moves of the lines that close the gap at the least cost under l2 or mixed, and whether there
// is room enough. At the optimum every line inside its room gains the same margin per further cost, which one
// multiplier says; it is found by bisection.
func (n *Norm) Spread(lines []Line, gap float64) ([]float64, bool) {
	curvature := 2 * (1 - n.ratio)
	if n.root {
		curvature = 1 // the multiplier takes the factor of 2
	}
	move := func(l Line, multiplier float64) float64 { // multiplier slope = ratio w + curvature w^2 v
		v := (multiplier*l.Slope - n.ratio*l.Weight) / max(curvature*l.Weight*l.Weight, 1e-12)
		return min(max(v, 0), l.Room)
	}
	gain := func(multiplier float64) float64 {
		sum := 0.0
		for _, l := range lines {
			sum += l.Slope * move(l, multiplier)
		}
		return sum
	}
	lo, hi := 0.0, 1e-6
	for gain(hi) < gap {
		if lo, hi = hi, 4*hi; hi > 1e18 {
			return nil, false
		}
	}
	for range 60 {
		if mid := (lo + hi) / 2; gain(mid) >= gap {
			hi = mid
		} else {
			lo = mid
		}
	}
	moves := make([]float64, len(lines))
	for k, l := range lines {
		moves[k] = move(l, hi)
	}
	return moves, true
}

// Affords returns the largest change of a numeric feature that alone does not cost more: under a mixed norm, the root
// of ratio s + (1-ratio) s^2 = cost, s the weighted change.
func (n *Norm) Affords(u *Feature, cost float64) float64 {
	if !n.root && !math.IsInf(cost, 1) {
		cost = 2 * cost / (n.ratio + math.Sqrt(n.ratio*n.ratio+4*(1-n.ratio)*cost))
	}
	return cost / u.weights[0]
}

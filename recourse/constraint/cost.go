package constraint

import (
	"fmt"
	"math"

	"cfq/task"
)

// Norm makes the cost of an action out of weighted changes: each feature adds a term, and l2 takes the root of
// their sum.
type Norm struct {
	name    task.Norm
	ratio   float64   // of Mixed
	weights []float64 // per model input
}

// price is what changes of one feature cost.
type price struct {
	weights []float64 // per input
	flip    float64   // of a category: cost of a change of value, 0 = by the weights
	encoded bool      // a one-hot switch costs what both of its inputs do
}

// compileCost sets the norm and the weight of every input that an action can change; what only a link moves is free.
//
// The standard deviation of a numeric input is 1, because mean and std of the task file standardise it; that of an
// input that is 0 or 1 follows from its training share p as sqrt(p(1-p)). Without shares, p is 1/len(values) for a
// one-hot group and 1/2 otherwise. MAD and range are divided by std for the same reason; a MAD of 0 (more than half
// of the rows have the same value) falls back to the standard deviation.
func (a *Set) compileCost(t *task.Task, ranges []task.Feature) error {
	a.norm = Norm{name: t.Cost.Norm, ratio: t.Cost.L1Ratio, weights: make([]float64, a.dim)}
	switch a.norm.name {
	case "":
		a.norm.name = task.L1
	case task.L1, task.L2, task.Mixed:
	default:
		return fmt.Errorf("unknown cost norm %q", t.Cost.Norm)
	}
	for _, u := range a.free {
		weights := a.norm.weights[u.First : u.First+u.Width]
		if err := u.compilePrice(&t.Cost, &ranges[u.Index], weights); err != nil {
			return fmt.Errorf("feature %q: %w", u.Name, err)
		}
	}
	return nil
}

func (u *Feature) compilePrice(c *task.Cost, ranges *task.Feature, weights []float64) error {
	f := u.spec
	u.price = price{weights: weights, flip: f.SwitchCost, encoded: c.Switches == task.Encoded}
	for j := range weights {
		w := f.Weight
		switch c.Weights {
		case task.InverseStd, "":
			w /= sigma(f, j) + c.Eps
		case task.InverseMAD:
			w /= mad(f) + c.Eps
		case task.InverseRange:
			w /= valueRange(ranges) + c.Eps
		case task.Given:
		case task.Uniform:
			w = 1
		default:
			return fmt.Errorf("unknown cost weights %q", c.Weights)
		}
		if !(w > 0) || math.IsInf(w, 0) {
			return fmt.Errorf("cost weight %g, must be positive", w)
		}
		weights[j] = w
	}
	return nil
}

// share returns the training share of the rows whose input j is 1.
func share(f *task.Feature, j int) float64 {
	switch {
	case j < len(f.Shares):
		return f.Shares[j]
	case f.Kind == task.OneHot:
		return 1 / float64(max(f.Width, 2))
	}
	return 0.5
}

func sigma(f *task.Feature, j int) float64 {
	switch f.Kind {
	case task.OneHot, task.Binary, task.Thermometer:
		p := share(f, j)
		return math.Sqrt(max(p*(1-p), 0))
	}
	return 1
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
	return n.part(u.sizes(x, d))
}

// line is Term for a feature of one input.
func (n *Norm) line(u *Feature, d float32) float64 {
	if d == 0 {
		return 0
	}
	w := n.weights[u.First] * math.Abs(float64(d))
	return n.part(w, w*w)
}

// part is what weighted changes, given as their sum and their sum of squares, add to the cost.
func (n *Norm) part(linear, square float64) float64 {
	switch n.name {
	case task.L2:
		return square
	case task.Mixed:
		return n.ratio*linear + (1-n.ratio)*square
	}
	return linear
}

// close makes the cost of the sum of the features' terms, and open undoes it.
func (n *Norm) close(sum float64) float64 {
	if n.name == task.L2 {
		return math.Sqrt(sum)
	}
	return sum
}

func (n *Norm) open(cost float64) float64 {
	if n.name == task.L2 {
		return cost * cost
	}
	return cost
}

// IsL1 reports whether the cost is the sum of weighted changes.
func (n *Norm) IsL1() bool { return n.name == task.L1 }

// Weight returns the weight of a change of the feature's first input.
func (n *Norm) Weight(u *Feature) float64 { return n.weights[u.First] }

// Marginal returns what a little more of the change d of a numeric feature adds to the sum of terms, but for a
// common factor.
func (n *Norm) Marginal(u *Feature, d float32) float64 {
	w, size := n.weights[u.First], math.Abs(float64(d))
	switch n.name {
	case task.L2:
		w *= w * max(size, 1e-6)
	case task.Mixed:
		w *= n.ratio + 2*(1-n.ratio)*w*size
	}
	return w
}

// Quadratic returns the term of a change of a numeric feature by k steps as linear |k| + quadratic k^2.
func (n *Norm) Quadratic(u *Feature, step float64) (linear, quadratic float64) {
	one, two := n.line(u, 1), n.line(u, 2)
	return (2*one - two/2) * step, (two/2 - one) * step * step
}

// sizes returns the size of a category's change as the sum and the sum of squares of its weighted parts.
func (u *Feature) sizes(x, d []float32) (linear, square float64) {
	p := &u.price
	flipped, sum, squares := 0, 0.0, 0.0
	for j, v := range d {
		if v == 0 {
			continue
		}
		w := p.weights[j]
		flipped, sum, squares = flipped+1, sum+w, squares+w*w
	}
	if flipped == 0 {
		return 0, 0
	}
	places := 1.0
	if u.ordered {
		if from, to := u.current(x), u.after(x, d); from >= 0 && to >= 0 {
			places = math.Abs(float64(to - from))
		}
	}
	switch {
	case p.flip > 0:
		linear = p.flip * places
	case p.encoded:
		return sum, squares
	case u.form == thermometer:
		linear = sum
	default:
		linear = sum / float64(flipped) * places
	}
	return linear, linear * linear
}

// rise returns the rise in cost when the term of the feature u becomes to.
func (a *Set) rise(u *Feature, x, d []float32, to float64) float64 {
	from := a.norm.Term(u, x, d)
	if a.norm.name == task.L2 {
		before := a.Cost(x, d)
		return math.Sqrt(max(before*before+to-from, 0)) - before
	}
	return to - from
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
	if n.name == task.L1 {
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
	sum := n.open(cost)
	for k, v := range moves {
		w := lines[k].Weight * v
		sum += n.part(w, w*w)
	}
	return n.close(sum)
}

// Spread returns the moves of the lines that close the gap at the least cost under l2 or mixed, and whether there
// is room enough. At the optimum every line inside its room gains the same margin per further cost, which one
// multiplier says; it is found by bisection.
func (n *Norm) Spread(lines []Line, gap float64) ([]float64, bool) {
	move := func(l Line, m float64) float64 {
		v := 0.0
		switch n.name {
		case task.Mixed: // m slope = ratio w + 2 (1-ratio) w^2 v
			v = (m*l.Slope - n.ratio*l.Weight) / max(2*(1-n.ratio)*l.Weight*l.Weight, 1e-12)
		default: // m slope = w^2 v
			v = m * l.Slope / (l.Weight * l.Weight)
		}
		return min(max(v, 0), l.Room)
	}
	gain := func(m float64) float64 {
		sum := 0.0
		for _, l := range lines {
			sum += l.Slope * move(l, m)
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

// reachAt returns how far the feature can go in a direction for the cost, by bisection.
func (n *Norm) reachAt(u *Feature, x []float32, sign, cost float64) float64 {
	end := math.Abs(float64(u.Farthest(x[u.First], sign > 0)))
	term := func(v float64) float64 { return n.line(u, float32(v)) }
	if n.open(cost) >= term(end) {
		return end
	}
	lo, hi := 0.0, end
	for range 30 {
		if mid := (lo + hi) / 2; term(mid) <= n.open(cost) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// Affords returns the largest change of the feature, in either direction, that alone does not cost more.
func (n *Norm) Affords(u *Feature, x []float32, cost float64) float64 {
	switch {
	case math.IsInf(cost, 1):
		return cost
	case n.name == task.L1 || n.name == task.L2:
		return cost / n.weights[u.First]
	}
	return max(n.reachAt(u, x, 1, cost), n.reachAt(u, x, -1, cost))
}

package constraint

import (
	"cmp"
	"fmt"
	"math"

	"cfq/internal/lists"
	"cfq/task"
)

// Norm makes the cost of an action out of weighted changes: ratio times their sum plus 1-ratio times the root of the
// sum of their squares.
type Norm struct {
	ratio   float64 // 1: l1; 0: l2
	encoded bool    // a one-hot switch costs what both of its inputs do
}

// compileCost sets the norm and the weight of every input that an action can change; what only a link moves is free.
//
// The standard deviation of a numeric input is 1, because mean and std of the task file standardise it; that of an
// input that is 0 or 1 follows from its training share p as sqrt(p(1-p)). Without shares, p is 1/len(values) for a
// one-hot group and 1/2 otherwise. MAD and range are divided by std for the same reason; a MAD of 0 (more than half
// of the rows have the same value) falls back to the standard deviation.
func (a *Set) compileCost(c *task.Cost, ranges []task.Feature) error {
	a.norm = Norm{encoded: c.Switches == "encoded"}
	switch cmp.Or(c.Norm, task.L1) {
	case task.L1:
		a.norm.ratio = 1
	case task.Mixed:
		a.norm.ratio = c.L1Ratio
	}
	for _, u := range a.free {
		u.weights = make([]float64, u.Width)
		for j := range u.weights {
			w := weight(c, u.spec, &ranges[u.Index], j)
			if !(w > 0) || math.IsInf(w, 0) {
				return fmt.Errorf("feature %q: cost weight %g, must be positive", u.Name, w)
			}
			u.weights[j] = w
		}
	}
	return nil
}

func weight(c *task.Cost, f, ranges *task.Feature, j int) float64 {
	switch c.Weights {
	case "inverse_mad":
		mad := 1.0
		if n := f.Number(); n != nil && n.MAD > 0 {
			mad = n.MAD / n.Unit()
		}
		return f.Weight / (mad + c.Eps)
	case "inverse_range":
		return f.Weight / (valueRange(ranges) + c.Eps)
	case "given":
		return f.Weight
	case "uniform":
		return 1
	}
	return f.Weight / (f.Encoding.Sigma(j) + c.Eps)
}

func valueRange(f *task.Feature) float64 {
	n, width := f.Number(), 0.0
	switch {
	case n == nil:
		return 1
	case len(n.Quantiles) > 0:
		width = n.Quantiles[len(n.Quantiles)-1] - n.Quantiles[0]
	case len(n.Levels) > 0:
		width = n.Levels[len(n.Levels)-1] - n.Levels[0]
	default:
		width = f.Bounds[1] - f.Bounds[0]
	}
	if !(width > 0) || math.IsInf(width, 0) {
		return 1
	}
	return width / n.Unit()
}

// Sums are what weighted changes and their squares add up to; from them follows the cost.
type Sums struct{ linear, square float64 }

// SumsOf are those of one weighted change.
func SumsOf(change float64) Sums { return Sums{change, change * change} }

// Plus adds sums.
func (s Sums) Plus(t Sums) Sums { return Sums{s.linear + t.linear, s.square + t.square} }

func (s Sums) minus(t Sums) Sums { return Sums{s.linear - t.linear, max(s.square-t.square, 0)} }

// Sums are those of one feature's change.
func (n *Norm) Sums(u *Feature, x, delta []float32) Sums {
	return n.sums(u, u.inputs(x), u.inputs(delta))
}

// Term returns what one feature's change adds to the sum that makes the cost: of changes under l1, of squares under l2.
// Under a mixed cost, which is no such sum, it is what the change costs alone.
func (n *Norm) Term(u *Feature, x, delta []float32) float64 {
	s := n.Sums(u, x, delta)
	if n.ratio == 0 {
		return s.square
	}
	return n.Of(s)
}

// Of makes the cost.
func (n *Norm) Of(s Sums) float64 {
	if n.ratio == 1 {
		return s.linear
	}
	return n.ratio*s.linear + (1-n.ratio)*math.Sqrt(s.square)
}

func (n *Norm) sums(u *Feature, x, d []float32) Sums {
	if u.form < oneHot {
		return SumsOf(u.weights[0] * math.Abs(float64(d[0])))
	}
	changed, linear, square := 0, 0.0, 0.0
	for j, v := range d {
		if v != 0 {
			w := u.weights[j]
			changed, linear, square = changed+1, linear+w, square+w*w
		}
	}
	if changed == 0 {
		return Sums{}
	}
	places := 1.0
	if u.ordered {
		if from, to := u.place(x, nil), u.place(x, d); from >= 0 && to >= 0 {
			places = math.Abs(float64(to - from))
		}
	}
	switch {
	case u.spec.SwitchCost > 0:
		linear = u.spec.SwitchCost * places
	case n.encoded:
		return Sums{linear, square}
	case u.form == oneHot:
		linear = linear / float64(changed) * places
	}
	return SumsOf(linear)
}

// IsL1 reports whether the cost is the sum of weighted changes.
func (n *Norm) IsL1() bool { return n.ratio == 1 }

func (n *Norm) isMixed() bool { return n.ratio > 0 && n.ratio < 1 } // no sum over features, nor the root of one

// Weight returns the weight of a change of the feature's first input.
func (n *Norm) Weight(u *Feature) float64 { return u.weights[0] }

// Marginal returns what a little more of the change of a numeric feature adds to the cost, under l2 but for a common
// factor.
func (a *Set) Marginal(u *Feature, x, d []float32) float64 {
	n, w, size := &a.norm, u.weights[0], math.Abs(float64(d[u.First]))
	switch {
	case n.ratio == 0:
		return w * w * max(size, 1e-6)
	case n.ratio < 1:
		share := 1.0 // of the first change
		if root := math.Sqrt(a.sums(x, d).square); root > 0 {
			share = w * size / root
		}
		return w * (n.ratio + (1-n.ratio)*share)
	}
	return w
}

// Quadratic returns the term of a change of a numeric feature by k steps as linear |k| + quadratic k^2.
func (n *Norm) Quadratic(u *Feature, step float64) (linear, quadratic float64) {
	w := u.weights[0] * step
	if n.ratio == 0 {
		return 0, w * w
	}
	return w, 0
}

// Budget returns what the terms of an action that changes at most k features add up to when it costs this much: exactly
// under l1 and l2, at most under a mixed cost.
func (n *Norm) Budget(cost float64, k int) float64 {
	switch {
	case n.ratio == 0:
		return cost * cost
	case n.ratio == 1:
		return cost
	case n.encoded:
		return cost * math.Sqrt(float64(k))
	}
	return cost / (n.ratio + (1-n.ratio)/math.Sqrt(float64(k)))
}

// Slope sets g to the gradient of the cost by the action, Dim entries; it is 0 where the action changes nothing. The
// cost of a category jumps: its changed inputs share what it adds.
func (a *Set) Slope(x, delta, g []float32) {
	clear(g[:a.dim])
	square := 0.0 // weight of the squares
	if root := math.Sqrt(a.sums(x, delta).square); root > 0 {
		square = (1 - a.norm.ratio) / root
	}
	for _, u := range a.free {
		if !u.Changed(delta) {
			continue
		}
		size := 0.0
		for _, v := range u.inputs(delta) {
			size += math.Abs(float64(v))
		}
		sums := a.norm.Sums(u, x, delta)
		slope := (a.norm.ratio*sums.linear + square*sums.square) / size
		for j := u.First; j < u.First+u.Width; j++ {
			if v := float64(delta[j]); v != 0 {
				g[j] = float32(math.Copysign(slope, v))
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

// Fill estimates the cost of the action d, which costs cost, when it closes the gap with the lines, of which it may
// move all, the one of most worth first.
func (a *Set) Fill(x, d []float32, cost float64, lines []Line, gap float64) float64 {
	if a.norm.IsL1() {
		for _, l := range lines {
			part := min(gap, l.Slope*l.Room)
			cost += part / l.Worth()
			if gap -= part; gap <= 0 {
				return cost
			}
		}
		return 1e12 * (1 + gap)
	}
	moves, ok := a.Spread(x, d, lines, gap)
	if !ok {
		return 1e12 * (1 + gap)
	}
	return a.norm.Of(a.sums(x, d).Plus(moved(lines, moves)))
}

func moved(lines []Line, moves []float64) (s Sums) {
	for k, v := range moves {
		s = s.Plus(SumsOf(lines[k].Weight * v))
	}
	return s
}

// Spread returns the moves of the lines, on top of the action d, that close the gap at the least cost under l2 or
// mixed, and whether there is room enough. The root of a sum s of squares is the least of s/(2r) + r/2, at r the root
// itself: a mixed cost is made small by the moves and by r in turns.
func (a *Set) Spread(x, d []float32, lines []Line, gap float64) ([]float64, bool) {
	moves, ok := spread(lines, gap, 0, 1)
	if !ok || !a.norm.isMixed() {
		return moves, ok
	}
	const rounds = 8
	before := a.sums(x, d)
	for range rounds {
		root := math.Sqrt(before.Plus(moved(lines, moves)).square)
		moves, _ = spread(lines, gap, a.norm.ratio, (1-a.norm.ratio)/root)
	}
	return moves, true
}

// spread returns the moves of the lines that close the gap with the least sum of linear w v + curvature (w v)^2/2, and
// whether there is room enough. At the optimum every line inside its room gains the same margin per further cost, which
// one multiplier says, and Newton's method finds.
func spread(lines []Line, gap, linear, curvature float64) ([]float64, bool) {
	if !(gap > 0) {
		return make([]float64, len(lines)), true
	}
	move := func(l Line, multiplier float64) float64 { // multiplier slope = linear w + curvature w^2 v
		v := (multiplier*l.Slope - linear*l.Weight) / max(curvature*l.Weight*l.Weight, 1e-12)
		return min(max(v, 0), l.Room)
	}
	lo, hi, at := 0.0, math.Inf(1), 1e-6
	for hi-lo > 1e-15*hi || math.IsInf(hi, 1) {
		gain, slope := 0.0, 0.0 // of all lines, and by the multiplier
		for _, l := range lines {
			v := move(l, at)
			if gain += l.Slope * v; v > 0 && v < l.Room {
				slope += l.Slope * l.Slope / max(curvature*l.Weight*l.Weight, 1e-12)
			}
		}
		if gain < gap {
			lo = at
		} else {
			hi = at
		}
		if math.Abs(gain-gap) <= 1e-13*gap {
			break
		}
		next := at + (gap-gain)/slope
		switch inside := next > lo && next < hi; {
		case inside:
			at = next
		case !math.IsInf(hi, 1):
			at = (lo + hi) / 2
		default:
			if at *= 4; at > 1e18 {
				return nil, false
			}
		}
	}
	moves := lists.Map(lines, func(l Line) float64 { return move(l, at) })
	return moves, true
}

// Left returns the cost of a part that, with another of the given cost, makes at most the total; 0 if it is more.
func (n *Norm) Left(total, part float64) float64 {
	if n.ratio == 0 {
		return math.Sqrt(max(total*total-part*part, 0))
	}
	return max(total-part, 0)
}

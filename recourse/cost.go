package recourse

import (
	"fmt"
	"math"
	"slices"

	"cfq/task"
)

// price is what changes of one feature cost.
type price struct {
	weights []float64 // per input
	flip    float64   // of a category: cost of a change of value, 0 = by the weights
	encoded bool      // a one-hot switch costs what both of its inputs do
	factor  float64   // Feature.Weight
	// Of PercentileShift: the training values at equally spaced ranks, in input units, and the shares of categories.
	ranks  []float64
	shares []float64
}

// compileCost sets the norm and the weight of every input that an action can change; what only a link moves is free.
//
// The standard deviation of a numeric input is 1, because mean and std of the task file standardise it; that of an input that is 0 or 1
// follows from its training share p as sqrt(p(1-p)). Without shares, p is 1/len(values) for a one-hot group and 1/2 otherwise. MAD and range are
// divided by std for the same reason; a MAD of 0 (more than half of the rows have the same value) falls back to the standard deviation.
func (a *ActionSet) compileCost(t *task.Task, ranges []task.Feature) error {
	a.norm, a.ratio = t.Cost.Norm, t.Cost.L1Ratio
	switch a.norm {
	case "":
		a.norm = task.L1
	case task.L1, task.L2, task.LInf, task.Mixed, task.PercentileShift:
	default:
		return fmt.Errorf("recourse: unknown cost norm %q", t.Cost.Norm)
	}
	a.weights = make([]float64, a.dim)
	for _, i := range a.free {
		u := &a.units[i]
		if err := u.compilePrice(&t.Cost, &ranges[i], a.weights[u.first:u.first+u.width]); err != nil {
			return fmt.Errorf("recourse: feature %q: %w", u.name, err)
		}
		if a.norm == task.PercentileShift && u.form < group && len(u.price.ranks) == 0 && u.feature.Kind != task.Binary {
			return fmt.Errorf("recourse: feature %q: the cost %s needs its quantiles", u.name, a.norm)
		}
	}
	return nil
}

func (u *unit) compilePrice(c *task.Cost, ranges *task.Feature, weights []float64) error {
	f := u.feature
	u.price = price{weights: weights, flip: f.SwitchCost, encoded: c.Switches == task.Encoded, factor: f.Weight}
	for _, q := range f.Quantiles {
		u.price.ranks = append(u.price.ranks, (q-f.Mean)/f.Std)
	}
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
		u.price.shares = append(u.price.shares, share(f, j))
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

// valueRange is the range of the training rows, else of the values that there are, else of the bounds, in input units; that of a category's inputs is 1.
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

// Cost returns the cost of the action delta of the person x: the norm that the task names of weighted changes in model-input units.
// A change of a category counts as one change, however many inputs it has, unless the task says "encoded".
//
// References: app:eq:weighted_cost, app:eq:weight_std.
func (a *ActionSet) Cost(x, delta []float32) float64 {
	sum := 0.0
	for _, i := range a.free {
		if u := &a.units[i]; u.changed(delta) {
			sum = a.add(sum, a.term(u, x, delta))
		}
	}
	return a.close(sum)
}

// add joins the terms of two sets of features, close makes the cost of what they come to, and open undoes close.
func (a *ActionSet) add(sum, term float64) float64 {
	if a.bottleneck() {
		return max(sum, term)
	}
	return sum + term
}

func (a *ActionSet) close(sum float64) float64 {
	if a.norm == task.L2 {
		return math.Sqrt(sum)
	}
	return sum
}

func (a *ActionSet) open(cost float64) float64 {
	if a.norm == task.L2 {
		return cost * cost
	}
	return cost
}

// bottleneck says whether the costliest change alone makes the cost.
func (a *ActionSet) bottleneck() bool { return a.norm == task.LInf || a.norm == task.PercentileShift }

// term returns what one feature's change adds to the cost.
func (a *ActionSet) term(u *unit, x, delta []float32) float64 {
	d := delta[u.first : u.first+u.width]
	if u.form < group {
		return a.lineTerm(u, x[u.first], d[0])
	}
	return a.categoryTerm(u, x[u.first:u.first+u.width], d)
}

// categoryTerm is term for a category; x and d are its inputs only.
func (a *ActionSet) categoryTerm(u *unit, x, d []float32) float64 {
	return a.part(u.sizes(x, d, a.norm == task.PercentileShift))
}

// part is what weighted changes, given as their sum, their sum of squares and the largest of them, add to the cost.
func (a *ActionSet) part(linear, square, largest float64) float64 {
	switch a.norm {
	case task.L2:
		return square
	case task.Mixed:
		return a.ratio*linear + (1-a.ratio)*square
	case task.LInf, task.PercentileShift:
		return largest
	}
	return linear
}

// lineTerm is term for a feature of one input.
func (a *ActionSet) lineTerm(u *unit, x, d float32) float64 {
	if d == 0 {
		return 0
	}
	if a.norm == task.PercentileShift {
		if u.feature.Kind == task.Binary {
			return u.price.factor * u.price.shares[0]
		}
		return u.price.factor * math.Abs(u.price.rank(float64(x)+float64(d))-u.price.rank(float64(x)))
	}
	w := a.weights[u.first] * math.Abs(float64(d))
	return a.part(w, w*w, w)
}

// sizes returns the size of a category's change as the sum, the sum of squares and the largest of its weighted parts.
func (u *unit) sizes(x, d []float32, shift bool) (linear, square, largest float64) {
	p := &u.price
	flipped, sum, squares := 0, 0.0, 0.0
	for j, v := range d {
		if v == 0 {
			continue
		}
		w := p.weights[j]
		if shift {
			w = p.factor * p.shares[j]
		}
		flipped, sum, squares, largest = flipped+1, sum+w, squares+w*w, max(largest, w)
	}
	if flipped == 0 {
		return 0, 0, 0
	}
	places, from, to, known := 1.0, 0, 0, false
	if u.ordered { // else nobody asks for the values
		from, to = u.current(x), u.after(x, d)
		if known = from >= 0 && to >= 0; known {
			places = math.Abs(float64(to - from))
		}
	}
	switch {
	case p.flip > 0:
		linear = p.flip * places
	case shift && known:
		linear = p.factor * math.Abs(u.below(to)-u.below(from))
	case p.encoded || shift:
		return sum, squares, largest
	case u.form == ladder:
		linear = sum
	default:
		linear = sum / float64(flipped) * places
	}
	return linear, linear * linear, linear
}

// below returns the share of training rows whose value is at most the ordered value.
func (u *unit) below(value int) float64 {
	switch {
	case u.form == ladder && len(u.feature.Shares) == 0:
		return float64(value+1) / float64(u.width+1)
	case u.form == ladder && value < u.width:
		return 1 - u.price.shares[value]
	case u.form == ladder:
		return 1
	}
	sum := 0.0
	for _, s := range u.price.shares[:value+1] {
		sum += s
	}
	return sum
}

// rank returns the share of training rows that are at most v: linear between the ranks, and at a value that many rows have the highest of its
// ranks.
func (p *price) rank(v float64) float64 {
	q := p.ranks
	v += 1e-6 * (1 + math.Abs(v)) // an input carries float32 noise
	k, _ := slices.BinarySearchFunc(q, v, func(a, v float64) int {
		if a <= v {
			return -1
		}
		return 1
	})
	switch {
	case k == 0:
		return 0
	case k == len(q):
		return 1
	}
	return (float64(k-1) + (v-q[k-1])/(q[k]-q[k-1])) / float64(len(q)-1)
}

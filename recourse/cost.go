package recourse

import (
	"fmt"
	"math"

	"cfq/task"
)

// price is what changes of one feature cost.
type price struct {
	weights []float64 // per input
	flip    float64   // of a category: cost of a change of value, 0 = by the weights
	encoded bool      // a one-hot switch costs what both of its inputs do
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
	case task.L1, task.L2, task.Mixed:
	default:
		return fmt.Errorf("recourse: unknown cost norm %q", t.Cost.Norm)
	}
	a.weights = make([]float64, a.dim)
	for _, i := range a.free {
		u := &a.units[i]
		if err := u.compilePrice(&t.Cost, &ranges[i], a.weights[u.first:u.first+u.width]); err != nil {
			return fmt.Errorf("recourse: feature %q: %w", u.name, err)
		}
	}
	return nil
}

func (u *unit) compilePrice(c *task.Cost, ranges *task.Feature, weights []float64) error {
	f := u.feature
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
			sum += a.term(u, x, delta)
		}
	}
	return a.close(sum)
}

// close makes the cost of the sum of the features' terms, and open undoes it.
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

// term returns what one feature's change adds to the cost.
func (a *ActionSet) term(u *unit, x, delta []float32) float64 {
	d := delta[u.first : u.first+u.width]
	if u.form < group {
		return a.lineTerm(u, d[0])
	}
	return a.categoryTerm(u, x[u.first:u.first+u.width], d)
}

// categoryTerm is term for a category; x and d are its inputs only.
func (a *ActionSet) categoryTerm(u *unit, x, d []float32) float64 {
	return a.part(u.sizes(x, d))
}

// part is what weighted changes, given as their sum and their sum of squares, add to the cost.
func (a *ActionSet) part(linear, square float64) float64 {
	switch a.norm {
	case task.L2:
		return square
	case task.Mixed:
		return a.ratio*linear + (1-a.ratio)*square
	}
	return linear
}

// lineTerm is term for a feature of one input.
func (a *ActionSet) lineTerm(u *unit, d float32) float64 {
	if d == 0 {
		return 0
	}
	w := a.weights[u.first] * math.Abs(float64(d))
	return a.part(w, w*w)
}

// sizes returns the size of a category's change as the sum and the sum of squares of its weighted parts.
func (u *unit) sizes(x, d []float32) (linear, square float64) {
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
	case u.form == ladder:
		linear = sum
	default:
		linear = sum / float64(flipped) * places
	}
	return linear, linear * linear
}

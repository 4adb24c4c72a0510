package recourse

import (
	"fmt"
	"math"

	"cfq/task"
)

// compileCost sets the norm and the weight of every input. The standard deviation of a numeric input is 1, because mean and std of the task
// file standardise it; that of an input that is 0 or 1 follows from its training share p as sqrt(p(1-p)). Without shares, p is 1/len(values) for a
// one-hot group and 1/2 for a binary feature.
func (a *ActionSet) compileCost(t *task.Task) error {
	switch t.Cost.Norm {
	case "l1", "":
		a.norm = l1
	case "l2":
		a.norm = l2
	default:
		return fmt.Errorf("recourse: cost norm %q, want l1 or l2", t.Cost.Norm)
	}
	a.weights = make([]float64, a.dim)
	for i := range t.Features {
		f := &t.Features[i]
		for j := range f.Width {
			w := 1.0
			switch t.Cost.Weights {
			case "inverse_std", "":
				w = f.Weight / (sigma(f, j) + t.Cost.Eps)
			case "given":
				w = f.Weight
			case "uniform":
			default:
				return fmt.Errorf("recourse: cost weights %q, want inverse_std, uniform or given", t.Cost.Weights)
			}
			if !(w > 0) || math.IsInf(w, 0) {
				return fmt.Errorf("recourse: feature %q: cost weight %g, must be positive", f.Name, w)
			}
			if k := f.Offset + j; k >= 0 && k < a.dim {
				a.weights[k] = w
			}
		}
	}
	return nil
}

func sigma(f *task.Feature, j int) float64 {
	p := 0.0
	switch f.Kind {
	case task.OneHot:
		p = 1 / float64(max(f.Width, 2))
	case task.Binary:
		p = 0.5
	default:
		return 1
	}
	if j < len(f.Shares) {
		p = f.Shares[j]
	}
	return math.Sqrt(max(p*(1-p), 0))
}

// Cost returns the cost of the action delta of the person x, ||W delta||_p in model-input units, p as the task file says.
//
// References: app:eq:weighted_cost, app:eq:weight_std.
func (a *ActionSet) Cost(x, delta []float32) float64 {
	sum := 0.0
	if a.norm == l2 {
		for j, d := range delta {
			if d != 0 {
				v := a.weights[j] * float64(d)
				sum += v * v
			}
		}
		return math.Sqrt(sum)
	}
	for j, d := range delta {
		if d != 0 {
			sum += a.weights[j] * math.Abs(float64(d))
		}
	}
	return sum
}

package eval

import "math"

// contribution is what one person adds to a metric: x to a sum, n to what the sum is divided by. n is 0 for
// people who do not count.
type contribution func(o person) (x, n float64)

// person is one of the people, with the step at the required margin: nil for metrics that have no margin.
type person struct {
	*Record
	p *Step
	s *Settings
}

// indicator is the contribution of an event among those who are eligible for it.
func indicator(event, eligible bool) (x, n float64) {
	if !eligible {
		return 0, 0
	}
	return float64(count(event)), 1
}

// defined is the contribution of a number.
func defined(x Float) (float64, float64) {
	if !x.Defined() {
		return 0, 0
	}
	return float64(x), 1
}

// marginDifference is the margin error at a recourse point of f.
func marginDifference(o person) (x, n float64) {
	return defined(o.p.Full.Other - o.p.Full.Own)
}

// ofCosts makes a contribution of the costs of people with a cost under both models.
func ofCosts(f func(full, quant float64) (x, n float64)) contribution {
	return func(o person) (x, n float64) {
		if !o.p.common() {
			return 0, 0
		}
		return f(float64(o.p.Full.Cost), float64(o.p.Quant.Cost))
	}
}

// contributions are those of the metrics that sum over people, by Metric.ID: all shares, and what comparisons
// draw anew.
func contributions() map[string]contribution {
	return map[string]contribution{
		"vd": func(o person) (x, n float64) { return indicator(o.p.Full.Broken(), o.p.Full.Made()) },
		"vd_mismatch": func(o person) (x, n float64) {
			return indicator(approves(o.p.Full.Own) != approves(o.p.Full.Other), o.p.Full.Made())
		},
		"rvd": func(o person) (x, n float64) {
			return indicator(o.p.Quant.Broken(), o.p.Quant.Made() && o.mirrored(o.s))
		},
		"lost_recourse": func(o person) (x, n float64) {
			return indicator(!o.p.Quant.Made() && !o.p.free(), o.p.Full.Made() && o.mirrored(o.s))
		},
		"pgd_first.frr": func(o person) (x, n float64) {
			return indicator(o.First.Made(), o.Evaluated && !approves(o.Full) && !o.s.OneSided)
		},
		"pgd_first.vd": func(o person) (x, n float64) {
			return indicator(o.First.Broken(), o.Evaluated && o.First.Made() && !o.s.OneSided)
		},
		"frr":               func(o person) (x, n float64) { return indicator(o.p.Full.Made(), !approves(o.Full)) },
		"rfrr":              func(o person) (x, n float64) { return indicator(o.p.Quant.Made(), o.mirrored(o.s)) },
		"crg.mean":          ofCosts(func(full, quant float64) (x, n float64) { return costRatio(full, quant), 1 }),
		"crg.ratio_of_sums": ofCosts(func(full, quant float64) (x, n float64) { return quant - full, full }),
		"crg.abs_mean":      ofCosts(func(full, quant float64) (x, n float64) { return math.Abs(costRatio(full, quant)), 1 }),
		"dir_sim":           func(o person) (x, n float64) { return defined(o.p.DirSim) },
		"act_overlap":       func(o person) (x, n float64) { return defined(o.p.Overlap) },
		"margin_error.rms": func(o person) (x, n float64) {
			x, n = marginDifference(o)
			return x * x, n
		},
		"certified.share": func(o person) (x, n float64) {
			return indicator(o.p.Proof != nil && o.p.Proof.Certified(), o.p.Proof != nil)
		},
		"accuracy_full":    func(o person) (x, n float64) { return indicator(o.correct(o.Full), o.Label >= 0) },
		"accuracy_quant":   func(o person) (x, n float64) { return indicator(o.correct(o.Quant), o.Label >= 0) },
		"favourable_full":  func(o person) (x, n float64) { return indicator(approves(o.Full), true) },
		"favourable_quant": func(o person) (x, n float64) { return indicator(approves(o.Quant), true) },
		"disagreement":     func(o person) (x, n float64) { return indicator(approves(o.Full) != approves(o.Quant), true) },
		"lost":             func(o person) (x, n float64) { return indicator(!approves(o.Quant), approves(o.Full)) },
		"fpr_full":         func(o person) (x, n float64) { return indicator(approves(o.Full), o.Label == 0) },
		"fpr_quant":        func(o person) (x, n float64) { return indicator(approves(o.Quant), o.Label == 0) },
		"fnr_full":         func(o person) (x, n float64) { return indicator(!approves(o.Full), o.Label == 1) },
		"fnr_quant":        func(o person) (x, n float64) { return indicator(!approves(o.Quant), o.Label == 1) },
		"gained":           func(o person) (x, n float64) { return indicator(approves(o.Quant), !approves(o.Full)) },
	}
}

// at is the contribution of a person at the at-th required margin, to which only people who are evaluated
// add; -1 is for metrics that have no margin.
func (f contribution) at(r *Record, at int, s *Settings) (x, n float64) {
	switch {
	case at < 0:
		return f(person{r, nil, s})
	case !r.Evaluated:
		return 0, 0
	}
	return f(person{r, &r.Steps[at], s})
}

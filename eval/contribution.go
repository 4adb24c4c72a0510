package eval

import "math"

// contribution is what one person adds to a metric: x to a sum, n to what the sum is divided by. n is 0 for
// people who do not count. p is the person's step at the required margin; nil for metrics that have no
// margin.
type contribution func(r *Record, p *Step, s *Settings) (x, n float64)

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
func marginDifference(_ *Record, p *Step, _ *Settings) (x, n float64) {
	return defined(p.Full.Other - p.Full.Own)
}

// ofCosts makes a contribution of the costs of people with a cost under both models.
func ofCosts(f func(full, quant float64) (x, n float64)) contribution {
	return func(_ *Record, p *Step, _ *Settings) (float64, float64) {
		if !p.common() {
			return 0, 0
		}
		return f(float64(p.Full.Cost), float64(p.Quant.Cost))
	}
}

// contributions are those of the metrics that sum over people, by Metric.ID: all shares, and what comparisons
// draw anew.
func contributions() map[string]contribution {
	return map[string]contribution{
		"vd": func(_ *Record, p *Step, _ *Settings) (x, n float64) {
			return indicator(p.Full.Broken(), p.Full.Made())
		},
		"vd_mismatch": func(_ *Record, p *Step, _ *Settings) (x, n float64) {
			return indicator(approves(p.Full.Own) != approves(p.Full.Other), p.Full.Made())
		},
		"rvd": func(r *Record, p *Step, s *Settings) (x, n float64) {
			return indicator(p.Quant.Broken(), p.Quant.Made() && r.mirrored(s))
		},
		"lost_recourse": func(r *Record, p *Step, s *Settings) (x, n float64) {
			return indicator(!p.Quant.Made() && !p.free(), p.Full.Made() && r.mirrored(s))
		},
		"pgd_first.frr": func(r *Record, _ *Step, s *Settings) (x, n float64) {
			return indicator(r.First.Made(), r.Evaluated && !s.OneSided)
		},
		"pgd_first.vd": func(r *Record, _ *Step, s *Settings) (x, n float64) {
			return indicator(r.First.Broken(), r.Evaluated && r.First.Made() && !s.OneSided)
		},
		"frr":  func(_ *Record, p *Step, _ *Settings) (x, n float64) { return indicator(p.Full.Made(), true) },
		"rfrr": func(r *Record, p *Step, s *Settings) (x, n float64) { return indicator(p.Quant.Made(), r.mirrored(s)) },
		"crg.mean": ofCosts(func(full, quant float64) (x, n float64) {
			return costRatio(full, quant), 1
		}),
		"crg.ratio_of_sums": ofCosts(func(full, quant float64) (x, n float64) { return quant - full, full }),
		"crg.abs_mean": ofCosts(func(full, quant float64) (x, n float64) {
			return math.Abs(costRatio(full, quant)), 1
		}),
		"dir_sim":     func(_ *Record, p *Step, _ *Settings) (x, n float64) { return defined(p.DirSim) },
		"act_overlap": func(_ *Record, p *Step, _ *Settings) (x, n float64) { return defined(p.Overlap) },
		"margin_error.rms": func(r *Record, p *Step, s *Settings) (x, n float64) {
			x, n = marginDifference(r, p, s)
			return x * x, n
		},
		"certified.share": func(_ *Record, p *Step, _ *Settings) (x, n float64) {
			return indicator(p.Proof != nil && p.Proof.Certified(), p.Proof != nil)
		},
		"accuracy_full": func(r *Record, _ *Step, _ *Settings) (x, n float64) {
			return indicator(approves(r.Full) == (r.Label == 1), r.Label >= 0)
		},
		"accuracy_quant": func(r *Record, _ *Step, _ *Settings) (x, n float64) {
			return indicator(approves(r.Quant) == (r.Label == 1), r.Label >= 0)
		},
		"favourable_full": func(r *Record, _ *Step, _ *Settings) (x, n float64) { return indicator(approves(r.Full), true) },
		"favourable_quant": func(r *Record, _ *Step, _ *Settings) (x,
			n float64,
		) {
			return indicator(approves(r.Quant), true)
		},
		"disagreement": func(r *Record, _ *Step, _ *Settings) (x, n float64) {
			return indicator(approves(r.Full) != approves(r.Quant), true)
		},
		"lost": func(r *Record, _ *Step, _ *Settings) (x, n float64) {
			return indicator(!approves(r.Quant), approves(r.Full))
		},
		"gained": func(r *Record, _ *Step, _ *Settings) (x, n float64) {
			return indicator(approves(r.Quant), !approves(r.Full))
		},
	}
}

// at is the contribution of a person at the at-th required margin, to which only people who are evaluated
// add; -1 is for metrics that have no margin.
func (f contribution) at(r *Record, at int, s *Settings) (x, n float64) {
	switch {
	case at < 0:
		return f(r, nil, s)
	case !r.Evaluated:
		return 0, 0
	}
	return f(r, &r.Steps[at], s)
}

// summary computes metrics from records.
type summary struct {
	records []Record
	s       *Settings
	of      map[string]contribution
}

// rate is the metric of that ID, which is a share.
func (y *summary) rate(id string, at int) Rate {
	var num, den float64
	f := y.of[id]
	for i := range y.records {
		x, n := f.at(&y.records[i], at, y.s)
		num, den = num+x, den+n
	}
	return NewRate(int(num), int(den), y.s.Confidence)
}

// values lists the contributions of the people who count.
func (y *summary) values(at int, f contribution) []float64 {
	var list []float64
	for i := range y.records {
		if x, n := f.at(&y.records[i], at, y.s); n > 0 {
			list = append(list, x)
		}
	}
	return list
}

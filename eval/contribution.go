package eval

import (
	"math"
	"slices"
)

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

// summary computes metrics from records.
type summary struct {
	records []Record
	persons [][]int
	s       *Settings
	of      map[string]contribution
}

func newSummary(records []Record, s *Settings) *summary {
	return &summary{records, persons(records), s, contributions()}
}

// persons are the positions of each person's records: those of one ID, in the order of the first of them.
func persons(records []Record) [][]int {
	var all [][]int
	at := map[string]int{}
	for i := range records {
		id := records[i].ID
		k, seen := at[id]
		if id == "" || !seen {
			k = len(all)
			at[id], all = k, append(all, nil)
		}
		all[k] = append(all[k], i)
	}
	return all
}

// countPeople counts those of whom a record is so.
func countPeople(records []Record, is func(r *Record) bool) int {
	n := 0
	for _, of := range persons(records) {
		n += count(slices.ContainsFunc(of, func(i int) bool { return is(&records[i]) }))
	}
	return n
}

// worst is the contribution of a person with several records: that of the worst of them.
func (y *summary) worst(of []int, f contribution, at int, better Better) (x, n float64) {
	for _, i := range of {
		x1, n1 := f.at(&y.records[i], at, y.s)
		if n1 > 0 && (n == 0 || worse(better, x1, x)) {
			x, n = x1, n1
		}
	}
	return x, n
}

func worse(better Better, x, than float64) bool {
	switch better {
	case Lower:
		return x > than
	case Zero:
		return math.Abs(x) > math.Abs(than)
	}
	return x < than
}

// rate is the metric of that ID, which is a share.
func (y *summary) rate(id string, at int) Rate {
	var num, den float64
	f := y.of[id]
	m, _ := MetricBy(id)
	for _, of := range y.persons {
		x, n := y.worst(of, f, at, m.Better)
		num, den = num+x, den+n
	}
	return NewRate(int(num), int(den), y.s.Confidence)
}

// values lists the contributions of the people who count.
func (y *summary) values(at int, f contribution, better Better) []float64 {
	var list []float64
	for _, of := range y.persons {
		if x, n := y.worst(of, f, at, better); n > 0 {
			list = append(list, x)
		}
	}
	return list
}

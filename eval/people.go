package eval

import (
	"math"

	"cfq/eval/metrics"
)

// personRecords is what is known of one of the people: one record, or several when rows or promises have the same ID.
type personRecords struct {
	records []*Record
	s       *Settings
}

type recordView struct {
	*Record
	at *Step // nil for a record as it is
	i  int   // at's place among the required margins
	s  *Settings
}

// sampleOf is the sample of the numbers of the worst record of a person; at a required margin, of those evaluated.
func sampleOf(better metrics.Better, perMargin bool, f func(v recordView) (x float64, counts bool)) *sample {
	return &sample{of: func(p *personRecords, at int) (x, of float64, any bool) {
		_, x, any = p.worst(better, perMargin, at, f)
		return x, 1, any
	}}
}

func (p *personRecords) worst(
	better metrics.Better, perMargin bool, at int, f func(v recordView) (x float64, counts bool),
) (worst recordView, number float64, any bool) {
	for _, r := range p.records {
		v := recordView{Record: r, s: p.s}
		if perMargin {
			if !r.Evaluated {
				continue
			}
			v.at, v.i = &r.Steps[at], at
		}
		if x, counts := f(v); counts && (!any || badness(better, x) > badness(better, number)) {
			worst, number, any = v, x, true
		}
	}
	return worst, number, any
}

func badness(better metrics.Better, v float64) float64 {
	switch better {
	case metrics.Lower:
		return v
	case metrics.Zero:
		return math.Abs(v)
	}
	return -v
}

func event(happens, eligible bool) (x float64, counts bool) { return float64(count(happens)), eligible }

func defined(x Float) (float64, bool) { return float64(x), x.Defined() }

// epsilon keeps the ratios of CRG, DirSim and ActOverlap from dividing by zero (the paper's epsilon). It is far below
// any cost a person could notice, so it does not tame the mean of ratios; the ratio of sums and the median do.
const epsilon = 1e-9

// supportTau is the change, in model-input units, from which on an input
// counts as changed (the paper's tau of supp_tau).
const supportTau = 1e-6

// costRatio is by how much of what it was a cost has changed.
//
// References: CRG in "Metrics".
func (s *Step) costRatio() float64 {
	return float64(s.Quant.Cost-s.Full.Cost) / (float64(s.Full.Cost) + epsilon)
}

// costSamples are the samples of the Counterfactual Recourse Gap, signed and absolute: positive means that recourse
// costs more under g.
//
// References: CRG in "Metrics".
type costSamples struct{ ratios, sums, sizes, free *sample }

// newCostSamples takes who has a cost under both models. Of a person with several records, those count in which the
// costs differ most.
func newCostSamples(counted func(p *Step) bool) costSamples {
	ratio := func(v recordView) (float64, bool) {
		if !counted(v.at) {
			return 0, false
		}
		return v.at.costRatio(), true
	}
	return costSamples{
		ratios: sampleOf(metrics.Zero, true, ratio),
		sums: &sample{of: func(p *personRecords, at int) (x, of float64, any bool) {
			v, _, any := p.worst(metrics.Zero, true, at, ratio)
			if !any {
				return 0, 0, false
			}
			return float64(v.at.Quant.Cost - v.at.Full.Cost), float64(v.at.Full.Cost), true
		}},
		sizes: sampleOf(metrics.Lower, true, func(v recordView) (float64, bool) {
			x, counts := ratio(v)
			return math.Abs(x), counts
		}),
		free: sampleOf(metrics.Lower, true, func(v recordView) (float64, bool) {
			return event(v.at.free(), counted(v.at))
		}),
	}
}

// dirSim is the cosine between two actions.
//
// References: DirSim in "Metrics".
func dirSim(a, b []float32) float64 {
	var ab, aa, bb float64
	for j := range a {
		x, y := float64(a[j]), float64(b[j])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	return ab / (math.Sqrt(aa)*math.Sqrt(bb) + epsilon)
}

// actOverlap is the Jaccard overlap of the inputs that two actions change.
//
// References: ActOverlap in "Metrics".
func actOverlap(a, b []float32) float64 {
	var both, either int
	for j := range a {
		x, y := math.Abs(float64(a[j])) > supportTau, math.Abs(float64(b[j])) > supportTau
		both += count(x && y)
		either += count(x || y)
	}
	return float64(both) / (float64(either) + epsilon)
}

// accuracyDrop is 1 for a person whom f alone decides correctly, -1 for one whom g alone does: f at its best, so that
// no loss of the quantized model is missed.
func accuracyDrop(p *personRecords, _ int) (x, of float64, counts bool) {
	full, quant := 0, 1
	for _, r := range p.records {
		if r.Label >= 0 {
			full, quant, counts = max(full, count(r.correct(r.Full))), min(quant, count(r.correct(r.Quant))), true
		}
	}
	return float64(full - quant), 1, counts
}

// correctByOutcome is whether f decides correctly, by the outcome of the first record with a known one.
func correctByOutcome(p *personRecords, _ int) (x, of float64, counts bool) {
	correct := 1
	for _, r := range p.records {
		if r.Label >= 0 {
			if !counts {
				of, counts = float64(r.Label), true
			}
			correct = min(correct, count(r.correct(r.Full)))
		}
	}
	return float64(correct), of, counts
}

// score is a margin by the outcome; a person with several rows counts by one.
func score(of func(r *Record) Float) *sample {
	return &sample{of: func(p *personRecords, _ int) (x, label float64, counts bool) {
		r := p.records[0]
		return float64(of(r)), float64(r.Label), r.Label >= 0
	}}
}

// perturbed are the samples of one kind of perturbation. A person with several points has the largest perturbation of
// them, is safe when all are, and broken when one is.
func perturbed(kind int, number func(eps float64, safe, broken bool) (x float64, counts bool)) *sample {
	return &sample{of: func(p *personRecords, at int) (x, of float64, counts bool) {
		largest, safe, broken := math.Inf(-1), true, false
		for _, r := range p.records {
			if !r.Evaluated || r.Steps[at].Perturbed == nil {
				continue
			}
			s := &r.Steps[at]
			if e := s.Perturbed[kind]; !math.IsNaN(float64(e)) {
				largest = max(largest, float64(e))
				safe = safe && s.Full.Own > 2*e
				broken = broken || s.Full.Broken()
			}
		}
		if math.IsInf(largest, -1) {
			return 0, 0, false
		}
		x, counts = number(largest, safe, broken)
		return x, 1, counts
	}}
}

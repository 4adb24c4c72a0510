package eval

import (
	"math"
	"sync"

	"cfq/eval/metrics"
	"cfq/task"
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

// computed is a metric and how it is computed. From people: the statistic of the sample. Without a sample, read takes
// it out of another part of the result, or [Result.Repeat] adds the value.
type computed struct {
	*metrics.Metric
	sample    *sample
	statistic statistic
	read      func(r *Result) Value
}

// computedMetrics are all metrics in their order. It is made once, since metrics of the same sample share it.
//
//nolint:gochecknoglobals // constant
var computedMetrics = sync.OnceValue(func() (all []*computed) {
	lines := metrics.Lines()
	by := computations{}
	for i := range lines {
		one := &computed{Metric: &lines[i]}
		all = append(all, one)
		by[one.ID] = one
	}
	by.promises()
	by.actions()
	by.margins()
	by.perturbations()
	by.transfers()
	by.decisions()
	by.files()
	return all
})

func computedBy(id string) *computed {
	for _, c := range computedMetrics() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// places are the positions of the margins at which the metric has a value, of n; -1 for one that has no margin.
func (c *computed) places(n int) []int {
	if !c.PerMargin() {
		return []int{-1}
	}
	return task.AllRows(n)
}

type computations map[string]*computed

// share is of people to whom something happens, of those whom it can happen to.
func (by computations) share(id string, f func(v recordView) (happens, eligible bool)) {
	c := by[id]
	event := func(v recordView) (float64, bool) { return event(f(v)) }
	c.sample, c.statistic = sampleOf(c.Better, c.PerMargin(), event), share()
}

// of are statistics of one sample, by what stands behind the prefix in the IDs.
func (by computations) of(s *sample, prefix string, statistics map[string]statistic) {
	for name, statistic := range statistics {
		by[prefix+name].sample, by[prefix+name].statistic = s, statistic
	}
}

func (by computations) reads(id string, value func(r *Result) Value) { by[id].read = value }

func (by computations) promises() {
	by.share("vd", func(v recordView) (bool, bool) { return v.at.Full.Broken(), v.at.Full.Exists() })
	by.share("vd_mismatch", func(v recordView) (bool, bool) {
		return approves(v.at.Full.Own) != approves(v.at.Full.Other), v.at.Full.Exists()
	})
	by.share("rvd", func(v recordView) (bool, bool) {
		return v.at.Quant.Broken(), v.at.Quant.Exists() && v.mirrored(v.s)
	})
	by.share("lost_recourse", func(v recordView) (bool, bool) {
		return !v.at.Quant.Exists() && !v.at.free(), v.at.Full.Exists() && v.mirrored(v.s)
	})
	by.share("pgd_first.vd", func(v recordView) (bool, bool) {
		return v.First.Broken(), v.Evaluated && v.First.Exists() && !v.s.OneSided
	})
	by.share("frr", func(v recordView) (bool, bool) { return v.at.Full.Exists(), !approves(v.Full) })
	by.share("rfrr", func(v recordView) (bool, bool) { return v.at.Quant.Exists(), v.mirrored(v.s) })
	by.share("pgd_first.frr", func(v recordView) (bool, bool) {
		return v.First.Exists(), v.Evaluated && !approves(v.Full) && !v.s.OneSided
	})
	by.reads("tau01", func(r *Result) Value { return r.Tau01.value() })
	by.reads("rtau01", func(r *Result) Value { return r.RTau01.value() })
}

func (by computations) actions() {
	for prefix, x := range map[string]costSamples{
		"crg.": newCostSamples((*Step).common), "crg_both.": newCostSamples((*Step).bothExist),
	} {
		by.of(x.ratios, prefix, map[string]statistic{
			"mean": mean(), "median": quantile(0.5), "p95": quantile(0.95), "abs_median": sizeQuantile(0.5),
			"abs_p95": sizeQuantile(0.95), "n": countOf(),
		})
		by.of(x.sums, prefix, map[string]statistic{"ratio_of_sums": ratioOfSums()})
		by.of(x.sizes, prefix, map[string]statistic{"abs_mean": mean()})
		by.of(x.free, prefix, map[string]statistic{"free": countAbove()})
	}
	similarity := sampleOf(metrics.Higher, true, func(v recordView) (float64, bool) { return defined(v.at.DirSim) })
	by.of(similarity, "dir_sim", map[string]statistic{"": mean(), "_p05": quantile(0.05)})
	overlap := sampleOf(metrics.Higher, true, func(v recordView) (float64, bool) { return defined(v.at.Overlap) })
	by.of(overlap, "act_overlap", map[string]statistic{"": mean(), "_p05": quantile(0.05)})
	pixels := sampleOf(metrics.Lower, true, func(v recordView) (float64, bool) {
		return float64(v.at.Pixels), v.at.Pixels > 0
	})
	by.of(pixels, "pixel_distance", map[string]statistic{"": mean(), "_p95": quantile(0.95)})
}

func (by computations) margins() {
	marginError := func(v recordView) (float64, bool) { return defined(v.at.Full.Other - v.at.Full.Own) }
	by.of(sampleOf(metrics.Zero, true, marginError), "margin_error.", map[string]statistic{
		"mean": mean(), "p95": sizeQuantile(0.95), "p99": sizeQuantile(0.99), "max": sizeQuantile(1), "n": countOf(),
	})
	squares := sampleOf(metrics.Lower, true, func(v recordView) (float64, bool) {
		e, counts := marginError(v)
		return e * e, counts
	})
	by.of(squares, "margin_error.", map[string]statistic{"rms": rootMean()})
	own := sampleOf(metrics.Neither, true, func(v recordView) (float64, bool) { return defined(v.at.Full.Own) })
	other := sampleOf(metrics.Neither, true, func(v recordView) (float64, bool) { return defined(v.at.Full.Other) })
	own.steps, other.steps = 1, 2
	for prefix, margin := range map[string]*sample{"margins_full.": own, "margins_quant.": other} {
		by.of(margin, prefix, map[string]statistic{
			"n": countOf(), "min": smallest(), "p05": quantile(0.05), "median": quantile(0.5), "p95": quantile(0.95),
			"max": largest(),
		})
	}
}

func (by computations) perturbations() {
	for kind, name := range Perturbations() {
		prefix := "perturbation." + name + "."
		by.of(perturbed(kind, func(eps float64, _, _ bool) (float64, bool) { return eps, true }), prefix,
			map[string]statistic{"n": countOf(), "mean": mean(), "p95": quantile(0.95), "max": quantile(1)})
		safe := perturbed(kind, func(_ float64, safe, _ bool) (float64, bool) { return event(safe, true) })
		by.of(safe, prefix, map[string]statistic{"safe": share()})
		inside := perturbed(kind, func(_ float64, safe, broken bool) (float64, bool) { return event(broken, safe) })
		by.of(inside, prefix, map[string]statistic{"broken_inside": share()})
		outside := perturbed(kind, func(_ float64, safe, broken bool) (float64, bool) { return event(broken, !safe) })
		by.of(outside, prefix, map[string]statistic{"broken_outside": share()})
	}
}

func (by computations) transfers() {
	for prefix, of := range map[string]func(s *Step) *Transfer{
		"": func(s *Step) *Transfer { return s.Transfer }, "r": func(s *Step) *Transfer { return s.Back },
	} {
		by.share(prefix+"transfer", func(v recordView) (bool, bool) {
			x := of(v.at)
			return x != nil && x.Proved(v.s.Margins[v.i]), x != nil
		})
		by.share(prefix+"transfer_refuted", func(v recordView) (bool, bool) {
			return orZero(of(v.at)).Refuted != nil, of(v.at) != nil
		})
		upper := sampleOf(metrics.Lower, true, func(v recordView) (float64, bool) {
			return float64(orZero(of(v.at)).Upper), of(v.at) != nil
		})
		by.of(upper, prefix+"transfer_d.", map[string]statistic{
			"median": quantile(0.5), "p95": quantile(0.95), "max": quantile(1),
		})
	}
}

func (by computations) decisions() {
	by.share("accuracy_full", func(v recordView) (bool, bool) { return v.correct(v.Full), v.Label >= 0 })
	by.share("accuracy_quant", func(v recordView) (bool, bool) { return v.correct(v.Quant), v.Label >= 0 })
	by.of(&sample{of: accuracyDrop}, "accuracy_", map[string]statistic{"drop": differenceOfShares()})
	by.of(&sample{of: correctByOutcome}, "balanced_", map[string]statistic{"accuracy": balancedShare()})
	by.of(by["balanced_accuracy"].sample, "", map[string]statistic{"below_base_rate": belowBaseRate()})
	by.share("favourable_full", func(v recordView) (bool, bool) { return approves(v.Full), true })
	by.share("favourable_quant", func(v recordView) (bool, bool) { return approves(v.Quant), true })
	by.share("disagreement", func(v recordView) (bool, bool) { return approves(v.Full) != approves(v.Quant), true })
	by.share("lost", func(v recordView) (bool, bool) { return !approves(v.Quant), approves(v.Full) })
	by.share("gained", func(v recordView) (bool, bool) { return approves(v.Quant), !approves(v.Full) })
	by.share("fpr_full", func(v recordView) (bool, bool) { return approves(v.Full), v.Label == 0 })
	by.share("fpr_quant", func(v recordView) (bool, bool) { return approves(v.Quant), v.Label == 0 })
	by.share("fnr_full", func(v recordView) (bool, bool) { return !approves(v.Full), v.Label == 1 })
	by.share("fnr_quant", func(v recordView) (bool, bool) { return !approves(v.Quant), v.Label == 1 })
	area := map[string]statistic{"": areaUnderCurve()}
	by.of(score(func(r *Record) Float { return r.Full }), "auc_full", area)
	by.of(score(func(r *Record) Float { return r.Quant }), "auc_quant", area)
}

func (by computations) files() {
	by.reads("unreadable_rows", func(r *Result) Value { return r.Population.UnreadableRows.value() })
	by.reads("unlabelled_rows", func(r *Result) Value { return r.Population.UnlabelledRows.value() })
	by.reads("unlike_rows", func(r *Result) Value { return r.Population.UnlikeRows.value() })
	by.reads("issued.unjudgeable", func(r *Result) Value { return orZero(r.Issued).Unjudgeable.value() })
	by.reads("issued.invalid", func(r *Result) Value { return orZero(r.Issued).Invalid.value() })
	by.reads("issued.infeasible", func(r *Result) Value { return orZero(r.Issued).Infeasible.value() })
	by.reads("issued.approved", func(r *Result) Value { return orZero(r.Issued).Approved.value() })
	by.reads("issued.needless", func(r *Result) Value { return orZero(r.Issued).Needless.value() })
	by.reads("bytes", func(r *Result) Value { return measured(float64(orZero(r.Footprint).Quant.Bytes)) })
	by.reads("stored_bits_per_weight", func(r *Result) Value { return measured(orZero(r.Footprint).Quant.StoredBits) })
	by.reads("bops", func(r *Result) Value { return measured(orZero(r.Footprint).Quant.BOPs) })
	by.reads("batches.difference", func(r *Result) Value {
		if r.Batches == nil {
			return noValue(metrics.Exact)
		}
		return exactValue(float64(r.Batches.Difference))
	})
	for id, number := range map[string]func(x *Timing) Estimate{
		"timing.batch_1.quant":        func(x *Timing) Estimate { return x.One.Quant },
		"timing.batch_256.quant":      func(x *Timing) Estimate { return x.Many.Quant },
		"timing.batch_256.throughput": func(x *Timing) Estimate { return x.Many.Throughput },
	} {
		by.reads(id, func(r *Result) Value {
			if r.Timing == nil {
				return unknown()
			}
			return number(r.Timing).AsValue()
		})
	}
}

func orZero[T any](p *T) (x T) {
	if p != nil {
		x = *p
	}
	return x
}

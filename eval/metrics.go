package eval

import (
	"slices"
	"strings"
)

// Better says where a metric's good values are.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
	Zero   Better = "near 0"
	None   Better = "as the original's"
)

// Metric is one thing that eval measures.
type Metric struct {
	Key        string // path in the JSON report; "[]" steps into a list
	Name       string // what a reader who knows no symbols calls it
	Symbol     string
	Unit       string
	Better     Better
	Definition string
	Source     string // section or equation of the paper, or "this project"
	get        getter
}

// ID returns the metric's name on command lines and in gate files: its Key without the list or object that it stands in.
func (m *Metric) ID() string {
	id := m.Key
	for _, where := range []string{perMargin, "decisions.", "footprint.quant."} {
		id = strings.TrimPrefix(id, where)
	}
	return id
}

const perMargin = "margins[]."

// PerMargin says that the metric has a value for each required margin.
func (m *Metric) PerMargin() bool { return strings.HasPrefix(m.Key, perMargin) }

// Of returns the metric's value in r, for those that are PerMargin at the at-th of its margins.
func (m *Metric) Of(r *Result, at int) Value { return m.get.of(r, at) }

// Kind says how sure the metric's values are.
func (m *Metric) Kind() Kind { return m.get.kind }

// Part says what the metric needs of an evaluation.
func (m *Metric) Part() Part { return m.get.part }

// Metrics returns the table of all metrics, in the order in which reports show
// them. In its definitions f is the full-precision model, g the quantized one,
// m their logit margin for the favourable class, x a person, and u the point
// where the person's minimal-cost recourse ends.
func Metrics() []Metric {
	return slices.Concat(promiseMetrics(), actionMetrics(), marginMetrics(), certaintyMetrics(), decisionMetrics(), fileMetrics())
}

func promiseMetrics() []Metric {
	return []Metric{
		{
			"margins[].vd", "promises that break", "VD(t)", "share", Lower,
			"Of the recourse points of f at required margin t, the share that g refuses: m_g(u_f) <= 0. Counted over evaluated people for whom f has a recourse.",
			"Metrics, VD, in its form as target-class failure rate; required margin t: this project",
			shares(func(a *AtMargin) Rate { return a.VD }),
		},
		{
			"margins[].vd_mismatch", "recourse points decided differently", "VD(t), mismatch", "share", Lower,
			"Of the recourse points of f at required margin t, the share on which f and g decide differently: the paper's first form of VD. It is VD(t) whenever f approves its own points, " +
				"which is checked at every one of them; promises that were given and that f itself does not keep are promises at no margin, and counted in given.invalid.",
			"Metrics, VD, in its form as label mismatch",
			shares(func(a *AtMargin) Rate { return a.VDMismatch }),
		},
		{
			"margins[].rvd", "promises of the quantized model that the original would not keep", "RVD(t)", "share", Lower,
			"VD mirrored. Of the recourse points of g at required margin t, the share that f refuses: m_f(u_g) <= 0. Counted over evaluated people whom g refuses too and for whom g has a recourse.",
			"this project",
			ofMirror(shares(func(a *AtMargin) Rate { return a.RVD })),
		},
		{
			"margins[].lost_recourse", "people who lose their recourse", "", "share", Lower,
			"Of the people whom both models refuse and who have a recourse under f at margin t, the share for whom none was found under g.",
			"this project",
			ofMirror(shares(func(a *AtMargin) Rate { return a.LostRecourse })),
		},
		{
			"tau01", "margin to demand so that at most 1 % break", "tau01", "logits", Lower,
			"The smallest t with VD <= 1 % at t and at every solved margin above t. VD is exact at the solved margins; between two of them it is predicted from the lower one, assuming that m_g - m_f at a person's " +
				"recourse point stays the same while the point moves to a larger margin. With fewer than 100 promises no break is allowed.",
			"this project",
			oneEstimate(func(r *Result) Estimate { return tauValue(r.Tau01) }),
		},
		{
			"rtau01", "margin to demand of the quantized model's recourse", "Rtau01", "logits", Lower,
			"tau01 mirrored: the same with RVD.",
			"this project",
			ofMirror(oneEstimate(func(r *Result) Estimate { return tauValue(r.RTau01) })),
		},
		{
			"pgd_first.vd", "promises that break, first valid PGD step", "VD, PGD-first", "share", Lower,
			"VD where the recourse of f is the first valid iterate of 100 steps of projected gradient descent (step 0.2) instead of the minimal-cost one.",
			"Metrics, VD; protocol: this project",
			ofMirror(oneShare(func(r *Result) Rate { return r.First.VD })),
		},
		{
			"margins[].frr", "people who can be helped", "FRR(t)", "share", Higher,
			"Of the evaluated people, all of whom f refuses, the share for whom a feasible action that reaches margin t under f was found. People f approves are not counted: for them the empty action would do.",
			"Constraint regimes, FRR (equation frr_constraint)",
			shares(func(a *AtMargin) Rate { return a.FRR }),
		},
		{
			"margins[].rfrr", "people whom the quantized model can help", "RFRR(t)", "share", None,
			"FRR mirrored: of the evaluated people whom g refuses too, the share for whom a feasible action that reaches margin t under g was found.",
			"this project",
			ofMirror(shares(func(a *AtMargin) Rate { return a.RFRR })),
		},
	}
}

func actionMetrics() []Metric {
	return []Metric{
		{
			"margins[].crg.mean", "change of the cost of recourse, mean of ratios", "CRG", "ratio", Zero,
			"Mean of (c_g - c_f)/(c_f + eps) over common people: evaluated people with a recourse under f for whom g has a recourse too, or who have margin t under g as they are (m_g > 0 and m_g >= t); " +
				"the latter are counted with cost c_g = 0 and listed as crg.free. Both costs are those of reaching margin t, also for people g approves by less than t. eps = 1e-9. Signed: negative means cheaper under g. A few people with tiny costs can dominate it.",
			"Metrics, CRG",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.Mean })),
		},
		{
			"margins[].crg.ratio_of_sums", "change of the total cost of recourse", "CRG, sums", "ratio", Zero,
			"(sum of c_g - sum of c_f) / sum of c_f over the same people.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.RatioOfSums })),
		},
		{
			"margins[].crg.median", "change of the cost of recourse, median person", "CRG, median", "ratio", Zero,
			"Median of the ratios whose mean is CRG.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.Median })),
		},
		{
			"margins[].crg.p95", "change of the cost of recourse that 95 % stay below", "CRG, p95", "ratio", Zero,
			"95th percentile (nearest rank) of the same ratios.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.P95 })),
		},
		{
			"margins[].crg.abs_mean", "size of the change of the cost", "|CRG|", "ratio", Lower,
			"Mean of the absolute values of the ratios, so that what becomes dearer and what becomes cheaper do not cancel; also abs_median and abs_p95.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.AbsMean })),
		},
		{
			"margins[].crg.abs_median", "size of the change of the cost, median person", "|CRG|, median", "ratio", Lower,
			"Median of the absolute values.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.AbsMedian })),
		},
		{
			"margins[].crg.abs_p95", "size of the change of the cost that 95 % stay below", "|CRG|, p95", "ratio", Lower,
			"95th percentile (nearest rank) of the absolute values.",
			"this project",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRG.AbsP95 })),
		},
		{
			"margins[].crg_noise.abs_mean", "noise floor of CRG", "|CRG|, noise", "ratio", None,
			"|CRG| of f against itself: its recourse solved twice, with other random numbers, for a sample of people. What CRG has of this size is the solver's, not the model's. " +
				"All of CRG's forms are in crg_noise.",
			"this project",
			noise(func(g *Gap) Estimate { return g.AbsMean }),
		},
		{
			"margins[].crg_both.mean", "CRG of people who must act under both models", "CRG, both", "ratio", Zero,
			"CRG over the common people without those whose cost under g is 0; also as crg_both.ratio_of_sums and crg_both.median.",
			"Metrics, CRG",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.CRGBoth.Mean })),
		},
		{
			"margins[].dir_sim", "similarity of the two actions", "DirSim", "cosine", Higher,
			"Mean over people with a recourse under both models of <d_f, d_g> / (|d_f| |d_g| + eps), d being the actions in model-input units; eps = 1e-9.",
			"Metrics, DirSim",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.DirSim })),
		},
		{
			"margins[].act_overlap", "overlap of what must change", "ActOverlap", "Jaccard index", Higher,
			"Mean over the same people of |S_f and S_g| / (|S_f or S_g| + eps), S being the model inputs that an action changes by more than 1e-6. A switch within a one-hot group changes two inputs.",
			"Metrics, ActOverlap",
			ofMirror(estimates(func(a *AtMargin) Estimate { return a.ActOverlap })),
		},
	}
}

// MetricBy returns the metric with the ID, and false when there is none.
func MetricBy(id string) (Metric, bool) {
	for _, m := range Metrics() {
		if m.ID() == id {
			return m, true
		}
	}
	return Metric{}, false
}

// MetricAt returns the metric with the key. It panics when there is none: keys are written in code.
func MetricAt(key string) Metric {
	for _, m := range Metrics() {
		if m.Key == key {
			return m
		}
	}
	panic("eval: no metric " + key)
}

package eval

import (
	"fmt"
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

// Requires says what the metric needs of an evaluation.
func (m *Metric) Requires() Requirement { return m.get.requires }

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
				"which is checked at every one of them; promises that were given and that f itself does not keep are promises at no margin, and counted in issued.invalid.",
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

// The metrics of what happens at and around recourse points.

func marginMetrics() []Metric {
	return []Metric{
		{
			"margins[].margin_error.mean", "mean margin error at recourse points", "mean e", "logits", Zero,
			"Mean of e = m_g(u_f) - m_f(u_f) over the recourse points of f. Positive: g is more lenient there. The report quotes it at the smallest required margin, where promises are closest to the boundary.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.Mean }),
		},
		{
			"margins[].margin_error.rms", "typical margin error at recourse points", "rms e", "logits", Lower,
			"Root mean square of the same e: the continuous quantity under VD, RVD and tau01.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.RMS }),
		},
		{
			"margins[].margin_error.p99", "margin error that 99 % stay below", "p99 |e|", "logits", Lower,
			"99th percentile (nearest rank) of |e|.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.P99 }),
		},
		{
			"margins[].margin_error.max", "largest margin error", "max |e|", "logits", Lower,
			"Maximum of |e|.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.Max }),
		},
		{
			"margins[].margins_full.median", "margin of the original at its recourse points, median", "", "logits", None,
			"Median of m_f(u_f) over the recourse points of f; smallest, p05, p95 and largest are beside it.",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.FullMargins.Median }),
		},
		{
			"margins[].margins_quant.median", "margin of the quantized model at the same points, median", "", "logits", None,
			"Median of m_g(u_f).",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.QuantMargins.Median }),
		},
		{
			"margins[].margins_quant.p05", "margin of the quantized model that 95 % of the points exceed", "", "logits", None,
			"5th percentile (nearest rank) of m_g(u_f): above 0, at most 5 % of the promises break.",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.QuantMargins.P05 }),
		},
	}
}

func certaintyMetrics() []Metric {
	p95 := func(p *Perturbed) Estimate { return p.P95 }
	return []Metric{
		{
			"margins[].certified.share", "promises that provably survive", "", "share", Higher,
			"Of the recourse points of f at margin t, the share around which g provably approves: in the box of the given radius, in model-input units, around the inputs that stand for numbers which actions may change. " +
				"A certificate is a sound bound on the network as ONNX Runtime runs it; a point without one may still be safe.",
			"this project",
			certifiedShare(),
		},
		{
			"margins[].certified.apart", "how far the models can be apart nearby", "", "logits", Lower,
			"Median over the recourse points of a sound bound on |m_g - m_f| in the same box: whoever ends there with a larger margin under f is approved by g.",
			"this project",
			certified(func(p *Proofs) Estimate { return p.Apart }),
		},
		{
			"margins[].perturbation.point.p95", "logit perturbation at recourse points", "eps", "logits", Lower,
			"95th percentile over the recourse points u of f of eps(u), the largest difference over the classes between the logits of g and f at u. Safe are the points with m_f(u) > 2 eps; " +
				"of each kind of eps the share that is safe and the failures inside and outside the safe set are reported beside it.",
			"Theory, equation margin_condition; Empirical estimation of logit perturbation",
			perturbation(AtPoint, p95),
		},
		{
			"margins[].perturbation.ball.p95", "logit perturbation around recourse points", "eps hat", "logits", Lower,
			"The same for the largest difference at u and at random points of the l2 ball of the given radius around it: an estimate from below.",
			"Empirical estimation of logit perturbation, equations app_eps_hat_i and app_eps_agg",
			perturbation(InBall, p95),
		},
		{
			"margins[].perturbation.first_order.p95", "logit perturbation, first order", "", "logits", Lower,
			"The same for the difference at u plus the radius times the norm of its gradient there.",
			"Empirical estimation of logit perturbation, equation app_eps_grad_bound",
			perturbation(FirstOrder, p95),
		},
		{
			"margins[].perturbation.ball.safe", "promises with a safe margin", "safe-margin fraction", "share", Higher,
			"Of the recourse points of f, the share with m_f(u) > 2 eps hat(u).",
			"Table margin_diagnostics",
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.Safe }),
		},
		{
			"margins[].perturbation.ball.broken_inside", "promises that break inside the safe set", "", "share", Lower,
			"Of the points with a safe margin, the share that g refuses: 0, since u itself is among the points that eps hat is taken over.",
			"Table margin_diagnostics",
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.BrokenInside }),
		},
		{
			"margins[].perturbation.ball.broken_outside", "promises that break outside the safe set", "", "share", Lower,
			"Of the points without a safe margin, the share that g refuses.",
			"Table margin_diagnostics",
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.BrokenOutside }),
		},
	}
}

func decisionMetrics() []Metric {
	return []Metric{
		{
			"decisions.accuracy_full", "accuracy of the original", "accuracy f", "share", Higher,
			"Of the people with a known outcome, the share that f decides as they turned out. A model decides favourably if and only if its margin is > 0.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.AccuracyFull }),
		},
		{
			"decisions.accuracy_quant", "accuracy of the quantized model", "accuracy g", "share", Higher,
			"The same for g.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.AccuracyQuant }),
		},
		{
			"decisions.accuracy_drop", "loss of accuracy", "", "share", Lower,
			"Accuracy of f less accuracy of g, on the same people: (those whom f alone decides rightly - those whom g alone does) / people with a known outcome.",
			"standard",
			oneEstimate(func(r *Result) Estimate { return r.Decisions.AccuracyDrop }),
		},
		{
			"decisions.favourable_full", "approved by the original", "", "share", None,
			"Of all people read, the share f approves.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.FavourableFull }),
		},
		{
			"decisions.favourable_quant", "approved by the quantized model", "", "share", None,
			"Of all people read, the share g approves.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.FavourableQuant }),
		},
		{
			"decisions.disagreement", "decisions that differ", "", "share", Lower,
			"Of all people read, as they are, the share on whom f and g decide differently.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Disagreement }),
		},
		{
			"decisions.lost", "approved by the original, refused by the quantized model", "", "share", Lower,
			"Of the people f approves, the share g refuses.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Lost }),
		},
		{
			"decisions.gained", "refused by the original, approved by the quantized model", "", "share", Lower,
			"Of the people f refuses, the share g approves.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Gained }),
		},
	}
}

func fileMetrics() []Metric {
	return []Metric{
		{
			"footprint.quant.bytes", "size of the file", "", "bytes", Lower,
			"Bytes of the quantized model's file, with its external data.",
			"standard",
			footprint(func(w *Weight) float64 { return float64(w.Bytes) }),
		},
		{
			"footprint.quant.weight_bits", "stored bits per weight", "", "bits", Lower,
			"Bits that the file stores for its weights, with their scales, zero points and widths, divided by the number of weights; 32 for weights in float.",
			"this project; the paper's BitCost counts the weights' own bits alone",
			footprint(func(w *Weight) float64 { return w.WeightBits }),
		},
		{
			"footprint.quant.bops", "bit operations of one decision", "BOPs", "bit operations", Lower,
			"Sum over the layers of multiplications for one row, times bits of the weight, times bits of the activation (32 in float).",
			"standard",
			footprint(func(w *Weight) float64 { return w.BOPs }),
		},
		{
			"timing.batch_1.quant", "latency", "", "seconds", Lower,
			"Median time of one run of one row in ONNX Runtime on this machine, and the interval of the median. Asked for by --latency; the only numbers that differ between runs.",
			"standard",
			timing(func(t *Timing) Estimate { return t.One.Quant }),
		},
		{
			"timing.batch_256.quant", "time of 256 rows", "", "seconds", Lower,
			"The same for one run of 256 rows.",
			"standard",
			timing(func(t *Timing) Estimate { return t.Many.Quant }),
		},
		{
			"timing.batch_256.throughput", "throughput", "", "rows/s", Higher,
			"256 rows divided by that time.",
			"standard",
			timing(func(t *Timing) Estimate { return t.Many.Throughput }),
		},
	}
}

// Kind is how sure a metric's value is.
type Kind int

// The kinds.
const (
	KindShare    Kind = iota // of people: counts, whose bounds are exact
	KindEstimate             // a number with an interval
	KindExact                // nothing was sampled: the value is what it is
)

// Requirement is what a metric needs of an evaluation beside f's promises. What was not asked for has no value.
type Requirement int

// The requirements.
const (
	RequiresNothing      Requirement = iota // nothing else
	RequiresMirrored                        // g's own recourse, or the first valid iterates: not with Options.OneSided
	RequiresNoise                           // Options.Noise
	RequiresProofs                          // Options.Prove
	RequiresPerturbation                    // Options.Perturb
	RequiresTiming                          // Result.Timing, which the caller takes
	RequiresFootprint                       // Result.Footprint, likewise
)

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num  int // of a share: Num of N
	Kind Kind
}

func shareValue(r Rate) Value {
	return Value{Estimate: Estimate{Value: r.Value, N: r.Den, Lo: r.Lo, Hi: r.Hi}, Num: r.Num, Kind: KindShare}
}

func tauValue(t Tau) Estimate { return Estimate{Value: t.Value, N: t.N, Lo: t.Lo, Hi: t.Hi} }

func exactly(x float64) Value {
	v := Float(x)
	return Value{Estimate: Estimate{Value: v, N: 1, Lo: v, Hi: v}, Kind: KindExact}
}

// getter takes a metric's value from a Result, at the at-th required margin if it has one for each.
type getter struct {
	of       func(r *Result, at int) Value
	kind     Kind
	requires Requirement
}

// shares and estimates make getters of what stands at each required margin, oneShare and oneEstimate of what is there once.

func shares(f func(*AtMargin) Rate) getter {
	return getter{func(r *Result, at int) Value { return shareValue(f(&r.Margins[at])) }, KindShare, RequiresNothing}
}

func estimates(f func(*AtMargin) Estimate) getter {
	return getter{func(r *Result, at int) Value { return Value{Estimate: f(&r.Margins[at]), Kind: KindEstimate} }, KindEstimate, RequiresNothing}
}

func oneShare(f func(*Result) Rate) getter {
	return getter{func(r *Result, _ int) Value { return shareValue(f(r)) }, KindShare, RequiresNothing}
}

func oneEstimate(f func(*Result) Estimate) getter {
	return getter{func(r *Result, _ int) Value { return Value{Estimate: f(r), Kind: KindEstimate} }, KindEstimate, RequiresNothing}
}

// ofMirror marks what is not there when g's own recourse was not computed.
func ofMirror(g getter) getter {
	g.requires = RequiresMirrored
	return g
}

func noise(f func(*Gap) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		if a.Noise == nil {
			return unknown()
		}
		return f(a.Noise)
	})
	g.requires = RequiresNoise
	return g
}

func certified(f func(*Proofs) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		if a.Certified == nil {
			return unknown()
		}
		return f(a.Certified)
	})
	g.requires = RequiresProofs
	return g
}

func certifiedShare() getter {
	g := shares(func(a *AtMargin) Rate {
		if a.Certified == nil {
			return nobody()
		}
		return a.Certified.Certified
	})
	g.requires = RequiresProofs
	return g
}

// nobody is a share of nobody.
func nobody() Rate { return NewRate(0, 0, 0.95) }

func perturbationShare(kind Perturbation, f func(*Perturbed) Rate) getter {
	g := shares(func(a *AtMargin) Rate {
		p, ok := a.Perturbed[kind]
		if !ok {
			return nobody()
		}
		return f(&p)
	})
	g.requires = RequiresPerturbation
	return g
}

func perturbation(kind Perturbation, f func(*Perturbed) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		p, ok := a.Perturbed[kind]
		if !ok {
			return unknown()
		}
		return f(&p)
	})
	g.requires = RequiresPerturbation
	return g
}

func footprint(f func(*Weight) float64) getter {
	return getter{func(r *Result, _ int) Value {
		if r.Footprint != nil {
			if x := f(&r.Footprint.Quant); x > 0 {
				return exactly(x)
			}
		}
		return Value{Estimate: unknown(), Kind: KindExact}
	}, KindExact, RequiresFootprint}
}

func timing(f func(*Timing) Estimate) getter {
	g := oneEstimate(func(r *Result) Estimate {
		if r.Timing == nil {
			return unknown()
		}
		return f(r.Timing)
	})
	g.requires = RequiresTiming
	return g
}

// MetricsMarkdown returns the documentation page of the metrics.
func MetricsMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

What ` + "`cfq eval`" + ` measures. This page is generated from the table in package eval.

f is the full-precision model, g the quantized one, m(x) a model's logit margin for the favourable outcome. A model approves a person if and only if the
margin is above 0. A recourse, or promise, is the cheapest feasible action that brings a refused person to the required margin t (t = 0: just over
the boundary). The people evaluated are those whom f refuses, or a random sample of them.

Validity alone can be cheated: a model that approves a little sooner breaks no promise. So every VD comes with its mirror RVD, a signed
cost gap, and the decisions that differ. At t = 0 a promise ends on the boundary and breaks at the slightest difference: VD(0) is near one half for any good
quantization. Read VD at a margin.

Rates are given with their counts and a 95 % Wilson interval. A rate of nobody is null.

**Issued promises.** With ` + "`--promises`" + ` the promises of f are those of a [promises file](promises.md), one for each person (the cheapest that f keeps). At margin t
those count whose own margin under f is t or more; the recourse of g is computed as ever. So VD(t) is the share of the file's promises of margin t
or more that g breaks, and FRR(t) the share of evaluated people who have one. tau01 is then exact: the points do not move, and the promises below t
are left out. CRG compares the price of the promise with what g asks for margin t: read it at the margin that the promises were made for. Promises that f itself
does not keep are promises at no margin and counted as ` + "`issued.invalid`" + `; those that the task does not allow count all the same and are
` + "`given.infeasible`" + `; those to people who are not evaluated are ` + "`given.others`" + `.

| metric | symbol | unit | better | key |
|---|---|---|---|---|
`)
	cell := strings.NewReplacer("|", `\|`)
	text := strings.NewReplacer("<", "&lt;", ">", "&gt;")
	metrics := Metrics()
	for _, m := range metrics {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", m.Name, cell.Replace(m.Symbol), m.Unit, m.Better, m.Key)
	}
	b.WriteString("\n## Definitions\n")
	for _, m := range metrics {
		title := m.Name
		if m.Symbol != "" {
			title = m.Symbol + ": " + title
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\nSource: %s.\n", title, text.Replace(m.Definition), m.Source)
	}
	return b.String()
}

package eval

import (
	"slices"
	"strings"
)

func sections() []MetricSection {
	return []MetricSection{
		{"Promises", promiseMetrics()},
		{"Costs and actions", actionMetrics()},
		{"Margins at recourse points", marginMetrics()},
		{"Neighbourhoods of recourse points", neighbourhoodMetrics()},
		{"Decisions on people as they are", decisionMetrics()},
		{"Scores of people as they are", scoreMetrics()},
		{"Rows and issued promises", dataMetrics()},
		{"Files and time", fileMetrics()},
	}
}

// family returns the constructor of metrics that are in the same object of the JSON report and have a unit and a
// requirement in common.
func family(in, unit string, requires Requirement) func(
	id, name, symbol string, better Better, source, definition string) Metric {
	return func(id, name, symbol string, better Better, source, definition string) Metric {
		return Metric{
			ID: id, Name: name, Symbol: symbol, Unit: unit, Better: better, Requires: requires, Source: source,
			Definition: definition, computation: computation{in: in},
		}
	}
}

// detail is a number that only the JSON report has, at each required margin.
type detail struct {
	id string
	*sample
	statistic
}

// withDetails adds the details that are not metrics.
func withDetails(list []Metric, prefix string, requires Requirement, details []detail) []Metric {
	for _, d := range details {
		id := prefix + "." + d.id
		if !slices.ContainsFunc(list, func(m Metric) bool { return m.ID == id }) {
			m := Metric{ID: id, Requires: requires, computation: computation{in: perMargin}}
			list = append(list, m.is(d.sample, d.statistic))
		}
	}
	return list
}

// share is how the share of people is computed to whom something happens, of those whom it can happen to.
func (m Metric) share(f func(v recordView) (happens, eligible bool)) Metric {
	return m.is(sampleOf(m.Better, m.PerMargin(), func(v recordView) (float64, bool) { return event(f(v)) }), share())
}

func (m Metric) is(s *sample, of statistic) Metric {
	m.sample, m.statistic = s, of
	return m
}

func (m Metric) reads(value func(r *Result) Value) Metric {
	m.read = value
	return m
}

func (m Metric) gatedBy(quantile string) Metric {
	m.Instead = quantile
	m.Definition += " Gates take " + quantile + ": a mean has no safe bound."
	return m
}

func (m Metric) reversedBy(ids ...string) Metric {
	m.Reverse = ids
	m.Definition += " Mirrored in gates by " + strings.Join(ids, ", ") + "."
	return m
}

type pairedBy int

const (
	notCompared          pairedBy = iota
	paired                        // on the people who count in both models: shares by McNemar's test of the same trials
	ownTrials                     // each model has trials of its own: people count who have one in either
	ownTrialsIfDifferent          // and it is not worth a row where all values are equal
)

func (m Metric) compared(by pairedBy) Metric {
	m.pairs = by
	return m
}

func (m Metric) inGroups() Metric {
	m.groups = true
	return m
}

func promiseMetrics() []Metric {
	row := family(perMargin, "share", RequiresNothing)
	mirrored := family(perMargin, "share", RequiresMirrored)
	return []Metric{
		row("vd", "promises that break", "VD(t)", Lower,
			"Metrics, VD (target-class failure rate); the margin t: this project",
			"Share of the recourse points of f at margin t that g refuses: m_g(u_f) <= 0. Counted over evaluated people who "+
				"have recourse under f. Of issued promises, those count whose margin under f is t or more. Also: recourse "+
				"invalidation rate.").reversedBy("rvd", "gained").
			share(func(v recordView) (bool, bool) { return v.at.Full.Broken(), v.at.Full.Exists() }).compared(paired).inGroups(),
		row("vd_mismatch", "recourse points decided differently", "VD(t), mismatch", Lower, "Metrics, VD (label mismatch)",
			"Share of the same points on which f and g decide differently. It equals VD(t), because f approves its own "+
				"points, which is checked.").reversedBy("rvd", "gained").
			share(func(v recordView) (bool, bool) {
				return approves(v.at.Full.Own) != approves(v.at.Full.Other), v.at.Full.Exists()
			}),
		mirrored("rvd", "promises of the quantized model that the original would not keep", "RVD(t)", Lower, OwnMetric,
			"VD mirrored: share of the recourse points of g at margin t that f refuses, m_f(u_g) <= 0. Counted over evaluated "+
				"people that g refuses too and who have recourse under g.").
			share(func(v recordView) (bool, bool) { return v.at.Quant.Broken(), v.at.Quant.Exists() && v.mirrored(v.s) }).
			compared(ownTrials).inGroups(),
		mirrored("lost_recourse", "people who lose their recourse", "", Lower, OwnMetric,
			"Of the people that both models refuse and who have recourse under f at margin t, the share without recourse "+
				"under g.").reversedBy("gained").
			share(func(v recordView) (bool, bool) {
				return !v.at.Quant.Exists() && !v.at.free(), v.at.Full.Exists() && v.mirrored(v.s)
			}).compared(ownTrials),
		family("", "logits", RequiresNothing)("tau01", "margin to demand so that at most 1 % break", "tau01", Lower,
			OwnMetric,
			"Smallest t with VD <= 1 % at t and at every solved margin above t. VD is exact at solved margins. Between two of "+
				"them it is predicted from the lower one, assuming that m_g - m_f at a person's point stays the same while the "+
				"point moves on. With fewer than 100 promises no break is allowed.").reversedBy("rtau01").
			reads(func(r *Result) Value { return r.Tau01.value() }).compared(paired),
		family("", "logits", RequiresMirrored)("rtau01", "margin to demand of the quantized model's recourse", "Rtau01",
			Lower, OwnMetric,
			"tau01 mirrored: the same with RVD.").
			reads(func(r *Result) Value { return r.RTau01.value() }).compared(ownTrials),
		family("", "share", RequiresMirrored)("pgd_first.vd", "promises that break, first valid PGD step", "VD, PGD-first",
			Lower, "Metrics, VD; protocol: this project",
			"VD of the first valid iterate of 100 steps of projected gradient descent (step 0.2) instead of the minimal-cost "+
				"recourse.").reversedBy("gained").
			share(func(v recordView) (bool, bool) {
				return v.First.Broken(), v.Evaluated && v.First.Exists() && !v.s.OneSided
			}).
			compared(paired),
		row("frr", "people who can be helped", "FRR(t)", Higher, "Constraint regimes, FRR (equation frr_constraint)",
			"Share of the evaluated people, all refused by f, with a feasible action that reaches margin t under f. People f "+
				"approves are not counted.").
			share(func(v recordView) (bool, bool) { return v.at.Full.Exists(), !approves(v.Full) }).inGroups(),
		mirrored("rfrr", "people that the quantized model can help", "RFRR(t)", neither, OwnMetric,
			"FRR mirrored: of the evaluated people that g refuses too, the share with a feasible action that reaches margin "+
				"t under g.").
			share(func(v recordView) (bool, bool) { return v.at.Quant.Exists(), v.mirrored(v.s) }).
			compared(ownTrialsIfDifferent),
		family("", "share", RequiresMirrored)("pgd_first.frr", "", "", Higher, "", "").
			share(func(v recordView) (bool, bool) {
				return v.First.Exists(), v.Evaluated && !approves(v.Full) && !v.s.OneSided
			}),
	}
}

func actionMetrics() []Metric {
	ratio := family(perMargin, "ratio", RequiresMirrored)
	crg, both := newCostSamples((*Step).common), newCostSamples((*Step).bothExist)
	similarity := sampleOf(Higher, true, func(v recordView) (float64, bool) { return defined(v.at.DirSim) })
	overlap := sampleOf(Higher, true, func(v recordView) (float64, bool) { return defined(v.at.Overlap) })
	pixels := sampleOf(Lower, true, func(v recordView) (float64, bool) { return float64(v.at.Pixels), v.at.Pixels > 0 })
	list := []Metric{
		ratio("crg.mean", "change of the cost of recourse, mean of ratios", "CRG", Zero, "Metrics, CRG",
			"Mean of (c_g - c_f)/(c_f + eps) over common people, eps = 1e-9, where c is the cost of reaching margin t. Common "+
				"are evaluated people with recourse under f who also have recourse under g, or who already have margin t under "+
				"g; the latter have c_g = 0 and are counted in crg.free. Negative: cheaper under g. A few people with tiny costs "+
				"can dominate it.").gatedBy("crg.median").
			is(crg.ratios, mean()).compared(paired),
		ratio("crg.ratio_of_sums", "change of the total cost of recourse", "CRG, sums", Zero, OwnMetric,
			"(sum of c_g - sum of c_f) / sum of c_f over the same people.").gatedBy("crg.median").
			is(crg.sums, ratioOfSums()).compared(paired),
		ratio("crg.median", "change of the cost of recourse, median person", "CRG, median", Zero, OwnMetric,
			"Median of the ratios whose mean is CRG.").
			is(crg.ratios, quantile(0.5)).compared(paired).inGroups(),
		ratio("crg.p95", "change of the cost of recourse that 95 % stay below", "CRG, p95", Zero, OwnMetric,
			"95th percentile (nearest rank) of the ratios.").
			is(crg.ratios, quantile(0.95)),
		ratio("crg.abs_mean", "size of the change of the cost", "|CRG|", Lower, OwnMetric,
			"Mean of the absolute ratios: higher and lower costs do not cancel.").gatedBy("crg.abs_p95").
			is(crg.sizes, mean()).compared(paired),
		ratio("crg.abs_median", "size of the change of the cost, median person", "|CRG|, median", Lower, OwnMetric,
			"Median of the absolute ratios.").
			is(crg.ratios, sizeQuantile(0.5)),
		ratio("crg.abs_p95", "size of the change of the cost that 95 % stay below", "|CRG|, p95", Lower, OwnMetric,
			"95th percentile (nearest rank) of the absolute ratios.").
			is(crg.ratios, sizeQuantile(0.95)),
		family(perMargin, "ratio", RequiresNoise)("crg_noise.abs_mean", "noise floor of CRG", "|CRG|, noise", neither,
			OwnMetric,
			"|CRG| of f against itself, solved twice with different random numbers for a sample of people. CRG of this size "+
				"comes from the solver, not from the model. crg_noise has the other forms too.").gatedBy("crg.abs_median").
			is(nil, mean()),
		ratio("crg_both.mean", "CRG of people who must act under both models", "CRG, both", Zero, "Metrics, CRG",
			"CRG without the people whose cost under g is 0. Also crg_both.ratio_of_sums and crg_both.median.").
			gatedBy("crg.median").
			is(both.ratios, mean()),
		family(perMargin, "cosine", RequiresMirrored)("dir_sim", "similarity of the two actions", "DirSim", Higher,
			"Metrics, DirSim",
			"Mean of <d_f, d_g> / (|d_f| |d_g| + eps) over people with recourse under both models, where d is the action in "+
				"model-input units.").gatedBy("dir_sim_p05").
			is(similarity, mean()).compared(paired),
		family(perMargin, "cosine", RequiresMirrored)("dir_sim_p05", "similarity of the two actions that 95 % exceed", "",
			Higher, OwnMetric,
			"5th percentile (nearest rank) of the same cosines.").
			is(similarity, quantile(0.05)),
		family(perMargin, "pixels", RequiresDecoder)("pixel_distance", "how far recourse is in the image", "pixels",
			Lower, "eq:latent_action_set",
			"Mean over the recourse points of f of |D(E(x)+d) - x| in the l1 norm, where 1 is a pixel from end to end of its "+
				"bounds: for tasks with latent, whose costs are in the space of codes.").gatedBy("pixel_distance_p95").
			is(pixels, mean()),
		family(perMargin, "pixels", RequiresDecoder)("pixel_distance_p95",
			"what 95 % of these distances do not exceed", "", Lower, OwnMetric,
			"95th percentile (nearest rank) of the same distances.").
			is(pixels, quantile(0.95)),
		family(perMargin, "Jaccard index", RequiresMirrored)("act_overlap", "overlap of what must change", "ActOverlap",
			Higher, "Metrics, ActOverlap",
			"Mean over the same people of |S_f and S_g| / (|S_f or S_g| + eps), where S are the model inputs that an action "+
				"changes by more than 1e-6. A switch within a one-hot group changes two inputs.").gatedBy("act_overlap_p05").
			is(overlap, mean()).compared(paired),
		family(perMargin, "Jaccard index", RequiresMirrored)("act_overlap_p05", "overlap that 95 % exceed", "", Higher,
			OwnMetric,
			"5th percentile (nearest rank) of the same overlaps.").
			is(overlap, quantile(0.05)),
	}
	list = withCosts(list, "crg", RequiresMirrored, crg)
	return withCosts(withCosts(list, "crg_both", RequiresMirrored, both), "crg_noise", RequiresNoise, costSamples{})
}

func withCosts(list []Metric, name string, requires Requirement, x costSamples) []Metric {
	return withDetails(list, name, requires, []detail{
		{"mean", x.ratios, mean()},
		{"ratio_of_sums", x.sums, ratioOfSums()},
		{"median", x.ratios, quantile(0.5)},
		{"p95", x.ratios, quantile(0.95)},
		{"abs_mean", x.sizes, mean()},
		{"abs_median", x.ratios, sizeQuantile(0.5)},
		{"abs_p95", x.ratios, sizeQuantile(0.95)},
		{"n", x.ratios, countOf()},
		{"free", x.free, countAbove()},
	})
}

func marginMetrics() []Metric {
	logits := family(perMargin, "logits", RequiresNothing)
	marginError := func(v recordView) (float64, bool) { return defined(v.at.Full.Other - v.at.Full.Own) }
	errs := sampleOf(Zero, true, marginError)
	squares := sampleOf(Lower, true, func(v recordView) (float64, bool) {
		e, counts := marginError(v)
		return e * e, counts
	})
	own := sampleOf(neither, true, func(v recordView) (float64, bool) { return defined(v.at.Full.Own) })
	other := sampleOf(neither, true, func(v recordView) (float64, bool) { return defined(v.at.Full.Other) })
	own.steps, other.steps = 1, 2
	list := []Metric{
		logits("margin_error.mean", "mean margin error at recourse points", "mean e", Zero, OwnMetric,
			"Mean of e = m_g(u_f) - m_f(u_f) over the recourse points of f. Positive: g is more lenient there.").
			gatedBy("margin_error.p95").
			is(errs, mean()),
		logits("margin_error.rms", "typical margin error at recourse points", "rms e", Lower, OwnMetric,
			"Root mean square of e: the continuous quantity behind VD, RVD and tau01.").gatedBy("margin_error.p95").
			is(squares, rootMean()).compared(paired),
		logits("margin_error.p95", "margin error that 95 % stay below", "p95 |e|", Lower, OwnMetric,
			"95th percentile (nearest rank) of |e|.").
			is(errs, sizeQuantile(0.95)),
		logits("margin_error.p99", "margin error that 99 % stay below", "p99 |e|", Lower, OwnMetric,
			"99th percentile (nearest rank) of |e|.").
			is(errs, sizeQuantile(0.99)),
		logits("margin_error.max", "largest margin error", "max |e|", Lower, OwnMetric,
			"Maximum of |e|.").
			is(errs, sizeQuantile(1)),
		logits("margins_full.median", "margin of the original at its recourse points, median", "", neither,
			"Diagnostics: margins at recourse points",
			"Median of m_f(u_f). The report also has min, p05, p95 and max.").
			is(own, quantile(0.5)),
		logits("margins_quant.median", "margin of the quantized model at the same points, median", "", neither,
			"Diagnostics: margins at recourse points",
			"Median of m_g(u_f).").
			is(other, quantile(0.5)),
		logits("margins_quant.p05", "margin of the quantized model that 95 % of the points exceed", "", neither,
			"Diagnostics: margins at recourse points",
			"5th percentile (nearest rank) of m_g(u_f). Above 0, at most 5 % of the promises break.").
			is(other, quantile(0.05)),
		family("", "logits", RequiresBatches)("batches.difference", "change of a margin with its batch", "", Lower, OwnMetric,
			"Largest change of a margin, of f or g, when a sample of the judged points is run again alone, in shuffled batches "+
				"of 8, and in batches of 64 with one unusual row. 0: rounding only. Otherwise a decision depends on who else is "+
				"in the batch, as with dynamic quantization. Every gate checks that it is 0.").
			reads(func(r *Result) Value {
				if r.Batches == nil {
					return measured(0)
				}
				return exactValue(float64(r.Batches.Difference))
			}),
	}
	list = withDetails(list, "margin_error", RequiresNothing, []detail{{"n", errs, countOf()}})
	for i, margin := range []*sample{own, other} {
		list = withDetails(list, []string{"margins_full", "margins_quant"}[i], RequiresNothing, []detail{
			{"n", margin, countOf()},
			{"min", margin, smallest()},
			{"p05", margin, quantile(0.05)},
			{"median", margin, quantile(0.5)},
			{"p95", margin, quantile(0.95)},
			{"max", margin, largest()},
		})
	}
	return list
}

func neighbourhoodMetrics() []Metric {
	eps := family(perMargin, "logits", RequiresPerturbation)
	points := family(perMargin, "share", RequiresPerturbation)
	size := perturbationSizes()
	list := []Metric{
		family(perMargin, "share", RequiresProofs)("certified.share", "promises that provably survive", "", Higher,
			OwnMetric,
			"Share of the recourse points of f at margin t around which g provably approves: in the box of the given radius "+
				"around the numbers that actions may change. The bound is sound for the network as ONNX Runtime runs it. A point "+
				"without a certificate may still be safe.").
			share(func(v recordView) (bool, bool) { return v.at.Proof.Certified(), v.at.Proof != nil }).compared(paired),
		family(perMargin, "logits", RequiresProofs)("certified.apart", "how far the models can be apart nearby", "", Lower,
			OwnMetric,
			"Median over the recourse points of a sound bound on |m_g - m_f| in the same box. A point in the box with a "+
				"larger margin under f is approved by g.").
			is(sampleOf(Lower, true, func(v recordView) (float64, bool) {
				return float64(orZero(v.at.Proof).Apart), v.at.Proof != nil
			}), quantile(0.5)),
		eps("perturbation.point.p95", "logit perturbation at recourse points", "eps", Lower,
			"Theory, equation margin_condition; Empirical estimation of logit perturbation",
			"95th percentile of eps(u), the largest difference over the classes between the logits of g and f at a recourse "+
				"point u of f. Points with m_f(u) > 2 eps are safe. For each kind of eps the report has the safe share, and the "+
				"failures inside and outside the safe set.").
			is(size[0], quantile(0.95)),
		eps("perturbation.ball.p95", "logit perturbation around recourse points", "eps hat", Lower,
			"Empirical estimation of logit perturbation, equations app_eps_hat_i and app_eps_agg",
			"The same for the largest difference at u and at random points of the l2 ball of the given radius around u: an "+
				"estimate from below.").
			is(size[1], quantile(0.95)),
		eps("perturbation.first_order.p95", "logit perturbation, first order", "", Lower,
			"Empirical estimation of logit perturbation, equation app_eps_grad_bound",
			"The same for the difference at u plus the radius times the norm of its gradient.").
			is(size[2], quantile(0.95)),
		points("perturbation.ball.safe", "promises with a safe margin", "safe-margin fraction", Higher,
			"Table margin_diagnostics",
			"Share of the recourse points of f with m_f(u) > 2 eps hat(u).").
			is(perturbedSafe(1), share()),
		points("perturbation.ball.broken_inside", "promises that break inside the safe set", "", Lower,
			"Table margin_diagnostics",
			"Share of the safe points that g refuses: 0, because eps hat includes u itself.").
			is(perturbedBroken(1, true), share()),
		points("perturbation.ball.broken_outside", "promises that break outside the safe set", "", Lower,
			"Table margin_diagnostics",
			"Share of the other points that g refuses.").
			is(perturbedBroken(1, false), share()),
	}
	radius := sampleOf(Lower, true, func(v recordView) (float64, bool) { return v.s.Radius, v.at.Proof != nil })
	list = withDetails(list, "certified", RequiresProofs, []detail{{"radius", radius, largest()}})
	for kind, name := range Perturbations() {
		list = withDetails(list, "perturbation."+string(name), RequiresPerturbation, []detail{
			{"n", size[kind], countOf()},
			{"mean", size[kind], mean()},
			{"max", size[kind], quantile(1)},
			{"safe", perturbedSafe(kind), share()},
			{"broken_inside", perturbedBroken(kind, true), share()},
			{"broken_outside", perturbedBroken(kind, false), share()},
		})
	}
	return list
}

func decisionMetrics() []Metric {
	decision := family(inDecisions, "share", RequiresNothing)
	return []Metric{
		decision("accuracy_full", "accuracy of the original", "accuracy f", Higher, standardMetric,
			"Share of the people with a known outcome that f decides correctly.").
			share(correctFull),
		decision("accuracy_quant", "accuracy of the quantized model", "accuracy g", Higher, standardMetric,
			"The same for g.").
			share(correctQuant).compared(paired).inGroups(),
		decision("accuracy_drop", "loss of accuracy", "", Lower, standardMetric,
			"Accuracy of f minus accuracy of g on the same people.").
			is(&sample{of: accuracyDrop}, differenceOfShares()),
		decision("balanced_accuracy", "balanced accuracy of the original", "", Higher, standardMetric,
			"Mean of the shares that f decides correctly among people with the favourable outcome and among the others. At "+
				"50 %, which is chance, the labels are probably misread.").
			is(&sample{of: correctByOutcome}, balancedShare()),
		decision("favourable_full", "approved by the original", "", neither, standardMetric,
			"Share of all people read that f approves.").
			share(func(v recordView) (bool, bool) { return approves(v.Full), true }),
		decision("favourable_quant", "approved by the quantized model", "", neither, standardMetric,
			"The same for g.").
			share(func(v recordView) (bool, bool) { return approves(v.Quant), true }),
		decision("disagreement", "decisions that differ", "", Lower, OwnMetric,
			"Share of all people read that f and g decide differently as they are: churn.").
			share(func(v recordView) (bool, bool) { return approves(v.Full) != approves(v.Quant), true }).
			compared(paired).inGroups(),
		decision("lost", "approved by the original, refused by the quantized model", "", Lower, OwnMetric,
			"Share of the people that f approves and g refuses: negative flips.").reversedBy("gained").
			share(func(v recordView) (bool, bool) { return !approves(v.Quant), approves(v.Full) }).compared(paired).inGroups(),
		decision("gained", "refused by the original, approved by the quantized model", "", Lower, OwnMetric,
			"Share of the people that f refuses and g approves: positive flips.").
			share(func(v recordView) (bool, bool) { return approves(v.Quant), !approves(v.Full) }).compared(paired).inGroups(),
		decision("fpr_full", "approved without the favourable outcome, original", "FPR f", Lower, standardMetric,
			"False positive rate: of the people known not to have the favourable outcome, the share that f approves.").
			share(func(v recordView) (bool, bool) { return approves(v.Full), v.Label == 0 }),
		decision("fpr_quant", "approved without the favourable outcome, quantized model", "FPR g", Lower, standardMetric,
			"The same for g.").
			share(func(v recordView) (bool, bool) { return approves(v.Quant), v.Label == 0 }).inGroups(),
		decision("fnr_full", "refused with the favourable outcome, original", "FNR f", Lower, standardMetric,
			"False negative rate: of the people known to have the favourable outcome, the share that f refuses.").
			share(func(v recordView) (bool, bool) { return !approves(v.Full), v.Label == 1 }),
		decision("fnr_quant", "refused with the favourable outcome, quantized model", "FNR g", Lower, standardMetric,
			"The same for g.").
			share(func(v recordView) (bool, bool) { return !approves(v.Quant), v.Label == 1 }).inGroups(),
	}
}

func dataMetrics() []Metric {
	data := func(in string, requires Requirement, id, name, definition string) Metric {
		return family(in, "share", requires)(id, name, "", Lower, OwnMetric, definition)
	}
	return []Metric{
		data("population.", RequiresFile, "unreadable_rows", "rows that cannot be read",
			"Share of the selected data rows with a field that is missing, is no number or has an unknown value.").
			reads(func(r *Result) Value { return r.Population.UnreadableRows.value() }),
		data("population.", RequiresNothing, "unlabelled_rows", "people without an outcome",
			"Share of the people read whose outcome is not known, where any is.").
			reads(func(r *Result) Value { return r.Population.UnlabelledRows.value() }),
		data("", RequiresIssued, "issued.unjudgeable", "issued promises that nothing can be said of",
			"Share of all issued promises that cannot be read or belong to nobody.").
			reads(func(r *Result) Value { return orZero(r.Issued).Unjudgeable.value() }),
		data("", RequiresIssued, "issued.invalid", "issued promises that the original refuses",
			"Share of the promises to evaluated people whose point f refuses. VD does not count them.").
			reads(func(r *Result) Value { return orZero(r.Issued).Invalid.value() }),
		data("", RequiresIssued, "issued.infeasible", "issued promises that the task forbids",
			"Share of the same promises whose action the task does not allow. VD counts them.").
			reads(func(r *Result) Value { return orZero(r.Issued).Infeasible.value() }),
	}
}

func fileMetrics() []Metric {
	return []Metric{
		family("footprint.quant.", "bytes", RequiresFootprint)("bytes", "size of the file", "", Lower, standardMetric,
			"Bytes of the quantized model's file, including external data.").
			reads(func(r *Result) Value { return measured(float64(orZero(r.Footprint).Quant.Bytes)) }).compared(paired),
		family("footprint.quant.", "bits", RequiresFootprint)("stored_bits_per_weight", "stored bits per weight", "", Lower,
			"this project; the paper's BitCost counts the weights' own bits alone",
			"Bits stored for the weights, including scales, zero points and bit widths, divided by the number of weights. "+
				"Float weights have 32.").
			reads(func(r *Result) Value { return measured(orZero(r.Footprint).Quant.StoredBits) }).compared(paired),
		family("footprint.quant.", "bit operations", RequiresFootprint)("bops", "bit operations of one decision", "BOPs",
			Lower, standardMetric,
			"Sum over the layers of the multiplications for one row, times weight bits, times activation bits (32 in float).").
			reads(func(r *Result) Value { return measured(orZero(r.Footprint).Quant.BOPs) }).compared(paired),
		family("", "seconds", RequiresTiming)("timing.batch_1.quant", "latency", "", Lower, standardMetric,
			"Median time of one run of one row in ONNX Runtime on this machine, measured with --latency. Times are the only "+
				"numbers that differ between runs.").
			reads(ofTiming(func(x *Timing) Estimate { return x.One.Quant })),
		family("", "seconds", RequiresTiming)("timing.batch_256.quant", "time of 256 rows", "", Lower, standardMetric,
			"The same for one run of 256 rows.").
			reads(ofTiming(func(x *Timing) Estimate { return x.Many.Quant })),
		family("", "rows/s", RequiresTiming)("timing.batch_256.throughput", "throughput", "", Higher, standardMetric,
			"256 rows divided by that time.").
			reads(ofTiming(func(x *Timing) Estimate { return x.Many.Throughput })),
	}
}

func scoreMetrics() []Metric {
	of := family("scores.", "number", RequiresNothing)
	auc := func(id, name, symbol, definition string, margin func(r *Record) Float) Metric {
		m := of(id, name, symbol, Higher, standardMetric, definition)
		m.Instead = "accuracy_drop" // it is for reviews: its bounds are approximate
		return m.is(score(margin), areaUnderCurve())
	}
	return []Metric{
		auc("auc_full", "area under the ROC curve, original", "AUC f",
			"Probability that f gives a person with the favourable outcome a larger margin than one without, ties counting "+
				"one half. Interval: DeLong.", func(r *Record) Float { return r.Full }),
		auc("auc_quant", "area under the ROC curve, quantized model", "AUC g", "The same for g.",
			func(r *Record) Float { return r.Quant }),
	}
}

func orZero[T any](p *T) (x T) {
	if p != nil {
		x = *p
	}
	return x
}

func ofTiming(number func(x *Timing) Estimate) func(r *Result) Value {
	return func(r *Result) Value {
		if r.Timing == nil {
			return unknown().AsValue()
		}
		return number(r.Timing).AsValue()
	}
}

func perturbationSizes() (all []*sample) {
	for kind := range Perturbations() {
		all = append(all, perturbed(kind, func(eps float64, _, _ bool) (float64, bool) { return eps, true }))
	}
	return all
}

func perturbedSafe(kind int) *sample {
	return perturbed(kind, func(_ float64, safe, _ bool) (float64, bool) { return event(safe, true) })
}

func perturbedBroken(kind int, inside bool) *sample {
	return perturbed(kind, func(_ float64, safe, broken bool) (float64, bool) { return event(broken, safe == inside) })
}

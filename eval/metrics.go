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
}

// Metrics returns the table of all metrics, in the order in which reports show
// them. In its definitions f is the full-precision model, g the quantized one,
// m their logit margin for the favourable class, x a person, and u the point
// where the person's minimal-cost recourse ends.
func Metrics() []Metric {
	return slices.Concat(promiseMetrics(), actionMetrics(), decisionMetrics())
}

func promiseMetrics() []Metric {
	return []Metric{
		{
			"margins[].vd", "promises that break", "VD(t)", "share", Lower,
			"Of the recourse points of f at required margin t, the share that g refuses: m_g(u_f) <= 0. Counted over evaluated people for whom f has a recourse.",
			"Metrics, VD, in its form as target-class failure rate; required margin t: this project",
		},
		{
			"margins[].rvd", "promises of the quantized model that the original would not keep", "RVD(t)", "share", Lower,
			"VD mirrored. Of the recourse points of g at required margin t, the share that f refuses: m_f(u_g) <= 0. Counted over evaluated people whom g refuses too and for whom g has a recourse.",
			"this project",
		},
		{
			"tau01", "margin to demand so that at most 1 % break", "tau01", "logits", Lower,
			"The smallest t with VD <= 1 % at t and at every solved margin above t. VD is exact at the solved margins; between two of them it is predicted from the lower one, assuming that m_g - m_f at a person's " +
				"recourse point stays the same while the point moves to a larger margin. With fewer than 100 promises no break is allowed.",
			"this project",
		},
		{
			"rtau01", "margin to demand of the quantized model's recourse", "Rtau01", "logits", Lower,
			"tau01 mirrored: the same with RVD.",
			"this project",
		},
		{
			"pgd_first.vd", "promises that break, first valid PGD step", "VD, PGD-first", "share", Lower,
			"VD where the recourse of f is the first valid iterate of 100 steps of projected gradient descent (step 0.2) instead of the minimal-cost one.",
			"Metrics, VD; protocol: this project",
		},
		{
			"margins[].frr", "people who can be helped", "FRR(t)", "share", Higher,
			"Of the evaluated people, all of whom f refuses, the share for whom a feasible action that reaches margin t under f was found. People f approves are not counted: for them the empty action would do.",
			"Constraint regimes, FRR (equation frr_constraint)",
		},
		{
			"margins[].rfrr", "people whom the quantized model can help", "RFRR(t)", "share", None,
			"FRR mirrored: of the evaluated people whom g refuses too, the share for whom a feasible action that reaches margin t under g was found.",
			"this project",
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
		},
		{
			"margins[].crg.ratio_of_sums", "change of the total cost of recourse", "CRG, sums", "ratio", Zero,
			"(sum of c_g - sum of c_f) / sum of c_f over the same people.",
			"this project",
		},
		{
			"margins[].crg.median", "change of the cost of recourse, median person", "CRG, median", "ratio", Zero,
			"Median of the ratios whose mean is CRG.",
			"this project",
		},
		{
			"margins[].crg_both.mean", "CRG of people who must act under both models", "CRG, both", "ratio", Zero,
			"CRG over the common people without those whose cost under g is 0; also as crg_both.ratio_of_sums and crg_both.median.",
			"Metrics, CRG",
		},
		{
			"margins[].dir_sim.value", "similarity of the two actions", "DirSim", "cosine", Higher,
			"Mean over people with a recourse under both models of <d_f, d_g> / (|d_f| |d_g| + eps), d being the actions in model-input units; eps = 1e-9.",
			"Metrics, DirSim",
		},
		{
			"margins[].act_overlap.value", "overlap of what must change", "ActOverlap", "Jaccard index", Higher,
			"Mean over the same people of |S_f and S_g| / (|S_f or S_g| + eps), S being the model inputs that an action changes by more than 1e-6. A switch within a one-hot group changes two inputs.",
			"Metrics, ActOverlap",
		},
		{
			"margins[].margin_error.mean", "mean margin error at recourse points", "mean e", "logits", Zero,
			"Mean of e = m_g(u_f) - m_f(u_f) over the recourse points of f. Positive: g is more lenient there. The report quotes it at the smallest required margin, where promises are closest to the boundary.",
			"this project",
		},
		{
			"margins[].margin_error.rms", "typical margin error at recourse points", "rms e", "logits", Lower,
			"Root mean square of the same e: the continuous quantity under VD, RVD and tau01.",
			"this project",
		},
		{
			"margins[].margin_error.p99", "margin error that 99 % stay below", "p99 |e|", "logits", Lower,
			"99th percentile (nearest rank) of |e|.",
			"this project",
		},
		{
			"margins[].margin_error.max", "largest margin error", "max |e|", "logits", Lower,
			"Maximum of |e|.",
			"this project",
		},
	}
}

func decisionMetrics() []Metric {
	return []Metric{
		{
			"decisions.accuracy_full", "accuracy of the original", "accuracy f", "share", Higher,
			"Of the people with a known outcome, the share that f decides as they turned out. A model decides favourably if and only if its margin is > 0.",
			"standard",
		},
		{
			"decisions.accuracy_quant", "accuracy of the quantized model", "accuracy g", "share", Higher,
			"The same for g.",
			"standard",
		},
		{
			"decisions.favourable_full", "approved by the original", "", "share", None,
			"Of all people read, the share f approves.",
			"standard",
		},
		{
			"decisions.favourable_quant", "approved by the quantized model", "", "share", None,
			"Of all people read, the share g approves.",
			"standard",
		},
		{
			"decisions.disagreement", "decisions that differ", "", "share", Lower,
			"Of all people read, as they are, the share on whom f and g decide differently.",
			"this project",
		},
		{
			"decisions.lost", "approved by the original, refused by the quantized model", "", "share", Lower,
			"Of the people f approves, the share g refuses.",
			"this project",
		},
		{
			"decisions.gained", "refused by the original, approved by the quantized model", "", "share", Lower,
			"Of the people f refuses, the share g approves.",
			"this project",
		},
	}
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

**Given promises.** With ` + "`--promises`" + ` the promises of f are those of a [promises file](promises.md), one for each person (the cheapest that f keeps). At margin t
those count whose own margin under f is t or more; the recourse of g is computed as ever. So VD(t) is the share of the file's promises of margin t
or more that g breaks, and FRR(t) the share of evaluated people who have one. tau01 is then exact: the points do not move, and the promises below t
are left out. CRG compares the price of the promise with what g asks for margin t: read it at the margin that the promises were made for. Promises that f itself
does not keep are promises at no margin and counted as ` + "`given.invalid`" + `; those that the task does not allow count all the same and are
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

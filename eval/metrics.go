package eval

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"cfq/task"
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

// Requirement is what a metric needs of an evaluation in addition to f's promises. What was not asked for has no value.
type Requirement int

// The requirements.
const (
	RequiresNothing      Requirement = iota
	RequiresMirrored                 // g's own recourse, or the first valid iterates: not with Options.OneSided
	RequiresNoise                    // Options.Noise
	RequiresProofs                   // Options.Prove
	RequiresPerturbation             // Options.Perturb
	RequiresFile                     // DataFile
	RequiresTiming                   // Result.Timing, which the caller measures
	RequiresFootprint                // Result.Footprint, likewise
	RequiresBatches                  // Result.Batches, likewise
	RequiresIssued                   // Options.Promises
	RequiresDecoder                  // a model behind a decoder, as Distances of the classifier has it
)

// Metric is one thing that eval measures.
type Metric struct {
	Key        string // path in the JSON report; "[]" steps into a list
	Name       string // for readers who do not know the symbols
	Symbol     string
	Unit       string
	Better     Better
	Requires   Requirement
	Source     string // section or equation of the paper, or one of the constants below
	Definition string
	Instead    string // ID of what a gate has in its place, where no bound holds for any distribution; or ""
	// Mirrors are the IDs of metrics that a limit on this one holds for, too: it counts what goes wrong in one direction
	// alone, and these what does in the other.
	Mirrors []string
}

// Sources of the metrics that the paper does not have.
const (
	OwnMetric      = "this project"
	standardMetric = "standard"
)

const perMargin = "margins[]."

// ID returns the metric's name on command lines and in gate files: its Key without the list or object around it.
func (m *Metric) ID() string {
	id := m.Key
	for _, where := range []string{perMargin, "decisions.", "scores.", "population.", "footprint.quant."} {
		id = strings.TrimPrefix(id, where)
	}
	return id
}

// PerMargin says that the metric has a value for each required margin.
func (m *Metric) PerMargin() bool { return strings.HasPrefix(m.Key, perMargin) }

// places are the positions of the margins at which the metric has a value, of n; -1 for one that has no margin.
func (m *Metric) places(n int) []int {
	if !m.PerMargin() {
		return []int{-1}
	}
	return task.AllRows(n)
}

// Kind is how certain a metric's value is.
type Kind int

// The kinds.
const (
	KindShare    Kind = iota // of people: counts, whose bounds are exact
	KindEstimate             // a number with an interval
	KindExact                // nothing was sampled: the value is what it is
)

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num  int // of a share: Num of N
	Kind Kind
}

// Kind says how certain the metric's values are.
func (m *Metric) Kind() Kind { return m.Of(&Result{}, 0).Kind }

// Of returns the metric's value in r, for those that are PerMargin at the at-th of its margins. It is undefined where r
// does not have what the metric requires.
func (m *Metric) Of(r *Result, at int) Value {
	v, known := find(reflect.ValueOf(r).Elem(), m.Key, at)
	switch x := v.Interface().(type) {
	case Rate:
		if !known {
			x = NewRate(0, 0, 0.95)
		}
		return Value{Estimate: Estimate{Value: x.Value, N: x.Den, Lo: x.Lo, Hi: x.Hi}, Num: x.Num, Kind: KindShare}
	case Estimate:
		if !known {
			x = unknown()
		}
		return Value{Estimate: x, Kind: KindEstimate}
	case Tally:
		v := Value{Estimate: unknown(), Num: x.Num, Kind: KindExact}
		if x.Den > 0 {
			v.Estimate = Estimate{Value: x.Value, N: x.Den, Lo: x.Value, Hi: x.Value}
		}
		return v
	case Tau:
		return Value{Estimate: Estimate{Value: x.Value, N: x.N, Lo: x.Lo, Hi: x.Hi}, Kind: KindEstimate}
	case Float:
		if !known {
			return measured(0)
		}
		return Value{Estimate: exactly(float64(x)), Kind: KindExact}
	case int64:
		return measured(float64(x))
	case float64:
		return measured(x)
	}
	panic("eval: " + m.Key + " is no value")
}

// measured is a number that was not sampled; 0 stands for one that is not known.
func measured(x float64) Value {
	if !(x > 0) {
		return Value{Estimate: unknown(), Kind: KindExact}
	}
	return Value{Estimate: exactly(x), Kind: KindExact}
}

func exactly(x float64) Estimate { return Estimate{Value: Float(x), N: 1, Lo: Float(x), Hi: Float(x)} }

// find follows a key from the value of a struct, at the at-th place of a list. known is false, and v is zero, where an
// object or a place on the way does not exist.
func find(v reflect.Value, key string, at int) (_ reflect.Value, known bool) {
	known = true
	step := func(next reflect.Value, of reflect.Type) {
		if v = next; !v.IsValid() {
			v, known = reflect.Zero(of), false
		}
	}
	for name := range strings.SplitSeq(key, ".") {
		name, list := strings.CutSuffix(name, "[]")
		if v.Kind() == reflect.Map {
			step(v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())), v.Type().Elem())
		} else {
			v = v.Field(fieldOf(v.Type(), name))
		}
		switch {
		case v.Kind() == reflect.Pointer:
			step(v.Elem(), v.Type().Elem())
		case list && at < v.Len():
			v = v.Index(at)
		case list:
			step(reflect.Value{}, v.Type().Elem())
		}
	}
	return v, known
}

// fieldOf returns the number of the field of a struct that has the name in JSON.
func fieldOf(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return i
		}
	}
	panic("eval: no " + name + " in " + t.String())
}

// MetricBy returns the metric with the ID, and false when there is none.
func MetricBy(id string) (Metric, bool) {
	return metricWhere(func(m *Metric) bool { return m.ID() == id })
}

// MetricAt returns the metric with the key. It panics when there is none: keys are written in code.
func MetricAt(key string) Metric {
	m, ok := metricWhere(func(m *Metric) bool { return m.Key == key })
	if !ok {
		panic("eval: no metric " + key)
	}
	return m
}

func metricWhere(is func(m *Metric) bool) (Metric, bool) {
	all := metricTable()
	for i := range all {
		if is(&all[i]) {
			return all[i], true
		}
	}
	return Metric{}, false
}

// Metrics returns the table of all metrics, in the order in which reports show
// them. In its definitions f is the full-precision model, g the quantized one,
// m their logit margin for the favourable class, x a person, and u the point
// where the person's minimal-cost recourse ends.
func Metrics() []Metric { return slices.Clone(metricTable()) }

// metricTable is made once: reports and gates look up every number that they show.
//
//nolint:gochecknoglobals // constant
var metricTable = sync.OnceValue(func() (all []Metric) {
	for _, s := range MetricSections() {
		all = append(all, s.Metrics...)
	}
	return all
})

// MetricSection is a part of the table of metrics.
type MetricSection struct {
	Title   string
	Metrics []Metric
}

// MetricSections returns the table of all metrics in sections.
func MetricSections() []MetricSection {
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

// family returns the constructor of metrics whose keys start with the prefix and which have a unit and a requirement
// in common.
func family(prefix, unit string, requires Requirement) func(
	key, name, symbol string, better Better, source, definition string) Metric {
	return func(key, name, symbol string, better Better, source, definition string) Metric {
		return Metric{prefix + key, name, symbol, unit, better, requires, source, definition, "", nil}
	}
}

// gatedBy names the metric that a gate has in place of m.
func (m Metric) gatedBy(quantile string) Metric {
	m.Instead = quantile
	m.Definition += " Gates take " + quantile + ": a mean has no safe bound."
	return m
}

// mirroredBy names the metrics that a limit on m holds for, too.
func (m Metric) mirroredBy(ids ...string) Metric {
	m.Mirrors = ids
	m.Definition += " Mirrored in gates by " + strings.Join(ids, ", ") + "."
	return m
}

func promiseMetrics() []Metric {
	share := family(perMargin, "share", RequiresNothing)
	mirrored := family(perMargin, "share", RequiresMirrored)
	return []Metric{
		share("vd", "promises that break", "VD(t)", Lower,
			"Metrics, VD (target-class failure rate); the margin t: this project",
			"Share of the recourse points of f at margin t that g refuses: m_g(u_f) <= 0. Counted over evaluated people who "+
				"have recourse under f. Of issued promises, those count whose margin under f is t or more. Also: recourse "+
				"invalidation rate.").mirroredBy("rvd", "gained"),
		share("vd_mismatch", "recourse points decided differently", "VD(t), mismatch", Lower, "Metrics, VD (label mismatch)",
			"Share of the same points on which f and g decide differently. It equals VD(t), because f approves its own "+
				"points, which is checked.").mirroredBy("rvd", "gained"),
		mirrored("rvd", "promises of the quantized model that the original would not keep", "RVD(t)", Lower, OwnMetric,
			"VD mirrored: share of the recourse points of g at margin t that f refuses, m_f(u_g) <= 0. Counted over evaluated "+
				"people that g refuses too and who have recourse under g."),
		mirrored("lost_recourse", "people who lose their recourse", "", Lower, OwnMetric,
			"Of the people that both models refuse and who have recourse under f at margin t, the share without recourse "+
				"under g.").mirroredBy("gained"),
		family("", "logits", RequiresNothing)("tau01", "margin to demand so that at most 1 % break", "tau01", Lower,
			OwnMetric,
			"Smallest t with VD <= 1 % at t and at every solved margin above t. VD is exact at solved margins. Between two of "+
				"them it is predicted from the lower one, assuming that m_g - m_f at a person's point stays the same while the "+
				"point moves on. With fewer than 100 promises no break is allowed.").mirroredBy("rtau01"),
		family("", "logits", RequiresMirrored)("rtau01", "margin to demand of the quantized model's recourse", "Rtau01",
			Lower, OwnMetric,
			"tau01 mirrored: the same with RVD."),
		family("", "share", RequiresMirrored)("pgd_first.vd", "promises that break, first valid PGD step", "VD, PGD-first",
			Lower, "Metrics, VD; protocol: this project",
			"VD of the first valid iterate of 100 steps of projected gradient descent (step 0.2) instead of the minimal-cost "+
				"recourse.").mirroredBy("gained"),
		share("frr", "people who can be helped", "FRR(t)", Higher, "Constraint regimes, FRR (equation frr_constraint)",
			"Share of the evaluated people, all refused by f, with a feasible action that reaches margin t under f. People f "+
				"approves are not counted."),
		mirrored("rfrr", "people that the quantized model can help", "RFRR(t)", None, OwnMetric,
			"FRR mirrored: of the evaluated people that g refuses too, the share with a feasible action that reaches margin "+
				"t under g."),
	}
}

func actionMetrics() []Metric {
	ratio := family(perMargin, "ratio", RequiresMirrored)
	return []Metric{
		ratio("crg.mean", "change of the cost of recourse, mean of ratios", "CRG", Zero, "Metrics, CRG",
			"Mean of (c_g - c_f)/(c_f + eps) over common people, eps = 1e-9, where c is the cost of reaching margin t. Common "+
				"are evaluated people with recourse under f who also have recourse under g, or who already have margin t under "+
				"g; the latter have c_g = 0 and are counted in crg.free. Negative: cheaper under g. A few people with tiny costs "+
				"can dominate it.").gatedBy("crg.median"),
		ratio("crg.ratio_of_sums", "change of the total cost of recourse", "CRG, sums", Zero, OwnMetric,
			"(sum of c_g - sum of c_f) / sum of c_f over the same people.").gatedBy("crg.median"),
		ratio("crg.median", "change of the cost of recourse, median person", "CRG, median", Zero, OwnMetric,
			"Median of the ratios whose mean is CRG."),
		ratio("crg.p95", "change of the cost of recourse that 95 % stay below", "CRG, p95", Zero, OwnMetric,
			"95th percentile (nearest rank) of the ratios."),
		ratio("crg.abs_mean", "size of the change of the cost", "|CRG|", Lower, OwnMetric,
			"Mean of the absolute ratios: higher and lower costs do not cancel.").gatedBy("crg.abs_p95"),
		ratio("crg.abs_median", "size of the change of the cost, median person", "|CRG|, median", Lower, OwnMetric,
			"Median of the absolute ratios."),
		ratio("crg.abs_p95", "size of the change of the cost that 95 % stay below", "|CRG|, p95", Lower, OwnMetric,
			"95th percentile (nearest rank) of the absolute ratios."),
		family("", "ratio", RequiresNoise)("margins[].crg_noise.abs_mean", "noise floor of CRG", "|CRG|, noise", None,
			OwnMetric,
			"|CRG| of f against itself, solved twice with different random numbers for a sample of people. CRG of this size "+
				"comes from the solver, not from the model. crg_noise has the other forms too.").gatedBy("crg.abs_median"),
		ratio("crg_both.mean", "CRG of people who must act under both models", "CRG, both", Zero, "Metrics, CRG",
			"CRG without the people whose cost under g is 0. Also crg_both.ratio_of_sums and crg_both.median.").
			gatedBy("crg.median"),
		family("", "cosine", RequiresMirrored)("margins[].dir_sim", "similarity of the two actions", "DirSim", Higher,
			"Metrics, DirSim",
			"Mean of <d_f, d_g> / (|d_f| |d_g| + eps) over people with recourse under both models, where d is the action in "+
				"model-input units.").gatedBy("dir_sim_p05"),
		family("", "cosine", RequiresMirrored)("margins[].dir_sim_p05", "similarity of the two actions that 95 % exceed", "",
			Higher, OwnMetric,
			"5th percentile (nearest rank) of the same cosines."),
		family("", "pixels", RequiresDecoder)("margins[].pixel_distance", "how far recourse is in the image", "pixels",
			Lower, "eq:latent_action_set",
			"Mean over the recourse points of f of |D(E(x)+d) - x| in the l1 norm, where 1 is a pixel from end to end of its "+
				"bounds: for tasks with latent, whose costs are in the space of codes.").gatedBy("pixel_distance_p95"),
		family("", "pixels", RequiresDecoder)("margins[].pixel_distance_p95",
			"what 95 % of these distances do not exceed", "", Lower, OwnMetric,
			"95th percentile (nearest rank) of the same distances."),
		family("", "Jaccard index", RequiresMirrored)("margins[].act_overlap", "overlap of what must change", "ActOverlap",
			Higher, "Metrics, ActOverlap",
			"Mean over the same people of |S_f and S_g| / (|S_f or S_g| + eps), where S are the model inputs that an action "+
				"changes by more than 1e-6. A switch within a one-hot group changes two inputs.").gatedBy("act_overlap_p05"),
		family("", "Jaccard index", RequiresMirrored)("margins[].act_overlap_p05", "overlap that 95 % exceed", "", Higher,
			OwnMetric,
			"5th percentile (nearest rank) of the same overlaps."),
	}
}

func marginMetrics() []Metric {
	logits := family(perMargin, "logits", RequiresNothing)
	return []Metric{
		logits("margin_error.mean", "mean margin error at recourse points", "mean e", Zero, OwnMetric,
			"Mean of e = m_g(u_f) - m_f(u_f) over the recourse points of f. Positive: g is more lenient there.").
			gatedBy("margin_error.p95"),
		logits("margin_error.rms", "typical margin error at recourse points", "rms e", Lower, OwnMetric,
			"Root mean square of e: the continuous quantity behind VD, RVD and tau01.").gatedBy("margin_error.p95"),
		logits("margin_error.p95", "margin error that 95 % stay below", "p95 |e|", Lower, OwnMetric,
			"95th percentile (nearest rank) of |e|."),
		logits("margin_error.p99", "margin error that 99 % stay below", "p99 |e|", Lower, OwnMetric,
			"99th percentile (nearest rank) of |e|."),
		logits("margin_error.max", "largest margin error", "max |e|", Lower, OwnMetric,
			"Maximum of |e|."),
		logits("margins_full.median", "margin of the original at its recourse points, median", "", None,
			"Diagnostics: margins at recourse points",
			"Median of m_f(u_f). The report also has min, p05, p95 and max."),
		logits("margins_quant.median", "margin of the quantized model at the same points, median", "", None,
			"Diagnostics: margins at recourse points",
			"Median of m_g(u_f)."),
		logits("margins_quant.p05", "margin of the quantized model that 95 % of the points exceed", "", None,
			"Diagnostics: margins at recourse points",
			"5th percentile (nearest rank) of m_g(u_f). Above 0, at most 5 % of the promises break."),
		family("", "logits", RequiresBatches)("batches.difference", "change of a margin with its batch", "", Lower, OwnMetric,
			"Largest change of a margin, of f or g, when a sample of the judged points is run again alone, in shuffled batches "+
				"of 8, and in batches of 64 with one unusual row. 0: rounding only. Otherwise a decision depends on who else is "+
				"in the batch, as with dynamic quantization. Every gate checks that it is 0."),
	}
}

func neighbourhoodMetrics() []Metric {
	eps := family(perMargin, "logits", RequiresPerturbation)
	safe := family(perMargin, "share", RequiresPerturbation)
	return []Metric{
		family("", "share", RequiresProofs)("margins[].certified.share", "promises that provably survive", "", Higher,
			OwnMetric,
			"Share of the recourse points of f at margin t around which g provably approves: in the box of the given radius "+
				"around the numbers that actions may change. The bound is sound for the network as ONNX Runtime runs it. A point "+
				"without a certificate may still be safe."),
		family("", "logits", RequiresProofs)("margins[].certified.apart", "how far the models can be apart nearby", "", Lower,
			OwnMetric,
			"Median over the recourse points of a sound bound on |m_g - m_f| in the same box. A point in the box with a "+
				"larger margin under f is approved by g."),
		eps("perturbation.point.p95", "logit perturbation at recourse points", "eps", Lower,
			"Theory, equation margin_condition; Empirical estimation of logit perturbation",
			"95th percentile of eps(u), the largest difference over the classes between the logits of g and f at a recourse "+
				"point u of f. Points with m_f(u) > 2 eps are safe. For each kind of eps the report has the safe share, and the "+
				"failures inside and outside the safe set."),
		eps("perturbation.ball.p95", "logit perturbation around recourse points", "eps hat", Lower,
			"Empirical estimation of logit perturbation, equations app_eps_hat_i and app_eps_agg",
			"The same for the largest difference at u and at random points of the l2 ball of the given radius around u: an "+
				"estimate from below."),
		eps("perturbation.first_order.p95", "logit perturbation, first order", "", Lower,
			"Empirical estimation of logit perturbation, equation app_eps_grad_bound",
			"The same for the difference at u plus the radius times the norm of its gradient."),
		safe("perturbation.ball.safe", "promises with a safe margin", "safe-margin fraction", Higher,
			"Table margin_diagnostics",
			"Share of the recourse points of f with m_f(u) > 2 eps hat(u)."),
		safe("perturbation.ball.broken_inside", "promises that break inside the safe set", "", Lower,
			"Table margin_diagnostics",
			"Share of the safe points that g refuses: 0, because eps hat includes u itself."),
		safe("perturbation.ball.broken_outside", "promises that break outside the safe set", "", Lower,
			"Table margin_diagnostics",
			"Share of the other points that g refuses."),
	}
}

func decisionMetrics() []Metric {
	decision := family("decisions.", "share", RequiresNothing)
	return []Metric{
		decision("accuracy_full", "accuracy of the original", "accuracy f", Higher, standardMetric,
			"Share of the people with a known outcome that f decides correctly."),
		decision("accuracy_quant", "accuracy of the quantized model", "accuracy g", Higher, standardMetric,
			"The same for g."),
		decision("accuracy_drop", "loss of accuracy", "", Lower, standardMetric,
			"Accuracy of f minus accuracy of g on the same people."),
		decision("balanced_accuracy", "balanced accuracy of the original", "", Higher, standardMetric,
			"Mean of the shares that f decides correctly among people with the favourable outcome and among the others. At "+
				"50 %, which is chance, the labels are probably misread."),
		decision("favourable_full", "approved by the original", "", None, standardMetric,
			"Share of all people read that f approves."),
		decision("favourable_quant", "approved by the quantized model", "", None, standardMetric,
			"The same for g."),
		decision("disagreement", "decisions that differ", "", Lower, OwnMetric,
			"Share of all people read that f and g decide differently as they are: churn."),
		decision("lost", "approved by the original, refused by the quantized model", "", Lower, OwnMetric,
			"Share of the people that f approves and g refuses: negative flips.").mirroredBy("gained"),
		decision("gained", "refused by the original, approved by the quantized model", "", Lower, OwnMetric,
			"Share of the people that f refuses and g approves: positive flips."),
		decision("fpr_full", "approved without the favourable outcome, original", "FPR f", Lower, standardMetric,
			"False positive rate: of the people known not to have the favourable outcome, the share that f approves."),
		decision("fpr_quant", "approved without the favourable outcome, quantized model", "FPR g", Lower, standardMetric,
			"The same for g."),
		decision("fnr_full", "refused with the favourable outcome, original", "FNR f", Lower, standardMetric,
			"False negative rate: of the people known to have the favourable outcome, the share that f refuses."),
		decision("fnr_quant", "refused with the favourable outcome, quantized model", "FNR g", Lower, standardMetric,
			"The same for g."),
	}
}

func dataMetrics() []Metric {
	data := func(requires Requirement, key, name, definition string) Metric {
		return Metric{key, name, "", "share", Lower, requires, OwnMetric, definition, "", nil}
	}
	return []Metric{
		data(RequiresFile, "population.unreadable_rows", "rows that cannot be read",
			"Share of the selected data rows with a field that is missing, is no number or has an unknown value."),
		data(RequiresNothing, "population.unlabelled_rows", "people without an outcome",
			"Share of the people read whose outcome is not known, where any is."),
		data(RequiresIssued, "issued.unjudgeable", "issued promises that nothing can be said of",
			"Share of all issued promises that cannot be read or belong to nobody."),
		data(RequiresIssued, "issued.invalid", "issued promises that the original refuses",
			"Share of the promises to evaluated people whose point f refuses. VD does not count them."),
		data(RequiresIssued, "issued.infeasible", "issued promises that the task forbids",
			"Share of the same promises whose action the task does not allow. VD counts them."),
	}
}

func fileMetrics() []Metric {
	return []Metric{
		family("", "bytes", RequiresFootprint)("footprint.quant.bytes", "size of the file", "", Lower, standardMetric,
			"Bytes of the quantized model's file, including external data."),
		family("", "bits", RequiresFootprint)("footprint.quant.stored_bits_per_weight", "stored bits per weight", "", Lower,
			"this project; the paper's BitCost counts the weights' own bits alone",
			"Bits stored for the weights, including scales, zero points and bit widths, divided by the number of weights. "+
				"Float weights have 32."),
		family("", "bit operations", RequiresFootprint)("footprint.quant.bops", "bit operations of one decision", "BOPs",
			Lower, standardMetric,
			"Sum over the layers of the multiplications for one row, times weight bits, times activation bits (32 in float)."),
		family("", "seconds", RequiresTiming)("timing.batch_1.quant", "latency", "", Lower, standardMetric,
			"Median time of one run of one row in ONNX Runtime on this machine, measured with --latency. Times are the only "+
				"numbers that differ between runs."),
		family("", "seconds", RequiresTiming)("timing.batch_256.quant", "time of 256 rows", "", Lower, standardMetric,
			"The same for one run of 256 rows."),
		family("", "rows/s", RequiresTiming)("timing.batch_256.throughput", "throughput", "", Higher, standardMetric,
			"256 rows divided by that time."),
	}
}

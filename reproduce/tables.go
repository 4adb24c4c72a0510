package reproduce

import (
	"fmt"
	"math"
	"slices"
)

// Tables are those of the paper that this package reproduces.
func Tables() []Table {
	return []Table{
		mainResults(), trainingFree(), components(), steps(), ablations(), teacherNoise(), objectives(), otherBaselines(),
		robustTraining(), backbones(), norms(), groups(), worstGroup(), margins(), tightness(), shifts(), budgets(), costs(),
		robust(), gap(), training(), secondOrder(),
		pictures(), trainedPictures(),
	}
}

// Names of methods, as the paper has them.
const (
	lsqQAT   = "LSQ-QAT"
	pactQAT  = "PACT-QAT"
	mixedQAT = "MixedPrec"
	cfqQAT   = "CFQ"
	pruned   = "Prune+Quant"
	taught   = "KD+Quant"
	cfPTQ    = "CF-PTQ"
	ours     = "cfq-qat (this project)"
	oursPTQ  = "cf-ptq (this project)"
)

// Parts of command lines.
func network() []string { return []string{"--arch", "mlp:64,32"} }

// by are the flags of a method at 4 bits, and more flags.
func by(method string, more ...string) []string { return at("4", method, more...) }

// at are the flags of a method. As in the paper, activations have few bits, too: all layers compute on integers.
func at(bits, method string, more ...string) []string {
	return append([]string{"--method", method, "--budget", bits, "--compute", "integer"}, more...)
}

// faithful are flags of the paper's own method.
func faithful(more ...string) []string { return by("cfq-qat-paper", more...) }

// sd are means and standard deviations in turns.
func sd(x ...float64) (all []Number) {
	for pair := range slices.Chunk(x, 2) {
		all = append(all, Number{pair[0], pair[len(pair)-1]})
	}
	return all
}

// plain are means without standard deviations.
func plain(x ...float64) (all []Number) {
	for _, v := range x {
		all = append(all, Number{v, math.NaN()})
	}
	return all
}

// Columns that tables share. The paper's VD is of actions of its solver; that of the first valid gradient step is the
// nearest to it, and VD at the required margin is what a deployment has.
func accuracy() Column { return Column{"accuracy", "accuracy_quant", "%.3f", true} }

func broken() []Column {
	return []Column{{"VD, first step", "pgd_first.vd", "%.3f", true}, {"VD", "vd", "%.3f", false}, {
		"RVD", "rvd",
		"%.3f", false,
	}}
}

func dearer() Column { return Column{"CRG", "crg.mean", "%+.3f", true} }

func similar() Column { return Column{"DirSim", "dir_sim", "%.3f", true} }

// results are the columns of most tables: accuracy, VD, CRG and, where the paper has it, DirSim.
func results(dirSim bool) []Column {
	s := similar()
	s.Paper = dirSim
	return append(append([]Column{accuracy()}, broken()...), dearer(), s)
}

// fewer is the claim that one method breaks fewer promises than another, at the required margin.
func fewer(lower, upper string) Claim {
	return Claim{fmt.Sprintf("%s breaks fewer promises than %s", lower, upper), "vd", lower, upper}
}

func mainResults() Table {
	t := Table{
		Name: "main", Labels: "tables main_results and app_main_results_all",
		Title:   "Main results: quantization-aware training at 4 bits",
		Columns: append([]Column{{"full precision", "accuracy_full", "%.3f", true}}, results(false)...),
		Claims:  []Claim{fewer(cfqQAT, mixedQAT), fewer(mixedQAT, pactQAT), fewer(pactQAT, lsqQAT)},
	}
	full := map[string][]Number{
		"adult": sd(.858, .002), "german": sd(.772, .004), "compas": sd(.688, .006), "bank": sd(.905, .002),
		"default": sd(.821, .003),
	}
	paper := map[string][][]Number{
		"adult": {
			sd(.856, .002, .163, .011, .218, .032), sd(.857, .003, .149, .012, .201, .030),
			sd(.857, .002, .121, .010, .162, .026), sd(.857, .002, .061, .008, .071, .019),
		},
		"german": {
			sd(.770, .004, .141, .014, .191, .028), sd(.771, .004, .128, .013, .173, .026),
			sd(.771, .003, .110, .011, .151, .024), sd(.771, .004, .052, .009, .064, .016),
		},
		"compas": {
			sd(.685, .006, .176, .018, .233, .031), sd(.686, .005, .160, .017, .216, .030),
			sd(.686, .006, .136, .015, .178, .028), sd(.687, .006, .074, .010, .083, .021),
		},
		"bank": {
			sd(.904, .002, .182, .016, .241, .034), sd(.904, .002, .166, .015, .222, .031),
			sd(.904, .002, .138, .013, .182, .027), sd(.904, .002, .071, .010, .082, .020),
		},
		"default": {
			sd(.820, .003, .167, .015, .221, .030), sd(.820, .003, .153, .014, .206, .028),
			sd(.820, .003, .126, .012, .171, .026), sd(.820, .003, .064, .010, .079, .020),
		},
	}
	for _, d := range ofTables() {
		of := func(name string, paper []Number, quantize []string) {
			if paper != nil {
				paper = slices.Concat(full[d.Name], paper)
			}
			t.Rows = append(t.Rows, row(d.Name, name, paper, quantize))
		}
		p := paper[d.Name]
		of(lsqQAT, p[0], by("lsq"))
		of(pactQAT, p[1], by("pact"))
		of(mixedQAT, p[2], by("mixed-qat"))
		of(cfqQAT, p[3], faithful())
		of(ours, nil, by("cfq-qat"))
		of(oursPTQ, nil, by("cf-ptq"))
	}
	return t
}

// Names of training-free methods.
const (
	intEight  = "PTQ INT8"
	intFour   = "PTQ INT4"
	mixedPTQ  = "Mixed-precision PTQ"
	calibrate = "CF-PTQ calibration"
	sensitive = "CF-PTQ + sensitivity allocation"
)

func trainingFree() Table {
	t := Table{
		Name: "training-free", Labels: "tables cf_ptq_results_adult and cf_ptq_all_datasets",
		Title:   "Quantization without training",
		Columns: results(true),
		Claims:  []Claim{fewer(calibrate, mixedPTQ), fewer(sensitive, calibrate), fewer(mixedPTQ, intFour)},
	}
	of := func(data, name string, paper []Number, quantize []string) {
		t.Rows = append(t.Rows, row(data, name, paper, quantize))
	}
	of("adult", intEight, sd(.856, .002, .071, .007, .083, .014, .842, .018), at("8", "ptq"))
	of("adult", intFour, sd(.850, .003, .176, .014, .246, .031, .691, .026), by("ptq"))
	of("adult", intFour+", a scale for each channel", nil, by("ptq", "--scales", "per-channel"))
	of("adult", sensitive+", a scale for each channel", nil, by("cf-ptq-paper", "--scales", "per-channel"))
	paper := map[string][][]Number{
		"adult": {
			sd(.854, .002, .121, .011, .162, .024, .754, .022), sd(.854, .002, .089, .010, .118, .020, .803, .020),
			sd(.855, .002, .074, .009, .101, .018, .826, .019),
		},
		"german": {
			sd(.767, .005, .154, .018, .211, .032, .711, .030), sd(.768, .005, .119, .016, .164, .027, .759, .028),
			sd(.769, .004, .101, .014, .142, .024, .781, .026),
		},
		"compas": {
			sd(.685, .006, .138, .015, .184, .030, .729, .027), sd(.686, .006, .105, .013, .147, .025, .771, .025),
			sd(.686, .006, .092, .012, .129, .023, .792, .024),
		},
	}
	for _, d := range DataSets()[:3] {
		p := paper[d.Name]
		of(d.Name, mixedPTQ, p[0], by("mixed-ptq"))
		of(d.Name, calibrate, p[1], by("cf-ptq-calib"))
		of(d.Name, sensitive, p[2], by("cf-ptq-paper"))
		of(d.Name, oursPTQ, nil, by("cf-ptq"))
	}
	return t
}

// row is that of a method on the usual network.
func row(data, name string, paper []Number, quantize []string) Row {
	return Row{Name: name, Paper: paper, Variant: Variant{Data: data, Train: network(), Quantize: quantize}}
}

// quantized is a row on Adult.
func quantized(name string, paper []Number, quantize []string) Row {
	return row("adult", name, paper, quantize)
}

func components() Table {
	const neither, points, scores, both = "on rows, factual scores", "on recourse points, factual scores",
		"on rows, counterfactual scores", "on recourse points, counterfactual scores"
	than := func(says, lower, upper string) Claim {
		return Claim{says + " breaks fewer promises", "vd", lower, upper}
	}
	return Table{
		Name: "components", Labels: "table cfptq_ablation", Title: "Training-free: calibration set and allocation, 2 x 2",
		Columns: results(true),
		Claims: []Claim{
			than("calibration on recourse points (by factual scores)", points, neither),
			than("calibration on recourse points (by counterfactual scores)", both, scores),
			than("allocation by counterfactual scores (on rows)", scores, neither),
			than("allocation by counterfactual scores (on recourse points)", both, points),
		},
		Rows: []Row{
			quantized(neither, sd(.854, .002, .121, .011, .162, .024, .754, .022), by("mixed-ptq")),
			quantized(points, sd(.854, .002, .089, .010, .118, .020, .803, .020), by("cf-ptq-calib")),
			quantized(scores, sd(.855, .002, .096, .010, .130, .021, .791, .021), by("cf-ptq-paper", "--calibrate-on",
				"factual")),
			quantized(both, sd(.855, .002, .074, .009, .101, .018, .826, .019), by("cf-ptq-paper")),
		},
	}
}

// errorColumns are the columns of steps and secondOrder.
func errorColumns() []Column {
	return []Column{
		{"accuracy", "accuracy_quant", "%.3f", false},
		{"VD", "vd", "%.3f", false},
		{"RVD", "rvd", "%.3f", false},
		{"margin error, rms", "margin_error.rms", "%.3f", false},
		{"bytes", "bytes", "%.0f", false},
	}
}

// secondOrder compares what bit widths are given by.
func secondOrder() Table {
	t := Table{
		Name: "second-order", Title: "Bit widths by scores of the first and of the second order", Columns: errorColumns(),
		Note: "Calibrated on recourse points; scales per tensor.",
	}
	for _, d := range DataSets()[:3] {
		for _, r := range [][2]string{
			{"gradients at recourse points, greedy (the paper's)", "paper"},
			{"the same, optimum", "paper-optimum"},
			{"traces of Hessians (HAWQ-V2)", "hawq"},
			{"measured errors of the margin", "exact"},
		} {
			t.Rows = append(t.Rows, row(d.Name, r[0], nil, by("cf-ptq-paper", "--allocator", r[1])))
		}
	}
	return t
}

func steps() Table {
	t := Table{Name: "steps", Title: "What cf-ptq is made of", Columns: errorColumns()}
	of := func(name string, more ...string) {
		t.Rows = append(t.Rows, quantized(name, nil, by("cf-ptq", more...)))
	}
	of("nearest rounding, one bit width a layer", "--rounding", "nearest", "--bit-widths", "per-layer", "--refine", "0")
	of("+ GPTQ rounding", "--bit-widths", "per-layer", "--refine", "0")
	of("+ bit widths of rows", "--refine", "0")
	of("+ refinement: " + oursPTQ)
	of("calibrated on factual rows alone", "--calibrate-on", "factual")
	of("rows and points weighted by inverse margin", "--calibrate-on", "weighted")
	of("AdaRound", "--rounding", "adaround")
	of("ranges by logits", "--weight-range", "logits", "--act-range", "logits")
	of("cross-layer equalization", "--cross-layer-equalization")
	return t
}

func ablations() Table {
	const none, uniform, one = "CFQ without validity (eta 0)", "CFQ, one bit width", "CFQ, K = 1"
	return Table{
		Name: "ablations", Labels: "tables ablations and teacher_k_ablation", Title: "What CFQ is made of",
		Columns: results(false),
		Claims:  []Claim{fewer(cfqQAT, none), fewer(cfqQAT, uniform), fewer(cfqQAT, one)},
		Note:    "CFQ is the paper's, with K = 3.",
		Rows: []Row{
			quantized(cfqQAT, sd(.857, .002, .061, .008, .071, .019), faithful()),
			quantized(none, sd(.857, .002, .120, .010, .162, .026), faithful("--eta", "0")),
			quantized(uniform, sd(.857, .002, .089, .009, .104, .021), faithful("--allocator", "uniform")),
			quantized(one, sd(.857, .002, .079, .009, .094, .020), faithful("--teacher-steps", "1")),
		},
	}
}

func teacherNoise() Table {
	t := Table{
		Name: "teacher", Labels: "table noisy_teacher_ablation", Title: "Teacher actions with noise, and of fewer people",
		Columns: results(true),
		Claims:  []Claim{fewer(cfqQAT, "CFQ, noise 0.1")},
		Rows:    []Row{quantized(cfqQAT, sd(.857, .002, .061, .008, .071, .019, .858, .017), faithful())},
	}
	paper := [][]Number{
		sd(.857, .002, .066, .008, .078, .020, .846, .018), sd(.856, .002, .075, .009, .090, .022, .824, .020),
		sd(.855, .003, .091, .011, .113, .025, .791, .024),
	}
	for i, sigma := range []string{"0.01", "0.05", "0.1"} {
		t.Rows = append(t.Rows, quantized("CFQ, noise "+sigma, paper[i], faithful("--teacher-noise", sigma)))
	}
	for _, sample := range []string{"100", "1000"} {
		t.Rows = append(t.Rows, quantized("CFQ, "+sample+" teacher actions", nil, faithful("--teacher-sample", sample)))
	}
	return t
}

func objectives() Table {
	const hinge, steps, matching = "CFQ, hinge", "CFQ, teacher steps of one length", "CFQ, matching"
	return Table{
		Name: "objectives", Labels: "table main_results", Title: "Other objectives of training",
		Columns: results(false),
		Claims:  []Claim{fewer(hinge, cfqQAT), fewer(matching, steps)},
		Note: "The paper has no numbers of hinge and matching (sections Recourse matching and Margin stabilization). " +
			"Matching compares steps of the teacher, which have the paper's one length (`--teacher paper`); those of the " +
			"other rows are as long as the margin needs. The paper does not say how much the matching loss weighs: " +
			"alpha1 = alpha2 = 0.01. With 1 training diverges, also at a tenth of the learning rate.",
		Rows: []Row{
			quantized(cfqQAT, sd(.857, .002, .061, .008, .071, .019), faithful()),
			quantized(hinge, nil, faithful("--objective", "hinge")),
			quantized(steps, nil, faithful("--teacher", "paper")),
			quantized(matching, nil, faithful("--objective", "match", "--alpha1", "0.01", "--alpha2", "0.01")),
			quantized(ours, nil, by("cfq-qat")),
		},
	}
}

func otherBaselines() Table {
	return Table{
		Name: "baselines", Labels: "table main_results", Title: "Pruning and distillation before few bits",
		Columns: results(false),
		Claims:  []Claim{fewer(cfqQAT, pruned), fewer(cfqQAT, taught)},
		Note: "The paper has these baselines on images alone (table non_tabular_baselines). It prunes structures, of " +
			"which it says no more; `prune-qat` makes half of the single weights zero.",
		Rows: []Row{
			quantized(pruned, nil, by("prune-qat")),
			quantized(taught, nil, by("kd-qat")),
			quantized(cfqQAT, sd(.857, .002, .061, .008, .071, .019), faithful()),
		},
	}
}

package reproduce

import (
	"slices"
	"strings"
)

func robustTraining() Table {
	const margin, consistency = "R-Margin, then MixedPrec", "R-Consistency, then MixedPrec"
	t := Table{
		Name: "robust-training", Labels: "table app_train_then_quant",
		Title:   "Training for robust recourse, then quantization",
		Columns: results(false),
		Claims: []Claim{fewer(margin, mixedQAT), fewer(consistency, mixedQAT), fewer(cfqQAT, margin), fewer(cfqQAT,
			consistency)},
	}
	paper := map[string][][]Number{
		"adult": {
			sd(.857, .002, .121, .010, .162, .026), sd(.857, .002, .102, .010, .136, .023),
			sd(.857, .002, .097, .009, .131, .022), sd(.857, .002, .061, .008, .071, .019),
		},
		"german": {
			sd(.771, .003, .110, .011, .151, .024), sd(.771, .003, .094, .010, .128, .022),
			sd(.771, .003, .090, .010, .124, .021), sd(.771, .004, .052, .009, .064, .016),
		},
		"compas": {
			sd(.686, .006, .136, .015, .178, .028), sd(.686, .006, .117, .014, .154, .026),
			sd(.686, .006, .112, .013, .149, .025), sd(.687, .006, .074, .010, .083, .021),
		},
	}
	for _, d := range DataSets()[:3] {
		p := paper[d.Name]
		rows := []Row{
			row(d.Name, mixedQAT, p[0], by("mixed-qat")), row(d.Name, margin, p[1], by("mixed-qat")),
			row(d.Name, consistency, p[2], by("mixed-qat")), row(d.Name, cfqQAT, p[3], faithful()),
		}
		rows[1].Variant.Train = append(network(), "--objective", "r-margin")
		rows[2].Variant.Train = append(network(), "--objective", "r-consistency")
		t.Rows = append(t.Rows, rows...)
	}
	return t
}

func backbones() Table {
	t := Table{
		Name: "backbones", Labels: "table app_backbone_results", Title: "Other networks",
		Columns: results(true), Claims: []Claim{},
	}
	type pair struct{ mixed, cfq []Number }
	archs := []struct{ name, flag string }{{"LogReg", "logreg"}, {"2-layer MLP", "mlp:64,32"}, {
		"4-layer MLP",
		"mlp:64,64,32,32",
	}}
	paper := map[string][]pair{
		"adult": {
			{sd(.852, .002, .098, .009, .131, .020, .71, .03), sd(.852, .002, .052, .007, .064, .015, .82, .02)},
			{sd(.857, .002, .121, .010, .162, .026, .69, .03), sd(.857, .002, .061, .008, .071, .019, .80, .02)},
			{sd(.860, .002, .116, .010, .155, .024, .70, .03), sd(.861, .002, .058, .008, .068, .018, .81, .02)},
		},
		"german": {
			{sd(.770, .004, .104, .011, .142, .022, .67, .03), sd(.770, .004, .050, .009, .061, .016, .78, .02)},
			{sd(.771, .003, .110, .011, .151, .024, .66, .03), sd(.771, .004, .052, .009, .064, .016, .77, .02)},
		},
	}
	for _, d := range DataSets()[:2] {
		for i, a := range archs {
			var p pair
			if i < len(paper[d.Name]) {
				p = paper[d.Name][i]
			}
			mixed := row(d.Name, mixedQAT+", "+a.name, p.mixed, by("mixed-qat"))
			cfq := row(d.Name, cfqQAT+", "+a.name, p.cfq, faithful())
			mixed.Variant.Train, cfq.Variant.Train = []string{"--arch", a.flag}, []string{"--arch", a.flag}
			t.Rows = append(t.Rows, mixed, cfq)
		}
	}
	for _, a := range archs {
		t.Claims = append(t.Claims, fewer(cfqQAT+", "+a.name, mixedQAT+", "+a.name))
	}
	return t
}

func norms() Table {
	t := Table{
		Name: "norms", Labels: "table app_norm_results", Title: "Other costs of an action",
		Columns: append(broken(), dearer(), similar()),
	}
	for _, n := range []struct {
		norm, name string
		mixed, cfq []Number
	}{
		{"", "l1", sd(.121, .010, .162, .026, .69, .03), sd(.061, .008, .071, .019, .80, .02)},
		{"l2", "l2", sd(.103, .009, .141, .022, .72, .03), sd(.055, .007, .066, .017, .83, .02)},
		{"mixed", "l1 and l2", sd(.112, .010, .151, .023, .71, .03), sd(.058, .008, .069, .018, .82, .02)},
	} {
		mixed, cfq := mixedQAT+", "+n.name, cfqQAT+", "+n.name
		rows := []Row{quantized(mixed, n.mixed, by("mixed-qat")), quantized(cfq, n.cfq, faithful())}
		for i := range rows {
			rows[i].Variant.Form = n.norm
		}
		t.Rows, t.Claims = append(t.Rows, rows...), append(t.Claims, fewer(cfq, mixed))
	}
	return t
}

// parts are rows of two methods in parts of an evaluation.
func parts(data string, evaluate []string, names []string, paper [][2][]Number) (rows []Row) {
	for i, name := range names {
		mixed, cfq := row(data, mixedQAT, paper[i][0], by("mixed-qat")), row(data, cfqQAT, paper[i][1], faithful())
		for _, r := range []Row{mixed, cfq} {
			r.Part, r.Variant.Eval = name, evaluate
			rows = append(rows, r)
		}
	}
	return rows
}

func groups() Table {
	return Table{
		Name: "groups", Labels: "table app_group_slices", Title: "Groups of people",
		Columns: append(broken(), dearer(), accuracy()), Claims: []Claim{fewer(cfqQAT, mixedQAT)},
		Note: "The paper's table subgroup_vd_crg does not say which groups it means. Differences between groups, with " +
			"tests, are in the reports beside the quantized models.",
		Rows: append(
			parts("adult", nil, []string{"sex Female", "sex Male"}, [][2][]Number{
				{sd(.132, .012, .175, .028, .856, .002), sd(.067, .010, .080, .021, .856, .002)},
				{sd(.118, .010, .158, .026, .858, .002), sd(.058, .008, .069, .018, .858, .002)},
			}),
			parts("compas", nil, []string{"race African-American", "race Caucasian"}, [][2][]Number{
				{sd(.151, .016, .195, .030, .685, .006), sd(.083, .012, .097, .024, .686, .006)},
				{sd(.124, .014, .168, .028, .687, .006), sd(.069, .010, .079, .021, .687, .006)},
			})...),
	}
}

func worstGroup() Table {
	return Table{
		Name: "worst-group", Labels: "table app_disparity_summary", Title: "The worst group, and how far groups are apart",
		Columns: []Column{
			{"worst VD", Worst + "vd", "%.3f", true},
			{"spread of VD", Spread + "vd", "%.3f", true},
			{"spread of CRG", Spread + "crg.mean", "%.3f", true},
		},
		Claims: []Claim{
			{"CFQ has a lower VD in the worst group than MixedPrec", Worst + "vd", cfqQAT, mixedQAT},
			{"and groups are closer together", Spread + "vd", cfqQAT, mixedQAT},
		},
		Rows: append(
			parts("adult", nil, []string{"sex"}, [][2][]Number{{plain(.132, .014, .017), plain(.067, .009, .011)}}),
			parts("compas", nil, []string{"race"}, [][2][]Number{{plain(.151, .027, .027), plain(.083, .014, .018)}})...),
	}
}

func margins() Table {
	t := Table{
		Name: "margins", Labels: "table margin_diagnostics", Title: "Margins at recourse points, and which are safe",
		Columns: []Column{
			{"safe", "perturbation.ball.safe", "%.2f", true},
			{"broken inside", "perturbation.ball.broken_inside", "%.2f", true},
			{"broken outside", "perturbation.ball.broken_outside", "%.2f", true},
			{"VD", "vd", "%.3f", true},
		},
		Claims: []Claim{{"CFQ has more safe recourse points than MixedPrec", "perturbation.ball.safe", mixedQAT, cfqQAT}},
		Note: "Safe: the original's margin is more than twice the largest margin error within 0.05, in units of the " +
			"model's inputs. Actions are the cheapest with a margin of 0.1, so that an error of 0.05 logits makes them " +
			"unsafe; the paper's points are farther inside. Where there is no number, nothing is inside.",
	}
	paper := map[string][2][]Number{
		"adult":  {plain(.71, 0, .42, .121), plain(.86, 0, .36, .061)},
		"german": {plain(.74, 0, .43, .110), plain(.88, 0, .40, .052)},
		"compas": {plain(.68, 0, .43, .136), plain(.81, 0, .39, .074)},
	}
	for _, d := range DataSets()[:3] {
		t.Rows = append(t.Rows, parts(d.Name, []string{"--certify", "0.05"}, []string{""}, [][2][]Number{paper[d.Name]})...)
	}
	return t
}

// conditions are flags of eval.
func conditions(names []string) (flags []string) {
	for _, name := range names {
		flags = append(flags, "--stress", name)
	}
	return flags
}

func tightness() Table {
	names := []string{"sparsity:2,bounds:0.12", "sparsity:4,bounds:0.13", "sparsity:8,bounds:0.15"}
	return Table{
		Name: "tightness", Labels: "table constraint_tightness", Title: "Tighter and looser constraints",
		Columns: append([]Column{{"FRR", "frr", "%.2f", true}}, append(broken(), dearer())...),
		Claims:  []Claim{fewer(cfqQAT, mixedQAT)},
		Note: "The paper's bounds (0.5, 1 and 1.5 times the ranges) do not bind here, where a capital gain may be any " +
			"of the data. These are as tight as its FRR.",
		Rows: parts("adult", conditions(names), names, [][2][]Number{
			{plain(.72, .24, .33), plain(.72, .13, .17)},
			{plain(.90, .12, .16), plain(.90, .06, .07)},
			{plain(.97, .08, .11), plain(.97, .04, .06)},
		}),
	}
}

func shifts() Table {
	names := []string{"mix:sex=Female:0.65", "noise:0.25", "outcome:0.86"}
	weighted := "sex Female" + Weighted + "0.65"
	return Table{
		Name: "shifts", Labels: "table distribution_shift", Title: "Other people than those calibrated on",
		Columns: results(true), Claims: []Claim{fewer(cfqQAT, mixedQAT)},
		Note: "The paper does not say how strong its shifts are. Its groups have weights; beside it they are drawn (mix). " +
			"Outcomes are drawn.",
		Rows: parts("adult", conditions(names), slices.Insert(names, 0, "", weighted), [][2][]Number{
			{sd(.856, .002, .120, .010, .160, .022, .756, .021), sd(.857, .002, .061, .008, .071, .019, .858, .017)},
			{sd(.851, .003, .165, .015, .218, .030, .704, .029), sd(.852, .003, .096, .012, .126, .024, .812, .023)},
			{},
			{sd(.847, .003, .151, .013, .203, .027, .718, .026), sd(.849, .003, .087, .010, .112, .022, .824, .021)},
			{sd(.849, .004, .172, .016, .232, .033, .692, .031), sd(.850, .004, .104, .013, .137, .026, .801, .025)},
		}),
	}
}

func budgets() Table {
	t := Table{
		Name: "budgets", Labels: "figure VD over the budget", Title: "Budgets",
		Columns: append([]Column{{"bytes", "bytes", "%.0f", false}}, results(false)...),
		Note:    "The paper draws these curves and gives no numbers.",
	}
	for i := range t.Columns {
		t.Columns[i].Paper = false
	}
	for _, bits := range []string{"2", "3", "4", "6", "8"} {
		for _, m := range []struct{ name, method string }{
			{mixedQAT, "mixed-qat"}, {cfqQAT, "cfq-qat-paper"}, {oursPTQ, "cf-ptq"}, {ours, "cfq-qat"},
		} {
			name := strings.Join([]string{m.name, bits}, ", ")
			t.Rows = append(t.Rows, quantized(name, nil, at(bits, m.method)))
		}
		t.Claims = append(t.Claims, fewer(cfqQAT+", "+bits, mixedQAT+", "+bits))
	}
	return t
}

// training is of this project's two methods at low budgets, in float, where networks have the fewest bytes.
func training() Table {
	t := Table{
		Name: "training", Title: "With and without training",
		Columns: []Column{
			{"bytes", "bytes", "%.0f", false},
			{"accuracy", "accuracy_quant", "%.3f", false},
			{"VD", "vd", "%.3f", false},
			{"RVD", "rvd", "%.3f", false},
			{"CRG", "crg.mean", "%+.3f", false},
			{"DirSim", "dir_sim", "%.3f", false},
			{"processor seconds", Seconds, "%.1f", false},
		},
	}
	budgets := map[string][]string{"adult": {"4", "3", "2.5", "2"}, "bank": {"4", "3"}, "default": {"4", "3"}}
	for _, d := range ofTables() {
		bits, ok := budgets[d.Name]
		if !ok {
			bits = []string{"2.5", "2"} // with more, few promises break
		}
		for _, b := range bits {
			t.Rows = append(t.Rows, row(d.Name, oursPTQ+", "+b, nil, coded(b, "cf-ptq")),
				row(d.Name, ours+", "+b, nil, coded(b, "cfq-qat")))
		}
	}
	return t
}

func costs() Table {
	const one, two = "CFQ, K = 1", "CFQ, K = 2"
	return Table{
		Name: "costs", Labels: "tables app_runtime, cfptq_compute and cfq_overhead", Title: "What quantizing costs",
		Columns: []Column{{"processor seconds", Seconds, "%.1f", false}, {"VD", "vd", "%.3f", false}},
		Claims: []Claim{
			{"K = 3 takes longer than K = 1", Seconds, one, cfqQAT},
			{"CFQ takes longer than QAT", Seconds, mixedQAT, cfqQAT},
			{"calibration on recourse points takes longer", Seconds, mixedPTQ, calibrate},
		},
		Note: "The paper's times relative to PTQ: mixed precision 1.08, calibration 1.17, with sensitivity allocation " +
			"1.29; relative to QAT: K = 1 1.15, K = 2 1.28, K = 3 1.42.",
		Rows: []Row{
			quantized(intFour, nil, by("ptq")), quantized(mixedPTQ, nil, by("mixed-ptq")), quantized(calibrate, nil,
				by("cf-ptq-calib")),
			quantized(sensitive, nil, by("cf-ptq-paper")), quantized(oursPTQ, nil, by("cf-ptq")),
			quantized(mixedQAT, nil, by("mixed-qat")), quantized(one, nil, faithful("--teacher-steps", "1")),
			quantized(two, nil, faithful("--teacher-steps", "2")), quantized(cfqQAT, nil, faithful()), quantized(ours, nil,
				by("cfq-qat")),
		},
	}
}

func robust() Table {
	const standard, all, faithfulOne = "on the quantized model", "on it and 8 deployments", "on cf-ptq's model"
	t := Table{
		Name: "robust", Labels: "table app_solver_robust", Title: "Recourse that holds in other deployments, too",
		Columns: []Column{
			{"nominal success", SuccessHere, "%.3f", true},
			{"in deployments held out", SuccessAway, "%.3f", true},
			{"cost, to the original's", CostRatio, "%.2f", false},
			{"seconds", Time, "%.1f", false},
		},
		Claims: []Claim{
			{"the robust solver holds in more deployments than the standard one", SuccessAway, standard, all},
			{"so does the standard solver on a more faithful model", SuccessAway, standard, faithfulOne},
		},
		Note: "A deployment is a file of its own: calibrated on rows drawn with replacement, with scales off by up to 2 % " +
			"and weights rounded stochastically. Success is a share of the people that the original refuses, of at most 500. " +
			"The paper's costs are to those of the standard solver on the quantized model: 1.00, 1.18 and 1.03. Its third " +
			"row is of a model of CFQ; deployments are made without training. The paper's rows of German are not measured: " +
			"its one file has no rows apart for calibration. Layers compute as `--compute auto` has it.",
	}
	of := func(name, solver string, paper []Number, recourse ...string) {
		t.Rows = append(t.Rows, Row{Name: name, Solver: solver, Paper: paper, Variant: Variant{
			Data: "adult", Train: network(), Recourse: append([]string{"--robust", "8", "--budget", "4"}, recourse...),
		}})
	}
	of(standard, "quantized", sd(.925, .010, .781, .018), "--method", "ptq")
	of(all, "all seen", sd(.914, .011, .862, .016), "--method", "ptq")
	of(faithfulOne, "quantized", sd(.952, .008, .879, .015), "--method", "cf-ptq")
	of("on the original", "original", nil, "--method", "ptq")
	of("on the original, margin 0.25", "original", nil, "--method", "ptq", "--margin", "0.25")
	of("on the original, margin 0.25, of cf-ptq's model", "original", nil, "--method", "cf-ptq", "--margin", "0.25")
	return t
}

func gap() Table {
	t := Table{
		Name: "gap", Labels: "section Exact solvers for linear models", Title: "The search against the cheapest actions",
		Columns: []Column{
			{"people", People, "%.0f", false},
			{"proved", Proved, "%.3f", false},
			{"mean gap", GapMean, "%.5f", false},
			{"largest gap", GapLargest, "%.4f", false},
			{"missed by the search", GapMissed, "%.1f", false},
			{"processor seconds", Seconds, "%.1f", false},
		},
		Note: "People fall short of the margin. For a share of them an action is proved to be the cheapest, or none to " +
			"exist; gap: cost of the search's action over the least cost, less one. Networks of 16 and 8 units are solved as " +
			"mixed-integer programs by CBC, 10 seconds a person; the share that is proved depends on the machine. Bank " +
			"is left out: its numbers have no bounds, and little is proved. The paper has no numbers.",
	}
	of := func(data, model, norm string, rows int, recourse ...string) {
		arch := map[string]string{"logistic": "logreg", "64-32": "mlp:64,32", "16-8": "mlp:16,8"}[model]
		t.Rows = append(t.Rows, Row{Name: model + ", " + norm, Variant: Variant{
			Data: data, Form: norm, Train: []string{"--arch", arch}, Recourse: append([]string{"--exact"}, recourse...),
			Rows: rows,
		}})
	}
	for _, d := range DataSets()[:3] {
		of(d.Name, "logistic", "l1", 0)
		of(d.Name, "logistic", "l2", 0)
	}
	of("compas", "64-32", "l1", 0) // all features that people can change are discrete
	for _, d := range []struct {
		name string
		rows int // with some 30 people who are refused
	}{{"adult", 40}, {"german", 200}, {"compas", 60}, {"default", 200}} {
		of(d.name, "16-8", "l1", d.rows, "--solver", "cbc", "--time-limit", "10s")
	}
	return t
}

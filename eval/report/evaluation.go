package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/chart"
	"cfq/internal/message"
)

func pageOf(d *Document, how detail) *reportPage {
	r := d.Result
	p := &reportPage{title: d.Title}
	add := func(bs ...pageBlock) {
		for _, b := range bs {
			b.table.prune()
			empty := b.table.head != nil && len(b.table.rows) == 0 // then nothing needs an explanation
			if len(b.lines)+len(b.table.rows)+len(b.figures)+len(b.people) > 0 || len(b.after) > 0 && !empty {
				p.blocks = append(p.blocks, b)
			}
		}
	}
	if d.Gate != nil {
		p.verdict = d.Gate.Verdict
		add(verdict(d), findings(d.Gate, how))
	}
	head := headline(d)
	if d.Gate != nil {
		head.title = "The promises"
	}
	add(head)
	if ws := slices.Concat(d.Warnings, r.Warnings); len(ws) > 0 {
		add(pageBlock{title: "Warnings", lines: ws, bullet: true})
	}
	add(environment(d.Environment))
	add(others(r))
	p.answer = len(p.blocks)
	if r.Population.Evaluated > 0 {
		add(promises(r), costs(r, how), asked(d), pictures(d, how), shape(r, how), marginErrors(r, how), spreads(r, how))
	}
	add(groups(r, how)...)
	add(scenarios(r), certificates(r), perturbations(r, how), broken(d, how))
	add(decisions(r), scores(r), footprint(r), timing(r), layers(d, how))
	add(people(r), excluded(d), models(d), runBlock(&d.Run), recipe(d.Recipe), settings(r, how))
	return p.legible()
}

// minForTau is how many promises tau01 must rest on to be in the headline: of fewer, 1 % is none.
const minForTau = 100

func headline(d *Document) pageBlock {
	r := d.Result
	i := r.Headline()
	if r.Population.Evaluated == 0 || i < 0 {
		return pageBlock{lines: []string{"No people were evaluated."}}
	}
	a, mirrored, level := r.Margins[i], r.Margins[i], confidence(r)
	what := "A promise is the cheapest feasible change with which the original approves a person that it refuses, with " +
		"a logit margin " +
		"of %s. The promise breaks when the quantized model still refuses the changed person."
	none := "No recourse was found for any of %d people at margin %s: there are no promises."
	if r.Issued != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		a = r.Margins[0]
		what = "A promise is a change in " + cmp.Or(d.Promises.Name, "the promises file") +
			" with which the original approves a person that it " +
			"refuses, with a logit margin of %s or more. It breaks when the quantized model still refuses the changed person."
		if !r.Settings.OneSided {
			what += " The promises of the quantized model are computed."
		}
		none = "No promise issued to the %d people evaluated reaches margin %s."
	}
	vd := a.Rate("vd")
	if vd.Den == 0 {
		b := pageBlock{lines: []string{fmt.Sprintf(none, r.Population.Evaluated, margin(a.Margin))}}
		if r.Issued != nil {
			b.lines = append(b.lines, issued(r.Issued))
		}
		return b
	}
	rate := func(id string, at eval.AtMargin) string {
		x := at.Rate(id)
		return fmt.Sprintf("%s %s, %s interval %s", symbolAt(id, at.Margin), percent(x.Value, 1), level, interval(x, 1))
	}
	lines := []string{fmt.Sprintf("Of %d %s %d %s (%s).", vd.Den, message.Plural(vd.Den, "promise", "promises"),
		vd.Num, message.Plural(vd.Num, "breaks", "break"), rate("vd", a))}
	if x := mirrored.Rate("rvd"); x.Den > 0 {
		lines = append(lines, fmt.Sprintf("Of %d %s of the quantized model, the original breaks %d (%s).",
			x.Den, message.Plural(x.Den, "promise", "promises"), x.Num, rate("rvd", mirrored)))
	}
	if line := boundary(r, i); line != "" {
		lines = append(lines, line)
	}
	for k := range r.Groups {
		for _, g := range significant(&r.Groups[k], r) {
			if g.Metric == "vd" || g.Metric == "rvd" {
				lines = append(lines, differs(r.Groups[k].By, g, r))
			}
		}
	}
	if t := r.Tau01; t.Value.Defined() && t.N >= minForTau {
		how := eval.MustMetric("tau01").Symbol
		switch {
		case t.Extrapolated:
			how += ", extrapolated"
		case t.AtMost:
			how += " " + tauValue(t, 2) + ": no smaller margin was measured"
		}
		what := "With a required margin of %s, at most 1 %% of the promises break (%s)."
		if r.Issued != nil { // nothing is known of other recourse
			what = "Of the promises that reach a margin of %s, at most 1 %% break (%s)."
		}
		lines = append(lines, fmt.Sprintf(what, fixed(t.Value, 2), how))
	}
	if n := r.Issued; n != nil {
		lines = append(lines, issued(n))
	}
	return pageBlock{lines: lines, after: []string{fmt.Sprintf(what, margin(a.Margin))}}
}

func issued(n *eval.Issued) string {
	found := tallies(tally{n.Unjudgeable.Num, "cannot be judged", "cannot be judged"},
		tally{n.Invalid.Num, "is refused by the original", "are refused by the original"},
		tally{n.Infeasible.Num, "is forbidden by the task", "are forbidden by the task"})
	return fmt.Sprintf("Of %s issued, %s.", message.Count(n.Unjudgeable.Den, "promise"),
		cmp.Or(found, "none is unjudgeable, invalid or infeasible"))
}

func boundary(r *eval.Result, i int) string {
	zero := marginAt(r, 0)
	if zero < 0 || i == 0 || r.Issued != nil {
		return ""
	}
	vd := r.Margins[zero].Rate("vd")
	if vd.Den == 0 {
		return ""
	}
	return fmt.Sprintf("Of %d promises without a margin %d break (%s %s): they end on the decision boundary, where the "+
		"slightest difference decides.", vd.Den, vd.Num, symbolAt("vd", 0), percent(vd.Value, 1))
}

func confidence(r *eval.Result) string {
	return strconv.FormatFloat(100*r.Settings.Confidence, 'g', 6, 64) + " %"
}

func environment(variables map[string]string) pageBlock {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		lines = append(lines, name+"="+variables[name])
	}
	return pageBlock{title: "Set by the environment", lines: lines, bullet: true}
}

func recipe(steps map[string]string) pageBlock {
	b := pageBlock{title: "How the quantized model was made", table: textTable{left: 2}, fold: true}
	for _, k := range slices.Sorted(maps.Keys(steps)) {
		b.table.row(k, steps[k])
	}
	return b
}

func legend(keys ...string) []string {
	lines := make([]string, len(keys))
	for i, k := range keys {
		m := eval.MustMetric(k)
		lines[i] = m.Symbol + ": " + m.Name
		if m.Unit == "logits" {
			lines[i] += " (" + m.Unit + ")"
		}
	}
	return lines
}

func symbol(key string) string { return eval.MustMetric(key).Symbol }

func promises(r *eval.Result) pageBlock {
	b := pageBlock{
		title: "Promises by required margin t", after: legend("vd", "rvd", "frr"), figures: curve(r),
	}
	if r.Settings.OneSided {
		b.after = legend("vd", "frr")
	}
	b.table = byMargin(r, "", slices.Concat(brokenColumns("vd", symbol("vd")), brokenColumns("rvd", symbol("rvd")),
		[]metricColumn{{symbol("frr"), "frr", asPercent}, {"helped", "frr", asFraction}}))
	b.after = append(b.after, "interval: "+confidence(r)+" confidence interval (Wilson)", tau("tau01", r.Tau01))
	if r.Settings.OneSided {
		b.after = append(b.after, "RVD: not computed")
		return b
	}
	first := r.Rate("pgd_first.vd")
	b.after = append(b.after, tau("rtau01", r.RTau01),
		fmt.Sprintf("%s: %s, %s (%s); it found a recourse for %s", symbol("pgd_first.vd"), percent(first.Value, 1),
			counts(first), interval(first, 1), counts(r.Rate("pgd_first.frr"))))
	return b
}

func tauValue(t eval.Tau, decimals int) string {
	if t.AtMost {
		return "<= " + fixed(t.Value, decimals)
	}
	return fixed(t.Value, decimals)
}

func tau(key string, t eval.Tau) string {
	m := eval.MustMetric(key)
	s := fmt.Sprintf("%s %s: %s", m.Symbol, tauValue(t, 3), m.Name)
	if t.Extrapolated {
		s += " (extrapolated)"
	}
	return s
}

func costs(r *eval.Result, how detail) pageBlock {
	changes, shares := how.estimate(change), how.estimate(percent)
	columns := []metricColumn{
		{symbol("crg.mean"), "crg.mean", func(v eval.Value) string { return change(v.Value, 1) }},
		{"interval", "crg.mean", func(v eval.Value) string { return relative(v.Estimate) }},
		{"sums", "crg.ratio_of_sums", changes},
		{"median", "crg.median", changes},
		{"p95", "crg.p95", changes},
		{symbol("crg.abs_mean"), "crg.abs_mean", shares},
		{"noise", "crg_noise.abs_mean", shares},
		{"people", "crg.n", asCount},
		{"cost 0", "crg.free", asCount},
		{"lost", "lost_recourse", asFraction},
	}
	lost := known(r, "lost_recourse")
	if !known(r, "crg.n") && !lost {
		return pageBlock{}
	}
	b := pageBlock{title: "Cost of the recourse", table: byMargin(r, "", columns)}
	b.after = legend("crg.mean", "crg.ratio_of_sums", "crg.median", "crg.p95", "crg.abs_mean")
	if known(r, "crg_noise.abs_mean") {
		b.after = append(b.after, legend("crg_noise.abs_mean")...)
	}
	b.after = append(b.after, "positive: recourse costs more under the quantized model; cost 0: people that it "+
		"approves with the margin as they are")
	if lost {
		b.after = append(b.after, "lost: "+eval.MustMetric("lost_recourse").Name+", of people refused by both with "+
			"recourse under the original")
	}
	return b
}

func asked(d *Document) pageBlock {
	r := d.Result
	b := pageBlock{title: "What recourse changes", table: textTable{left: 1}, fold: true}
	b.table.head = []string{"feature", "original: people", "median change", "quantized: people", "median change"}
	size := func(x eval.Float) string {
		if !x.Defined() {
			return missing
		}
		return strconv.FormatFloat(float64(x), 'g', 6, 64)
	}
	const most = 40 // features: pixels are many
	changes := d.Changes
	if len(changes) > most {
		changes = slices.Clone(changes)
		slices.SortStableFunc(changes, func(a, b Changed) int {
			return max(b.Full.People, b.Quantized.People) - max(a.Full.People, a.Quantized.People)
		})
		changes = changes[:most]
	}
	for _, c := range changes {
		b.table.row(c.Feature, strconv.Itoa(c.Full.People), size(c.Full.Median), strconv.Itoa(c.Quantized.People),
			size(c.Quantized.Median))
	}
	if len(d.Changes) > 0 {
		b.after = []string{"at margin " + margin(r.Margins[r.Headline()].Margin) + ", in the units of the data"}
	}
	if n := len(d.Changes); n > most {
		b.after = append(b.after, fmt.Sprintf("the %d of %d features that most people change; --json has all", most, n))
	}
	return b
}

func shape(r *eval.Result, how detail) pageBlock {
	if !known(r, "dir_sim") {
		return pageBlock{}
	}
	ids := []string{"dir_sim", "act_overlap"}
	columns := append(how.estimates(fixed, ids...), metricColumn{"people", "dir_sim", asCount})
	if known(r, "pixel_distance") {
		ids = append(ids, "pixel_distance")
		columns = append(columns, metricColumn{"pixels", "pixel_distance", how.estimate(fixed)})
	}
	return pageBlock{
		title: "Shape of the recourse", table: byMargin(r, "", columns), after: legend(ids...), fold: true,
	}
}

func marginErrors(r *eval.Result, how detail) pageBlock {
	ids := []string{"margin_error.mean", "margin_error.rms", "margin_error.p99", "margin_error.max"}
	columns := append(how.estimates(signed, ids[0]), how.estimates(fixed, ids[1:]...)...)
	return pageBlock{
		title: "Margin error e at the original's recourse points", after: legend(ids...), fold: true,
		table: byMargin(r, "", append(columns, metricColumn{"people", "margin_error.n", asCount})),
	}
}

// spreads shows where the two models' margins lie at the original's recourse points: at the margin that stands for the
// curve, or at all.
func spreads(r *eval.Result, how detail) pageBlock {
	b := pageBlock{
		title: "Margins at the original's recourse points", table: textTable{left: 2}, figures: distribution(r),
		fold: true,
	}
	b.table.head = []string{"t", "model", "smallest", "p05", "median", "p95", "largest", "people"}
	for i, a := range r.Margins {
		if how == brief && i != r.Headline() {
			continue
		}
		for _, m := range []struct{ name, id string }{{"original", "margins_full."}, {"quantized", "margins_quant."}} {
			n := a.Of(m.id + "n").N
			if n == 0 {
				continue
			}
			cells := []string{margin(a.Margin), m.name}
			for _, x := range []string{"min", "p05", "median", "p95", "max"} {
				cells = append(cells, signed(a.Of(m.id+x).Value, 3))
			}
			b.table.row(append(cells, strconv.Itoa(n))...)
		}
	}
	return b
}

func decisions(r *eval.Result) pageBlock {
	b := pageBlock{title: "Decisions", table: textTable{left: 1}}
	for _, m := range eval.Metrics() {
		v := m.In(r, 0)
		switch {
		case !strings.HasPrefix(m.Key(), "decisions.") || v.N == 0 || !v.Value.Defined():
		case v.Kind == eval.KindShare:
			x := v.Rate()
			b.table.row(m.Name, percent(x.Value, 2), counts(x), interval(x, 2))
		case m.Better == eval.Higher: // no difference
			b.table.row(m.Name, percent(v.Value, 2), missing, interval(eval.Rate{Lo: v.Lo, Hi: v.Hi, Den: v.N}, 2))
		default:
			points := func(x eval.Float) string { return signed(100*x, 1) }
			b.table.row(m.Name, difference("share", v.Value), missing, between(v.Estimate, points)+" pp")
		}
	}
	return b
}

func scores(r *eval.Result) pageBlock {
	b := pageBlock{title: "Scores"}
	b.table = textTable{left: 1, head: []string{"", "original", "interval", "quantized", "interval"}}
	for _, m := range eval.Metrics() {
		stem, ofFull := strings.CutSuffix(m.ID, "_full")
		if !ofFull || !strings.HasPrefix(m.Key(), "scores.") {
			continue
		}
		quant := eval.MustMetric(stem + "_quant")
		f, g := m.In(r, 0), quant.In(r, 0)
		if f.N+g.N == 0 {
			continue
		}
		name, _, _ := strings.Cut(m.Name, ", ")
		b.table.row(name, fixed(f.Value, 4), between(f.Estimate, four), fixed(g.Value, 4), between(g.Estimate, four))
	}
	if len(b.table.rows) > 0 {
		b.after = []string{"of the people with a known outcome"}
	}
	return b
}

func four(x eval.Float) string { return fixed(x, 4) }

func groups(r *eval.Result, how detail) []pageBlock {
	i := r.Headline()
	if i < 0 {
		return nil
	}
	t := r.Margins[i].Margin
	var bs []pageBlock
	for _, by := range r.Groups {
		p := newParts(by.By, t)
		small := false
		for _, g := range by.Groups {
			name := g.Name
			if g.Small {
				name, small = name+" *", true
			}
			p.add(name, g.Result)
		}
		p.add("everyone", r)
		b := pageBlock{title: "By " + by.By}
		diff := differences(&by, r, how)
		for _, g := range significant(&by, r) {
			b.lines = append(b.lines, differs(by.By, g, r))
			p.mark(g)
		}
		b.table = p.table
		if small {
			b.after = append(b.after, "* too few promises for a comparison")
		}
		b.figures = p.figures("Promises that break, by "+by.By, r)
		bs = append(bs, b)
		if len(diff.table.rows) > 0 {
			diff.table.prune()
			bs = append(bs, diff)
		}
	}
	return bs
}

func significant(by *eval.Grouping, r *eval.Result) (list []*eval.GroupGap) {
	t := r.Margins[r.Headline()].Margin
	for i := range by.Gaps {
		g := &by.Gaps[i]
		if (g.Margin == nil || *g.Margin == t) && g.P.Defined() && float64(g.P) <= 1-r.Settings.Confidence {
			list = append(list, g)
		}
	}
	return list
}

func differs(by string, g *eval.GroupGap, r *eval.Result) string {
	name, unit := gapName(g)
	return fmt.Sprintf("%s differs significantly by %s: worst for %s, by %s from %s (p=%s).", name, by, g.Worst,
		strings.TrimPrefix(difference(unit, g.Difference), "+"), g.Best, probability(g.P))
}

func differences(by *eval.Grouping, r *eval.Result, how detail) pageBlock {
	b := pageBlock{title: "Differences by " + by.By, fold: how == full}
	b.table = textTable{left: 3, head: []string{"", "worst", "best", "difference", "p", ""}}
	real := significant(by, r)
	alike, tested := 0, false
	for i := range by.Gaps {
		g := &by.Gaps[i]
		certain := slices.Contains(real, g)
		switch {
		case g.Margin != nil && *g.Margin != r.Margins[r.Headline()].Margin || g.Worst == "":
			continue
		case how == brief && g.P.Defined() && !certain && g.Metric != "vd" && g.Metric != "rvd":
			alike++
			continue
		}
		name, unit := gapName(g)
		p, mark := missing, missing
		if g.P.Defined() {
			p, tested = probability(g.P), true
		}
		if certain {
			mark = "significant"
		}
		b.table.row(name, g.Worst, g.Best, strings.TrimPrefix(difference(unit, g.Difference), "+"), p, mark)
		if certain {
			b.table.style(3, "bad")
		}
	}
	if alike > 0 {
		b.after = append(b.after, fmt.Sprintf("In %d other %s the groups do not differ significantly.", alike,
			message.Plural(alike, "metric", "metrics")))
	}
	if tested {
		b.after = append(b.after, "p: p-value of the difference between the worst group and the others, adjusted (Holm) "+
			"for the number of groups")
	}
	return b
}

func gapName(g *eval.GroupGap) (name, unit string) {
	m, ok := eval.MetricBy(g.Metric)
	switch {
	case !ok:
		return g.Metric, ""
	case g.Margin != nil:
		return symbolAt(m.ID, *g.Margin), m.Unit
	}
	return cmp.Or(m.Symbol, m.Name), m.Unit
}

func probability(p eval.Float) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(float64(p), 'f', 3, 64)
}

func others(r *eval.Result) pageBlock {
	i := r.Headline()
	if i < 0 || len(r.SensitivityToCopies) == 0 {
		return pageBlock{}
	}
	if r.Issued != nil {
		i = 0
	}
	t := r.Margins[i].Margin
	p := newParts("who counts", t)
	p.add("every row", r)
	b := pageBlock{title: "Who counts as a person"}
	for _, o := range r.SensitivityToCopies {
		p.add(o.Name, o.Result)
		b.after = append(b.after, o.Name+": "+o.About)
	}
	for _, by := range r.Groups {
		if by.By == eval.CalibrationGroup {
			p.add(by.Groups[0].Name, by.Groups[0].Result)
		}
	}
	b.table = p.table
	return b
}

func scenarios(r *eval.Result) pageBlock {
	i := r.Headline()
	if i < 0 || len(r.Scenarios) == 0 {
		return pageBlock{}
	}
	t := r.Margins[i].Margin
	p := newParts("scenario", t)
	p.add("as it is", r)
	for _, s := range r.Scenarios {
		p.add(s.Name, s.Result)
	}
	return pageBlock{
		title: "Other conditions", table: p.table,
		figures: p.figures("Promises that break under other conditions", r),
	}
}

func certificates(r *eval.Result) pageBlock {
	b := pageBlock{title: "Certificates"}
	b.table = byMargin(r, "certified.share", []metricColumn{
		{"certified", "certified.share", asPercent},
		{"promises", "certified.share", asFraction},
		{"interval", "certified.share", asInterval},
		{"models apart", "certified.apart", func(v eval.Value) string { return fixed(v.Value, 3) }},
	})
	radius := 0.0
	for _, a := range r.Margins {
		if a.Of("certified.share").N > 0 {
			radius = float64(a.Of("certified.radius").Value)
		}
	}
	where := fmt.Sprintf("within %s (in model inputs) of the recourse point", margin(radius))
	if radius == 0 {
		where = "exactly at the recourse point"
	}
	b.after = []string{
		"certified: proved that the quantized model approves every point " + where +
			"; promises without a certificate may hold too",
		"models apart: upper bound of the difference of the two margins there, median person (logits)",
	}
	return b
}

func kindName(k eval.Perturbation) string {
	switch k {
	case eval.AtPoint:
		return "at the point"
	case eval.InBall:
		return "in a ball, sampled"
	case eval.FirstOrder:
		return "first order"
	}
	return string(k)
}

func perturbations(r *eval.Result, how detail) pageBlock {
	b := pageBlock{title: "Logit perturbation and safe margins", fold: true}
	b.table.left = 1
	b.table.head = []string{"eps", "t", "mean", "p95", "max", "safe", "points", "broken inside", "outside"}
	for i, a := range r.Margins {
		if how == brief && i != r.Headline() {
			continue
		}
		for _, k := range eval.Perturbations() {
			of := "perturbation." + string(k) + "."
			if a.Of(of+"n").N == 0 {
				continue
			}
			number := func(id string) string { return fixed(a.Estimate(of+id).Value, 3) }
			safe := a.Rate(of + "safe")
			b.table.row(kindName(k), margin(a.Margin), number("mean"), number("p95"), number("max"), percent(safe.Value, 1),
				fraction(safe), fraction(a.Rate(of+"broken_inside")), fraction(a.Rate(of+"broken_outside")))
		}
	}
	b.after = []string{
		"eps: the largest difference of the two models' logits at or around the original's recourse points",
		"safe: points whose margin is more than twice eps; broken inside and outside: promises that break among them and " +
			"among the others",
	}
	return b
}

// maxBrokenBrief and maxBroken are how many people whose promise breaks are shown.
const (
	maxBrokenBrief = 5
	maxBroken      = 200
)

func broken(d *Document, how detail) pageBlock {
	n, all := len(d.Broken), max(d.AllBroken, len(d.Broken))
	shown := min(maxBroken, how.limit(n, maxBrokenBrief))
	b := pageBlock{title: "Broken promises, and what would have held", fold: true, bullet: how == brief}
	switch {
	case n < all:
		b.after = append(b.after, fmt.Sprintf("%d of %d people; the JSON report has %d, and records (cfq eval --records) "+
			"all.", shown, all, n))
	case shown < n:
		b.after = append(b.after, fmt.Sprintf("%d of %d people; the JSON report has all.", shown, n))
	}
	if how == brief {
		for i := range d.Broken[:shown] {
			b.lines = append(b.lines, brokenLine(&d.Broken[i]))
		}
		return b
	}
	b.table = textTable{left: 4, head: []string{
		"line", "what was promised", "what would have held", "with", "margin", "quantized", "cost", "then",
	}}
	for _, x := range d.Broken[:shown] {
		line := missing
		if x.ID != "" {
			line = x.ID
		} else if x.Line > 0 {
			line = strconv.Itoa(x.Line)
		}
		with, repair, _ := strings.Cut(x.Repair, ": ")
		b.table.row(line, sentence(x.Action), orMissing(repair), orMissing(with), signed(x.Own, 3), signed(x.Other, 3),
			fixed(x.Cost, 2), fixed(x.RepairCost, 2))
	}
	if shown > 0 {
		b.after = append(b.after, "Promises with a required margin of "+margin(d.Broken[0].Margin)+". with: the required "+
			"margin or the model that leads there; margin, quantized: of the two models at the recourse point (logits); "+
			"then: the cost of what would have held")
	}
	return b
}

func brokenLine(x *Broken) string {
	line := fmt.Sprintf("line %d: ", x.Line)
	switch {
	case x.ID != "":
		line = x.ID + ": "
	case x.Line <= 0:
		line = fmt.Sprintf("row %d: ", x.Row)
	}
	line += fmt.Sprintf("%s, at cost %s for margin %s; under the quantized model %s", sentence(x.Action), fixed(x.Cost,
		3), signed(x.Own, 3), signed(x.Other, 3))
	if x.Repair != "" {
		line += fmt.Sprintf(". What would have held: %s, at cost %s", x.Repair, fixed(x.RepairCost, 3))
	}
	return line
}

func models(d *Document) pageBlock {
	b := pageBlock{title: "Files", table: fileTable(), fold: true}
	b.table.model("original", d.Full)
	b.table.model("quantized", d.Quantized)
	for _, f := range d.files() {
		b.table.file(f)
	}
	return b
}

func fileTable() textTable {
	return textTable{head: []string{"", "file", "size", "stored bits", "entries", "used", "sha256"}, left: 2}
}

func (t *textTable) model(role string, m Model) {
	bits := missing
	if m.StoredBits > 0 {
		bits = strconv.FormatFloat(m.StoredBits, 'f', 2, 64)
	}
	t.row(role, m.Name, byteCount(m.Bytes), bits, missing, missing, short(m.SHA256))
}

func runBlock(r *Run) pageBlock {
	b := pageBlock{title: "How this report was made", table: textTable{left: 2}, fold: true}
	line := func(what, text string) {
		if text != "" {
			b.table.row(what, text)
		}
	}
	line("command", commandLine(r.Command))
	line("program", r.Tool)
	line("runtime", r.Runtime)
	line("processor", strings.Join(r.CPU, ", "))
	if len(b.table.rows) > 0 {
		b.after = []string{"The same command with the same files gives the same report on this machine: it has no date. " +
			"The record of looks (QUANTIZED.looks) has the dates of verdicts."}
	}
	return b
}

func commandLine(args []string) string {
	if len(args) == 0 {
		return ""
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+", r)
	}
	words := []string{"cfq"}
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !plain(r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

type inputFile struct {
	name string
	File
}

func (d *Document) files() []inputFile {
	return []inputFile{
		{"people", d.Data},
		{"rows", d.RowsFile},
		{"task", d.Task},
		{"promises", d.Promises},
		{"overrides", d.Overrides},
		{"calibrated on", d.CalibrationRecord},
		{"encoding verified by", d.EncodingRecord},
		{"gate", d.GateFile},
		{"earlier report", d.Previous},
	}
}

func (t *textTable) file(f inputFile) {
	if f.Name == "" {
		return
	}
	entries, used := missing, missing
	if f.Entries > 0 {
		entries, used = strconv.Itoa(f.Entries), strconv.Itoa(f.Used)
	}
	t.row(f.name, f.Name, byteCount(f.Bytes), missing, entries, used, short(f.SHA256))
}

func people(r *eval.Result) pageBlock {
	p := r.Population
	b := pageBlock{title: "People", table: textTable{left: 1}, fold: true}
	row := func(label string, n int) { b.table.row(label, strconv.Itoa(n)) }
	row("rows in the data", p.Rows)
	row("people read", p.Read)
	if p.People < p.Read && p.People > 0 {
		row("of them different people, by their id", p.People)
	}
	row("approved by the original", p.Favoured)
	row("refused by the original", p.Refused)
	if p.Evaluated < p.Refused {
		row(fmt.Sprintf("evaluated: a random sample of them (seed %d)", r.Settings.Seed), p.Evaluated)
	} else if p.Evaluated > p.Refused {
		row("evaluated: all of them, and others who have a promise", p.Evaluated)
	} else {
		row("evaluated: all of them", p.Evaluated)
	}
	row("of them also refused by the quantized model", p.BothRefuse)
	if g := r.Issued; g != nil {
		row("promises given to people who are evaluated", g.Promises)
		row("of them refused by the original itself", g.Invalid.Num)
		row("of them not allowed by the task", g.Infeasible.Num)
	}
	return b
}

func settings(r *eval.Result, how detail) pageBlock {
	if how == brief {
		return pageBlock{}
	}
	s := r.Settings
	b := pageBlock{title: "Settings", table: textTable{left: 1}, fold: true}
	number := func(label string, x float64) { b.table.row(label, strconv.FormatFloat(x, 'g', -1, 64)) }
	count := func(label string, n int) {
		if n > 0 {
			b.table.row(label, strconv.Itoa(n))
		}
	}
	count("people in the sample", s.Sample)
	b.table.row("seed", strconv.FormatUint(s.Seed, 10))
	number("confidence of the intervals", s.Confidence)
	number("epsilon of CRG, DirSim and ActOverlap", s.Epsilon)
	number("smallest change that ActOverlap counts", s.SupportTau)
	if s.Radius > 0 {
		number("radius of neighbourhoods, in model inputs", s.Radius)
	}
	count("steps of the solver", s.Solver.Steps)
	count("restarts of the solver", s.Solver.Restarts)
	count("rounds of the solver", s.Solver.Rounds)
	count("beam of the solver", s.Solver.Beam)
	b.table.row("seed of the solver", strconv.FormatUint(s.Solver.Seed, 10))
	return b
}

func footprint(r *eval.Result) pageBlock {
	f := r.Footprint
	if f == nil {
		return pageBlock{}
	}
	b := pageBlock{title: "Size and work", table: textTable{head: []string{"", "original", "quantized", "ratio"}, left: 1}}
	row := func(label string, a, q float64, show func(float64) string) {
		ratio := missing
		if a > 0 && q > 0 {
			ratio = strconv.FormatFloat(q/a, 'f', 3, 64)
		}
		b.table.row(label, show(a), show(q), ratio)
	}
	row("size of the file", float64(f.Full.Bytes), float64(f.Quant.Bytes),
		func(x float64) string { return byteCount(int64(x)) })
	row("stored bits per weight", f.Full.StoredBits, f.Quant.StoredBits,
		func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) })
	row("bit operations of one decision", f.Full.BOPs, f.Quant.BOPs, func(x float64) string { return thousands(int64(x)) })
	return b
}

func timing(r *eval.Result) pageBlock {
	t := r.Timing
	if t == nil {
		return pageBlock{}
	}
	b := pageBlock{title: "Speed in ONNX Runtime, " + message.Count(t.Threads, "thread")}
	b.table = textTable{head: []string{"", "original", "interval", "quantized", "interval", "runs", "speed-up"}, left: 1}
	row := func(label string, p eval.Pace) {
		times := missing
		if p.Full.Value.Defined() && p.Quant.Value > 0 {
			times = strconv.FormatFloat(float64(p.Full.Value/p.Quant.Value), 'f', 2, 64) + "x"
		}
		b.table.row(label, seconds(p.Full.Value), between(p.Full, seconds), seconds(p.Quant.Value), between(p.Quant,
			seconds), strconv.Itoa(p.Quant.N), times)
	}
	row("1 row", t.One)
	row("256 rows", t.Many)
	b.after = []string{"Medians of alternating runs of the two models on this machine. Only these numbers differ " +
		"between evaluations."}
	return b
}

const maxLayersBrief = 10

func layers(d *Document, how detail) pageBlock {
	b := pageBlock{title: "Layers of the quantized model", fold: true}
	b.table = textTable{head: []string{"layer", "weights", "bits", "bytes", "sensitivity", "kernel"}, left: 1}
	list := d.Layers
	if n := how.limit(len(list), maxLayersBrief); n < len(list) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b Layer) int { return cmp.Compare(b.Sensitivity, a.Sensitivity) })
		list = list[:n]
		b.after = append(b.after, fmt.Sprintf("The %d of %d layers with the largest sensitivity.", n, len(d.Layers)))
	}
	bits, score := chart.Series{Name: ""}, chart.Series{Name: ""}
	var names []string
	for _, l := range list {
		b.table.row(l.Node, thousands(int64(l.Weights)), strconv.FormatFloat(l.Bits, 'f', 2, 64), thousands(int64(l.Bytes)),
			fixed(l.Sensitivity, 4), cmp.Or(l.Kernel, missing))
		names = append(names, l.Node)
		bits.Y, score.Y = append(bits.Y, l.Bits), append(score.Y, float64(l.Sensitivity))
	}
	if len(names) > maxBars {
		names, bits.Y, score.Y = names[:maxBars], bits.Y[:maxBars], score.Y[:maxBars]
	}
	draw := func(caption, x string, s chart.Series) {
		if anyDefined(s.Y) {
			b.figures = append(b.figures, captionedChart{caption, chart.Chart{
				X: x, Categories: names, Series: []chart.Series{s},
			}})
		}
	}
	draw("Bits of each layer's weights.", "bits per weight", bits)
	draw("Counterfactual sensitivity of each layer.", "mean l1 norm of the gradient", score)
	if anyDefined(score.Y) {
		b.after = append(b.after, "sensitivity: mean l1 norm of the gradient of the loss by the layer's weights, at the "+
			"original's recourse points")
	}
	return b
}

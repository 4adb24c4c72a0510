package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
)

// evaluationPage lays out d: what decides first, where it came from last.
func evaluationPage(d *Document, how detail) *reportPage {
	r := d.Result
	p := &reportPage{Title: d.Title, Tiles: tiles(d)}
	head := headline(d)
	if d.Gate != nil {
		p.Verdict = d.Gate.Verdict
		p.add(verdict(d), findings(d.Gate, how))
		head.Title = "The promises"
	}
	p.add(head, warnings(slices.Concat(d.Warnings, r.Warnings)), environment(d.Environment), alternatives(r))
	p.answer = len(p.Blocks)
	if r.Population.Evaluated > 0 {
		p.add(promises(r), costs(r, how), shape(r, how), marginErrors(r, how),
			spreads(r, how))
	}
	p.add(groups(r, how)...)
	p.add(scenarios(r), certificates(r), perturbations(r, how), brokenPromises(d, how),
		decisions(r), scores(r), footprint(r), timing(r), layers(d, how),
		people(r), excluded(d), evaluationFiles(d), runBlock(&d.Run), recipe(d.Recipe))
	return p
}

// headlineWords are what the sentences of the headline say.
type headlineWords struct {
	*eval.Result
	VD, RVD, VD0               eval.Rate
	T, File                    string
	Broken, Mirrored, Doubtful string
	Gaps                       []string
}

func headline(d *Document) pageBlock {
	r := d.Result
	if r.Population.Evaluated == 0 {
		return pageBlock{Lines: []string{"No people were evaluated."}}
	}
	at := &r.Margins[r.Headline()]
	a := at
	if r.Issued != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		a = &r.Margins[0]
	}
	rate := func(id string, at *eval.AtMargin) string {
		x := at.Rate(id)
		return fmt.Sprintf("%s %s, %s interval %s", symbolAt(id, at.Margin), percent(x.Value, 1),
			confidence(r.Settings.Confidence), interval(x, 1))
	}
	w := headlineWords{
		Result: r, VD: a.Rate("vd"), RVD: at.Rate("rvd"), T: margin(a.Margin), File: d.Promises.Name,
		Broken: rate("vd", a), Mirrored: rate("rvd", at),
	}
	if zero := marginAt(r, 0); zero >= 0 && at.Margin > 0 && r.Issued == nil {
		w.VD0 = r.Margins[zero].Rate("vd")
	}
	for k := range r.Groups {
		for _, g := range significant(&r.Groups[k], r) {
			if g.Metric == "vd" || g.Metric == "rvd" {
				w.Gaps = append(w.Gaps, differs(r.Groups[k].By, g, r))
			}
		}
	}
	if n := r.Issued; n != nil {
		w.Doubtful = tallies(tally{n.Unjudgeable.Num, "cannot be judged", "cannot be judged"},
			tally{n.Invalid.Num, "is refused by the original", "are refused by the original"},
			tally{n.Infeasible.Num, "is forbidden by the task", "are forbidden by the task"})
	}
	b := pageBlock{Lines: words("headline", w)}
	if w.VD.Den > 0 {
		b.After = words("promise", w)
	}
	return b
}

func tiles(d *Document) (out []tile) {
	r := d.Result
	i := r.Headline()
	if i < 0 || r.Population.Evaluated == 0 {
		return nil
	}
	a := &r.Margins[i]
	add := func(label, value, note string) {
		if value != missing {
			out = append(out, tile{label, value, note})
		}
	}
	rate := func(name, id string) {
		x := a.Rate(id)
		add(name+", "+symbolAt(id, a.Margin), percent(x.Value, 1), fraction(x)+", "+interval(x, 1))
	}
	rate("promises that break", "vd")
	rate("promises of the quantized model that the original breaks", "rvd")
	if t := r.Tau01; t.Value.Defined() {
		note := "tau01, logits"
		if t.Extrapolated {
			note += ", extrapolated"
		}
		add("margin at which at most 1 % break", tauValue(t, 2), note)
	}
	if p := a.Rate("certified.share"); p.Den > 0 {
		radius := float64(a.Of("certified.radius").Value)
		add("certified", percent(p.Value, 1), fraction(p)+", within "+margin(radius))
	}
	noise := "median person, " + symbolAt("crg.median", a.Margin)
	if x := a.Estimate("crg_noise.abs_mean"); x.N > 0 {
		noise += "; solver's noise " + percent(x.Value, 1)
	}
	add("change of the cost of recourse", asChange(a.Of("crg.median")), noise)
	add("accuracy", percent(r.Rate("accuracy_quant").Value, 1), "original "+percent(r.Rate("accuracy_full").Value, 1))
	if n := d.Quantized.Bytes; n > 0 && d.Full.Bytes > 0 {
		add("size of the file", percent(eval.Float(float64(n)/float64(d.Full.Bytes)), 0),
			thousands(n)+" of "+byteCount(d.Full.Bytes))
	}
	return out
}

func promises(r *eval.Result) pageBlock {
	columns := slices.Concat(brokenColumns("vd", ""), brokenColumns("rvd", ""),
		[]metricColumn{{"", "frr", asPercent}, {"helped", "frr", asFraction}})
	b := byMargin("Promises by required margin t", r, "", columns)
	b.Figures = curve(r)
	intervals := "interval: " + confidence(r.Settings.Confidence) + " confidence interval (Wilson)"
	if r.Settings.OneSided {
		b.After = append(legend("vd", "frr"), intervals, tau("tau01", r.Tau01), "RVD: not computed")
		return b
	}
	first := r.Rate("pgd_first.vd")
	b.After = append(legend("vd", "rvd", "frr"), intervals, tau("tau01", r.Tau01), tau("rtau01", r.RTau01),
		fmt.Sprintf("%s: %s, %s (%s); it found a recourse for %s", symbol("pgd_first.vd"), percent(first.Value, 1),
			counts(first), interval(first, 1), counts(r.Rate("pgd_first.frr"))))
	return b
}

// legend explains a symbol of a table's head: "VD(t): promises that break".
func legend(keys ...string) (lines []string) {
	for _, k := range keys {
		m := eval.MustMetric(k)
		line := m.Symbol + ": " + m.Name
		if m.Unit == "logits" {
			line += " (" + m.Unit + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func symbol(key string) string { return eval.MustMetric(key).Symbol }

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
	lost := known(r, "lost_recourse")
	if !known(r, "crg.n") && !lost {
		return pageBlock{}
	}
	b := byMargin("Cost of the recourse", r, "", []metricColumn{
		{"", "crg.mean", asChange},
		{"interval", "crg.mean", func(v eval.Value) string { return relative(v.Estimate) }},
		{"sums", "crg.ratio_of_sums", changes},
		{"median", "crg.median", changes},
		{"p95", "crg.p95", changes},
		{"", "crg.abs_mean", shares},
		{"noise", "crg_noise.abs_mean", shares},
		{"people", "crg.n", asCount},
		{"cost 0", "crg.free", asCount},
		{"lost", "lost_recourse", asFraction},
	})
	b.After = legend("crg.mean", "crg.ratio_of_sums", "crg.median", "crg.p95", "crg.abs_mean")
	if known(r, "crg_noise.abs_mean") {
		b.note(legend("crg_noise.abs_mean")...)
	}
	b.note("positive: recourse costs more under the quantized model; cost 0: people that it approves with the margin as " +
		"they are")
	if lost {
		b.note("lost: " + eval.MustMetric("lost_recourse").Name + ", of people refused by both with recourse under the " +
			"original")
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
	b := byMargin("Shape of the recourse", r, "", columns)
	b.After, b.Fold = legend(ids...), true
	return b
}

func marginErrors(r *eval.Result, how detail) pageBlock {
	ids := []string{"margin_error.mean", "margin_error.rms", "margin_error.p99", "margin_error.max"}
	columns := append(how.estimates(signed, ids[0]), how.estimates(fixed, ids[1:]...)...)
	b := byMargin("Margin error e at the original's recourse points", r, "",
		append(columns, metricColumn{"people", "margin_error.n", asCount}))
	b.After, b.Fold = legend(ids...), true
	return b
}

func spreads(r *eval.Result, how detail) pageBlock {
	b := pageBlock{
		Title: "Margins at the original's recourse points", Left: 2, Figures: distribution(r), Fold: true,
		Head: []string{"t", "model", "smallest", "p05", "median", "p95", "largest", "people"},
	}
	for _, i := range how.shownMargins(r) {
		a := &r.Margins[i]
		for _, m := range []struct{ name, id string }{{"original", "margins_full."}, {"quantized", "margins_quant."}} {
			n := a.Of(m.id + "n").N
			if n == 0 {
				continue
			}
			cells := []string{margin(a.Margin), m.name}
			for _, x := range []string{"min", "p05", "median", "p95", "max"} {
				cells = append(cells, signed(a.Of(m.id+x).Value, 3))
			}
			b.row(append(cells, strconv.Itoa(n))...)
		}
	}
	return b
}

func certificates(r *eval.Result) pageBlock {
	b := byMargin("Certificates", r, "certified.share", []metricColumn{
		{"certified", "certified.share", asPercent},
		{"promises", "certified.share", asFraction},
		{"interval", "certified.share", asInterval},
		{"models apart", "certified.apart", func(v eval.Value) string { return fixed(v.Value, 3) }},
	})
	where := "exactly at the recourse point"
	for _, a := range r.Margins {
		if radius := float64(a.Of("certified.radius").Value); a.Of("certified.share").N > 0 && radius != 0 {
			where = fmt.Sprintf("within %s (in model inputs) of the recourse point", margin(radius))
		}
	}
	b.note("certified: proved that the quantized model approves every point "+where+
		"; promises without a certificate may hold too",
		"models apart: upper bound of the difference of the two margins there, median person (logits)")
	return b
}

// perturbations shows the paper's safe margins.
func perturbations(r *eval.Result, how detail) pageBlock {
	b := pageBlock{Title: "Logit perturbation and safe margins", Fold: true, Left: 1, Head: []string{
		"eps", "t", "mean", "p95", "max", "safe", "points", "broken inside", "outside",
	}}
	names := map[eval.Perturbation]string{
		eval.AtPoint: "at the point", eval.InBall: "in a ball, sampled", eval.FirstOrder: "first order",
	}
	for _, i := range how.shownMargins(r) {
		a := &r.Margins[i]
		for _, k := range eval.Perturbations() {
			of := "perturbation." + string(k) + "."
			if a.Of(of+"n").N == 0 {
				continue
			}
			number := func(id string) string { return fixed(a.Estimate(of+id).Value, 3) }
			safe := a.Rate(of + "safe")
			b.row(names[k], margin(a.Margin), number("mean"), number("p95"), number("max"), percent(safe.Value, 1),
				fraction(safe), fraction(a.Rate(of+"broken_inside")), fraction(a.Rate(of+"broken_outside")))
		}
	}
	b.note("eps: the largest difference of the two models' logits at or around the original's recourse points",
		"safe: points whose margin is more than twice eps; broken inside and outside: promises that break among them and "+
			"among the others")
	return b
}

const brokenTitle = "Broken promises, and what would have held"

func brokenPromises(d *Document, how detail) pageBlock {
	const maxBrief, maxFull = 5, 200
	n, all := len(d.Broken), max(d.AllBroken, len(d.Broken))
	shown := min(maxFull, how.limit(n, maxBrief))
	b := pageBlock{Title: brokenTitle, Fold: true, Bullet: how == brief}
	switch {
	case n < all:
		b.note(fmt.Sprintf("%d of %d people; the JSON report has %d, and records (cfq eval --records) all.", shown, all, n))
	case shown < n:
		b.note(fmt.Sprintf("%d of %d people; the JSON report has all.", shown, n))
	}
	if how == brief {
		for i := range d.Broken[:shown] {
			b.Lines = append(b.Lines, words("broken", &d.Broken[i])...)
		}
		return b
	}
	b.Left, b.Head = 4, []string{
		"line", "what was promised", "what would have held", "with", "margin", "quantized", "cost", "then",
	}
	for _, x := range d.Broken[:shown] {
		line := x.ID
		if line == "" && x.Line > 0 {
			line = strconv.Itoa(x.Line)
		}
		with, repair, _ := strings.Cut(x.Repair, ": ")
		b.row(orMissing(line), sentence(x.Action), orMissing(repair), orMissing(with), signed(x.Own, 3), signed(x.Other, 3),
			fixed(x.Cost, 2), fixed(x.RepairCost, 2))
	}
	if shown > 0 {
		b.note("Promises with a required margin of " + margin(d.Broken[0].Margin) + ". with: the required margin or the " +
			"model that leads there; margin, quantized: of the two models at the recourse point (logits); then: the cost of " +
			"what would have held")
	}
	return b
}

// Promised is the action in words.
func (x *Broken) Promised() string { return sentence(x.Action) }

// Who names the person: by an ID of the data, or by the line or row.
func (x *Broken) Who() string {
	switch {
	case x.ID != "" && !strings.HasPrefix(x.ID, eval.RowID):
		return x.ID
	case x.Line > 0:
		return fmt.Sprintf("line %d", x.Line)
	}
	return fmt.Sprintf("row %d", x.Row)
}

func decisions(r *eval.Result) pageBlock {
	b := pageBlock{Title: "Decisions", Left: 1}
	for _, m := range eval.Metrics() {
		v := m.In(r, 0)
		switch {
		case !strings.HasPrefix(m.Key(), "decisions.") || v.N == 0 || !v.Value.Defined():
		case v.Kind == eval.KindShare:
			x := v.Rate()
			b.row(m.Name, percent(x.Value, 2), counts(x), interval(x, 2))
		case m.Better == eval.Higher: // no difference
			b.row(m.Name, percent(v.Value, 2), missing, interval(eval.Rate{Lo: v.Lo, Hi: v.Hi, Den: v.N}, 2))
		default:
			points := func(x eval.Float) string { return signed(100*x, 1) }
			b.row(m.Name, difference("share", v.Value), missing, between(v.Estimate, points)+" pp")
		}
	}
	return b
}

func scores(r *eval.Result) pageBlock {
	b := pageBlock{
		Title: "Scores", Left: 1, Head: []string{"", "original", "interval", "quantized", "interval"},
		After: []string{"of the people with a known outcome"},
	}
	four := func(x eval.Float) string { return fixed(x, 4) }
	for _, m := range eval.Metrics() {
		stem, ofFull := strings.CutSuffix(m.ID, "_full")
		if !ofFull || !strings.HasPrefix(m.Key(), "scores.") {
			continue
		}
		quant := eval.MustMetric(stem + "_quant")
		f, g := m.In(r, 0), quant.In(r, 0)
		if name, _, _ := strings.Cut(m.Name, ", "); f.N+g.N > 0 {
			b.row(name, four(f.Value), between(f.Estimate, four), four(g.Value), between(g.Estimate, four))
		}
	}
	return b
}

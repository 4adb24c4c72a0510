package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
)

// evaluationView is a Document on its way to a page, which may be a brief one.
type evaluationView struct {
	*Document
	full bool
	at   *eval.AtMargin // at the headline margin
}

// evaluationPage lays out d: what decides first, where it came from last.
func evaluationPage(d *Document, full bool) *reportPage {
	r := d.Result
	v := &evaluationView{d, full, &r.Margins[r.Headline()]}
	p := &reportPage{Title: d.Title, Tiles: v.tiles()}
	head := v.headline()
	if d.Gate != nil {
		p.Verdict = d.Gate.Verdict
		p.add(verdict(d), findings(d.Gate, full))
		head.Title = "The promises"
	}
	p.add(head, bullets("Warnings", slices.Concat(d.Warnings, r.Warnings)), environment(d.Environment), v.alternatives())
	p.answer = len(p.Blocks)
	if r.Population.Evaluated > 0 {
		p.add(v.promises(), v.costs(), v.shape(), v.marginErrors(), v.spreads())
	}
	p.add(v.groups()...)
	p.add(v.scenarios(), v.certificates(), v.perturbations(), v.brokenPromises(), decisions(r), scores(r), footprint(r),
		timing(r), layers(d.Layers, full),
		pageBlock{Title: "People", Left: 1, Fold: true, Rows: wordsOf("people", r)}, excluded(d),
		files(&d.Inputs, Entry{"original", d.Full, nil}, Entry{"quantized", d.Quantized, nil}), runBlock(&d.Run),
		recipes("How the quantized model was made", true, Entry{Recipe: d.Recipe}))
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

func (v *evaluationView) headline() pageBlock {
	r, a := v.Result, v.at
	if r.Population.Evaluated == 0 {
		return pageBlock{Lines: []string{"No people were evaluated."}}
	}
	if r.Issued != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		a = &r.Margins[0]
	}
	rate := func(id string, at *eval.AtMargin) string {
		x := at.Rate(id)
		return fmt.Sprintf("%s %s, %s interval %s", symbolAt(id, at.Margin), percent(x.Value, 1),
			confidence(r.Settings.Confidence), interval(x, 1))
	}
	w := headlineWords{
		Result: r, VD: a.Rate("vd"), RVD: v.at.Rate("rvd"), T: margin(a.Margin), File: v.Promises.Name,
		Broken: rate("vd", a), Mirrored: rate("rvd", v.at),
	}
	if zero := marginAt(r, 0); zero >= 0 && v.at.Margin > 0 && r.Issued == nil {
		w.VD0 = r.Margins[zero].Rate("vd")
	}
	for i := range r.Groups {
		for _, g := range v.significant(&r.Groups[i]) {
			if g.Metric == "vd" || g.Metric == "rvd" {
				w.Gaps = append(w.Gaps, differs(r.Groups[i].By, g))
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

func (v *evaluationView) tiles() (out []tile) {
	if v.Result.Population.Evaluated == 0 {
		return nil
	}
	for _, x := range wordsOf("tiles", v) {
		if x[1] != missing {
			out = append(out, tile{x[0], x[1], x[2]})
		}
	}
	return out
}

// At is the result at the headline margin.
func (v *evaluationView) At() *eval.AtMargin { return v.at }

func (v *evaluationView) promises() pageBlock {
	r, ids := v.Result, []string{"vd", "rvd", "frr"}
	if r.Settings.OneSided {
		ids = []string{"vd", "frr"}
	}
	b := v.byMargin("Promises by required margin t", "", slices.Concat(brokenColumns("vd", ""), brokenColumns("rvd", ""),
		[]metricColumn{{"", "frr", asPercent}, {"helped", "frr", asFraction}})...)
	const minCurve = 3 // margins
	if len(r.Margins) >= minCurve {
		b.Figures = brokenChart("Promises that break, by required margin", r, nil, r.Margins)
	}
	b.After = append(legend(ids...), "interval: "+confidence(r.Settings.Confidence)+" confidence interval (Wilson)",
		tau("tau01", r.Tau01))
	if r.Settings.OneSided {
		b.note("RVD: not computed")
		return b
	}
	first := r.Rate("pgd_first.vd")
	b.note(tau("rtau01", r.RTau01), fmt.Sprintf("%s: %s, %s (%s); it found a recourse for %s", symbol("pgd_first.vd"),
		percent(first.Value, 1), counts(first), interval(first, 1), counts(r.Rate("pgd_first.frr"))))
	return b
}

// legend explains a symbol of a table's head: "VD(t): promises that break".
func legend(ids ...string) (lines []string) {
	for _, id := range ids {
		m := metrics.Must(id)
		line := m.Symbol + ": " + m.Name
		if m.Unit == "logits" {
			line += " (" + m.Unit + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func tauValue(t eval.Tau, decimals int) string {
	if t.AtMost {
		return "<= " + fixed(t.Value, decimals)
	}
	return fixed(t.Value, decimals)
}

func tau(id string, t eval.Tau) string {
	m := metrics.Must(id)
	s := fmt.Sprintf("%s %s: %s", m.Symbol, tauValue(t, 3), m.Name)
	if t.Extrapolated {
		s += " (extrapolated)"
	}
	return s
}

func (v *evaluationView) costs() pageBlock {
	lost := v.known("lost_recourse")
	if !v.known("crg.n") && !lost {
		return pageBlock{}
	}
	b := v.byMargin("Cost of the recourse", "", slices.Concat(
		[]metricColumn{
			{"", "crg.mean", asChange},
			{"interval", "crg.mean", func(x eval.Value) string { return relative(x.Estimate) }},
		},
		v.estimates(change, metricColumn{"sums", "crg.ratio_of_sums", nil}, metricColumn{"median", "crg.median", nil},
			metricColumn{"p95", "crg.p95", nil}),
		v.estimates(percent, metricColumn{"", "crg.abs_mean", nil}, metricColumn{"noise", "crg_noise.abs_mean", nil}),
		[]metricColumn{
			{"people", "crg.n", asCount}, {"cost 0", "crg.free", asCount}, {"lost", "lost_recourse", asFraction},
		})...)
	b.After = legend("crg.mean", "crg.ratio_of_sums", "crg.median", "crg.p95", "crg.abs_mean")
	if v.known("crg_noise.abs_mean") {
		b.note(legend("crg_noise.abs_mean")...)
	}
	b.note("positive: recourse costs more under the quantized model; cost 0: people that it approves with the margin as " +
		"they are")
	if lost {
		b.note("lost: " + metrics.Must("lost_recourse").Name + ", of people refused by both with recourse under the " +
			"original")
	}
	return b
}

func (v *evaluationView) shape() pageBlock {
	if !v.known("dir_sim") {
		return pageBlock{}
	}
	ids := []string{"dir_sim", "act_overlap"}
	columns := append(v.estimates(fixed, columnsOf(ids...)...), metricColumn{"people", "dir_sim", asCount})
	if v.known("pixel_distance") {
		ids = append(ids, "pixel_distance")
		columns = append(columns, v.estimates(fixed, columnsOf("pixel_distance")...)...)
	}
	b := v.byMargin("Shape of the recourse", "", columns...)
	b.After, b.Fold = legend(ids...), true
	return b
}

func (v *evaluationView) marginErrors() pageBlock {
	ids := []string{"margin_error.mean", "margin_error.rms", "margin_error.p99", "margin_error.max"}
	b := v.byMargin("Margin error e at the original's recourse points", "", slices.Concat(
		v.estimates(signed, columnsOf(ids[0])...), v.estimates(fixed, columnsOf(ids[1:]...)...),
		[]metricColumn{{"people", "margin_error.n", asCount}})...)
	b.After, b.Fold = legend(ids...), true
	return b
}

func (v *evaluationView) spreads() pageBlock {
	b := pageBlock{
		Title: "Margins at the original's recourse points", Left: 2, Figures: distribution(v.at), Fold: true,
		Head: []string{"t", "model", "smallest", "p05", "median", "p95", "largest", "people"},
	}
	for _, a := range v.shownMargins() {
		for _, m := range []struct{ name, id string }{{"original", "margins_full."}, {"quantized", "margins_quant."}} {
			cells := []string{margin(a.Margin), m.name}
			for _, x := range []string{"min", "p05", "median", "p95", "max"} {
				cells = append(cells, signed(a.Of(m.id+x).Value, 3))
			}
			if n := a.Of(m.id + "n").N; n > 0 {
				b.row(append(cells, strconv.Itoa(n))...)
			}
		}
	}
	return b
}

func (v *evaluationView) certificates() pageBlock {
	b := v.byMargin("Certificates", "certified.share",
		metricColumn{"certified", "certified.share", asPercent},
		metricColumn{"promises", "certified.share", asFraction},
		metricColumn{"interval", "certified.share", asInterval},
		metricColumn{"models apart", "certified.apart", func(x eval.Value) string { return fixed(x.Value, 3) }})
	where := "exactly at the recourse point"
	for _, a := range v.Result.Margins {
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
func (v *evaluationView) perturbations() pageBlock {
	b := pageBlock{Title: "Logit perturbation and safe margins", Fold: true, Left: 1, Head: []string{
		"eps", "t", "mean", "p95", "max", "safe", "points", "broken inside", "outside",
	}}
	names := map[eval.Perturbation]string{
		eval.AtPoint: "at the point", eval.InBall: "in a ball, sampled", eval.FirstOrder: "first order",
	}
	for _, a := range v.shownMargins() {
		for _, k := range eval.Perturbations() {
			of := func(id string) eval.Value { return a.Of("perturbation." + string(k) + "." + id) }
			if of("n").N > 0 {
				b.row(names[k], margin(a.Margin), fixed(of("mean").Value, 3), fixed(of("p95").Value, 3),
					fixed(of("max").Value, 3), asPercent(of("safe")), asFraction(of("safe")), asFraction(of("broken_inside")),
					asFraction(of("broken_outside")))
			}
		}
	}
	b.note("eps: the largest difference of the two models' logits at or around the original's recourse points",
		"safe: points whose margin is more than twice eps; broken inside and outside: promises that break among them and "+
			"among the others")
	return b
}

const brokenTitle = "Broken promises, and what would have held"

func (v *evaluationView) brokenPromises() pageBlock {
	const maxBrief, maxFull = 5, 200
	n, all := len(v.Broken), max(v.AllBroken, len(v.Broken))
	shown := v.Broken[:min(n, mostOf(maxFull, maxBrief, v.full))]
	b := pageBlock{Title: brokenTitle, Fold: true, Bullet: !v.full}
	switch {
	case n < all:
		b.note(fmt.Sprintf("%d of %d people; the JSON report has %d, and records (cfq eval --records) all.", len(shown), all,
			n))
	case len(shown) < n:
		b.note(fmt.Sprintf("%d of %d people; the JSON report has all.", len(shown), n))
	}
	if !v.full {
		for i := range shown {
			b.Lines = append(b.Lines, words("broken", &shown[i])...)
		}
		return b
	}
	b.Left, b.Head = 4, []string{
		"line", "what was promised", "what would have held", "with", "margin", "quantized", "cost", "then",
	}
	for _, x := range shown {
		line := x.ID
		if line == "" && x.Line > 0 {
			line = strconv.Itoa(x.Line)
		}
		with, repair, _ := strings.Cut(x.Repair, ": ")
		b.row(orMissing(line), x.Promised(), orMissing(repair), orMissing(with), signed(x.Own, 3), signed(x.Other, 3),
			fixed(x.Cost, 2), fixed(x.RepairCost, 2))
	}
	if len(shown) > 0 {
		b.note("Promises with a required margin of " + margin(shown[0].Margin) + ". with: the required margin or the " +
			"model that leads there; margin, quantized: of the two models at the recourse point (logits); then: the cost of " +
			"what would have held")
	}
	return b
}

// Promised is the action in words.
func (x *Broken) Promised() string { return orMissing(strings.Join(x.Action, ", ")) }

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
	for _, m := range metrics.All() {
		x := r.Metric(&m, 0)
		switch {
		case !strings.HasPrefix(m.Key(), "decisions.") || x.N == 0 || !x.Value.Defined():
		case x.Kind == metrics.Share:
			b.row(m.Name, percent(x.Value, 2), counts(x.Rate()), interval(x.Rate(), 2))
		case m.Better == metrics.Higher: // no difference
			b.row(m.Name, percent(x.Value, 2), missing, interval(x.Rate(), 2))
		default:
			points := func(x eval.Float) string { return signed(100*x, 1) }
			b.row(m.Name, difference("share", x.Value), missing, between(x.Estimate, points)+" pp")
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
	for _, m := range metrics.All() {
		stem, ofFull := strings.CutSuffix(m.ID, "_full")
		if !ofFull || !strings.HasPrefix(m.Key(), "scores.") {
			continue
		}
		quant := metrics.Must(stem + "_quant")
		f, g := r.Metric(&m, 0), r.Metric(&quant, 0)
		if name, _, _ := strings.Cut(m.Name, ", "); f.N+g.N > 0 {
			b.row(name, four(f.Value), between(f.Estimate, four), four(g.Value), between(g.Estimate, four))
		}
	}
	return b
}

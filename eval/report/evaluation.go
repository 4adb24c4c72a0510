package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/chart"
	"cfq/internal/message"
	"cfq/internal/statistics"
)

// evaluationView is a Document on its way to a page, which may be a brief one.
type evaluationView struct {
	*Document
	words *message.Templates
	full  bool
	at    *eval.AtMargin // at the headline margin
}

// evaluationPage lays out d: what decides first, where it came from last.
func evaluationPage(d *Document, full bool) *reportPage {
	r := d.Result
	v := &evaluationView{d, newSentences(), full, &r.Margins[r.Headline()]}
	p := &reportPage{Title: d.Title, Tiles: v.tiles()}
	head := v.headline()
	if d.Gate != nil {
		p.Verdict, p.Accepted = d.Gate.Verdict, d.Gate.Accepted
		p.add(v.verdict(), findings(d.Gate, full))
		head.Title = "The promises"
	}
	p.add(head, bullets("Warnings", slices.Concat(d.Warnings, r.Warnings)), environment(d.Environment), v.alternatives())
	p.answer = len(p.Blocks)
	if r.Population.Evaluated > 0 {
		p.add(v.promises(), v.byMargin("Cost of the recourse", "cost of recourse", false, "crg.n", "lost_recourse"),
			v.byMargin("Shape of the recourse", "shape", true, "dir_sim"),
			v.byMargin("Margin error e at the original's recourse points", "margin errors", true), v.spreads())
	}
	p.add(v.groups()...)
	p.add(v.scenarios(), v.transfers(), v.perturbations(),
		v.brokenPromises(), decisions(r), scores(r), v.footprint(), v.timing(), layers(d.Layers, full),
		pageBlock{Title: "People", Left: 1, Fold: true, Rows: v.words.Rows("people", r)}, v.excluded(),
		files(&d.Inputs, Entry{"original", d.Full, nil}, Entry{"quantized", d.Quantized, nil}), runBlock(v.words, &d.Run),
		recipes("How the quantized model was made", true, Entry{Recipe: d.Recipe}))
	return p
}

type headlineWords struct {
	*eval.Result
	VD, RVD, VD0     eval.Rate
	T, File          string
	Broken, Mirrored string
	Gaps             []string
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
	b := pageBlock{Lines: v.words.Lines("headline", w)}
	if w.VD.Den > 0 {
		b.After = v.words.Lines("promise", w)
	}
	return b
}

func (v *evaluationView) tiles() [][]string {
	if v.Result.Population.Evaluated == 0 {
		return nil
	}
	return slices.DeleteFunc(v.words.Rows("tiles", v), func(x []string) bool { return x[1] == missing })
}

// At is the result at the headline margin.
func (v *evaluationView) At() *eval.AtMargin { return v.at }

func (v *evaluationView) promises() pageBlock {
	b := v.byMargin("Promises by required margin t", "promises by margin", false)
	const minCurve = 3 // margins
	if len(v.Result.Margins) >= minCurve {
		proved := shareChart("People whose changes are proved to hold, by required margin", v.Result,
			chart.Chart{X: "required margin t, logits", Y: "proved, %"}, v.Result.Margins,
			[]string{"transfer", "rtransfer"}, []string{"original's changes", "quantized model's"})
		b.Figures = append(brokenChart("Promises that break, by required margin", v.Result, nil, v.Result.Margins),
			proved...)
	}
	return b
}

// legend explains the symbols of a table's head, a line each: "VD(t): promises that break".
func legend(ids ...string) string {
	var lines []string
	for _, id := range ids {
		m := metrics.Must(id)
		line := m.Symbol + ": " + m.Name
		if m.Unit == "logits" {
			line += " (" + m.Unit + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func tauValue(t eval.Tau, decimals int) string { return bounded(t.AtMost, fixed(t.Value, decimals)) }

func bounded(atMost bool, value string) string {
	if atMost {
		return "<= " + value
	}
	return value
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

// transfers shows what is proved of all changes.
func (v *evaluationView) transfers() pageBlock {
	s := &v.Result.Settings
	if s.Factor == 0 {
		return pageBlock{}
	}
	b := pageBlock{Title: "Transfer certificates", Left: 1, Head: []string{
		"changes of", "t", "proved", "people", "interval", "refuted", "open", "d, median", "d, p95", "d, most",
	}}
	for i, prefix := range []string{"", "r"} {
		for _, a := range v.Result.Margins {
			values := map[string]eval.Value{}
			for id := range strings.FieldsSeq("transfer transfer_refuted transfer_d.median transfer_d.p95 transfer_d.max") {
				x := a.Of(prefix + id)
				if x.Kind != metrics.Share { // a bound is not rounded down
					x.Value = eval.Float(math.Ceil(1000*float64(x.Value)) / 1000)
				}
				values[strings.TrimPrefix(strings.TrimPrefix(id, "transfer_"), "d.")] = x
			}
			of := [...]string{"original", "quantized model"}[i]
			b.Rows = append(b.Rows, v.words.Rows("transfer", map[string]any{"Of": values, "Side": of, "T": a.Margin})...)
		}
	}
	x := v.at.Rate("transfer")
	b.Lines = v.words.Lines("transfers", map[string]any{
		"Settings": s, "T": margin(v.at.Margin), "Proved": x, "Refuted": v.Details.Refuted,
		"Least": eval.Float(statistics.ClopperPearsonLower(x.Num, x.Den, s.Confidence)),
	})
	if b.After = v.words.Lines("transfer columns", s); b.Rows == nil {
		b.Head, b.After = nil, nil
	}
	return b
}

// perturbations shows the paper's safe margins.
func (v *evaluationView) perturbations() pageBlock {
	b := pageBlock{Title: "Logit perturbation and safe margins", Fold: true, Left: 1, Head: []string{
		"eps", "t", "mean", "p95", "max", "safe", "points", "broken inside", "outside",
	}}
	for _, a := range v.shownMargins() {
		for _, k := range eval.Perturbations() {
			values := map[string]eval.Value{}
			for id := range strings.FieldsSeq("n mean p95 max safe broken_inside broken_outside") {
				values[id] = a.Of("perturbation." + string(k) + "." + id)
			}
			b.Rows = append(b.Rows, v.words.Rows("perturbation", map[string]any{"Of": values, "At": k, "T": a.Margin})...)
		}
	}
	b.After = v.words.Lines("perturbations", v)
	return b
}

const brokenTitle = "Broken promises, and what would have held"

func (v *evaluationView) brokenPromises() pageBlock {
	most := 5
	if v.full {
		most = 200
	}
	shown := v.Broken[:min(most, len(v.Broken))]
	b := pageBlock{Title: brokenTitle, Fold: true, Bullet: !v.full}
	b.After = v.words.Lines("broken promises", struct {
		Shown       []Broken
		All, Listed int
		Table       bool
	}{shown, max(v.AllBroken, len(v.Broken)), len(v.Broken), v.full})
	if !v.full {
		for i := range shown {
			b.Lines = append(b.Lines, v.words.Lines("broken", &shown[i])...)
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

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/eval/metrics"
	"cfq/internal/chart"
	"cfq/internal/lists"
	"cfq/internal/message"
)

// evaluationView is a Document on its way to a page, which may be a brief one.
type evaluationView struct {
	*Document
	words pageWords
	full  bool
	At    *eval.AtMargin // at the headline margin
}

// evaluationPage lays out d: what decides first, where it came from last.
func evaluationPage(d *Document, full bool) *reportPage {
	r := d.Result
	v := &evaluationView{d, newSentences(), full, &r.Margins[r.Headline()]}
	p := &reportPage{Title: d.Title, Tiles: v.tiles()}
	head := v.headline()
	if d.Gate != nil {
		p.Verdict, p.Accepted = d.Gate.Verdict, d.Gate.Accepted
		p.add(v.verdict(), v.findings())
		head.Title = "The promises"
	}
	p.add(head, bullets("Warnings", slices.Concat(d.Warnings, r.Warnings)),
		bullets("Set by the environment", v.words.Lines("environment", d.Environment)), v.alternatives())
	p.answer = len(p.Blocks)
	if r.Population.Evaluated > 0 {
		p.add(v.promises(), v.byMargin("Cost of the recourse", "cost of recourse", false, "crg.n", "lost_recourse"),
			v.byMargin("Shape of the recourse", "shape", true, "dir_sim"),
			v.byMargin("Margin error e at the original's recourse points", "margin errors", true), v.spreads())
	}
	p.add(v.groups()...)
	section := func(name string) pageBlock { return v.words.section(name, v) }
	p.add(v.scenarios(), section("transfers"), section("perturbations"), v.brokenPromises(), section("decision rates"),
		section("scores"), section("footprint"), section("timing"), v.layers(), v.words.section("people", r),
		section("left out"), v.words.files(&d.Inputs, Entry{"original", d.Full, nil}, Entry{"quantized", d.Quantized, nil}),
		v.words.section("run", &d.Run),
		recipes("How the quantized model was made", true, Entry{Recipe: d.Recipe}))
	return p
}

type headlineWords struct {
	*eval.Result
	At, Headline *eval.AtMargin // of the promises, and of the curve
	VD0          eval.Rate
	File         string
	Gaps         []string
}

func (v *evaluationView) headline() pageBlock {
	r := v.Result
	w := headlineWords{Result: r, At: v.At, Headline: v.At, File: v.Promises.Name}
	if r.Issued != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		w.At = &r.Margins[0]
	}
	if zero := marginAt(r, 0); zero >= 0 && v.At.Margin > 0 && r.Issued == nil {
		w.VD0 = r.Margins[zero].Rate("vd")
	}
	for i := range r.Groups {
		for _, g := range v.significant(&r.Groups[i]) {
			if g.Metric == "vd" || g.Metric == "rvd" {
				w.Gaps = append(w.Gaps, differs(r.Groups[i].By, g))
			}
		}
	}
	return v.words.section("headline", w)
}

func (v *evaluationView) tiles() [][]string {
	if v.Result.Population.Evaluated == 0 {
		return nil
	}
	return slices.DeleteFunc(v.words.Rows("tiles", v), func(x []string) bool { return x[1] == missing })
}

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
	b := v.words.section("spreads", v)
	b.Figures = distribution(v.At)
	return b
}

const brokenTitle = "Broken promises, and what would have held"

func (v *evaluationView) brokenPromises() pageBlock {
	most := 5
	if v.full {
		most = 200
	}
	b := v.words.section("broken promises", struct {
		Shown       []Broken
		All, Listed int
		Table       bool
	}{v.Broken[:min(most, len(v.Broken))], max(v.AllBroken, len(v.Broken)), len(v.Broken), v.full})
	b.Bullet = !v.full
	return b
}

// layers shows all layers; in a brief view, the most sensitive ones.
func (v *evaluationView) layers() pageBlock {
	const maxBrief = 10
	list := v.Layers
	if !v.full && len(list) > maxBrief {
		list = slices.SortedStableFunc(slices.Values(list), func(a, b Layer) int {
			return cmp.Compare(b.Sensitivity, a.Sensitivity)
		})[:maxBrief]
	}
	return v.words.section("layers", map[string]any{
		"Shown": list, "All": len(v.Layers),
		"Sensitive": slices.ContainsFunc(list, func(l Layer) bool { return l.Sensitivity.Defined() }),
	})
}

// Promised is the action in words.
func (x *Broken) Promised() string { return orMissing(strings.Join(x.Action, ", ")) }

// Who names the person: by an ID of the data, or by the line or row.
func (x *Broken) Who() string {
	switch {
	case x.ID != "":
		return x.ID
	case x.Line > 0:
		return fmt.Sprintf("line %d", x.Line)
	}
	return fmt.Sprintf("row %d", x.Row)
}

type verdictWords struct {
	*gate.Report
	Failing, Undecided, Passing int
	Deciding                    string
	Warned                      int
	Decisions                   []string
}

func (v *evaluationView) verdict() pageBlock {
	d := v.Document
	w := verdictWords{Report: d.Gate, Decisions: v.words.Lines("decisions", d.Result)}
	n := map[gate.Verdict]int{}
	var deciding []string
	for _, f := range ranked(d.Gate) {
		n[f.Verdict]++
		switch {
		case f.OK() && f.Verdict != gate.Pass:
			w.Warned++
		case !f.OK() && f.Verdict == d.Gate.Verdict:
			name := f.Name()
			if x := f.Shown(); x.Value != "" {
				name += " (" + x.Value + ")"
			}
			deciding = append(deciding, name)
		}
	}
	const most = 6
	w.Deciding = message.List(deciding, most)
	w.Failing, w.Undecided, w.Passing = n[gate.Fail], n[gate.Inconclusive], n[gate.Pass]
	return pageBlock{Lines: v.words.Lines("verdict", w), After: slices.Concat(d.Gate.Notes, v.words.Lines("release", w))}
}

// findings is the table of checks, what keeps the gate from passing first.
func (v *evaluationView) findings() pageBlock {
	const maxPassing = 12 // in a brief view
	shown, keys := ranked(v.Gate), []string{}
	passing := len(lists.Filter(shown, func(f *gate.Finding) bool { return f.Verdict == gate.Pass }))
	hidden := max(0, passing-maxPassing)
	if v.full {
		hidden = 0
	}
	shown = shown[:len(shown)-hidden]
	for _, f := range shown {
		if m, ok := metrics.By(f.Metric); ok && !slices.Contains(keys, m.ID+": "+m.Name) {
			keys = append(keys, m.ID+": "+m.Name)
		}
	}
	b := v.words.section("checks", map[string]any{
		"Shown": shown, "Hidden": hidden, "Metrics": keys, "Confidence": v.Gate.Confidence,
	})
	for i, f := range shown {
		if f.Verdict == gate.Pass || !f.OK() {
			b.style(i, 1, styleOf(f.Verdict))
		}
	}
	return b
}

// ranked sorts findings by how bad they are, and leaves those that are alike in the gate's order.
func ranked(g *gate.Report) []*gate.Finding {
	list := lists.Make(len(g.Findings), func(i int) *gate.Finding { return &g.Findings[i] })
	rank := func(f *gate.Finding) int {
		switch {
		case f.Verdict == gate.Pass:
			return 3
		case f.OK():
			return 2
		case f.Verdict == gate.Inconclusive:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b *gate.Finding) int { return rank(a) - rank(b) })
	return list
}

func verdictOf(f *gate.Finding) string {
	if f.Verdict != gate.Pass && f.Severity == gate.Warns {
		return string(f.Verdict) + ", warning"
	}
	return string(f.Verdict)
}

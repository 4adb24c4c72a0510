package report

import (
	"slices"

	"cfq/eval/gate"
	"cfq/eval/metrics"
	"cfq/internal/lists"
	"cfq/internal/message"
)

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

package report

import (
	"fmt"
	"slices"
	"strconv"

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
func findings(g *gate.Report, full bool) pageBlock {
	const maxPassing = 12 // in a brief view
	b := pageBlock{Title: "Checks", Left: 2, Head: []string{"check", "verdict", "value", "people", "bounds", "limit"}}
	passing := 0
	var keys []string
	for _, f := range ranked(g) {
		if f.Verdict == gate.Pass {
			if passing++; passing > maxPassing && !full {
				continue
			}
		}
		people := strconv.Itoa(f.N)
		switch {
		case f.Num != nil:
			people = fmt.Sprintf("%d/%d", *f.Num, f.N)
		case f.Exact():
			people = missing
		}
		x := f.Shown()
		b.row(f.Name(), verdictOf(f), orMissing(x.Value), people, orMissing(x.Bounds), x.Limit)
		if f.Verdict == gate.Pass || !f.OK() {
			b.style(len(b.Rows)-1, 1, styleOf(f.Verdict))
		}
		if f.Remark != "" {
			b.note(f.Name() + " - " + f.Remark)
		}
		if m, ok := metrics.By(f.Metric); ok && !slices.Contains(keys, m.ID+": "+m.Name) {
			keys = append(keys, m.ID+": "+m.Name)
		}
	}
	if hidden := passing - maxPassing; hidden > 0 && !full {
		b.note(fmt.Sprintf("%d more pass.", hidden))
	}
	b.note(keys...)
	if len(g.Findings) > 0 {
		b.note("bounds: one-sided, each at confidence " + confidence(g.Confidence) +
			"; a check passes when the bound is within the limit")
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

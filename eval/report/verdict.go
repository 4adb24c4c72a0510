package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/message"
)

func verdict(d *Document) pageBlock {
	g := d.Gate
	n := map[gate.Verdict]int{}
	warned := 0
	var deciding []string
	for _, f := range ranked(g) {
		n[f.Verdict]++
		if f.Verdict != gate.Pass && f.OK() {
			warned++
		}
		if !f.OK() && f.Verdict == g.Verdict {
			name := f.Name()
			if x := f.Shown(); x.Value != "" {
				name += " (" + x.Value + ")"
			}
			deciding = append(deciding, name)
		}
	}
	b := pageBlock{Lines: []string{"There are no checks."}}
	if len(g.Findings) > 0 {
		b.Lines[0] = fmt.Sprintf("Of %s %s.", message.Count(len(g.Findings), "check"), tallies(
			tally{n[gate.Fail], "fails", "fail"}, tally{n[gate.Inconclusive], "is inconclusive", "are inconclusive"},
			tally{n[gate.Pass], "passes", "pass"}))
	}
	if warned > 0 {
		b.Lines = append(b.Lines, tallies(tally{warned, "only warns.", "only warn."}))
	}
	if len(deciding) > 0 {
		const most = 6
		b.Lines = append(b.Lines, map[gate.Verdict]string{gate.Fail: "Failed", gate.Inconclusive: "Not decided"}[g.Verdict]+
			": "+message.List(deciding, most)+".")
	}
	for _, next := range g.Next {
		b.Lines = append(b.Lines, "Next step: "+next)
	}
	b.Lines = append(b.Lines, changedDecisions(d.Result)...)
	b.After = slices.Clone(g.Notes)
	if g.IntendedUse != "" {
		b.note("Intended use: " + g.IntendedUse)
	}
	if g.Approver != "" {
		b.note("Approver: " + g.Approver)
	}
	return b
}

// changedDecisions says how many decisions on people as they are change, in both directions; nothing when not known.
func changedDecisions(r *eval.Result) []string {
	var parts []string
	for _, x := range []struct{ id, says string }{
		{"lost", "refuses %d (%s) of the %d people that the original approves"},
		{"gained", "approves %d (%s) of the %d that the original refuses"},
	} {
		if n := r.Rate(x.id); n.Den > 0 {
			parts = append(parts, fmt.Sprintf(x.says, n.Num, percent(n.Value, 1), n.Den))
		}
	}
	if parts == nil {
		return nil
	}
	return []string{"Decisions: the quantized model " + strings.Join(parts, " and ") + "."}
}

// findings is the table of checks, what keeps the gate from passing first.
func findings(g *gate.Report, how detail) pageBlock {
	const maxPassing = 12 // in a brief view
	b := pageBlock{Title: "Checks", Left: 2, Head: []string{"check", "verdict", "value", "people", "bounds", "limit"}}
	passing := 0
	var keys []string
	for _, f := range ranked(g) {
		if f.Verdict == gate.Pass {
			if passing++; passing > how.limit(passing, maxPassing) {
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
		if m, ok := eval.MetricBy(f.Metric); ok && !slices.Contains(keys, m.ID+": "+m.Name) {
			keys = append(keys, m.ID+": "+m.Name)
		}
	}
	if hidden := passing - how.limit(passing, maxPassing); hidden > 0 {
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
	var list []*gate.Finding
	for i := range g.Findings {
		list = append(list, &g.Findings[i])
	}
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

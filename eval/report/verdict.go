package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/chart"
	"cfq/internal/message"
)

func verdict(d *Document) pageBlock {
	g := d.Gate
	n := map[gate.Verdict]int{}
	warned := 0
	for i := range g.Findings {
		f := &g.Findings[i]
		n[f.Verdict]++
		if f.Verdict != gate.Pass && f.OK() {
			warned++
		}
	}
	b := pageBlock{lines: []string{"There are no checks."}}
	if len(g.Findings) > 0 {
		b.lines[0] = fmt.Sprintf("Of %s %s.", message.Count(len(g.Findings), "check"), tallies(
			tally{n[gate.Fail], "fails", "fail"}, tally{n[gate.Inconclusive], "is inconclusive", "are inconclusive"},
			tally{n[gate.Pass], "passes", "pass"}))
	}
	if warned > 0 {
		b.lines = append(b.lines, fmt.Sprintf("%d %s.", warned, message.Plural(warned, "only warns", "only warn")))
	}
	if names := deciding(g); len(names) > 0 {
		b.lines = append(b.lines, map[gate.Verdict]string{gate.Fail: "Failed", gate.Inconclusive: "Not decided"}[g.Verdict]+
			": "+message.List(names, maxDeciding)+".")
	}
	for _, next := range g.Next {
		b.lines = append(b.lines, "Next step: "+next)
	}
	if text := changes(d.Result); text != "" {
		b.lines = append(b.lines, text)
	}
	b.after = slices.Clone(g.Notes)
	if g.IntendedUse != "" {
		b.after = append(b.after, "Intended use: "+g.IntendedUse)
	}
	if g.Approver != "" {
		b.after = append(b.after, "Approver: "+g.Approver)
	}
	return b
}

const maxDeciding = 6

func deciding(g *gate.Report) (names []string) {
	for _, f := range ranked(g) {
		if !f.OK() && f.Verdict == g.Verdict {
			name := f.Name()
			if x := f.Shown(); x.Value != "" {
				name += " (" + x.Value + ")"
			}
			names = append(names, name)
		}
	}
	return names
}

func changes(d *eval.Result) string {
	lost, gained := d.Rate("lost"), d.Rate("gained")
	rate := func(r eval.Rate) string { return fmt.Sprintf("%d (%s)", r.Num, percent(r.Value, 1)) }
	var parts []string
	if lost.Den > 0 {
		parts = append(parts, fmt.Sprintf("refuses %s of the %d people that the original approves", rate(lost), lost.Den))
	}
	if gained.Den > 0 {
		parts = append(parts, fmt.Sprintf("approves %s of the %d that the original refuses", rate(gained), gained.Den))
	}
	if parts == nil {
		return ""
	}
	return "Decisions: the quantized model " + strings.Join(parts, " and ") + "."
}

type tally struct {
	n         int
	one, many string
}

func tallies(list ...tally) string {
	var parts []string
	for _, t := range list {
		if t.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.n, message.Plural(t.n, t.one, t.many)))
		}
	}
	return strings.Join(parts, ", ")
}

func (t *textTable) meter(f *gate.Finding) {
	from, to, ok := f.Allowed()
	if !ok || !f.Value.Defined() {
		return
	}
	x := f.Shown()
	if t.meters == nil {
		t.meters = map[int]meter{}
	}
	t.meters[len(t.rows)-1] = meter{
		Meter: chart.Meter{
			Value: float64(f.Value), Low: float64(f.Lower), High: float64(f.Upper), From: from, To: to,
		},
		words: fmt.Sprintf("%s, bounds %s, limit %s", x.Value, orMissing(x.Bounds), x.Limit),
	}
}

const maxPassing = 12

func findings(g *gate.Report, how detail) pageBlock {
	b := pageBlock{title: "Checks"}
	b.table = textTable{head: []string{"check", "verdict", "value", "people", "bounds", "limit"}, left: 2}
	sorted := ranked(g)
	passing := 0
	var keys []string
	for _, f := range sorted {
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
		b.table.row(f.Name(), verdictOf(f), orMissing(x.Value), people, orMissing(x.Bounds), x.Limit)
		b.table.meter(f)
		if f.Verdict == gate.Pass || !f.OK() {
			b.table.style(1, styleOf(f.Verdict))
		}
		if f.Remark != "" {
			b.after = append(b.after, f.Name()+" - "+f.Remark)
		}
		if m, ok := eval.MetricBy(f.Metric); ok && !slices.Contains(keys, m.ID+": "+m.Name) {
			keys = append(keys, m.ID+": "+m.Name)
		}
	}
	if hidden := passing - how.limit(passing, maxPassing); hidden > 0 {
		b.after = append(b.after, fmt.Sprintf("%d more pass.", hidden))
	}
	b.after = append(b.after, keys...)
	if len(sorted) > 0 {
		b.after = append(b.after, fmt.Sprintf("bounds: one-sided, each at confidence %s; a check passes when the bound is "+
			"within the limit", strconv.FormatFloat(100*g.Confidence, 'g', 6, 64)+" %"))
	}
	if how == full {
		b.after = append(b.after, "against the limit: the bar is the value, the thin line goes from bound to bound, the "+
			"thick mark is the limit, and what is allowed is shaded")
	}
	return b
}

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

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/message"
)

// verdict is the verdict on all checks, with the decisions that change and the notes.
func verdict(d *Document) block {
	g := d.Gate
	n := map[gate.Verdict]int{}
	var waived, warned int
	for i := range g.Findings {
		f := &g.Findings[i]
		n[f.Verdict]++
		if f.Verdict != gate.Pass && f.Waived != "" {
			waived++
		} else if f.Verdict != gate.Pass && f.OK() {
			warned++
		}
	}
	b := block{lines: []string{"There are no checks."}}
	if len(g.Findings) > 0 {
		b.lines[0] = fmt.Sprintf("Of %s %s.", message.Count(len(g.Findings), "check"), tallies(", ",
			tally{n[gate.Fail], "fails", "fail"}, tally{n[gate.Inconclusive], "is inconclusive", "are inconclusive"},
			tally{n[gate.Pass], "passes", "pass"}))
	}
	extra := tallies("; ", tally{waived, "that do not pass is waived", "that do not pass are waived"},
		tally{warned, "only warns", "only warn"})
	if extra != "" {
		b.lines = append(b.lines, extra+".")
	}
	if text := changes(&d.Result.Decisions); text != "" {
		b.lines = append(b.lines, text)
	}
	b.lines = append(b.lines, g.Notes...)
	if g.IntendedUse != "" {
		b.lines = append(b.lines, "Intended use: "+g.IntendedUse)
	}
	if g.Approver != "" {
		b.lines = append(b.lines, "Approver: "+g.Approver)
	}
	return b
}

// changes says how many decisions on people as they are change, in both directions.
func changes(d *eval.Decisions) string {
	rate := func(r eval.Rate) string { return fmt.Sprintf("%d (%s)", r.Num, percent(r.Value, 1)) }
	var parts []string
	if d.Lost.Den > 0 {
		parts = append(parts, fmt.Sprintf("refuses %s of the %d people that the original approves", rate(d.Lost), d.Lost.Den))
	}
	if d.Gained.Den > 0 {
		parts = append(parts, fmt.Sprintf("approves %s of the %d that the original refuses", rate(d.Gained), d.Gained.Den))
	}
	if parts == nil {
		return ""
	}
	return "Decisions: the quantized model " + strings.Join(parts, " and ") + "."
}

// tally is a number of things, with what is said of one and of many.
type tally struct {
	n         int
	one, many string
}

// tallies lists those that are not 0.
func tallies(separator string, list ...tally) string {
	var parts []string
	for _, t := range list {
		if t.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.n, message.Plural(t.n, t.one, t.many)))
		}
	}
	return strings.Join(parts, separator)
}

// maxPassing is how many passing checks a brief view lists.
const maxPassing = 12

// findings is the table of checks, what keeps the gate from passing first.
func findings(g *gate.Report, how detail) block {
	b := block{title: "Checks"}
	b.table = table{head: []string{"check", "verdict", "value", "people", "bounds", "limit"}, left: 2}
	sorted := ranked(g)
	passing := 0
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
		case precise(f):
			people = missing
		}
		b.table.row(checkName(f), verdictOf(f), number(f.Value), people, bounds(f), f.Limit)
		if f.Verdict == gate.Pass || !f.OK() {
			b.table.style(1, styleOf(f.Verdict))
		}
		if f.Verdict != gate.Pass || how == full {
			b.after = append(b.after, reasons(f)...)
		}
	}
	if hidden := passing - how.limit(passing, maxPassing); hidden > 0 {
		b.after = append(b.after, fmt.Sprintf("%d more pass.", hidden))
	}
	if len(sorted) > 0 {
		b.after = append(b.after, fmt.Sprintf("bounds: one-sided confidence bounds at level %s; a check passes when the "+
			"bound is within the limit",
			strconv.FormatFloat(g.Confidence, 'g', 6, 64)))
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

// checkName names the check with its group.
func checkName(f *gate.Finding) string {
	name := f.Check
	if name == "" {
		name = f.Metric
	}
	if group := " [" + f.Group + "]"; f.Group != "" && !strings.HasSuffix(name, group) {
		name += group
	}
	return name
}

// verdictOf is the verdict, with a remark when it does not block.
func verdictOf(f *gate.Finding) string {
	switch {
	case f.Verdict == gate.Pass:
	case f.Waived != "":
		return string(f.Verdict) + ", waived"
	case f.Severity == gate.Warns:
		return string(f.Verdict) + ", warning"
	}
	return string(f.Verdict)
}

// precise says that a value is known for certain, as the size of a file is: it has no bounds.
func precise(f *gate.Finding) bool {
	return f.Value.Defined() && f.Lower == f.Value && f.Upper == f.Value
}

func bounds(f *gate.Finding) string {
	if precise(f) {
		return "exact"
	}
	return between(eval.Estimate{Lo: f.Lower, Hi: f.Upper}, number)
}

func reasons(f *gate.Finding) []string {
	var out []string
	if f.Why != "" {
		out = append(out, checkName(f)+" - "+f.Why)
	}
	if f.Waived != "" {
		out = append(out, checkName(f)+" - waived: "+f.Waived)
	}
	return out
}

// number shows a number in the unit of its limit, with four digits or more.
func number(x eval.Float) string {
	if !x.Defined() {
		return missing
	}
	if math.Abs(float64(x)) >= 1000 {
		return strconv.FormatFloat(float64(x), 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(x), 'g', 4, 64)
}

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
)

func (v *evaluationView) groups() (sections []pageBlock) {
	for i := range v.Result.Groups {
		by := &v.Result.Groups[i]
		p := v.newParts("By "+by.By, by.By, v.At.Margin)
		for _, g := range by.Groups {
			name := g.Name
			if g.Small {
				name += " *"
				p.After = []string{"* too few promises for a comparison"}
			}
			p.add(name, g.Result, v.At.Margin)
		}
		p.add("everyone", v.Result, v.At.Margin)
		for _, g := range v.significant(by) {
			p.Lines = append(p.Lines, differs(by.By, g))
			p.mark(g)
		}
		p.Figures = brokenChart("Promises that break, by "+by.By, v.Result, p.names, p.at)
		sections = append(sections, p.pageBlock)
	}
	return sections
}

// significant are the differences at the confidence of the intervals, and at 95 % where that is lower: the one-sided
// bounds of a gate are those of intervals at 90 %.
func (v *evaluationView) significant(by *eval.Grouping) (list []*eval.GroupGap) {
	level := 1 - max(v.Result.Settings.Confidence, 0.95)
	for i := range by.Gaps {
		g := &by.Gaps[i]
		if (g.Margin == nil || *g.Margin == v.At.Margin) && g.P.Defined() && float64(g.P) <= level {
			list = append(list, g)
		}
	}
	return list
}

func differs(by string, g *eval.GroupGap) string {
	m, known := metrics.By(g.Metric)
	name := cmp.Or(m.Symbol, m.Name, g.Metric)
	if known && g.Margin != nil {
		name = symbolAt(m.ID, *g.Margin)
	}
	return fmt.Sprintf("%s differs significantly by %s: worst for %s, by %s from %s (p=%s).", name, by, g.Worst,
		strings.TrimPrefix(difference(m.Unit, g.Difference), "+"), g.Best, probability(g.P))
}

func probability(p eval.Float) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(float64(p), 'f', 3, 64)
}

// alternatives shows the headline by other rules of who counts as a person.
func (v *evaluationView) alternatives() pageBlock {
	r, t := v.Result, v.At.Margin
	if len(r.SensitivityToCopies) == 0 {
		return pageBlock{}
	}
	if r.Issued != nil {
		t = r.Margins[0].Margin
	}
	p := v.newParts("Who counts as a person", "who counts", t)
	p.add("every row", r, t)
	for _, o := range r.SensitivityToCopies {
		p.add(o.Name, o.Result, t)
		p.note(o.Name + ": " + o.About)
	}
	for _, by := range r.Groups {
		if by.By == eval.CalibrationGroup {
			p.add(by.Groups[0].Name, by.Groups[0].Result, t)
		}
	}
	return p.pageBlock
}

func (v *evaluationView) scenarios() pageBlock {
	if len(v.Result.Scenarios) == 0 {
		return pageBlock{}
	}
	p := v.newParts("Other conditions", "scenario", v.At.Margin)
	p.add("as it is", v.Result, v.At.Margin)
	for _, s := range v.Result.Scenarios {
		p.add(s.Name, s.Result, v.At.Margin)
	}
	p.Figures = brokenChart("Promises that break under other conditions", v.Result, p.names, p.at)
	return p.pageBlock
}

// newParts starts a table of parts of the people, or of other conditions, at one required margin.
func (v *evaluationView) newParts(title, what string, t float64) *resultTable {
	columns := v.columns("parts columns", t)
	if v.Known("transfer") {
		columns = append(columns, metricColumn{"proved", "transfer", asPercent})
	}
	return newResultTable(title, what, 1, columns)
}

func (t *resultTable) mark(g *eval.GroupGap) {
	column := slices.IndexFunc(t.columns, func(c metricColumn) bool { return c.metric == g.Metric })
	if row := slices.Index(t.names, g.Worst); column >= 0 && row >= 0 {
		t.Rows[row][1+column] += " (worst)"
		t.style(row, 1+column, "bad")
	}
}

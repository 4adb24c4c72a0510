package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
)

// groups has a section for each grouping, and one for its differences.
func groups(r *eval.Result, how detail) (sections []pageBlock) {
	i := r.Headline()
	if i < 0 {
		return nil
	}
	for k := range r.Groups {
		by := &r.Groups[k]
		p := newParts("By "+by.By, by.By, r.Margins[i].Margin)
		for _, g := range by.Groups {
			name := g.Name
			if g.Small {
				name += " *"
				p.After = []string{"* too few promises for a comparison"}
			}
			p.add(name, g.Result)
		}
		p.add("everyone", r)
		for _, g := range significant(by, r) {
			p.Lines = append(p.Lines, differs(by.By, g, r))
			p.mark(g)
		}
		p.Figures = bars("Promises that break, by "+by.By, p.margin, r, p.names, p.at)
		sections = append(sections, p.pageBlock, differences(by, r, how))
	}
	return sections
}

func significant(by *eval.Grouping, r *eval.Result) (list []*eval.GroupGap) {
	t := r.Margins[r.Headline()].Margin
	for i := range by.Gaps {
		g := &by.Gaps[i]
		if (g.Margin == nil || *g.Margin == t) && g.P.Defined() && float64(g.P) <= 1-r.Settings.Confidence {
			list = append(list, g)
		}
	}
	return list
}

func differs(by string, g *eval.GroupGap, r *eval.Result) string {
	name, size := gapText(g)
	return fmt.Sprintf("%s differs significantly by %s: worst for %s, by %s from %s (p=%s).", name, by, g.Worst, size,
		g.Best, probability(g.P))
}

// differences is the table of the largest differences of two groups. A brief view has those of promises and those that
// are significant.
func differences(by *eval.Grouping, r *eval.Result, how detail) pageBlock {
	b := pageBlock{Title: "Differences by " + by.By, Fold: how == full, Left: 3, Head: []string{
		"", "worst", "best", "difference", "p", "",
	}}
	real := significant(by, r)
	alike, tested := 0, false
	for i := range by.Gaps {
		g := &by.Gaps[i]
		certain := slices.Contains(real, g)
		switch {
		case g.Margin != nil && *g.Margin != r.Margins[r.Headline()].Margin || g.Worst == "":
			continue
		case how == brief && g.P.Defined() && !certain && g.Metric != "vd" && g.Metric != "rvd":
			alike++
			continue
		}
		name, size := gapText(g)
		p, mark := missing, missing
		if g.P.Defined() {
			p, tested = probability(g.P), true
		}
		if certain {
			mark = "significant"
			b.style(len(b.Rows), 3, "bad")
		}
		b.row(name, g.Worst, g.Best, size, p, mark)
	}
	if alike > 0 {
		b.note(fmt.Sprintf("In %d other %s the groups do not differ significantly.", alike,
			message.Plural(alike, "metric", "metrics")))
	}
	if tested {
		b.note("p: p-value of the difference between the worst group and the others, adjusted (Holm) for the number of " +
			"groups")
	}
	return b
}

// gapText is what a gap is in, and its size.
func gapText(g *eval.GroupGap) (name, size string) {
	m, ok := eval.MetricBy(g.Metric)
	switch {
	case !ok:
		name = g.Metric
	case g.Margin != nil:
		name = symbolAt(m.ID, *g.Margin)
	default:
		name = cmp.Or(m.Symbol, m.Name)
	}
	return name, strings.TrimPrefix(difference(m.Unit, g.Difference), "+")
}

func probability(p eval.Float) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(float64(p), 'f', 3, 64)
}

// alternatives shows the headline by other rules of who counts as a person.
func alternatives(r *eval.Result) pageBlock {
	i := r.Headline()
	if i < 0 || len(r.SensitivityToCopies) == 0 {
		return pageBlock{}
	}
	if r.Issued != nil {
		i = 0
	}
	p := newParts("Who counts as a person", "who counts", r.Margins[i].Margin)
	p.add("every row", r)
	for _, o := range r.SensitivityToCopies {
		p.add(o.Name, o.Result)
		p.note(o.Name + ": " + o.About)
	}
	for _, by := range r.Groups {
		if by.By == eval.CalibrationGroup {
			p.add(by.Groups[0].Name, by.Groups[0].Result)
		}
	}
	return p.pageBlock
}

func scenarios(r *eval.Result) pageBlock {
	i := r.Headline()
	if i < 0 || len(r.Scenarios) == 0 {
		return pageBlock{}
	}
	p := newParts("Other conditions", "scenario", r.Margins[i].Margin)
	p.add("as it is", r)
	for _, s := range r.Scenarios {
		p.add(s.Name, s.Result)
	}
	p.Figures = bars("Promises that break under other conditions", p.margin, r, p.names, p.at)
	return p.pageBlock
}

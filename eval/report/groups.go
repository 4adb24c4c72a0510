package report

import (
	"fmt"
	"strconv"
	"strings"

	"cfq/eval"
)

// near returns what r says at a required margin, nil when it was not evaluated there.
func near(r *eval.Result, t float64) *eval.AtMargin {
	for i := range r.Margins {
		if r.Margins[i].Margin == t {
			return &r.Margins[i]
		}
	}
	return nil
}

// parts is a table of results of parts of the people, or under other conditions, at one required margin.
type parts struct {
	table   table
	names   []string
	vd, rvd []eval.Rate
}

func newParts(what string, t float64) *parts {
	p := &parts{}
	p.table = table{left: 1, head: []string{
		what, "helped", symbolAt("margins[].vd", t), "broken", "interval", symbolAt("margins[].rvd", t), symbol("margins[].crg.median"), "accuracy",
	}}
	return p
}

func (p *parts) add(name string, r *eval.Result, t float64) {
	a := near(r, t)
	if a == nil {
		return
	}
	p.table.row(name, fraction(a.FRR), percent(a.VD.Value, 1), fraction(a.VD), interval(a.VD, 1), percent(a.RVD.Value, 1),
		signed(a.CRG.Median.Value, 3), percent(r.Decisions.AccuracyQuant.Value, 1))
	p.names, p.vd, p.rvd = append(p.names, name), append(p.vd, a.VD), append(p.rvd, a.RVD)
}

// groups has a block for each grouping. A brief view tells of the differences that are more than chance.
func groups(r *eval.Result, how detail) []block {
	i := r.Headline()
	if i < 0 {
		return nil
	}
	t := r.Margins[i].Margin
	var bs []block
	for _, by := range r.Groups {
		p := newParts(by.By, t)
		small := false
		for _, g := range by.Groups {
			name := g.Name
			if g.Small {
				name, small = name+" *", true
			}
			p.add(name, g.Result, t)
		}
		p.add("everyone", r, t)
		b := block{title: "By " + by.By, table: p.table}
		tested, alike := false, 0
		for _, g := range by.Gaps {
			switch {
			case g.Margin != nil && *g.Margin != t || g.Worst == "":
			case how == brief && g.P.Defined() && float64(g.P) > 1-r.Settings.Confidence && g.Metric != "vd" && g.Metric != "rvd":
				alike++
			default:
				tested = tested || g.P.Defined()
				b.after = append(b.after, gapLine(&g))
			}
		}
		if alike > 0 {
			b.after = append(b.after, fmt.Sprintf("In %d other %s the groups differ no more than chance lets them.", alike, plural(alike, "metric", "metrics")))
		}
		if tested {
			b.after = append(b.after, "p: how often chance alone would set the worst group so far apart from the others, adjusted (Holm) for the number of groups")
		}
		if small {
			b.after = append(b.after, "* too few promises to be compared with the others")
		}
		b.figures = bars("Promises that break, by "+by.By+" (t = "+margin(t)+"). Error bars: "+confidence(r)+" intervals.", p.names, p.vd, p.rvd)
		bs = append(bs, b)
	}
	return bs
}

func gapLine(g *eval.GroupGap) string {
	name, unit := g.Metric, ""
	if m, ok := eval.MetricBy(g.Metric); ok {
		name, unit = m.Name, m.Unit
		if m.Symbol != "" {
			name = m.Symbol
		}
		if g.Margin != nil {
			name = symbolAt(m.Key, *g.Margin)
		}
	}
	line := fmt.Sprintf("%s: worst for %s, best for %s, %s apart", name, g.Worst, g.Best, difference(unit, g.Difference))
	if g.P.Defined() {
		line += strings.Replace(fmt.Sprintf(" (p=%s)", probability(g.P)), "p=<", "p<", 1)
	}
	return line
}

// probability shows a p-value.
func probability(p eval.Float) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(float64(p), 'f', 3, 64)
}

// scenarios shows what other conditions do.
func scenarios(r *eval.Result) block {
	i := r.Headline()
	if i < 0 || len(r.Scenarios) == 0 {
		return block{}
	}
	t := r.Margins[i].Margin
	p := newParts("scenario", t)
	p.add("as it is", r, t)
	for _, s := range r.Scenarios {
		p.add(s.Name, s.Result, t)
	}
	return block{
		title: "Under other conditions", table: p.table,
		figures: bars("Promises that break under other conditions (t = "+margin(t)+"). Error bars: "+confidence(r)+" intervals.", p.names, p.vd, p.rvd),
	}
}

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

// metricColumn is a column of a table of results: a metric, and how its values are shown.
type metricColumn struct {
	head, metric string // head "": the metric's symbol
	show         func(v eval.Value) string
}

func asPercent(v eval.Value) string { return percent(v.Value, 1) }

// columns are the columns that a template lists: head, metric, and how values are shown.
func (v *evaluationView) columns(name string, data any) (columns []metricColumn) {
	shows := map[string]func(eval.Value) string{
		"percent":  asPercent,
		"fraction": func(x eval.Value) string { return fraction(x.Rate()) },
		"interval": func(x eval.Value) string { return interval(x.Rate(), 1) },
		"count":    func(x eval.Value) string { return strconv.Itoa(x.N) },
		"change":   func(x eval.Value) string { return change(x.Value, 1) },
		"bounds":   func(x eval.Value) string { return relative(x.Estimate) },
		"fixed":    func(x eval.Value) string { return fixed(x.Value, 3) },
		// with intervals where there is room
		"percent +-": v.withBounds(percent), "change +-": v.withBounds(change), "fixed +-": v.withBounds(fixed),
		"signed +-": v.withBounds(signed),
	}
	for _, row := range v.words.Rows(name, data) {
		columns = append(columns, metricColumn{row[0], row[1], shows[row[2]]})
	}
	return columns
}

// withBounds shows values with their intervals in a full view. What is shown in per cent has one decimal, other numbers
// have three.
func (v *evaluationView) withBounds(show func(eval.Float, int) string) func(eval.Value) string {
	return func(x eval.Value) string {
		e := x.Estimate
		s, bounds := show(e.Value, 3), between(e, func(x eval.Float) string { return fixed(x, 3) })
		if strings.HasSuffix(s, " %") {
			s, bounds = show(e.Value, 1), relative(e)
		}
		if !v.full || !e.Value.Defined() || bounds == missing {
			return s
		}
		return s + " (" + bounds + ")"
	}
}

func relative(e eval.Estimate) string {
	if bounds := between(e, func(x eval.Float) string { return fixed(100*x, 1) }); bounds != missing {
		return bounds + " %"
	}
	return missing
}

// resultTable is a section with a row for each result: for required margins, parts of the people, or other conditions.
type resultTable struct {
	pageBlock

	columns []metricColumn
	names   []string
	at      []eval.AtMargin
}

func newResultTable(title, first string, left int, columns []metricColumn) *resultTable {
	t := &resultTable{pageBlock: pageBlock{Title: title, Head: []string{first}, Left: left}, columns: columns}
	for _, c := range columns {
		m, _ := metrics.By(c.metric)
		t.Head = append(t.Head, cmp.Or(c.head, m.Symbol))
	}
	return t
}

// add adds a row for a result at a required margin, if the result has that.
func (t *resultTable) add(name string, r *eval.Result, margin float64) {
	at := marginAt(r, margin)
	if at < 0 {
		return
	}
	row := []string{name}
	for _, c := range t.columns {
		v := r.Margins[at].Of(c.metric)
		if m, ok := metrics.By(c.metric); ok { // else a number that only the JSON report has
			v = r.Metric(&m, at)
		}
		row = append(row, c.show(v))
	}
	t.row(row...)
	t.names, t.at = append(t.names, name), append(t.at, r.Margins[at])
}

// byMargin is a section with a row for each required margin, empty when none of some metrics is known. The templates of
// its name say what its columns are, and explain them.
func (v *evaluationView) byMargin(title, name string, fold bool, ids ...string) pageBlock {
	if len(ids) > 0 && !slices.ContainsFunc(ids, v.Known) {
		return pageBlock{}
	}
	t := newResultTable(title, "t", 0, v.columns(name+" columns", v))
	t.After, t.Fold = v.words.Lines(name, v), fold
	for _, a := range v.Result.Margins {
		t.add(margin(a.Margin), v.Result, a.Margin)
	}
	return t.pageBlock
}

// Known reports whether a metric has a value at any required margin.
func (v *evaluationView) Known(id string) bool {
	return slices.ContainsFunc(v.Result.Margins, func(a eval.AtMargin) bool { return a.Of(id).N > 0 })
}

// ShownMargins are the results at all required margins; in a brief view, at the one that stands for the curve.
func (v *evaluationView) ShownMargins() []eval.AtMargin {
	if v.full {
		return v.Result.Margins
	}
	return []eval.AtMargin{*v.At}
}

func marginAt(r *eval.Result, t float64) int {
	return slices.IndexFunc(r.Margins, func(a eval.AtMargin) bool { return a.Margin == t })
}

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

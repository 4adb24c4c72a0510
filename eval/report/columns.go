package report

import (
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
)

// metricColumn is a column of a table of results: a metric, and how its values are shown.
type metricColumn struct {
	head, metric string // head "": the metric's symbol
	show         func(v eval.Value) string
}

func (c *metricColumn) name() string {
	if c.head == "" {
		return symbol(c.metric)
	}
	return c.head
}

// cell is the value in a result, at the at-th margin for metrics that have one.
func (c *metricColumn) cell(r *eval.Result, at int) string {
	if m, ok := eval.MetricBy(c.metric); ok {
		return c.show(m.In(r, at))
	}
	return c.show(r.Margins[at].Of(c.metric)) // a number that only the JSON report has
}

func asPercent(v eval.Value) string  { return percent(v.Value, 1) }
func asFraction(v eval.Value) string { return fraction(v.Rate()) }
func asInterval(v eval.Value) string { return interval(v.Rate(), 1) }
func asCount(v eval.Value) string    { return strconv.Itoa(v.N) }
func asChange(v eval.Value) string   { return change(v.Value, 1) }

func brokenColumns(id, head string) []metricColumn {
	return []metricColumn{{head, id, asPercent}, {"broken", id, asFraction}, {"interval", id, asInterval}}
}

func heads(first string, columns []metricColumn) []string {
	all := []string{first}
	for i := range columns {
		all = append(all, columns[i].name())
	}
	return all
}

func cells(first string, columns []metricColumn, r *eval.Result, at int) []string {
	all := []string{first}
	for i := range columns {
		all = append(all, columns[i].cell(r, at))
	}
	return all
}

// byMargin is a section with a row for each required margin; if a metric is named, of those margins that have it.
func byMargin(title string, r *eval.Result, having string, columns []metricColumn) pageBlock {
	b := pageBlock{Title: title, Head: heads("t", columns)}
	for i, a := range r.Margins {
		if having == "" || a.Of(having).N > 0 {
			b.row(cells(margin(a.Margin), columns, r, i)...)
		}
	}
	return b
}

// known reports whether a metric has a value at any required margin.
func known(r *eval.Result, id string) bool {
	return slices.ContainsFunc(r.Margins, func(a eval.AtMargin) bool { return a.Of(id).N > 0 })
}

// shownMargins are the positions of all required margins; in a brief view, of the one that stands for the curve.
func (d detail) shownMargins(r *eval.Result) (all []int) {
	for i := range r.Margins {
		if d == full || i == r.Headline() {
			all = append(all, i)
		}
	}
	return all
}

// estimate shows an estimate, with its interval where there is room. What is shown in per cent has one decimal,
// other numbers have three.
func (d detail) estimate(show func(eval.Float, int) string) func(eval.Value) string {
	return func(v eval.Value) string {
		e := v.Estimate
		s, interval := show(e.Value, 3), between(e, func(x eval.Float) string { return fixed(x, 3) })
		if strings.HasSuffix(s, " %") {
			s, interval = show(e.Value, 1), relative(e)
		}
		if d == brief || !e.Value.Defined() || !e.Lo.Defined() && !e.Hi.Defined() {
			return s
		}
		return s + " (" + interval + ")"
	}
}

func (d detail) estimates(show func(eval.Float, int) string, ids ...string) (columns []metricColumn) {
	for _, id := range ids {
		columns = append(columns, metricColumn{"", id, d.estimate(show)})
	}
	return columns
}

func relative(e eval.Estimate) string {
	if !e.Lo.Defined() && !e.Hi.Defined() {
		return missing
	}
	return between(e, func(x eval.Float) string { return fixed(100*x, 1) }) + " %"
}

// marginAt is the position of a required margin; -1 when the result has nothing there.
func marginAt(r *eval.Result, t float64) int {
	return slices.IndexFunc(r.Margins, func(a eval.AtMargin) bool { return a.Margin == t })
}

// partTable is a section about parts of the people, or about other conditions, at one required margin.
type partTable struct {
	pageBlock

	margin  float64
	columns []metricColumn
	names   []string
	at      []eval.AtMargin
}

func newParts(title, what string, t float64) *partTable {
	columns := slices.Concat([]metricColumn{{"helped", "frr", asFraction}}, brokenColumns("vd", symbolAt("vd", t)),
		[]metricColumn{
			{symbolAt("rvd", t), "rvd", asPercent}, {"", "crg.median", asChange}, {"accuracy", "accuracy_quant", asPercent},
		})
	return &partTable{
		margin: t, columns: columns, pageBlock: pageBlock{Title: title, Left: 1, Head: heads(what, columns)},
	}
}

func (p *partTable) add(name string, r *eval.Result) {
	if at := marginAt(r, p.margin); at >= 0 {
		p.row(cells(name, p.columns, r, at)...)
		p.names, p.at = append(p.names, name), append(p.at, r.Margins[at])
	}
}

// mark marks the group that is worst in a metric, where the table has that metric.
func (p *partTable) mark(g *eval.GroupGap) {
	column := slices.IndexFunc(p.columns, func(c metricColumn) bool { return c.metric == g.Metric })
	if row := slices.Index(p.names, g.Worst); column >= 0 && row >= 0 {
		p.Rows[row][1+column] += " (worst)"
		p.style(row, 1+column, "bad")
	}
}

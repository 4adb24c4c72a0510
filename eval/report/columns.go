package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
)

type metricColumn struct {
	head, metric string
	show         func(v eval.Value) string
}

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

func brokenColumns(id, symbol string) []metricColumn {
	return []metricColumn{{symbol, id, asPercent}, {"broken", id, asFraction}, {"interval", id, asInterval}}
}

// byMargin is a table with a row for each required margin; if a metric is named, of those margins that have it.
func byMargin(r *eval.Result, having string, columns []metricColumn) textTable {
	t := textTable{head: []string{"t"}}
	for _, c := range columns {
		t.head = append(t.head, c.head)
	}
	for i, a := range r.Margins {
		if having != "" && a.Of(having).N == 0 {
			continue
		}
		cells := []string{margin(a.Margin)}
		for _, c := range columns {
			cells = append(cells, c.cell(r, i))
		}
		t.row(cells...)
	}
	return t
}

func known(r *eval.Result, id string) bool {
	return slices.ContainsFunc(r.Margins, func(a eval.AtMargin) bool { return a.Of(id).N > 0 })
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

func (d detail) estimates(show func(eval.Float, int) string, ids ...string) []metricColumn {
	var columns []metricColumn
	for _, id := range ids {
		columns = append(columns, metricColumn{symbol(id), id, d.estimate(show)})
	}
	return columns
}

func relative(e eval.Estimate) string {
	if !e.Lo.Defined() && !e.Hi.Defined() {
		return missing
	}
	return between(e, func(x eval.Float) string { return fixed(100*x, 1) }) + " %"
}

func marginAt(r *eval.Result, t float64) int {
	return slices.IndexFunc(r.Margins, func(a eval.AtMargin) bool { return a.Margin == t })
}

type partTable struct {
	margin  float64
	columns []metricColumn
	table   textTable
	names   []string
	vd, rvd []eval.Rate
}

func newParts(what string, t float64) *partTable {
	p := &partTable{margin: t, table: textTable{left: 1, head: []string{what}}}
	p.columns = slices.Concat([]metricColumn{{"helped", "frr", asFraction}}, brokenColumns("vd", symbolAt("vd", t)),
		[]metricColumn{
			{symbolAt("rvd", t), "rvd", asPercent},
			{symbol("crg.median"), "crg.median", func(v eval.Value) string { return change(v.Value, 1) }},
			{"accuracy", "accuracy_quant", asPercent},
		})
	for _, c := range p.columns {
		p.table.head = append(p.table.head, c.head)
	}
	return p
}

func (p *partTable) add(name string, r *eval.Result) {
	at := marginAt(r, p.margin)
	if at < 0 {
		return
	}
	cells := []string{name}
	for _, c := range p.columns {
		cells = append(cells, c.cell(r, at))
	}
	p.table.row(cells...)
	a := &r.Margins[at]
	p.names, p.vd, p.rvd = append(p.names, name), append(p.vd, a.Rate("vd")), append(p.rvd, a.Rate("rvd"))
}

func (p *partTable) mark(g *eval.GroupGap) {
	column := 1 + slices.IndexFunc(p.columns, func(c metricColumn) bool { return c.metric == g.Metric })
	row := slices.Index(p.names, g.Worst)
	if column == 0 || row < 0 {
		return
	}
	p.table.rows[row][column] += " (worst)"
	p.table.styleAt(cellAt{row, column}, "bad")
}

func (p *partTable) figures(caption string, r *eval.Result) []captionedChart {
	return bars(fmt.Sprintf("%s (t = %s). Error bars: %s intervals.", caption, margin(p.margin), confidence(r)), p.names,
		p.vd, p.rvd)
}

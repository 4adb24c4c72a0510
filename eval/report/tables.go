package report

import (
	"cmp"
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

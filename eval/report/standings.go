package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
)

// besides is how many models stand beside the first one in one table.
const besides = 2

// standings are the tables of all models: as few as are not too wide.
func standings(c *Comparison, how detail) []block {
	t := c.Comparison
	var bs []block
	rows := t.Rows
	if how == brief {
		rows = headlines(t)
	}
	for from := 1; from == 1 || from < len(t.Names); from += besides {
		to := min(from+besides, len(t.Names))
		b := block{title: "Metrics"}
		b.table = standing(t, rows, from, to)
		if len(b.table.rows) == 0 {
			continue
		}
		if from > 1 {
			b.title = "Metrics, continued"
		} else if how == full {
			b.figures = comparisonFigures(t)
		}
		bs = append(bs, b)
	}
	if len(bs) > 0 {
		last := &bs[len(bs)-1]
		last.after = append(last.after, comparisonLegend(c, len(rows) < len(t.Rows))...)
	}
	return bs
}

// headlines are the rows that a brief view shows: those without a margin, and the others at the margin that stands for the curve.
func headlines(t *eval.Comparison) []eval.ComparisonRow {
	if len(t.Results) == 0 {
		return t.Rows
	}
	r := t.Results[0]
	i := r.Headline()
	return slices.DeleteFunc(slices.Clone(t.Rows), func(row eval.ComparisonRow) bool {
		known := slices.ContainsFunc(row.Cells, func(c eval.Cell) bool { return c.Value.Value.Defined() })
		return !known || row.Margin != nil && i >= 0 && *row.Margin != r.Margins[i].Margin
	})
}

// standing is the table of the first model and those from from to to.
func standing(t *eval.Comparison, rows []eval.ComparisonRow, from, to int) table {
	out := table{left: 1, head: []string{""}}
	if len(t.Names) == 0 {
		return out
	}
	out.head = append(out.head, t.Names[0])
	for k := from; k < to; k++ {
		out.head = append(out.head, t.Names[k], "vs "+t.Names[0], "")
	}
	for i := range rows {
		row := &rows[i]
		if len(row.Cells) < to {
			continue
		}
		m, _ := eval.MetricBy(row.Metric)
		cells := []string{rowName(row), amount(m.Unit, row.Cells[0].Value.Value)}
		for k := from; k < to; k++ {
			cells = append(cells, comparisonCells(m.Unit, &row.Cells[k])...)
		}
		out.row(cells...)
		for k := from; k < to; k++ {
			switch row.Cells[k].Call {
			case eval.BetterThan:
				out.mood(3+3*(k-from), "good")
			case eval.WorseThan:
				out.mood(3+3*(k-from), "bad")
			}
		}
	}
	return out
}

// comparisonCells are a model's value, the difference, or ~ where nothing can be said of it, and what was tested.
func comparisonCells(unit string, c *eval.Cell) []string {
	delta, test := difference(unit, c.Delta.Value), ""
	if c.Call == eval.Alike {
		delta = string(eval.Alike)
	}
	if c.P.Defined() {
		test = fmt.Sprintf("(p=%s n=%d)", probability(c.P), c.Delta.N)
		test = strings.Replace(test, "p=<", "p<", 1)
	}
	return []string{amount(unit, c.Value.Value), delta, test}
}

func comparisonLegend(c *Comparison, shortened bool) []string {
	var tests []string
	for _, row := range c.Comparison.Rows {
		for _, cell := range row.Cells {
			if cell.Test != "" && !slices.Contains(tests, cell.Test) {
				tests = append(tests, cell.Test)
			}
		}
	}
	slices.Sort(tests)
	lines := []string{
		fmt.Sprintf("~: no difference can be told with confidence %s; p: how often chance alone would make such a difference, adjusted (Holm) for the models in the row; n: people who count in both",
			strconv.FormatFloat(c.Comparison.Confidence, 'g', 6, 64)),
	}
	if len(tests) > 0 {
		lines = append(lines, "tests: "+strings.Join(tests, ", ")+", of the same people under both models; pp: percentage points")
	}
	if shortened {
		lines = append(lines, "Other required margins are in the JSON, CSV and HTML reports; cfq explain says what a metric is.")
	}
	return lines
}

// comparisonFigures shows VD and RVD of the models at the margin that stands for the curve.
func comparisonFigures(t *eval.Comparison) []figure {
	if len(t.Results) == 0 || len(t.Results) != len(t.Names) {
		return nil
	}
	i := t.Results[0].Headline()
	if i < 0 {
		return nil
	}
	at := t.Results[0].Margins[i].Margin
	var vd, rvd []eval.Rate
	for _, r := range t.Results {
		a := near(r, at)
		if a == nil {
			return nil
		}
		vd, rvd = append(vd, a.VD), append(rvd, a.RVD)
	}
	return bars("Promises that break, by model (t = "+margin(at)+"). Error bars: "+confidence(t.Results[0])+" intervals.", t.Names, vd, rvd)
}

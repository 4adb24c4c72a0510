package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
)

func comparisonPage(c *Comparison, how detail) *reportPage {
	p := &reportPage{Title: c.Title}
	p.add(differingMetrics(c.Comparison), warnings(c.Warnings), environment(c.Environment))
	p.add(comparedMetrics(c.Comparison, how)...)
	if how == full {
		p.add(glossary(c.Comparison))
	}
	files := []inputFile{{"original", c.Full}}
	for _, e := range c.Entries {
		files = append(files, inputFile{e.Alias, e.Model})
	}
	files = append(files, inputFile{"people", Model{File: c.Data}}, inputFile{"rows", Model{File: c.RowsFile}},
		inputFile{"task", Model{File: c.Task}}, inputFile{"promises", Model{File: c.Promises}},
		inputFile{"overrides", Model{File: c.Overrides}})
	p.add(recipes(c, how), filesBlock(files), runBlock(&c.Run))
	return p
}

func glossary(t *eval.Comparison) pageBlock {
	b := pageBlock{
		Title: "What the metrics are", Fold: true, Left: 4, Head: []string{"", "what", "unit", "better"},
	}
	seen := map[string]bool{}
	for i := range t.Rows {
		if m, _ := eval.MetricBy(t.Rows[i].Metric); !seen[m.ID] {
			seen[m.ID] = true
			b.row(nameOf(&m), m.Name, m.Unit, string(m.Better))
		}
	}
	return b
}

// recipes shows how the models were made, side by side: what they differ in, then the rest.
func recipes(c *Comparison, how detail) pageBlock {
	b := pageBlock{Title: "How the models were made", Fold: true, Left: 1 + len(c.Entries), Head: []string{""}}
	var keys []string
	for _, e := range c.Entries {
		b.Head = append(b.Head, e.Alias)
		for k := range e.Recipe {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var same [][]string
	for _, k := range slices.Compact(keys) {
		row := []string{k}
		for _, e := range c.Entries {
			row = append(row, orMissing(e.Recipe[k]))
		}
		if slices.ContainsFunc(row[1:], func(s string) bool { return s != row[1] }) {
			b.row(row...)
		} else {
			same = append(same, row)
		}
	}
	if how == full {
		b.Rows = append(b.Rows, same...)
	}
	return b
}

// differingMetrics says what is compared with what, and where each model is certainly better or worse.
func differingMetrics(t *eval.Comparison) pageBlock {
	b := pageBlock{}
	for k := 1; k < len(t.Names); k++ {
		calls := map[eval.Call][]string{}
		tested := 0
		for i := range t.Rows {
			if c := &t.Rows[i].Cells[k]; c.Test != "" {
				tested++
				calls[c.Call] = append(calls[c.Call], rowName(&t.Rows[i]))
			}
		}
		var said []string
		for _, x := range []struct {
			call eval.Call
			word string
		}{{eval.BetterThan, "better"}, {eval.WorseThan, "worse"}, {eval.Differs, "different"}} {
			const most = 6
			names, more := calls[x.call], ""
			if len(names) == 0 {
				continue
			}
			if len(names) > most {
				more = ", ..."
			}
			said = append(said, fmt.Sprintf("%s in %d (%s%s)", x.word, len(names),
				strings.Join(names[:min(most, len(names))], ", "), more))
		}
		b.Lines = append(b.Lines, fmt.Sprintf("%s compared with %s: of %s tested, %s.", t.Names[k], t.Names[0],
			message.Count(tested, "number"), cmp.Or(strings.Join(said, ", "), "no difference is significant")))
	}
	return b
}

// rowName is the symbol of a row's metric, or what else it is called, with the margin.
func rowName(r *eval.ComparisonRow) string {
	m, _ := eval.MetricBy(r.Metric)
	if r.Margin == nil {
		return nameOf(&m)
	}
	if s := symbolAt(m.ID, *r.Margin); s != m.Symbol {
		return s
	}
	return nameOf(&m) + " at " + margin(*r.Margin)
}

// nameOf is a name that fits into a table.
func nameOf(m *eval.Metric) string {
	const longest = 28
	if name := cmp.Or(m.Symbol, m.Name); len(name) <= longest {
		return name
	}
	return m.ID
}

// comparedMetrics are the tables of all models, each compared with the first one: as few as are not too wide. A brief
// view shows the metrics without a margin, and the others at the margin that stands for the curve.
func comparedMetrics(t *eval.Comparison, how detail) (tables []pageBlock) {
	const perTable = 2
	r := t.Results[0]
	at := r.Margins[r.Headline()].Margin
	rows := t.Rows
	if how == brief {
		rows = slices.DeleteFunc(slices.Clone(rows), func(row eval.ComparisonRow) bool {
			known := slices.ContainsFunc(row.Cells, func(c eval.Cell) bool { return c.Value.Value.Defined() })
			return !known || row.Margin != nil && *row.Margin != at
		})
	}
	for from := 1; from == 1 || from < len(t.Names); from += perTable {
		b := pageBlock{Title: "Metrics", Left: 1, Head: []string{"", t.Names[0]}}
		if from > 1 {
			b.Title = "Metrics, continued"
		}
		to := min(from+perTable, len(t.Names))
		for k := from; k < to; k++ {
			b.Head = append(b.Head, t.Names[k], "vs "+t.Names[0], "")
		}
		for i := range rows {
			row := &rows[i]
			m, _ := eval.MetricBy(row.Metric)
			cells := []string{rowName(row), atMost(t, row, 0) + amount(m.Unit, row.Cells[0].Value.Value)}
			for k := from; k < to; k++ {
				if style := map[eval.Call]string{eval.BetterThan: "good", eval.WorseThan: "bad"}[row.Cells[k].Call]; style != "" {
					b.style(i, len(cells)+1, style)
				}
				cells = append(cells, comparedCells(t, row, k, m.Unit)...)
			}
			b.row(cells...)
		}
		tables = append(tables, b)
	}
	var headlines []eval.AtMargin
	for _, r := range t.Results {
		headlines = append(headlines, r.Margins[r.Headline()])
	}
	tables[0].Figures = bars("Promises that break, by model", at, r, t.Names, headlines)
	tables[len(tables)-1].After = comparisonLegend(t, len(rows) < len(t.Rows))
	return tables
}

// atMost is what stands in front of a tau01 that no smaller margin was measured for.
func atMost(t *eval.Comparison, row *eval.ComparisonRow, model int) string {
	r := t.Results[model]
	if row.Metric == "tau01" && r.Tau01.AtMost || row.Metric == "rtau01" && r.RTau01.AtMost {
		return "<= "
	}
	return ""
}

// comparedCells are a model's value, the difference, or ~ where nothing can be said of it, and what was tested.
func comparedCells(t *eval.Comparison, row *eval.ComparisonRow, k int, unit string) []string {
	c := &row.Cells[k]
	delta, test := difference(unit, c.Delta.Value), ""
	first, this := atMost(t, row, 0), atMost(t, row, k)
	switch {
	case c.Call == eval.Alike:
		delta = string(eval.Alike)
	case first == this:
	case this != "":
		delta = "<= " + delta
	default:
		delta = ">= " + delta
	}
	if c.P.Defined() {
		test = fmt.Sprintf("(p=%s n=%d)", probability(c.P), c.Delta.N)
		test = strings.Replace(test, "p=<", "p<", 1)
	}
	return []string{this + amount(unit, c.Value.Value), delta, test}
}

func comparisonLegend(t *eval.Comparison, shortened bool) []string {
	var tests []string
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			if cell.Test != "" && !slices.Contains(tests, cell.Test) {
				tests = append(tests, cell.Test)
			}
		}
	}
	slices.Sort(tests)
	lines := []string{fmt.Sprintf("~: no significant difference at confidence %.6g; p: p-value, adjusted (Holm) for all "+
		"tests of the comparison; n: people that count in both", t.Confidence)}
	if len(tests) > 0 {
		lines = append(lines, "tests: "+strings.Join(tests, ", ")+", paired by person; pp: percentage points")
	}
	if shortened {
		lines = append(lines, "Other required margins are in the JSON, CSV and HTML reports; cfq explain defines the "+
			"metrics.")
	}
	return lines
}

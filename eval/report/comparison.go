package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/lists"
	"cfq/internal/message"
)

func comparisonPage(c *Comparison, full bool) *reportPage {
	p, words := &reportPage{Title: c.Title}, newSentences()
	p.add(calledDifferences(c.Comparison), bullets("Warnings", c.Warnings),
		bullets("Set by the environment", words.Lines("environment", c.Environment)))
	p.add(comparedMetrics(words, c.Comparison, full)...)
	if full {
		p.add(words.section("glossary", c.Comparison))
	}
	p.add(recipes("How the models were made", full, c.Entries...),
		words.files(&c.Inputs, slices.Concat([]Entry{{Alias: "original", Model: c.Full}}, c.Entries)...),
		words.section("run", &c.Run))
	return p
}

// calledDifferences says what is compared with what, and where each model is certainly better or worse.
func calledDifferences(t *eval.Comparison) (b pageBlock) {
	for k := 1; k < len(t.Names); k++ {
		calls, tested := map[eval.Call][]string{}, 0
		for i := range t.Rows {
			if c := &t.Rows[i].Cells[k]; c.Test != "" {
				tested++
				calls[c.Call] = append(calls[c.Call], rowName(&t.Rows[i]))
			}
		}
		said := tallies(inNumbers("better", calls[eval.BetterThan]), inNumbers("worse", calls[eval.WorseThan]),
			inNumbers("different", calls[eval.Differs]))
		b.Lines = append(b.Lines, fmt.Sprintf("%s compared with %s: of %s tested, %s.", t.Names[k], t.Names[0],
			message.Count(tested, "number"), cmp.Or(said, "no difference is significant")))
	}
	return b
}

// inNumbers says in which numbers a model is better, say: "" in none.
func inNumbers(what string, names []string) string {
	const most = 6
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += ", ..."
	}
	if list == "" {
		return ""
	}
	return fmt.Sprintf("%s in %d (%s)", what, len(names), list)
}

// rowName is the name of a row's metric, with the margin.
func rowName(r *eval.ComparisonRow) string {
	m, _ := metrics.By(r.Metric)
	if r.Margin == nil {
		return nameOf(m)
	}
	if s := symbolAt(m.ID, *r.Margin); s != m.Symbol {
		return s
	}
	return nameOf(m) + " at " + margin(*r.Margin)
}

func nameOf(m metrics.Metric) string {
	const longest = 28
	if name := cmp.Or(m.Symbol, m.Name); len(name) <= longest {
		return name
	}
	return m.ID
}

// comparedMetrics are the tables of all models, each compared with the first one: as few as are not too wide. A brief
// view shows the metrics without a margin, and the others at the margin that stands for the curve.
func comparedMetrics(words pageWords, t *eval.Comparison, full bool) (tables []pageBlock) {
	const perTable = 2
	r := t.Results[0]
	at := r.Margins[r.Headline()].Margin
	rows := t.Rows
	if !full {
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
			cells := []string{rowName(row), comparedValue(t, row, 0)}
			for k := from; k < to; k++ {
				if style := map[eval.Call]string{eval.BetterThan: "good", eval.WorseThan: "bad"}[row.Cells[k].Call]; style != "" {
					b.style(i, len(cells)+1, style)
				}
				cells = append(cells, comparedValue(t, row, k), comparedDelta(t, row, k), comparedTest(&row.Cells[k]))
			}
			b.row(cells...)
		}
		tables = append(tables, b)
	}
	headlines := lists.Map(t.Results, func(r *eval.Result) eval.AtMargin { return r.Margins[r.Headline()] })
	tables[0].Figures = brokenChart("Promises that break, by model", r, t.Names, headlines)
	tables[len(tables)-1].After = comparisonLegend(words, t, len(rows) < len(t.Rows))
	return tables
}

// openTau says that a model's tau01 is a bound: no smaller margin was measured.
func openTau(t *eval.Comparison, row *eval.ComparisonRow, model int) bool {
	r := t.Results[model]
	return row.Metric == "tau01" && r.Tau01.AtMost || row.Metric == "rtau01" && r.RTau01.AtMost
}

func comparedValue(t *eval.Comparison, row *eval.ComparisonRow, k int) string {
	m, _ := metrics.By(row.Metric)
	return bounded(openTau(t, row, k), amount(m.Unit, row.Cells[k].Value.Value))
}

// comparedDelta is the difference from the first model, or ~ where nothing can be said of it.
func comparedDelta(t *eval.Comparison, row *eval.ComparisonRow, k int) string {
	c := &row.Cells[k]
	m, _ := metrics.By(row.Metric)
	delta := difference(m.Unit, c.Delta.Value)
	switch first, this := openTau(t, row, 0), openTau(t, row, k); {
	case c.Call == eval.Alike:
		return string(eval.Alike)
	case this && !first:
		return "<= " + delta
	case first && !this:
		return ">= " + delta
	}
	return delta
}

func comparedTest(c *eval.Cell) string {
	if !c.P.Defined() {
		return ""
	}
	return strings.Replace(fmt.Sprintf("(p=%s n=%d)", probability(c.P), c.Delta.N), "p=<", "p<", 1)
}

func comparisonLegend(words pageWords, t *eval.Comparison, shortened bool) []string {
	tests := map[string]bool{}
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			tests[cell.Test] = true
		}
	}
	delete(tests, "")
	return words.Lines("compared", struct {
		Confidence float64
		Tests      []string
		Shortened  bool
	}{t.Confidence, slices.Sorted(maps.Keys(tests)), shortened})
}

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
)

func comparisonPage(c *Comparison, how detail) *reportPage {
	p := &reportPage{title: c.Title}
	p.blocks = append(p.blocks, opening(c))
	if len(c.Warnings) > 0 {
		p.blocks = append(p.blocks, pageBlock{title: "Warnings", lines: c.Warnings, bullet: true})
	}
	if len(c.Environment) > 0 {
		p.blocks = append(p.blocks, environment(c.Environment))
	}
	p.blocks = append(p.blocks, standings(c, how)...)
	if how == full {
		p.blocks = append(p.blocks, glossary(c.Comparison))
	}
	if b := recipes(c, how); len(b.table.rows) > 0 {
		p.blocks = append(p.blocks, b)
	}
	for _, b := range []pageBlock{entries(c), runBlock(&c.Run)} {
		if len(b.table.rows) > 0 {
			b.table.prune()
			p.blocks = append(p.blocks, b)
		}
	}
	return p.legible()
}

func glossary(t *eval.Comparison) pageBlock {
	b := pageBlock{title: "What the metrics are", fold: true}
	b.table = textTable{left: 4, head: []string{"", "what", "unit", "better"}}
	seen := map[string]bool{}
	for i := range t.Rows {
		if m, _ := eval.MetricBy(t.Rows[i].Metric); !seen[m.ID] {
			seen[m.ID] = true
			b.table.row(nameOf(&m), m.Name, m.Unit, string(m.Better))
		}
	}
	return b
}

func recipes(c *Comparison, how detail) pageBlock {
	b := pageBlock{title: "How the models were made", fold: true}
	b.table = textTable{left: 1 + len(c.Entries), head: []string{""}}
	keys := map[string]bool{}
	for _, e := range c.Entries {
		b.table.head = append(b.table.head, e.Alias)
		for k := range e.Recipe {
			keys[k] = true
		}
	}
	var same [][]string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		row := []string{k}
		for _, e := range c.Entries {
			row = append(row, orMissing(e.Recipe[k]))
		}
		if slices.ContainsFunc(row[1:], func(s string) bool { return s != row[1] }) {
			b.table.row(row...)
		} else {
			same = append(same, row)
		}
	}
	if how == full {
		b.table.rows = append(b.table.rows, same...)
	}
	return b
}

func opening(c *Comparison) pageBlock {
	t := c.Comparison
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
			if list := calls[x.call]; len(list) > 0 {
				said = append(said, fmt.Sprintf("%s in %d (%s)", x.word, len(list), abbreviated(list)))
			}
		}
		b.lines = append(b.lines, fmt.Sprintf("%s compared with %s: of %d %s tested, %s.", t.Names[k], t.Names[0], tested,
			message.Plural(tested, "number", "numbers"), cmp.Or(strings.Join(said, ", "), "no difference is significant")))
	}
	return b
}

func abbreviated(names []string) string {
	const maxNames = 6
	if len(names) > maxNames {
		return strings.Join(names[:maxNames], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// longName is how many letters of a metric's name fit into a table: the ID of others is shorter.
const longName = 28

func rowName(r *eval.ComparisonRow) string {
	m, _ := eval.MetricBy(r.Metric)
	name := nameOf(&m)
	if r.Margin == nil {
		return name
	}
	if s := symbolAt(m.ID, *r.Margin); s != m.Symbol {
		return s
	}
	return name + " at " + margin(*r.Margin)
}

func nameOf(m *eval.Metric) string {
	if name := cmp.Or(m.Symbol, m.Name); len(name) <= longName {
		return name
	}
	return m.ID
}

func entries(c *Comparison) pageBlock {
	b := pageBlock{title: "Files", table: fileTable(), fold: true}
	b.table.model("original", c.Full)
	for _, e := range c.Entries {
		b.table.model(e.Alias, e.Model)
	}
	for _, f := range []inputFile{
		{"people", c.Data}, {"rows", c.RowsFile}, {"task", c.Task}, {"promises", c.Promises}, {"overrides", c.Overrides},
	} {
		b.table.file(f)
	}
	return b
}

const perTable = 2

func standings(c *Comparison, how detail) []pageBlock {
	t := c.Comparison
	var bs []pageBlock
	rows := t.Rows
	if how == brief {
		rows = headlines(t)
	}
	for from := 1; from == 1 || from < len(t.Names); from += perTable {
		to := min(from+perTable, len(t.Names))
		b := pageBlock{title: "Metrics"}
		b.table = standing(t, rows, from, to)
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

func headlines(t *eval.Comparison) []eval.ComparisonRow {
	r := t.Results[0]
	at := r.Margins[r.Headline()].Margin
	return slices.DeleteFunc(slices.Clone(t.Rows), func(row eval.ComparisonRow) bool {
		known := slices.ContainsFunc(row.Cells, func(c eval.Cell) bool { return c.Value.Value.Defined() })
		return !known || row.Margin != nil && *row.Margin != at
	})
}

// standing is the table of the first model and those from from to to.
func standing(t *eval.Comparison, rows []eval.ComparisonRow, from, to int) textTable {
	out := textTable{left: 1, head: []string{"", t.Names[0]}}
	for k := from; k < to; k++ {
		out.head = append(out.head, t.Names[k], "vs "+t.Names[0], "")
	}
	for i := range rows {
		row := &rows[i]
		m, _ := eval.MetricBy(row.Metric)
		cells := []string{rowName(row), atMost(t, row, 0) + amount(m.Unit, row.Cells[0].Value.Value)}
		for k := from; k < to; k++ {
			shown := comparisonCells(m.Unit, &row.Cells[k])
			shown[0] = atMost(t, row, k) + shown[0]
			switch first, this := atMost(t, row, 0), atMost(t, row, k); {
			case first == this || shown[1] == string(eval.Alike):
			case this != "":
				shown[1] = "<= " + shown[1]
			default:
				shown[1] = ">= " + shown[1]
			}
			cells = append(cells, shown...)
		}
		out.row(cells...)
		for k := from; k < to; k++ {
			switch row.Cells[k].Call {
			case eval.BetterThan:
				out.style(3+3*(k-from), "good")
			case eval.WorseThan:
				out.style(3+3*(k-from), "bad")
			}
		}
	}
	return out
}

func atMost(t *eval.Comparison, row *eval.ComparisonRow, model int) string {
	r := t.Results[model]
	if row.Metric == "tau01" && r.Tau01.AtMost || row.Metric == "rtau01" && r.RTau01.AtMost {
		return "<= "
	}
	return ""
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
		fmt.Sprintf("~: no significant difference at confidence %s; p: p-value, adjusted (Holm) for all tests of the "+
			"comparison; n: people that count in both",
			strconv.FormatFloat(c.Comparison.Confidence, 'g', 6, 64)),
	}
	if len(tests) > 0 {
		lines = append(lines, "tests: "+strings.Join(tests, ", ")+", paired by person; pp: percentage points")
	}
	if shortened {
		lines = append(lines, "Other required margins are in the JSON, CSV and HTML reports; cfq explain defines the "+
			"metrics.")
	}
	return lines
}

func comparisonFigures(t *eval.Comparison) []captionedChart {
	i := t.Results[0].Headline()
	var vd, rvd []eval.Rate
	for _, r := range t.Results {
		vd, rvd = append(vd, r.Margins[i].Rate("vd")), append(rvd, r.Margins[i].Rate("rvd"))
	}
	first := t.Results[0]
	return bars("Promises that break, by model (t = "+margin(first.Margins[i].Margin)+"). Error bars: "+confidence(first)+
		" intervals.", t.Names, vd, rvd)
}

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/eval"
)

// comparisonPage lays out c.
func comparisonPage(c *Comparison, how detail) *page {
	p := &page{title: c.Title}
	p.blocks = append(p.blocks, opening(c))
	if len(c.Warnings) > 0 {
		p.blocks = append(p.blocks, block{title: "Warnings", lines: c.Warnings, bullet: true})
	}
	p.blocks = append(p.blocks, standings(c, how)...)
	if how == full {
		p.blocks = append(p.blocks, glossary(c.Comparison))
	}
	if b := recipes(c, how); len(b.table.rows) > 0 {
		p.blocks = append(p.blocks, b)
	}
	p.blocks = append(p.blocks, entries(c))
	return p
}

// glossary says what the metrics of the tables are.
func glossary(t *eval.Comparison) block {
	b := block{title: "What the metrics are", fold: true, table: table{left: 4, head: []string{"", "what", "unit", "better"}}}
	seen := map[string]bool{}
	for i := range t.Rows {
		m, ok := eval.MetricBy(t.Rows[i].Metric)
		if !ok || seen[m.ID()] {
			continue
		}
		seen[m.ID()] = true
		b.table.row(nameOf(&m), m.Name, m.Unit, string(m.Better))
	}
	return b
}

// recipes shows how the models were made, side by side: what they differ in, then the rest.
func recipes(c *Comparison, how detail) block {
	b := block{title: "How the models were made", fold: true, table: table{left: 1 + len(c.Entries), head: []string{""}}}
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

// opening says what is compared with what, and where each model is certainly better or worse.
func opening(c *Comparison) block {
	t := c.Comparison
	b := block{}
	if len(t.Names) == 0 {
		return block{lines: []string{"There is nothing to compare."}}
	}
	for k := 1; k < len(t.Names); k++ {
		calls := map[eval.Call][]string{}
		tested := 0
		for i := range t.Rows {
			row := &t.Rows[i]
			if k >= len(row.Cells) || row.Cells[k].Test == "" {
				continue
			}
			tested++
			call := row.Cells[k].Call
			calls[call] = append(calls[call], rowName(row))
		}
		var said []string
		for _, x := range []struct {
			call eval.Call
			word string
		}{{eval.BetterThan, "better"}, {eval.WorseThan, "worse"}, {eval.Differs, "different"}} {
			if list := calls[x.call]; len(list) > 0 {
				said = append(said, fmt.Sprintf("%s in %d (%s)", x.word, len(list), few(list)))
			}
		}
		line := fmt.Sprintf("%s against %s: of %d %s that were tested, ", t.Names[k], t.Names[0], tested, plural(tested, "number", "numbers"))
		if len(said) == 0 {
			line += "none differs beyond chance."
		} else {
			line += strings.Join(said, ", ") + "."
		}
		b.lines = append(b.lines, line)
	}
	return b
}

// few lists names, of many the first ones.
func few(names []string) string {
	const most = 6
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// longName is how many letters of a metric's name fit into a table: the ID of others is shorter.
const longName = 28

// rowName is the symbol of a row's metric, or what else it is called, with the margin.
func rowName(r *eval.ComparisonRow) string {
	m, ok := eval.MetricBy(r.Metric)
	if !ok {
		return r.Metric
	}
	name := nameOf(&m)
	if r.Margin == nil {
		return name
	}
	if s := symbolAt(m.Key, *r.Margin); s != m.Symbol {
		return s
	}
	return name + " at " + margin(*r.Margin)
}

// nameOf is what a table calls a metric.
func nameOf(m *eval.Metric) string {
	if name := cmp.Or(m.Symbol, m.Name); len(name) <= longName {
		return name
	}
	return m.ID()
}

func entries(c *Comparison) block {
	b := block{title: "Files", table: fileTable(), fold: true}
	b.table.model("original", c.Full)
	for _, e := range c.Entries {
		b.table.model(e.Alias, e.Model)
	}
	b.table.files(c.Data, c.Task, c.Promises, c.Overrides)
	if c.Tool != "" {
		b.after = []string{"Made by " + c.Tool + "."}
	}
	return b
}

package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"cfq/eval"
)

// widths names the widths of the layers: their mean where rows have widths of their own,
// else the most frequent ones where the networks differ.
func (r *row) widths() string {
	count := map[string]int{}
	best, byRow := "", false
	means := make([]float64, len(r.values[0].Layers))
	for _, m := range r.values {
		var parts []string
		for i, l := range m.Layers {
			parts = append(parts, fmt.Sprintf("%g", l.Bits))
			means[i] += l.Bits / float64(len(r.values))
			byRow = byRow || len(l.Rows) > 1
		}
		k := strings.Join(parts, " ")
		count[k]++
		if best == "" || count[k] > count[best] || count[k] == count[best] && k < best {
			best = k
		}
	}
	switch {
	case byRow:
		return strings.Trim(fmt.Sprintf("%.1f", means), "[]")
	case len(count) > 1:
		return best + " (mostly)"
	}
	return best
}

// column is a column of the tables.
type column struct {
	head   string
	format string
	value  func(m measured) eval.Float
}

// The values that several tables show; vd and rvd at margin 0.1.
func accuracyFull(m measured) eval.Float { return m.eval.Decisions.AccuracyFull.Value }
func accuracy(m measured) eval.Float     { return m.eval.Decisions.AccuracyQuant.Value }
func vd(m measured) eval.Float           { return m.eval.Margins[1].VD.Value }
func rvd(m measured) eval.Float          { return m.eval.Margins[1].RVD.Value }

// writeColumns writes one table under its title.
func writeColumns(w io.Writer, title string, rows []*row, columns []column) {
	people := rows[0].mean(func(m measured) eval.Float { return eval.Float(m.eval.Population.Evaluated) })
	what := fmt.Sprintf("One network; %.0f people evaluated.", people)
	if n := len(rows[0].values); n > 1 {
		what = fmt.Sprintf("Mean of %d networks; %.0f people evaluated per network on average.", n, people)
	}
	fmt.Fprintf(w, "\n### %s\n\n%s\n\n| method | widths |", title, what)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprint(w, "\n|---|---|"+strings.Repeat("---:|", len(columns))+"\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s |%s\n", r.label, r.widths(), r.cells(columns))
	}
}

// cells are the row's values in the columns.
func (r *row) cells(columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", number(c.format, r.mean(c.value)))
	}
	return b.String()
}

// number formats a value that may be undefined, zero without a minus.
func number(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "none"
	}
	s := fmt.Sprintf(format, v)
	if strings.Trim(s, "-0.") == "" {
		return strings.Replace(s, "-", "+", 1)
	}
	return s
}

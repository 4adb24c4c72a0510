package main

import (
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq"
	"cfq/eval"
)

// row collects one variant's measurements, one value per model.
type row struct {
	label  string
	values [][]float64 // column, model
	bits   map[string]int
	people []float64
}

// column is a column of the tables.
type column struct {
	head   string
	format string
	value  func(q *cfq.Result, r *eval.Result) float64
}

func columns() []column {
	at := func(i int, f func(m *eval.AtMargin) eval.Float) func(*cfq.Result, *eval.Result) float64 {
		return func(_ *cfq.Result, r *eval.Result) float64 { return float64(f(&r.Margins[i])) }
	}
	vd := func(m *eval.AtMargin) eval.Float { return m.VD.Value }
	rvd := func(m *eval.AtMargin) eval.Float { return m.RVD.Value }
	return []column{
		{"bytes", "%.0f", func(q *cfq.Result, _ *eval.Result) float64 { return float64(q.Bytes) }},
		{"accuracy", "%+.4f", func(_ *cfq.Result, r *eval.Result) float64 {
			return float64(r.Decisions.AccuracyQuant.Value - r.Decisions.AccuracyFull.Value)
		}},
		{"VD(0)", "%.3f", at(0, vd)},
		{"VD(.1)", "%.3f", at(1, vd)},
		{"VD(.25)", "%.3f", at(2, vd)},
		{"VD(.5)", "%.3f", at(3, vd)},
		{"RVD(.1)", "%.3f", at(1, rvd)},
		{"PGD-first", "%.3f", func(_ *cfq.Result, r *eval.Result) float64 { return float64(r.First.VD.Value) }},
		{"rms", "%.3f", at(0, func(m *eval.AtMargin) eval.Float { return m.MarginError.RMS })},
		{"tau01", "%.2f", func(_ *cfq.Result, r *eval.Result) float64 { return float64(r.Tau01.Value) }},
		{"CRG mean", "%+.3f", at(1, func(m *eval.AtMargin) eval.Float { return m.CRG.Mean })},
		{"CRG sums", "%+.3f", at(1, func(m *eval.AtMargin) eval.Float { return m.CRG.RatioOfSums })},
		{"CRG median", "%+.3f", at(1, func(m *eval.AtMargin) eval.Float { return m.CRG.Median })},
	}
}

func (r *row) add(q *cfq.Result, res *eval.Result) {
	if r.values == nil {
		r.values, r.bits = make([][]float64, len(columns())), map[string]int{}
	}
	for i, c := range columns() {
		r.values[i] = append(r.values[i], c.value(q, res))
	}
	var bits []string
	for _, l := range q.Layers {
		bits = append(bits, fmt.Sprint(l.Bits))
	}
	r.bits[strings.Join(bits, " ")]++
	r.people = append(r.people, float64(res.Population.Evaluated))
}

// write writes a data set's table: means over the models.
func write(w io.Writer, d dataset, rows []*row, seeds int) {
	fmt.Fprintf(w, "\n### %s\n\nMean of %d models; %.0f people evaluated per model on average.\n\n", d.title, seeds, stat.Mean(rows[0].people, nil))
	fmt.Fprint(w, "| method | widths |")
	for _, c := range columns() {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprint(w, "\n|---|---|"+strings.Repeat("---:|", len(columns()))+"\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s |", r.label, r.widths())
		for i, c := range columns() {
			fmt.Fprintf(w, " "+c.format+" |", stat.Mean(r.values[i], nil))
		}
		fmt.Fprintln(w)
	}
}

// widths names the widths that the variant gave its layers, the most frequent
// where the models differ.
func (r *row) widths() string {
	best := ""
	for k, n := range r.bits {
		if best == "" || n > r.bits[best] || (n == r.bits[best] && k < best) {
			best = k
		}
	}
	if len(r.bits) > 1 {
		return best + " (mostly)"
	}
	return best
}

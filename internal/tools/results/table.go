package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq/eval"
	"cfq/ptq"
)

// metrics are what is measured of one file.
type metrics struct {
	widths                 []float64 // mean width of each layer
	byRow                  bool      // widths differ within a layer
	integer                int       // layers on integer kernels
	people                 float64
	bits, stored, bytes    float64
	accuracyFull, accuracy float64
	vd0, vd1, rvd1         float64
	first, rms, tau        float64
	mean, sums             float64 // CRG at margin 0.1
	dirSim                 float64 // at margin 0.1
}

// metricsOf picks from what Quantize and Compare say. The margins are eval's own: 0, 0.1,
// 0.25, 0.5.
func metricsOf(q *ptq.Result, r *eval.Result) metrics {
	at0, at1 := &r.Margins[0], &r.Margins[1]
	m := metrics{
		people: float64(r.Population.Evaluated),
		bits:   q.Bits, stored: q.Stored, bytes: float64(q.Bytes),
		accuracyFull: float64(r.Decisions.AccuracyFull.Value), accuracy: float64(r.Decisions.AccuracyQuant.Value),
		vd0: float64(at0.VD.Value), vd1: float64(at1.VD.Value), rvd1: float64(at1.RVD.Value),
		first: float64(r.First.VD.Value), rms: float64(at0.MarginError.RMS.Value), tau: float64(r.Tau01.Value),
		mean: float64(at1.CRG.Mean.Value), sums: float64(at1.CRG.RatioOfSums.Value),
		dirSim: float64(at1.DirSim.Value),
	}
	for _, l := range q.Layers {
		m.widths = append(m.widths, l.Bits)
		m.byRow = m.byRow || len(l.Rows) > 1
	}
	for _, l := range q.Verified.Layers {
		if strings.HasPrefix(l.Kernel, "QGemm") || strings.HasPrefix(l.Kernel, "QLinear") {
			m.integer++
		}
	}
	return m
}

// row collects one variant's measurements, one for each network.
type row struct {
	label  string
	values []metrics
}

// mean is the mean over the networks.
func (r *row) mean(f func(m *metrics) float64) float64 {
	var sum []float64
	for i := range r.values {
		sum = append(sum, f(&r.values[i]))
	}
	return stat.Mean(sum, nil)
}

// find returns the row of a label.
func find(rows []*row, label string) (*row, error) {
	i := slices.IndexFunc(rows, func(r *row) bool { return r.label == label })
	if i < 0 {
		return nil, fmt.Errorf("no row %q", label)
	}
	return rows[i], nil
}

// widths names the widths of the layers: their mean where rows have widths of their own,
// else the most frequent ones where the networks differ.
func (r *row) widths() string {
	count := map[string]int{}
	best := ""
	byRow := false
	means := make([]float64, len(r.values[0].widths))
	for _, m := range r.values {
		var parts []string
		for i, w := range m.widths {
			parts = append(parts, fmt.Sprintf("%g", w))
			means[i] += w / float64(len(r.values))
		}
		k := strings.Join(parts, " ")
		count[k]++
		if best == "" || count[k] > count[best] || count[k] == count[best] && k < best {
			best = k
		}
		byRow = byRow || m.byRow
	}
	switch {
	case byRow:
		var parts []string
		for _, w := range means {
			parts = append(parts, fmt.Sprintf("%.1f", w))
		}
		return strings.Join(parts, " ")
	case len(count) > 1:
		return best + " (mostly)"
	}
	return best
}

// column is a column of the tables.
type column struct {
	head   string
	format string
	value  func(m *metrics) float64
}

func columns() []column {
	return []column{
		{"stored bits", "%.2f", func(m *metrics) float64 { return m.stored }},
		{"bytes", "%.0f", func(m *metrics) float64 { return m.bytes }},
		{"accuracy", "%+.4f", func(m *metrics) float64 { return m.accuracy - m.accuracyFull }},
		{"VD(0.1)", "%.4f", func(m *metrics) float64 { return m.vd1 }},
		{"RVD(0.1)", "%.4f", func(m *metrics) float64 { return m.rvd1 }},
		{"PGD-first", "%.3f", func(m *metrics) float64 { return m.first }},
		{"rms", "%.3f", func(m *metrics) float64 { return m.rms }},
		{"tau01", "%.3f", func(m *metrics) float64 { return m.tau }},
		{"CRG sums", "%+.4f", func(m *metrics) float64 { return m.sums }},
	}
}

func writeTitle(w io.Writer, title string, rows []*row) {
	n := len(rows[0].values)
	people := rows[0].mean(func(m *metrics) float64 { return m.people })
	if n == 1 {
		fmt.Fprintf(w, "\n### %s\n\nOne network; %.0f people evaluated.\n", title, people)
		return
	}
	fmt.Fprintf(w, "\n### %s\n\nMean of %d networks; %.0f people evaluated per network on average.\n", title, n, people)
}

// writeTable writes one table.
func writeTable(w io.Writer, rows []*row) {
	fmt.Fprint(w, "\n| method | widths |")
	for _, c := range columns() {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprint(w, "\n|---|---|"+strings.Repeat("---:|", len(columns()))+"\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s |", r.label, r.widths())
		for _, c := range columns() {
			fmt.Fprintf(w, " %s |", number(c.format, r.mean(c.value)))
		}
		fmt.Fprintln(w)
	}
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

package main

import (
	"fmt"
	"io"
	"math"
)

// target is a value that the default method is meant to keep to.
type target struct {
	data, variant string
	what          string
	limit         string
	format        string
	value         func(r *row) float64
}

// targets lists them; all are means over the networks.
func targets() []target {
	vd := func(r *row) float64 { return r.mean(func(m *metrics) float64 { return m.vd1 }) }
	tau := func(r *row) float64 { return r.mean(func(m *metrics) float64 { return m.tau }) }
	return []target{
		{"adult", ours, "VD(0.1)", "<= 0.030", "%.4f", vd},
		{"adult", ours, "RVD(0.1)", "<= 0.035", "%.4f", func(r *row) float64 { return r.mean(func(m *metrics) float64 { return m.rvd1 }) }},
		{"adult", ours, "tau01", "<= 0.125", "%.4f", tau},
		{"adult", ours, "CRG sums, absolute", "<= 0.01", "%.4f", func(r *row) float64 { return math.Abs(r.mean(func(m *metrics) float64 { return m.sums })) }},
		{"adult", ours, "DirSim", ">= 0.99", "%.4f", func(r *row) float64 { return r.mean(func(m *metrics) float64 { return m.dirSim }) }},
		{"adult", ours, "change of accuracy, absolute", "<= 0.001", "%.4f", func(r *row) float64 {
			return math.Abs(r.mean(func(m *metrics) float64 { return m.accuracy - m.accuracyFull }))
		}},
		{"compas", ours, "VD(0.1)", "<= 0.002", "%.4f", vd},
		{"compas", ours, "tau01", "<= 0.035", "%.4f", tau},
		{"german", ours, "VD(0.1)", "<= 0.015", "%.4f", vd},
		{"adult", oursBytes, "VD(0.1)", "<= 0.050", "%.4f", vd},
		{"adult", oursThree, "VD(0.1)", "<= 0.09", "%.4f", vd},
		{"compas", oursThree, "VD(0.1)", "<= 0.004", "%.4f", vd},
		{"german", oursThree, "VD(0.1)", "<= 0.08", "%.4f", vd},
		{"adult", oursEight, "VD(0.1)", "<= 0.015", "%.4f", vd},
	}
}

// writeTargets writes each with what was measured.
func writeTargets(w io.Writer, rows map[string][]*row) error {
	titles := map[string]string{}
	for _, d := range datasets() {
		titles[d.name] = d.title
	}
	fmt.Fprint(w, "\n### Limits and values\n\n| data | method | what | limit | measured |\n|---|---|---|---:|---:|\n")
	for _, t := range targets() {
		r, err := find(rows[t.data], t.variant)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", titles[t.data], t.variant, t.what, t.limit, number(t.format, t.value(r)))
	}
	return nil
}

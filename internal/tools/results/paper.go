package main

import (
	"fmt"
	"io"
	"strings"

	"cfq/ptq"
)

// paperRow is a row of the paper's table of training-free quantization on Adult.
type paperRow struct {
	name   string
	method ptq.MethodName // "" where there is none
	budget float64
	// What the paper reports: Table "Training-free counterfactual-aware PTQ on Adult"
	// (tab:cf_ptq_results_adult), means.
	accuracy, vd, crg, dirSim float64
}

func paper() []paperRow {
	return []paperRow{
		{"PTQ INT8", "ptq", 8, .856, .071, .083, .842},
		{"PTQ INT4", "ptq", 4, .850, .176, .246, .691},
		{"Mixed-precision PTQ", "mixed-ptq", 4, .854, .121, .162, .754},
		{"CF-PTQ calibration", "cf-ptq-calib", 4, .854, .089, .118, .803},
		{"CF-PTQ + sensitivity allocation", "cf-ptq-paper", 4, .855, .074, .101, .826},
		{"CFQ-QAT", "", 0, .857, .061, .071, .858},
	}
}

// label is the row's name in the tables of the data sets.
func (p paperRow) label() string {
	if strings.Contains(p.name, "INT") {
		return fmt.Sprintf("%s (%s)", p.name, p.method)
	}
	return fmt.Sprintf("%s (%s, %g)", p.name, p.method, p.budget)
}

// writePaper writes the paper's numbers on Adult and those measured here.
func writePaper(w io.Writer, rows []*row) error {
	fmt.Fprint(w, "\n### The paper's methods on Adult\n\n")
	fmt.Fprint(w, "| method | accuracy (paper) | VD (paper) | CRG (paper) | DirSim (paper) | accuracy | VD, PGD-first | VD(0) |"+
		" VD(0.1) | RVD(0.1) | CRG(0.1) | DirSim(0.1) |\n")
	fmt.Fprint(w, "|---|"+strings.Repeat("---:|", 11)+"\n")
	fmt.Fprintf(w, "| full precision | | | | | %.3f |%s\n", rows[0].mean(func(m *metrics) float64 { return m.accuracyFull }), strings.Repeat(" |", 6))
	for _, p := range paper() {
		fmt.Fprintf(w, "| %s | %.3f | %.3f | %.3f | %.3f |", p.name, p.accuracy, p.vd, p.crg, p.dirSim)
		if p.method == "" {
			fmt.Fprintln(w, strings.Repeat(" |", 7))
			continue
		}
		r, err := find(rows, p.label())
		if err != nil {
			return err
		}
		fmt.Fprintln(w, here(r))
	}
	for _, label := range []string{ours, oursEight} {
		r, err := find(rows, label)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| this project: %s | | | | |%s\n", label, here(r))
	}
	fmt.Fprint(w, "\nColumns marked (paper) are means that the paper reports, on its own networks, action sets and recourse (table\n"+
		"tab:cf_ptq_results_adult). The others are measured here. CRG is the paper's mean of ratios. CFQ-QAT trains the network.\n")
	return nil
}

// here is the measured half of a row.
func here(r *row) string {
	var b strings.Builder
	for _, c := range []column{
		{"", "%.3f", func(m *metrics) float64 { return m.accuracy }},
		{"", "%.3f", func(m *metrics) float64 { return m.first }},
		{"", "%.3f", func(m *metrics) float64 { return m.vd0 }},
		{"", "%.3f", func(m *metrics) float64 { return m.vd1 }},
		{"", "%.3f", func(m *metrics) float64 { return m.rvd1 }},
		{"", "%+.3f", func(m *metrics) float64 { return m.mean }},
		{"", "%.3f", func(m *metrics) float64 { return m.dirSim }},
	} {
		fmt.Fprintf(&b, " %s |", number(c.format, r.mean(c.value)))
	}
	return b.String()
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/ptq"
)

// variant is a row of the tables.
type variant struct {
	label string
	o     ptq.Options
}

// Labels that other tables look rows up by.
const (
	ours      = "cf-ptq, 4.0"
	oursEight = "cf-ptq, 8.0, input int8"
)

// variants are the rows of every data set: the paper's methods, some of them with a scale
// for each output channel, and the default method.
func variants() []variant {
	var out []variant
	for _, p := range paper() {
		if p.method != "" {
			out = append(out, variant{p.label(), ptq.Options{Method: p.method, Budget: p.budget}})
		}
	}
	channels := ptq.Options{Method: ptq.PTQ, Budget: 4, Scales: ptq.ScalesPerChannel}
	recourse, paper := channels, channels
	recourse.CalibrateOn, paper.Method = ptq.OnRecourse, "cf-ptq-paper"
	return append(out, []variant{
		{"ptq, 4, per channel", channels},
		{"ptq, 4, per channel, on recourse points", recourse},
		{"cf-ptq-paper, 4, per channel", paper},
		{ours, ptq.Options{Budget: 4}},
		{"cf-ptq, 4.0, every stored byte counted", ptq.Options{Budget: 4, Cost: ptq.CostBytes}},
		{"cf-ptq, 4.0, input float", ptq.Options{Budget: 4, Input: ptq.InputFloat}},
		{"cf-ptq, 3.0", ptq.Options{Budget: 3}},
		{oursEight, ptq.Options{Budget: 8, Input: ptq.InputInt8}},
	}...)
}

// stepsBelow is how many steps of the steps stand below the default method.
const stepsBelow = 3

// steps are the steps from rounding to the nearest to the default method at four bits,
// which comes after stepsBelow of them and is among variants; then what else there is to turn.
func steps() []variant {
	const none = -1
	gptq := ptq.Options{Budget: 4, BitWidths: ptq.BitWidthsPerLayer, Refine: none}
	nearest := gptq
	nearest.Rounding = ptq.RoundNearest
	return []variant{
		{"nearest rounding, one bit width for each layer, no refinement", nearest},
		{"+ GPTQ rounding", gptq},
		{"+ bit widths of rows", ptq.Options{Budget: 4, Refine: none}},
		{"default, calibrated on factual rows alone", ptq.Options{Budget: 4, CalibrateOn: ptq.OnFactual}},
		{"default, rows and points weighted by inverse margin", ptq.Options{Budget: 4, CalibrateOn: ptq.OnWeighted}},
		{"default, AdaRound", ptq.Options{Budget: 4, Rounding: ptq.RoundAdaRound}},
		{"default, ranges by logits", ptq.Options{Budget: 4, WeightRange: "logits", ActRange: "logits"}},
		{"default, cross-layer equalization", ptq.Options{Budget: 4, CrossLayerEqualization: true}},
	}
}

// methods writes the tables of the methods: the paper's and the steps on Adult, then one table for each data set.
func methods(ctx context.Context, w io.Writer, o settings) error {
	var tables strings.Builder
	for _, d := range datasets() {
		if d.networks == 1 {
			continue
		}
		isAdult := d.name == "adult"
		vs := variants()
		if isAdult {
			vs = append(vs, steps()...)
		} else { // what the table of Adult says of them, those of others repeat
			vs = slices.DeleteFunc(vs, func(v variant) bool {
				return v.o.Method == "mixed-ptq" || v.o.Method == "cf-ptq-calib" || strings.Contains(v.label, "4, per channel")
			})
		}
		rows, err := measure(ctx, o, d, d.shared(o, min(o.seeds, d.networks)), vs)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		if isAdult {
			steps := slices.Clone(rows[len(variants()):])
			rows = rows[:len(variants())]
			if err := writePaper(w, rows); err != nil {
				return err
			}
			at := slices.IndexFunc(rows, func(r *row) bool { return r.label == ours })
			writeTable(w, "Adult, step by step at 4.0 bits", slices.Insert(steps, stepsBelow, rows[at]))
		}
		writeTable(&tables, d.title, rows)
	}
	_, err := io.WriteString(w, tables.String())
	return err
}

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
	columns := []column{
		{"accuracy", "%.3f", accuracy},
		{"VD, PGD-first", "%.3f", first},
		{"VD(0)", "%.3f", func(m measured) eval.Float { return m.eval.Margins[0].VD.Value }},
		{"VD(0.1)", "%.3f", vd},
		{"RVD(0.1)", "%.3f", rvd},
		{"CRG(0.1)", "%+.3f", func(m measured) eval.Float { return m.eval.Margins[1].CRG.Mean.Value }},
		{"DirSim(0.1)", "%.3f", func(m measured) eval.Float { return m.eval.Margins[1].DirSim.Value }},
	}
	fmt.Fprint(w, "\n### The paper's methods on Adult\n\n| method | accuracy (paper) | VD (paper) | CRG (paper) |"+
		" DirSim (paper) |")
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprint(w, "\n|---|"+strings.Repeat("---:|", 11)+"\n")
	fmt.Fprintf(w, "| full precision | | | | | %.3f |%s\n", rows[0].mean(accuracyFull), strings.Repeat(" |", 6))
	write := func(name, label string) error {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.label == label })
		if i < 0 {
			return fmt.Errorf("no row %q", label)
		}
		fmt.Fprintf(w, "| %s |%s\n", name, rows[i].cells(columns))
		return nil
	}
	for _, p := range paper() {
		name := fmt.Sprintf("%s | %.3f | %.3f | %.3f | %.3f", p.name, p.accuracy, p.vd, p.crg, p.dirSim)
		if p.method == "" {
			fmt.Fprintf(w, "| %s |%s\n", name, strings.Repeat(" |", 7))
		} else if err := write(name, p.label()); err != nil {
			return err
		}
	}
	for _, label := range []string{ours, oursEight} {
		if err := write("this project: "+label+" | | | |", label); err != nil {
			return err
		}
	}
	fmt.Fprint(w, `
Columns marked (paper) are means that the paper reports, on its own networks, action sets and recourse (table
tab:cf_ptq_results_adult). The others are measured here. CRG is the paper's mean of ratios. CFQ-QAT trains the network.
`)
	return nil
}

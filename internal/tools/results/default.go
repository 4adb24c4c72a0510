package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/ort"
	"cfq/ptq"
)

// defaultRow is what `cfq quantize` writes without a flag but the budget.
type defaultRow struct {
	title   string
	d       dataset
	nets    networks
	budgets []float64
}

func defaultRows(o settings) []defaultRow {
	d := datasets()
	four := networks{1, func(ctx context.Context, _ data, _ int) (string, *onnxio.Model, error) {
		path := d[0].model(o, "mlp4-s0.onnx")
		m, err := onnxio.Load(ctx, path, ort.Options{})
		return path, m, err
	}}
	var rows []defaultRow
	for _, of := range d {
		budgets := []float64{4}
		if of.name == "adult" {
			budgets = []float64{4, 3, 2.5}
		}
		rows = append(rows, defaultRow{of.title, of, of.shared(o, min(o.seeds, of.networks)), budgets})
	}
	return append(rows, defaultRow{"Adult, four layers", d[0], four, []float64{4}})
}

// defaultColumns are what the files of all tools have.
func defaultColumns() []column {
	return []column{
		{"bytes", "%.0f", func(m measured) eval.Float { return eval.Float(m.Bytes) }},
		{"VD(0.1)", "%.4f", vd},
		{"RVD(0.1)", "%.4f", rvd},
		{"rms", "%.3f", func(m measured) eval.Float { return m.eval.Margins[0].MarginError.RMS.Value }},
	}
}

// defaultMode writes the table of what is written by default, and of what other tools write.
func defaultMode(ctx context.Context, w io.Writer, o settings) error {
	columns := defaultColumns()
	fmt.Fprint(w, "\n| network | file |")
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprintln(w, "\n|---|---|"+strings.Repeat("---:|", len(columns)))
	tools := ""
	for _, r := range defaultRows(o) {
		var vs []variant
		for _, b := range r.budgets {
			vs = append(vs, variant{fmt.Sprintf("cfq, %.1f", b), ptq.Options{Budget: b, Compute: ptq.ComputeAuto}})
		}
		rows, err := measure(ctx, o, r.d, r.nets, vs)
		if err == nil && o.python != "" {
			var others []*row
			others, tools, err = r.others(ctx, o)
			rows = append(rows, others...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		title := " " + r.title // once
		if r.nets.n > 1 {
			title += fmt.Sprintf(", %d networks", r.nets.n)
		}
		for _, of := range rows {
			fmt.Fprintf(w, "|%s | %s |%s\n", title, of.label, of.cells(columns))
			title = ""
		}
	}
	if tools == "" {
		tools = "not measured; `make results PYTHON=FILE` does, by an interpreter with onnxruntime and nncf"
	}
	fmt.Fprintf(w, "\nOther tools: %s.\n\n", tools)
	return nil
}

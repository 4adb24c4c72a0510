package main

import (
	"context"
	"fmt"
	"io"
	"log"

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

// defaultMode writes the table of what is written by default.
func defaultMode(ctx context.Context, w io.Writer, o settings) error {
	columns := columns()
	fmt.Fprint(w, "\n| network | budget | networks |")
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.head)
	}
	fmt.Fprint(w, "\n|---|---:|---:|")
	for range columns {
		fmt.Fprint(w, "---:|")
	}
	fmt.Fprintln(w)
	for _, r := range defaultRows(o) {
		var vs []variant
		for _, b := range r.budgets {
			vs = append(vs, variant{fmt.Sprintf("%.1f", b), ptq.Options{Budget: b, Compute: ptq.ComputeAuto}})
		}
		rows, err := measure(ctx, o, r.d, r.nets, vs)
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		for _, of := range rows {
			log.Printf("%s, %s", r.title, of.label)
			fmt.Fprintf(w, "| %s | %s | %d |%s\n", r.title, of.label, len(of.values),
				of.cells(columns))
		}
	}
	fmt.Fprintln(w)
	return nil
}

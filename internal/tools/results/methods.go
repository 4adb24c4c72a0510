package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// methods writes the tables of the methods.
func methods(ctx context.Context, w io.Writer, o settings) error {
	rows := map[string][]*row{}
	for _, d := range datasets() {
		vs := variants()
		if d.name == steps {
			vs = append(vs, ladder()...)
		}
		var err error
		if rows[d.name], err = measure(ctx, o, d, o.seeds, vs); err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
	}
	for _, d := range single() {
		var err error
		if rows[d.name], err = measure(ctx, o, d, 1, defaults()); err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
	}
	if err := writePaper(w, rows[steps]); err != nil {
		return err
	}
	if err := writeSteps(w, rows[steps]); err != nil {
		return err
	}
	for _, d := range slices.Concat(datasets(), single()) {
		all := rows[d.name]
		if d.name == steps {
			all = all[:len(variants())]
		}
		writeTitle(w, d.title, all)
		writeTable(w, all)
	}
	return nil
}

// steps is the data set whose steps are looked at one by one.
const steps = "adult"

// writeSteps writes the table of the ladder, the default method between its steps and what
// else there is.
func writeSteps(w io.Writer, rows []*row) error {
	def, err := find(rows, ours)
	if err != nil {
		return err
	}
	l := slices.Insert(slices.Clone(rows[len(variants()):]), stepsBelow, def)
	writeTitle(w, "Adult, step by step at 4.0 bits", l)
	writeTable(w, l)
	return nil
}

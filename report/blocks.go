package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cfq/eval"
)

// block is one section of the views for people. Text and Markdown differ only
// in how they draw blocks.
type block struct {
	title  string   // "" for the headline
	lines  []string // sentences
	table  table
	after  []string // explanations under the table
	bullet bool     // draw lines as a list
}

// table is rows of cells under an optional head. The first left columns are
// aligned left, the others right.
type table struct {
	head []string
	rows [][]string
	left int
}

// blocks lays out d.
func blocks(d *Document) []block {
	r := d.Result
	bs := []block{headline(d), models(d), people(r)}
	if r.Population.Evaluated > 0 {
		bs = append(bs, promises(r), costs(r), marginErrors(r))
	}
	bs = append(bs, decisions(r))
	if ws := slices.Concat(d.Warnings, r.Warnings); len(ws) > 0 {
		bs = append(bs, block{title: "Warnings", lines: ws, bullet: true})
	}
	if len(d.Recipe) > 0 {
		b := block{title: "How the quantized model was made", table: table{left: 2}}
		for _, k := range slices.Sorted(maps.Keys(d.Recipe)) {
			b.table.rows = append(b.table.rows, []string{k, d.Recipe[k]})
		}
		bs = append(bs, b)
	}
	return bs
}

// headline says the most important thing first.
func headline(d *Document) block {
	r := d.Result
	i := r.Headline()
	if r.Population.Evaluated == 0 || i < 0 {
		return block{lines: []string{"Nobody was evaluated: there is no recourse to speak of."}}
	}
	a, mirrored, level := r.Margins[i], r.Margins[i], confidence(r)
	what := "A promise is the cheapest feasible change that lifts a person whom the original refuses to a logit margin of %s. It breaks when the quantized model still refuses."
	none := "No recourse was found for any of %d people at margin %s: there are no promises to keep."
	if r.Given != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		a = r.Margins[0]
		what = "A promise is a change that " + cmp.Or(d.Promises.Name, "the caller") + " gives a person whom the original refuses, and that lifts them to a logit margin of %s or more. " +
			"It breaks when the quantized model still refuses. The quantized model's own promises are computed."
		none = "None of the promises given to the %d people evaluated reaches margin %s: there are none to keep."
	}
	if a.VD.Den == 0 {
		return block{lines: []string{fmt.Sprintf(none, r.Population.Evaluated, margin(a.Margin))}}
	}
	rate := func(key string, at eval.AtMargin, x eval.Rate) string {
		return fmt.Sprintf("%s %s, %s interval %s", symbolAt(key, at.Margin), percent(x.Value, 1), level, interval(x, 1))
	}
	lines := []string{fmt.Sprintf("Of %d %s %d %s (%s).", a.VD.Den, plural(a.VD.Den, "promise", "promises"),
		a.VD.Num, plural(a.VD.Num, "breaks", "break"), rate("margins[].vd", a, a.VD))}
	if x := mirrored.RVD; x.Den > 0 {
		lines = append(lines, fmt.Sprintf("Of %d %s that the quantized model makes, the original would not keep %d (%s).",
			x.Den, plural(x.Den, "promise", "promises"), x.Num, rate("margins[].rvd", mirrored, x)))
	}
	if t := r.Tau01; t.Value.Defined() {
		how := ""
		if t.Extrapolated {
			how = ", extrapolated"
		}
		lines = append(lines, fmt.Sprintf("Recourse that demands a margin of %s breaks for at most 1 %% of people (%s%s).",
			fixed(t.Value, 2), eval.MetricAt("tau01").Symbol, how))
	}
	return block{lines: lines, after: []string{fmt.Sprintf(what, margin(a.Margin))}}
}

func confidence(r *eval.Result) string {
	return strconv.FormatFloat(100*r.Settings.Confidence, 'g', 6, 64) + " %"
}

func models(d *Document) block {
	b := block{title: "Models", table: table{head: []string{"", "file", "size", "bits/weight", "sha256"}, left: 2}}
	row := func(role string, m Model) {
		bits := missing
		if m.WeightBits > 0 {
			bits = strconv.FormatFloat(m.WeightBits, 'f', 2, 64)
		}
		b.table.rows = append(b.table.rows, []string{role, m.Name, byteCount(m.Bytes), bits, short(m.SHA256)})
	}
	row("original", d.Full)
	row("quantized", d.Quantized)
	for _, o := range []struct {
		name string
		file File
	}{{"people", d.Data}, {"task", d.Task}, {"promises", d.Promises}, {"overrides", d.Overrides}} {
		if o.file.Name != "" {
			b.table.rows = append(b.table.rows, []string{o.name, o.file.Name, byteCount(o.file.Bytes), missing, short(o.file.SHA256)})
		}
	}
	return b
}

func people(r *eval.Result) block {
	p := r.Population
	b := block{title: "Who was evaluated", table: table{left: 1}}
	row := func(label string, n int) { b.table.rows = append(b.table.rows, []string{label, strconv.Itoa(n)}) }
	row("rows in the data", p.Rows)
	if p.LeftOut > 0 {
		row("left out by the task or the choice of rows", p.LeftOut)
	}
	if p.Unreadable > 0 {
		row("could not be read", p.Unreadable)
	}
	row("people read", p.Read)
	row("approved by the original, need no recourse", p.Favoured)
	row("refused by the original", p.Refused)
	if p.Evaluated < p.Refused {
		row(fmt.Sprintf("evaluated: a random sample of them (seed %d)", r.Settings.Seed), p.Evaluated)
	} else {
		row("evaluated: all of them", p.Evaluated)
	}
	row("of them refused by the quantized model too", p.BothRefuse)
	if g := r.Given; g != nil {
		row("promises given to people who are evaluated", g.Promises)
		row("of them not kept by the original itself", g.Invalid)
		row("of them not allowed by the task", g.Infeasible)
		row("promises given to others", g.Others)
	}
	return b
}

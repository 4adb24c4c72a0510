package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/chart"
)

// page is what the views for people show. They differ only in how they draw it.
type page struct {
	title   string
	verdict gate.Verdict // "" without a gate
	blocks  []block
	answer  int // the blocks that say what was asked for, with a gate; the rest is what it rests on
}

// head is the title with the verdict first.
func (p *page) head() string {
	switch {
	case p.verdict == "":
		return p.title
	case p.title == "":
		return string(p.verdict)
	}
	return string(p.verdict) + ": " + p.title
}

// block is one section of a page.
type block struct {
	title   string   // "" for the headline
	lines   []string // sentences
	table   table
	after   []string // explanations under the table
	figures []figure // for views that can draw
	bullet  bool     // draw lines as a list
	fold    bool     // few readers need it: views that can close it do
}

// table is rows of cells under an optional head. The first left columns are
// aligned left, the others right.
type table struct {
	head []string
	rows [][]string
	left int
	// moods are "good", "bad" or "unsure" for cells of the columns that prune leaves where they are.
	moods map[place]string
}

// place is a row and a column.
type place struct{ row, column int }

// figure is a picture that shows numbers of the block's table, or of what the caption says.
type figure struct {
	caption string
	chart   chart.Chart
}

func (t *table) mood(column int, mood string) {
	if t.moods == nil {
		t.moods = map[place]string{}
	}
	t.moods[place{len(t.rows) - 1, column}] = mood
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// prune takes out the columns that say nothing in any row.
func (t *table) prune() {
	if t.head == nil {
		return
	}
	left := t.left
	for j := len(t.head) - 1; j >= 0; j-- {
		if slices.ContainsFunc(t.rows, func(r []string) bool { return r[j] != missing }) || len(t.rows) == 0 {
			continue
		}
		t.head = slices.Delete(t.head, j, j+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], j, j+1)
		}
		if j < left {
			t.left--
		}
	}
}

// detail says how much a view shows.
type detail bool

const (
	brief detail = false
	full  detail = true
)

// many returns how many of n rows are shown when a brief view shows at most so many.
func (d detail) many(n, most int) int {
	if d == full {
		return n
	}
	return min(n, most)
}

// pageOf lays out d: what decides first, where it came from last.
func pageOf(d *Document, how detail) *page {
	r := d.Result
	p := &page{title: d.Title}
	add := func(bs ...block) {
		for _, b := range bs {
			b.table.prune()
			if len(b.lines)+len(b.table.rows)+len(b.after)+len(b.figures) > 0 {
				p.blocks = append(p.blocks, b)
			}
		}
	}
	if d.Gate != nil {
		p.verdict = d.Gate.Verdict
		add(verdict(d.Gate), findings(d.Gate, how))
	}
	head := headline(d)
	if d.Gate != nil {
		head.title = "The promises"
	}
	add(head)
	if ws := slices.Concat(d.Warnings, r.Warnings); len(ws) > 0 {
		add(block{title: "Warnings", lines: ws, bullet: true})
	}
	p.answer = len(p.blocks)
	if r.Population.Evaluated > 0 {
		add(promises(r), costs(r, how), shape(r, how), marginErrors(r, how), spreads(r, how))
	}
	add(groups(r, how)...)
	add(scenarios(r), certificates(r), perturbations(r, how), broken(d, how))
	add(decisions(r), footprint(r), timing(r), layers(d, how))
	add(people(r), models(d), recipe(d.Recipe), settings(r, how))
	return p
}

// fewForTau is how many promises tau01 must rest on to be in the headline: of fewer, 1 % is none.
const fewForTau = 100

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
	if r.Issued != nil { // they are what they are; only recourse that is computed needs a margin to be worth something
		a = r.Margins[0]
		what = "A promise is a change that " + cmp.Or(d.Promises.Name, "the caller") + " gives a person whom the original refuses, and that lifts them to a logit margin of %s or more. " +
			"It breaks when the quantized model still refuses."
		if !r.Settings.OneSided {
			what += " The quantized model's own promises are computed."
		}
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
	if t := r.Tau01; t.Value.Defined() && t.N >= fewForTau {
		how := ""
		if t.Extrapolated {
			how = ", extrapolated"
		}
		what := "Recourse that demands a margin of %s breaks for at most 1 %% of people (%s%s)."
		if r.Issued != nil { // nothing is known of other recourse
			what = "Of those given that reach a margin of %s at most 1 %% break (%s%s)."
		}
		lines = append(lines, fmt.Sprintf(what, fixed(t.Value, 2), eval.MetricAt("tau01").Symbol, how))
	}
	return block{lines: lines, after: []string{fmt.Sprintf(what, margin(a.Margin))}}
}

func confidence(r *eval.Result) string {
	return strconv.FormatFloat(100*r.Settings.Confidence, 'g', 6, 64) + " %"
}

func recipe(steps map[string]string) block {
	b := block{title: "How the quantized model was made", table: table{left: 2}, fold: true}
	for _, k := range slices.Sorted(maps.Keys(steps)) {
		b.table.row(k, steps[k])
	}
	return b
}

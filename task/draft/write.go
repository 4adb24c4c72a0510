package draft

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cfq/task"
)

// Question is something that a draft leaves open, as a comment with the word QUESTION.
type Question struct {
	Line int // of the task file
	Text string
}

// Questions returns the questions that a task file still has. A question is answered when its comment is gone.
func Questions(text []byte) []Question {
	var out []Question
	mark := regexp.MustCompile(`(?:^|\s)#\s*QUESTION:\s*(.*?)\s*$`)
	for n, line := range strings.Split(string(text), "\n") {
		if m := mark.FindStringSubmatch(line); m != nil {
			out = append(out, Question{n + 1, m[1]})
		}
	}
	return out
}

// writer writes YAML with comments.
type writer struct {
	bytes.Buffer
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.Buffer, format+"\n", args...)
}

// width is where lists are wrapped.
const width = 120

// comment writes text behind a # mark.
func (w *writer) comment(indent, format string, args ...any) {
	w.line("%s# %s", indent, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

func (w *writer) question(indent, format string, args ...any) {
	w.comment(indent, "QUESTION: "+format, args...)
}

// write returns the draft.
func (d *drafter) write() []byte {
	w := &writer{}
	d.writeData(w)
	w.line("target:")
	index := -1
	if d.o.Encoding != nil {
		index, _ = d.o.Encoding.index() // was checked when it was read
	}
	if index < 0 {
		index = 1
		w.question("  ", "which class index of the model is the favourable outcome? 1 is assumed.")
	}
	w.line("  index: %d\n  margin: 0 # in logits, that recourse must reach\n", index)
	w.comment("", "In the order of the model's inputs. Bounds are the 1st and 99th percentile; quantiles run from the least value to the greatest.")
	d.ask(w)
	w.line("features:")
	for i := range d.features {
		d.writeFeature(w, &d.features[i])
	}
	w.line("\ncost: {norm: l1, weights: inverse_std} # one standard deviation costs about 1")
	if n := d.free(); n > 0 {
		w.line("sparsity: {max_features: %d} # an action that people remember changes few things", min(n, 3))
	}
	head := &writer{}
	head.comment("", "A draft from %s of %s. What people can change, how far, and at what cost is for you to say.",
		plural(d.table.Rows, "row"), legible(d.o.File))
	switch n := len(Questions(w.Bytes())); n {
	case 0:
	case 1:
		head.comment("", "One QUESTION is open. Answer it in the file, then remove its comment; `cfq task check` refuses the file until then.")
	default:
		head.comment("", "%d QUESTIONS are open. Answer them in the file, then remove the comments; `cfq task check` refuses the file until then.", n)
	}
	head.line("version: 1\n")
	return append(head.Bytes(), w.Bytes()...)
}

// ask writes the questions about the features as a whole.
func (d *drafter) ask(w *writer) {
	if n := d.inputs(); d.o.Inputs > 0 && n != d.o.Inputs {
		w.question("", "the model has %d inputs and these features make %d: which columns does it take, and how is each encoded?", d.o.Inputs, n)
	}
	if d.o.Encoding != nil {
		return
	}
	if slices.ContainsFunc(d.features, func(f feature) bool { return f.Kind.IsNumber() }) {
		w.question("", "are the numbers standardised with these means and standard deviations? They are those of this file, not of the training.")
	}
	if d.o.Features == nil {
		w.question("", "is this the order of the model's inputs? It is that of the columns in the file.")
	}
	if slices.ContainsFunc(d.features, func(f feature) bool { return f.Kind == task.OneHot }) {
		w.question("", "are the inputs of each category in the order of its values here, which is that of the alphabet, and does each have one?")
	}
}

func (d *drafter) free() (n int) {
	for i := range d.features {
		if d.features[i].Actionable {
			n++
		}
	}
	return n
}

func (d *drafter) writeData(w *writer) {
	w.line("data:")
	switch p := d.label; {
	case p == nil:
		w.question("  ", "which column is the outcome (label: NAME), and which of its values do people want (favourable: VALUE)?")
	case d.favourite == "":
		w.question("  ", "which value of the outcome do people want? The values are %s. Without it no outcome is known.", list(withoutStop(p.texts), 6))
		w.line("  # label: %s\n  # favourable: ", scalar(p.name))
	default:
		if d.o.Label == "" {
			w.question("  ", "is this the outcome? It is the last column.")
		}
		w.line("  label: %s\n  favourable: %s", scalar(p.name), scalar(d.favourite))
		if d.suffix != "" {
			w.line("  label_suffix: %s", scalar(d.suffix))
		}
	}
	if m := d.missing(); len(m) > 0 {
		w.line("  missing: %s # besides the empty field", flow(m))
	}
	t := &d.table.Data
	if t.Delimiter != 0 {
		w.line("  delimiter: %s", scalar(string(t.Delimiter)))
	}
	if t.Trim {
		w.line("  trim: true")
	}
	if t.Comment != 0 {
		w.line("  comment: %s", scalar(string(t.Comment)))
	}
	if t.Skip > 0 {
		w.line("  skip: %d", t.Skip)
	}
	if t.Columns != nil {
		if t.Columns[0] == "column1" {
			w.question("  ", "what are the columns? The first row does not look like a header.")
		}
		w.line("%s", wrap("  columns: [", texts(t.Columns), "]", "            "))
	}
	if len(d.drop) > 0 {
		w.line("  drop: # no features")
		for i, name := range d.drop {
			w.line("    - %s # %s", scalar(name), d.dropped[i])
		}
	}
	w.line("")
}

// writeFeature writes one feature with what is to be said about it.
func (d *drafter) writeFeature(w *writer, f *feature) {
	for _, c := range f.remarks {
		w.comment("  ", "%s", c)
	}
	for _, q := range f.questions {
		w.question("  ", "%s", q)
	}
	keys := []string{"name: " + scalar(f.Name), "kind: " + string(f.Kind)}
	if f.Kind == task.Binary {
		keys = append(keys, "one: "+scalar(f.One))
		if f.Zero != "" {
			keys = append(keys, "zero: "+scalar(f.Zero))
		}
		keys = append(keys, "shares: "+task.Decimal(f.Shares[0]))
	}
	if f.Kind.IsNumber() {
		if f.Mean != 0 || f.Std != 1 {
			keys = append(keys, "mean: "+task.Decimal(f.Mean), "std: "+task.Decimal(f.Std))
		}
		keys = append(keys, fmt.Sprintf("bounds: [%s, %s]", task.Decimal(f.Bounds[0]), task.Decimal(f.Bounds[1])))
		if f.Step > 0 {
			keys = append(keys, "step: "+task.Decimal(f.Step))
		}
		keys = append(keys, "mad: "+task.Decimal(f.MAD))
	}
	if !f.Actionable {
		keys = append(keys, "actionable: false")
	}
	if f.Subgroup {
		keys = append(keys, "subgroup: true")
	}
	const next = "     "
	text := wrap("  - {", keys, "", next)
	add := func(key string, items []string) {
		lead := next + key + ": ["
		text += ",\n" + wrap(lead, items, "]", strings.Repeat(" ", len(lead)))
	}
	if f.Kind == task.OneHot {
		add("values", texts(f.Values))
		add("shares", decimals(f.Shares))
	}
	if f.Kind.IsNumber() {
		add("quantiles", decimals(f.Quantiles))
	}
	w.line("%s}", text)
}

// wrap joins items by commas and breaks the lines.
func wrap(lead string, items []string, end, indent string) string {
	var b strings.Builder
	at := len(lead)
	b.WriteString(lead)
	for i, s := range items {
		if i > 0 {
			b.WriteString(",")
			if at+2+len(s) > width {
				b.WriteString("\n" + indent)
				at = len(indent)
			} else {
				b.WriteString(" ")
				at += 2
			}
		}
		b.WriteString(s)
		at += len(s)
	}
	b.WriteString(end)
	return b.String()
}

// flow writes a list of texts on one line; one alone stands without brackets.
func flow(items []string) string {
	if len(items) == 1 {
		return scalar(items[0])
	}
	return "[" + strings.Join(texts(items), ", ") + "]"
}

// decimals writes numbers.
func decimals(v []float64) []string {
	out := make([]string, len(v))
	for i := range v {
		out[i] = task.Decimal(v[i])
	}
	return out
}

// texts writes texts as scalars.
func texts(v []string) []string {
	out := make([]string, len(v))
	for i := range v {
		out[i] = scalar(v[i])
	}
	return out
}

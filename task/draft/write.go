package draft

import (
	"bytes"
	"fmt"
	"strings"

	"cfq/task"
)

// writer writes YAML with comments.
type writer struct {
	bytes.Buffer
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.Buffer, format+"\n", args...)
}

// width is where lines of comments and lists are wrapped.
const width = 120

// comment writes text behind # marks, wrapped.
func (w *writer) comment(indent, text string) {
	at := indent + "#"
	for _, word := range strings.Fields(text) {
		if len([]rune(at))+1+len([]rune(word)) > width && at != indent+"#" {
			w.line("%s", at)
			at = indent + "#"
		}
		at += " " + word
	}
	w.line("%s", at)
}

// write returns the draft.
func (p *plan) write() []byte {
	w := &writer{}
	w.comment("", fmt.Sprintf("A first draft, inferred from %s of %s. Look at every line before you use it: what people can change, how far, and at what cost is for you to say.",
		plural(p.table.Rows, "row"), legible(p.o.File)))
	w.comment("", p.origin())
	w.line("version: 1\n")
	if p.encoded {
		w.comment("", "The file holds the model's inputs: numbers as they are, and a 0/1 column for each value of a category.")
		w.line("encoded: true\n")
	}
	p.writeData(w)
	w.line("")
	p.writeTarget(w)
	w.comment("", "In the order of the model's inputs. Bounds are the 1st and 99th percentile unless a comment says otherwise, and quantiles run from the least value to the greatest. All of it is in the units of the file.")
	w.line("features:")
	for i := range p.features {
		p.writeFeature(w, &p.features[i])
	}
	w.line("")
	w.line("cost: {norm: l1, weights: inverse_std} # one standard deviation costs about 1")
	if n := p.free(); n > 0 {
		w.line("sparsity: {max_features: %d} # a guess: an action that people remember changes few things", min(n, 3))
	}
	return w.Bytes()
}

// origin says where mean and std are from.
func (p *plan) origin() string {
	switch p.chosen.scaling {
	case raw:
		return "The model takes numbers as they are, so there is no mean and std; weights make a change of one standard deviation cost about 1."
	case span:
		return "The model takes numbers scaled from 0 to 1: mean is the least value of this file and std its range. They must be those that the model was trained with."
	}
	return "Means and standard deviations (of the population, as scikit-learn's StandardScaler has them) are those of this file; they must be those that the model was trained with."
}

func (p *plan) free() (n int) {
	for i := range p.features {
		if p.features[i].Actionable {
			n++
		}
	}
	return n
}

func (p *plan) writeData(w *writer) {
	w.line("data:")
	p.writeLabel(w)
	d := &p.table.Data
	if m := p.chosen.missing(); len(m) > 0 {
		w.line("  missing: %s # besides the empty field", flow(m))
	}
	w.line("  delimiter: %s", scalarChar(d.Delimiter))
	if d.Trim {
		w.line("  trim: true")
	}
	if d.Comment != 0 {
		w.line("  comment: %s", scalarChar(d.Comment))
	}
	columns, skip := d.Columns, d.Skip
	if names, differ := p.columnNames(); p.encoded && differ {
		if columns == nil {
			skip++ // the header
		}
		columns = names
		w.comment("  ", "The header is skipped, and its columns are named so that those of a category are known to belong together.")
	}
	if skip > 0 {
		w.line("  skip: %d", skip)
	}
	if columns != nil {
		w.wrapped("  columns: ", columns)
	}
	left := p.dropped()
	if p.encoded || len(left) == 0 || p.o.Features != nil {
		return
	}
	w.line("  drop: # no features")
	for _, s := range left {
		w.line("    - %s # %s", scalar(s.name), s.reason())
	}
}

func (p *plan) writeLabel(w *writer) {
	t := p.target
	switch {
	case t == nil:
		w.line("  # label: and favourable: name the column of the outcome and the value that people want")
		return
	case t.favourable == "":
		w.comment("  ", fmt.Sprintf("The outcome seems to be the column below. Which of its values do people want? They are %s.", flow(t.values[:min(len(t.values), 6)])))
		w.line("  # label: %s", scalar(t.column))
		w.line("  # favourable: ")
		return
	}
	guess := func(on bool) string {
		if on {
			return " # a guess"
		}
		return ""
	}
	w.line("  label: %s%s", scalar(t.column), guess(t.guessed))
	if t.suffix != "" {
		w.line("  label_suffix: %s", scalar(t.suffix))
	}
	w.line("  favourable: %s%s", scalar(t.favourable), guess(t.obvious))
}

func (p *plan) writeTarget(w *writer) {
	why := "not verified"
	if p.score != nil {
		why = p.score.describe()
		if p.target.favourable == "" {
			why = "not known without a favourable outcome"
		}
	}
	w.line("target:")
	w.comment("  ", "The class index of the favourable outcome: "+why+".")
	w.line("  index: %d", p.index())
	w.line("  margin: 0 # in logits, that recourse must reach")
	w.line("")
}

// wrapped writes a list of texts, broken into lines.
func (w *writer) wrapped(lead string, items []string) {
	all := make([]string, len(items))
	for i, s := range items {
		all[i] = scalar(s)
	}
	w.line("%s", wrap(lead+"[", all, "]", strings.Repeat(" ", len(lead)+1)))
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
	all := make([]string, len(items))
	for i, s := range items {
		all[i] = scalar(s)
	}
	if len(all) == 1 {
		return all[0]
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func scalarChar(r rune) string {
	return scalar(string(r))
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

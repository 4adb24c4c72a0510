package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"cfq/ptq"
)

// longestName is how much of a layer's name a table shows; names differ at their ends.
const longestName = 16

func shortName(name string) string {
	n := utf8.RuneCountInString(name)
	if n <= longestName {
		return name
	}
	return "…" + string([]rune(name)[n-longestName+1:])
}

// place is a kind of rows that layers are measured at.
type place struct {
	name string
	of   func(l *ptq.LayerProfile) *ptq.Importance
}

// places are those that the profile has.
func places(p *ptq.Profile) []place {
	out := []place{{"factual rows", func(l *ptq.LayerProfile) *ptq.Importance { return &l.Factual }}}
	if p.Recourse > 0 {
		out = append(out, place{"recourse points", func(l *ptq.LayerProfile) *ptq.Importance { return l.Recourse }})
	}
	return out
}

// measure is a score that a layer may have.
type measure struct {
	name, title, about string
	of                 func(i *ptq.Importance) *ptq.Score
}

func scoreMeasures(p *ptq.Profile) []measure {
	return []measure{
		{"gradient", "gradient per weight", "mean l1 norm of the gradient of a row's loss by the weights", func(i *ptq.Importance) *ptq.Score { return i.Gradient }},
		{
			"curvature", "curvature per weight, ± standard error", fmt.Sprintf("trace of the loss's Hessian by the weights, %d random vectors", p.Probes),
			func(i *ptq.Importance) *ptq.Score { return i.Trace },
		},
	}
}

// writeProfile writes the profiles side by side.
func writeProfile(out io.Writer, p *ptq.Profile) error {
	rows := counted(p.Factual, "row")
	if p.People > p.Factual {
		rows = fmt.Sprintf("%d of %d rows", p.Factual, p.People)
	}
	fmt.Fprintf(out, "%s on %s", p.Method, rows)
	if p.Recourse > 0 {
		what := "teacher recourse points"
		if p.Promised {
			what = "promised points"
		}
		fmt.Fprintf(out, " and %d %s, %d of them past the decision", p.Recourse, what, p.Reached)
	}
	fmt.Fprintln(out)
	for _, m := range scoreMeasures(p) {
		if err := writeScores(out, p, m); err != nil {
			return err
		}
	}
	if err := writeErrors(out, p); err != nil {
		return err
	}
	return writeRules(out, p)
}

// table writes a table of right-aligned columns, whose lines fill begins with a newline but the first, without spaces at the ends of lines.
func table(out io.Writer, fill func(w io.Writer)) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fill(w)
	fmt.Fprintln(w) // a line that does not end is not aligned
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeScores writes one measure at all places, nothing where no layer has it.
func writeScores(out io.Writer, p *ptq.Profile, m measure) error {
	have := func(at place) bool { return m.of(at.of(&p.Layers[0])) != nil }
	at := slices.DeleteFunc(places(p), func(at place) bool { return !have(at) })
	if len(at) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s: %s (rank)\n", m.name, m.about)
	return table(out, func(w io.Writer) {
		fmt.Fprint(w, "\t\t")
		for _, a := range at {
			fmt.Fprintf(w, "%s\t\t", a.name)
		}
		fmt.Fprint(w, "\nlayer\tweights\t")
		for range at {
			fmt.Fprint(w, "in all\tper weight\t")
		}
		for i := range p.Layers {
			l := &p.Layers[i]
			fmt.Fprintf(w, "\n%s\t%d\t", shortName(l.Node), l.Weights)
			for _, a := range at {
				s := m.of(a.of(l))
				value := fmt.Sprintf("%.3g", s.Value)
				if s.Err > 0 {
					value += fmt.Sprintf(" ±%.1g", s.Err)
				}
				fmt.Fprintf(w, "%s\t%.2g (%d)\t", value, s.PerWeight, s.PerWeightRank)
			}
		}
	})
}

func writeErrors(out io.Writer, p *ptq.Profile) error {
	how := "measured"
	if p.Errors == ptq.ErrorsFirstOrder {
		how = "to first order"
	}
	fmt.Fprintf(out, "\nquantization error of the margin (rms, logits): one layer alone, %s\n", how)
	return table(out, func(w io.Writer) {
		fmt.Fprint(w, "layer\tat\t")
		for _, b := range p.BitWidths {
			fmt.Fprintf(w, "%d bits\t", b)
		}
		for i := range p.Layers {
			l := &p.Layers[i]
			for _, a := range places(p) {
				fmt.Fprintf(w, "\n%s\t%s\t", shortName(l.Node), a.name)
				for _, d := range a.of(l).MarginError {
					fmt.Fprintf(w, "%.2g\t", math.Sqrt(d))
				}
			}
		}
	})
}

func writeRules(out io.Writer, p *ptq.Profile) error {
	at := "recourse points"
	if p.Recourse == 0 {
		at = "factual rows"
	}
	fmt.Fprintf(out, "\nrules: bits at a budget of %g, margin error (rms) of the model at %s\n", p.Budget, at)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rule\tlooks at\tbits\tmean\tmargin error")
	for _, r := range p.Rules {
		if r.Error != "" {
			fmt.Fprintf(w, "%s\t%s\tnone: %s\n", r.Name, r.At, r.Error)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%.3g\n", r.Name, r.At, bitsText(r.Bits), r.MeanBits, r.MarginError)
	}
	return w.Flush()
}

// bitsText writes out the bits of a few layers, and counts those of many.
func bitsText(bits []int) string {
	const few = 12
	words := make([]string, 0, len(bits))
	if len(bits) <= few {
		for _, b := range bits {
			words = append(words, strconv.Itoa(b))
		}
		return strings.Join(words, " ")
	}
	counts := map[int]int{}
	for _, b := range bits {
		counts[b]++
	}
	for _, b := range slices.Sorted(slices.Values(bits)) {
		if n := counts[b]; n > 0 {
			words = append(words, fmt.Sprintf("%d at %d", n, b))
			counts[b] = 0
		}
	}
	return strings.Join(words, ", ")
}

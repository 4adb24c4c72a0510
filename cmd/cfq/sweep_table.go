package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"cfq/allocate"
	"cfq/eval"
	"cfq/ptq"
)

// text writes the points as a table, which is no wider than 100 columns.
func (v *sweepView) text(out io.Writer, files string) error {
	fmt.Fprintf(out, "%s\n%d people evaluated, the original: accuracy %.4f, %d bytes\n", files, v.first.Population.Evaluated, float64(v.first.Decisions.AccuracyFull.Value), v.FloatBytes)
	fmt.Fprintf(out, "VD and RVD (95 %% intervals), CRG and agree in %%; VD, RVD, CRG, rms error at margin %g\n\n", v.margin)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "method\tbudget\tbits\tbytes\tVD\t\tRVD\t\tCRG\trms\tacc.\tagree\t")
	for i := range v.Points {
		sweepRow(w, &v.Points[i], v.margin)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n := -1 // the line of the headings
	for line := range strings.Lines(table.String()) {
		line = strings.TrimRight(strings.TrimPrefix(line, "  "), " \n")
		if n >= 0 && sweepNote(&v.Points[n]) != "" {
			line += "  " + sweepNote(&v.Points[n])
		}
		n++
		fmt.Fprintln(out, line)
	}
	return nil
}

// sweepRow writes the cells of a point; those with a note have no more than two.
func sweepRow(w io.Writer, p *ptq.SweepPoint, margin float64) {
	if sweepNote(p) != "" {
		fmt.Fprintf(w, "%s\t%g%s\n", p.Method, p.Budget, strings.Repeat("\t", 11))
		return
	}
	a, d := p.At(margin), p.Measured.Decisions
	mark, rms := "", "-"
	if a.MarginError.RMS.Value.Defined() {
		rms = fmt.Sprintf("%.3g", float64(a.MarginError.RMS.Value))
	}
	if len(p.Problems) > 0 {
		mark = "!"
	}
	fmt.Fprintf(w, "%s\t%g%s\t%.2f\t%d\t%s\t%s\t%s\t%s\t%.4f\t%s\t\n", p.Method, p.Budget, mark, p.Bits, p.Bytes, sweepRate(a.VD), sweepRate(a.RVD),
		sweepPercent(a.CRG.RatioOfSums.Value), rms, float64(d.AccuracyQuant.Value), sweepPercent(1-d.Disagreement.Value))
}

// sweepNote says in place of numbers why a line of the table has none. It is not a cell: no
// column is to be as wide as that.
func sweepNote(p *ptq.SweepPoint) string {
	switch {
	case p.Unfit != "":
		note := p.Unfit
		if _, least, ok := strings.Cut(note, allocate.ErrBudget.Error()+": "); ok {
			note = least // the rest is in the line already
		}
		return "does not fit: " + note
	case p.Same != 0:
		return fmt.Sprintf("as at %g", p.Same)
	}
	return ""
}

// sweepPercent shows a share in percent, in five characters; the heading has the unit.
func sweepPercent(x eval.Float) string {
	percent := 100 * float64(x)
	switch s := fmt.Sprintf("%.1f", percent); {
	case !x.Defined():
		return "-"
	case s == "-0.0":
		return "0.0"
	case s == "100.0" || len(s) > len("-99.9"):
		return fmt.Sprintf("%.0f", percent)
	default:
		return s
	}
}

// sweepRate shows a rate with its interval, in two cells.
func sweepRate(r eval.Rate) string {
	if r.Den == 0 {
		return "-\t"
	}
	return fmt.Sprintf("%s\t%s..%s", sweepPercent(r.Value), sweepPercent(r.Lo), sweepPercent(r.Hi))
}

// percent shows a share with its unit.
func percent(x eval.Float) string {
	if !x.Defined() {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(x))
}

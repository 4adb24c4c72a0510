package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"cfq"
	"cfq/internal/cli"
)

// write puts the files in place, the model last, and says what was done: by show, or result as JSON.
func (f *quantizeFlags) write(e *env, r *cfq.Result, show func() error, result any) error {
	if f.savePlan != "" {
		if err := cli.Write(f.savePlan, func(w io.Writer) error { return cfq.WritePlan(w, r) }); err != nil {
			return err
		}
	}
	err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(r.Model); return err })
	if err != nil {
		return err
	}
	if e.json {
		return writeJSON(e.stdout, result)
	}
	return show()
}

func writeQuantized(out io.Writer, path string, r *cfq.Result) error {
	method, budget := r.Method, fmt.Sprintf(" (budget %g)", r.Budget)
	if method == "" {
		method = "by plan"
	}
	if r.Budget == 0 {
		budget = ""
	}
	fmt.Fprintf(out, "%s: %s, %.2f bits per weight%s, %d bytes (float %d, %.1fx smaller)\n",
		path, method, r.Bits, budget, r.Bytes, r.FloatBytes, float64(r.FloatBytes)/float64(r.Bytes))
	switch {
	case r.Factual == 0: // by a plan
		fmt.Fprintln(out)
	case r.Recourse > 0:
		what := "teacher recourse points"
		if r.Promised {
			what = "promised points"
		}
		fmt.Fprintf(out, "calibrated on %s and %d %s, %d of them past the decision\n\n", calibratedOn(r), r.Recourse, what, r.Reached)
	default:
		fmt.Fprintf(out, "calibrated on %s\n\n", calibratedOn(r))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tweights\tbits\tscales\tsensitivity\tkernel\t")
	kernels := map[string]string{}
	for _, l := range r.Verified.Layers {
		kernels[l.Node] = l.Kernel
	}
	for _, l := range r.Layers {
		if l.Float != "" {
			fmt.Fprintf(w, "%s\t%d\tfloat\t\t\t%s\t\n", l.Node, l.Params, l.Float)
			continue
		}
		score := "" // a plan has none
		if l.Score != 0 {
			score = fmt.Sprintf("%.3g", l.Score)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t\n", l.Node, l.Params, bitsOf(&l), l.Channels, score, kernels[l.Node])
	}
	return w.Flush()
}

// bitsOf says how wide a layer is: its rows by width where those differ.
func bitsOf(l *cfq.Layer) string {
	if len(l.Rows) == 0 {
		return fmt.Sprintf("%g", l.Bits)
	}
	var parts []string
	for _, bits := range slices.Sorted(maps.Keys(l.Rows)) {
		parts = append(parts, fmt.Sprintf("%dx%d", l.Rows[bits], bits))
	}
	return fmt.Sprintf("%.2f (%s)", l.Bits, strings.Join(parts, " "))
}

// writeTarget shows what was chosen and, beneath it, what was looked at.
func writeTarget(out io.Writer, path string, r *cfq.TargetResult) error {
	if err := writeQuantized(out, path, r.Result); err != nil {
		return err
	}
	t := r.Target
	fmt.Fprintf(out, "\n%d people calibrate, %d are held out; %d of those are refused, %d were asked, %d have promises at margin %g.\n",
		r.Calibrated, r.HeldOut, r.Refused, r.Asked, r.Promises, t.Margin)
	what := fmt.Sprintf("VD(%g) and RVD(%g) are", t.Margin, t.Margin)
	if t.OneSided {
		what = fmt.Sprintf("VD(%g) is", t.Margin)
	}
	verdict := "Not shown"
	if r.Reached {
		verdict = "Shown"
	}
	fmt.Fprintf(out, "%s with confidence %g: %s at most %g. Each bound is one at confidence %.4g.\n\n", verdict, t.Confidence, what, t.VD, r.Level)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "budget\tbytes\tpeople\tVD\tat most\tRVD\tat most\taccuracy\tholds\t")
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Problem != "" {
			fmt.Fprintf(w, "%g\t%d\tcannot be used: %s\t\t\t\t\t\t\t\n", c.Budget, c.Bytes, strings.SplitN(c.Problem, "\n", 2)[0])
			continue
		}
		for _, part := range []struct {
			name string
			m    *cfq.Measured
		}{{"calibration", c.Search}, {"held out", c.HeldOut}} {
			if part.m == nil {
				continue
			}
			upper := func(s cfq.Share) string { return fmt.Sprintf("%.4f", float64(s.Upper)) }
			holds := yesNo(c.Holds)
			if part.m == c.Search { // a guess has no bounds: the model was fitted to these people
				upper, holds = func(cfq.Share) string { return "" }, ""
			} else if i == r.Chosen {
				holds += " *"
			}
			fmt.Fprintf(w, "%g\t%d\t%s\t%d/%d\t%s\t%d/%d\t%s\t%s\t%s\t\n", c.Budget, c.Bytes, part.name,
				part.m.VD.Num, part.m.VD.Den, upper(part.m.VD), part.m.RVD.Num, part.m.RVD.Den, upper(part.m.RVD), percent(part.m.Accuracy.Value), holds)
		}
	}
	return w.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// calibratedOn says how many rows were looked at, and of how many.
func calibratedOn(r *cfq.Result) string {
	if r.People > r.Factual {
		return fmt.Sprintf("%d of %d rows", r.Factual, r.People)
	}
	return fmt.Sprintf("%d rows", r.Factual)
}

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"cfq/ptq"
)

// writeTarget shows what was chosen and, beneath it, what was looked at.
func writeTarget(out io.Writer, path string, r *ptq.TargetResult) error {
	if err := writeQuantized(out, path, r.Result); err != nil {
		return err
	}
	t := r.Target
	fmt.Fprintln(out)
	paragraph(out, "", "", fmt.Sprintf("%d people calibrate, %d are held out; %d of those are refused, %d were asked, %d have promises at margin %g.",
		r.Calibrated, r.HeldOut, r.Refused, r.Asked, r.Promises, t.Margin))
	what := fmt.Sprintf("VD(%g) and RVD(%g) are", t.Margin, t.Margin)
	if t.OneSided {
		what = fmt.Sprintf("VD(%g) is", t.Margin)
	}
	verdict := "Not shown"
	if r.Reached {
		verdict = "Shown"
	}
	paragraph(out, "", "", fmt.Sprintf("%s with confidence %g: %s at most %g. Each bound is one at confidence %.4g.", verdict, t.Confidence, what, t.VD, r.Level))
	fmt.Fprintln(out)
	w := &grid{left: map[int]bool{2: true}}
	w.add("budget", "bytes", "people", "VD", "at most", "RVD", "at most", "accuracy", "holds")
	var problems []string
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Problem != "" {
			problems = append(problems, fmt.Sprintf("budget %g, %d bytes, cannot be used: %s", c.Budget, c.Bytes, strings.SplitN(c.Problem, "\n", 2)[0]))
			continue
		}
		for _, part := range []struct {
			name string
			m    *ptq.Measured
		}{{"calibration", c.Search}, {"held out", c.HeldOut}} {
			if part.m == nil {
				continue
			}
			upper := func(s ptq.Share) string { return fmt.Sprintf("%.4f", float64(s.Upper)) }
			holds := yesNo(c.Holds)
			if part.m == c.Search { // a guess has no bounds: the model was fitted to these people
				upper, holds = func(ptq.Share) string { return "" }, ""
			} else if i == r.Chosen {
				holds += " *"
			}
			w.add(fmt.Sprint(c.Budget), strconv.Itoa(c.Bytes), part.name, broken(part.m.VD), upper(part.m.VD), broken(part.m.RVD), upper(part.m.RVD), percent(part.m.Accuracy.Value), holds)
		}
	}
	w.write(out, "")
	for _, p := range problems {
		paragraph(out, "", "  ", p)
	}
	return nil
}

func broken(s ptq.Share) string { return fmt.Sprintf("%d/%d", s.Num, s.Den) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/chart"
	"cfq/ptq"
)

// sweepView shows the points of a sweep.
type sweepView struct {
	*ptq.SweepResult
	methods []ptq.MethodName // in the order of the points
	cost    ptq.Cost
	first   *eval.Result // of the points that were measured
	margin  float64      // which stands for all
}

// newSweepView needs a point that fits, which Sweep sees to.
func newSweepView(r *ptq.SweepResult, cost ptq.Cost) *sweepView {
	v := &sweepView{SweepResult: r, cost: cost}
	for i := range r.Points {
		p := &r.Points[i]
		if !slices.Contains(v.methods, p.Method) {
			v.methods = append(v.methods, p.Method)
		}
		if v.first == nil {
			v.first = p.Measured
		}
	}
	v.margin = v.first.Margins[v.first.Headline()].Margin // the same for all
	return v
}

// sweepColumn is a number of a point at a required margin.
type sweepColumn struct {
	name  string
	value func(p *ptq.SweepPoint, a *eval.AtMargin) any
}

// ofUnfit says whether a point that does not fit has something in the column, too.
func (c *sweepColumn) ofUnfit() bool {
	return slices.Contains([]string{"method", "budget", "does_not_fit", "margin"}, c.name)
}

// rateColumns are the columns of a rate.
func rateColumns(name string, of func(p *ptq.SweepPoint, a *eval.AtMargin) eval.Rate) []sweepColumn {
	return []sweepColumn{
		{name, func(p *ptq.SweepPoint, a *eval.AtMargin) any { return of(p, a).Value }},
		{name + "_lo", func(p *ptq.SweepPoint, a *eval.AtMargin) any { return of(p, a).Lo }},
		{name + "_hi", func(p *ptq.SweepPoint, a *eval.AtMargin) any { return of(p, a).Hi }},
		{name + "_num", func(p *ptq.SweepPoint, a *eval.AtMargin) any { return of(p, a).Num }},
		{name + "_den", func(p *ptq.SweepPoint, a *eval.AtMargin) any { return of(p, a).Den }},
	}
}

// sweepColumns is the table of what curves.csv holds.
func sweepColumns() []sweepColumn {
	list := []sweepColumn{
		{"method", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Method }},
		{"budget", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Budget }},
		{"same_as_budget", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return sweepSame(p) }},
		{"bits_per_weight", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Bits }},
		{"stored_bits_per_weight", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Stored }},
		{"bytes", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Bytes }},
		{"bit_widths", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return sweepWidths(p.BitWidths) }},
		{"problems", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return len(p.Problems) }},
		{"does_not_fit", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Unfit }},
		{"accuracy_full", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Measured.Decisions.AccuracyFull.Value }},
	}
	list = append(list, rateColumns("accuracy", func(p *ptq.SweepPoint, _ *eval.AtMargin) eval.Rate { return p.Measured.Decisions.AccuracyQuant })...)
	list = append(list, rateColumns("disagreement", func(p *ptq.SweepPoint, _ *eval.AtMargin) eval.Rate { return p.Measured.Decisions.Disagreement })...)
	list = append(list, sweepColumn{"margin", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.Margin }})
	list = append(list, rateColumns("vd", func(_ *ptq.SweepPoint, a *eval.AtMargin) eval.Rate { return a.VD })...)
	list = append(list, rateColumns("rvd", func(_ *ptq.SweepPoint, a *eval.AtMargin) eval.Rate { return a.RVD })...)
	return append(list, []sweepColumn{
		{"crg_sums", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.CRG.RatioOfSums.Value }},
		{"crg_median", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.CRG.Median.Value }},
		{"crg_mean", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.CRG.Mean.Value }},
		{"dir_sim", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.DirSim.Value }},
		{"act_overlap", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.ActOverlap.Value }},
		{"margin_error_rms", func(_ *ptq.SweepPoint, a *eval.AtMargin) any { return a.MarginError.RMS.Value }},
		{"tau01", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Measured.Tau01.Value }},
		{"rtau01", func(p *ptq.SweepPoint, _ *eval.AtMargin) any { return p.Measured.RTau01.Value }},
	}...)
}

// sweepWidths shows widths, which are means for some layers.
func sweepWidths(widths []float64) string {
	words := make([]string, len(widths))
	for i, w := range widths {
		words[i] = strconv.FormatFloat(w, 'g', 4, 64)
	}
	return strings.Join(words, " ")
}

// sweepSame is the budget that a point is the same at, or "".
func sweepSame(p *ptq.SweepPoint) any {
	if p.Same == 0 {
		return ""
	}
	return p.Same
}

// csv writes one line for each point and required margin; what is undefined is empty.
func (v *sweepView) csv(out io.Writer) error {
	w := csv.NewWriter(out)
	columns := sweepColumns()
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	if err := w.Write(line); err != nil {
		return err
	}
	for i := range v.Points {
		p := &v.Points[i]
		at := v.first.Margins // of a point that does not fit, the margins alone are of use
		if p.Unfit == "" {
			at = p.Measured.Margins
		}
		for k := range at {
			for j, c := range columns {
				line[j] = ""
				if p.Unfit == "" || c.ofUnfit() {
					line[j] = sweepCell(c.value(p, &at[k]))
				}
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

func sweepCell(value any) string {
	switch x := value.(type) {
	case eval.Float:
		if !x.Defined() {
			return ""
		}
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}

// warnings says which points are not what their lines look like.
func (v *sweepView) warnings() []string {
	var list []string
	for i := range v.Points {
		if p := &v.Points[i]; len(p.Problems) > 0 {
			list = append(list, fmt.Sprintf("%s at %g: quantize would not write this file: %s", p.Method, p.Budget, p.Problems[0]))
		}
	}
	for _, w := range v.first.Warnings {
		if !slices.ContainsFunc(v.Points, func(p ptq.SweepPoint) bool { return p.Unfit == "" && !slices.Contains(p.Measured.Warnings, w) }) {
			list = append(list, w) // of the data, then
		}
	}
	return list
}

// draw draws everything over the budget and over the size of the file.
func (v *sweepView) draw(w io.Writer, format string) error {
	of := func(name string) string { return fmt.Sprintf("%s(%g)", name, v.margin) }
	full := float64(v.first.Decisions.AccuracyFull.Value)
	var charts []chart.Chart
	for _, c := range []struct {
		title, y string
		value    func(p *ptq.SweepPoint) eval.Rate
	}{
		{of("VD"), "the original's promises that break", func(p *ptq.SweepPoint) eval.Rate { return p.At(v.margin).VD }},
		{of("RVD"), "its own promises the original refuses", func(p *ptq.SweepPoint) eval.Rate { return p.At(v.margin).RVD }},
		{of("CRG"), "more cost, ratio of sums", func(p *ptq.SweepPoint) eval.Rate { return sweepNumber(p.At(v.margin).CRG.RatioOfSums.Value) }},
		{fmt.Sprintf("Accuracy (original %.4f)", full), "accuracy", func(p *ptq.SweepPoint) eval.Rate { return sweepNumber(p.Measured.Decisions.AccuracyQuant.Value) }},
	} {
		budget := chart.Chart{Title: c.title + " over the budget", X: "budget, " + string(v.cost) + " per weight", Y: c.y}
		if v.cost == ptq.CostBytes || v.cost == ptq.CostBOPs {
			budget.X = "budget, bits per weight of " + string(v.cost)
		}
		size := chart.Chart{Title: c.title + " over the size", X: "file size in bytes", Y: c.y}
		for _, method := range v.methods {
			a, b := chart.Series{Name: string(method)}, chart.Series{Name: string(method)}
			for i := range v.Points {
				p := &v.Points[i]
				if p.Method != method || p.Unfit != "" {
					continue
				}
				addSweepPoint(&a, p.Budget, c.value(p))
				if p.Same == 0 {
					addSweepPoint(&b, float64(p.Bytes), c.value(p))
				}
			}
			if len(a.X) == 0 {
				continue // it fits no budget
			}
			budget.Series, size.Series = append(budget.Series, a), append(size.Series, b)
		}
		charts = append(charts, budget, size)
	}
	return chart.Draw(w, format, charts...)
}

// sweepNumber is a number without an interval, or with one that says nothing here: that of the accuracy is
// about other people, while all points are of the same ones.
func sweepNumber(x eval.Float) eval.Rate {
	none := eval.Float(math.NaN())
	return eval.Rate{Value: x, Lo: none, Hi: none}
}

// addSweepPoint adds a rate with its interval.
func addSweepPoint(s *chart.Series, x float64, r eval.Rate) {
	s.X, s.Y = append(s.X, x), append(s.Y, float64(r.Value))
	s.Low, s.High = append(s.Low, float64(r.Lo)), append(s.High, float64(r.Hi))
}

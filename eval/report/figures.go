package report

import (
	"math"
	"slices"

	"cfq/eval"
	"cfq/internal/chart"
)

// maxBars is how many categories a figure shows.
const maxBars = 60

// brokenChart shows the promises that break in several places, VD and RVD, as far as they are known.
func brokenChart(caption string, r *eval.Result, c chart.Chart, names [2]string, at []eval.AtMargin) []captionedChart {
	for k, id := range []string{"vd", "rvd"} {
		s := chart.Series{Name: names[k]}
		for _, a := range at {
			x := a.Rate(id)
			s.X, s.Y = append(s.X, a.Margin), append(s.Y, 100*float64(x.Value))
			s.Low, s.High = append(s.Low, 100*float64(x.Lo)), append(s.High, 100*float64(x.Hi))
		}
		if anyDefined(s.Y) {
			c.Series = append(c.Series, s)
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return []captionedChart{{caption + ". Error bars: " + confidence(r.Settings.Confidence) + " intervals.", c}}
}

func curve(r *eval.Result) []captionedChart {
	const minCurve = 3 // margins
	if len(r.Margins) < minCurve {
		return nil
	}
	return brokenChart("Promises that break, by required margin", r,
		chart.Chart{X: "required margin t, logits", Y: "promises that break, %"},
		[2]string{"VD(t)", "RVD(t), mirrored"}, r.Margins)
}

// bars shows the first of several results at a margin: the table has all.
func bars(caption string, t float64, r *eval.Result, names []string, at []eval.AtMargin) []captionedChart {
	n := min(maxBars, len(names))
	return brokenChart(caption+" (t = "+margin(t)+")", r,
		chart.Chart{X: "promises that break, %", Categories: names[:n]}, [2]string{"VD", "RVD"}, at[:n])
}

// distribution shows the margins of both models at the original's recourse points.
func distribution(r *eval.Result) []captionedChart {
	a := &r.Margins[r.Headline()]
	n := a.Of("margins_full.n").N
	if n == 0 {
		return nil
	}
	// Where margins reach far up, the boundary would be a hair at the left; what lies beyond almost everyone is cut off.
	most := max(float64(a.Estimate("margins_full.p95").Value), float64(a.Estimate("margins_quant.p95").Value))
	c := chart.Chart{X: "margin at the recourse point, logits", Y: "people, %"}
	for k, name := range []string{"original", "quantized"} {
		s := chart.Series{Name: name, NoMarkers: true}
		low := 0.0
		for _, step := range a.Steps[k] {
			if step.Margin > most {
				break
			}
			y := 100 * float64(step.UpTo) / float64(n)
			s.X, s.Y = append(s.X, step.Margin, step.Margin), append(s.Y, low, y)
			low = y
		}
		c.Series = append(c.Series, s)
	}
	return []captionedChart{{
		"Distribution of the margins at the original's recourse points (t = " + margin(a.Margin) + "). " +
			"Left of 0 the model refuses: there the quantized model's curve is VD.", c,
	}}
}

func anyDefined(xs []float64) bool {
	return slices.ContainsFunc(xs, func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) })
}

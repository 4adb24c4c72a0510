package report

import (
	"cfq/eval"
	"cfq/internal/chart"
)

// brokenChart shows the promises that break: over the required margins, or at one margin in each of some results that
// have names.
func brokenChart(caption string, r *eval.Result, names []string, at []eval.AtMargin) []captionedChart {
	const maxBars = 60 // the table has all
	c := chart.Chart{X: "required margin t, logits", Y: "promises that break, %"}
	labels := []string{"VD(t)", "RVD(t), mirrored"}
	if names != nil {
		n := min(maxBars, len(names))
		caption += " (t = " + margin(at[0].Margin) + ")"
		c, at = chart.Chart{X: "promises that break, %", Categories: names[:n]}, at[:n]
		labels = []string{"VD", "RVD"}
	}
	for k, id := range []string{"vd", "rvd"} {
		s := chart.Series{Name: labels[k]}
		known := false
		for _, a := range at {
			x := a.Rate(id)
			s.X, s.Y = append(s.X, a.Margin), append(s.Y, 100*float64(x.Value))
			s.Low, s.High = append(s.Low, 100*float64(x.Lo)), append(s.High, 100*float64(x.Hi))
			known = known || x.Value.Defined()
		}
		if known {
			c.Series = append(c.Series, s)
		}
	}
	if c.Series == nil {
		return nil
	}
	return []captionedChart{{caption + ". Error bars: " + confidence(r.Settings.Confidence) + " intervals.", c}}
}

// distribution shows the margins of both models at the original's recourse points.
func distribution(a *eval.AtMargin) []captionedChart {
	n := a.Of("margins_full.n").N
	if n == 0 {
		return nil
	}
	// Where margins reach far up, the boundary would be a hair at the left; what lies beyond almost everyone is cut off.
	most := max(a.Of("margins_full.p95").Value, a.Of("margins_quant.p95").Value)
	c := chart.Chart{X: "margin at the recourse point, logits", Y: "people, %"}
	for k, name := range []string{"original", "quantized"} {
		s := chart.Series{Name: name, NoMarkers: true}
		low := 0.0
		for _, step := range a.Steps[k] {
			if step.Margin > float64(most) {
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

package report

import (
	"math"
	"slices"

	"cfq/eval"
	"cfq/internal/chart"
)

const maxBars = 60

func rates(name string, xs []float64, list []eval.Rate) chart.Series {
	s := chart.Series{Name: name, X: xs}
	for _, r := range list {
		s.Y = append(s.Y, 100*float64(r.Value))
		s.Low, s.High = append(s.Low, 100*float64(r.Lo)), append(s.High, 100*float64(r.Hi))
	}
	return s
}

const minCurve = 3

func curve(r *eval.Result) []captionedChart {
	var xs []float64
	var vd, rvd []eval.Rate
	if len(r.Margins) < minCurve {
		return nil
	}
	for _, a := range r.Margins {
		xs, vd, rvd = append(xs, a.Margin), append(vd, a.Rate("vd")), append(rvd, a.Rate("rvd"))
	}
	return broke(chart.Chart{X: "required margin t, logits", Y: "promises that break, %"},
		"Promises that break, by required margin. Error bars: "+confidence(r)+" intervals.",
		rates("VD(t)", xs, vd), rates("RVD(t), mirrored", xs, rvd))
}

func broke(c chart.Chart, caption string, series ...chart.Series) []captionedChart {
	for _, s := range series {
		if anyDefined(s.Y) {
			c.Series = append(c.Series, s)
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return []captionedChart{{caption, c}}
}

func distribution(r *eval.Result) []captionedChart {
	a := &r.Margins[r.Headline()]
	n := a.Of("margins_full.n").N
	if n == 0 {
		return nil
	}
	// Where margins reach far up, the boundary would be a hair at the left; what lies beyond almost everyone is cut off.
	most := max(float64(a.Estimate("margins_full.p95").Value), float64(a.Estimate("margins_quant.p95").Value))
	return []captionedChart{{
		"Distribution of the margins at the original's recourse points (t = " + margin(a.Margin) + "). " +
			"Left of 0 the model refuses: there the quantized model's curve is VD.",
		chart.Chart{
			X: "margin at the recourse point, logits", Y: "people, %",
			Series: []chart.Series{stairs("original", a.Steps[0], n, most), stairs("quantized", a.Steps[1], n, most)},
		},
	}}
}

func stairs(name string, steps []eval.SpreadStep, people int, most float64) chart.Series {
	s := chart.Series{Name: name, NoMarkers: true}
	low := 0.0
	for _, step := range steps {
		if step.Margin > most {
			break
		}
		y := 100 * float64(step.UpTo) / float64(people)
		s.X, s.Y = append(s.X, step.Margin, step.Margin), append(s.Y, low, y)
		low = y
	}
	return s
}

func anyDefined(xs []float64) bool {
	return slices.ContainsFunc(xs, func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) })
}

func bars(caption string, names []string, vd, rvd []eval.Rate) []captionedChart {
	if len(names) > maxBars {
		names, vd, rvd = names[:maxBars], vd[:maxBars], rvd[:maxBars]
	}
	return broke(chart.Chart{X: "promises that break, %", Categories: names}, caption, rates("VD", nil, vd),
		rates("RVD", nil, rvd))
}

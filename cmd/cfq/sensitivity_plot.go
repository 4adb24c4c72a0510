package main

import (
	"fmt"
	"math"
	"strings"

	"cfq/internal/chart"
	"cfq/ptq"
)

// profileCharts draws what writeProfile writes: scores per weight, quantization errors, rules.
func profileCharts(p *ptq.Profile) []chart.Chart {
	var names []string
	for _, l := range p.Layers {
		names = append(names, shortName(l.Node))
	}
	var charts []chart.Chart
	for _, m := range scoreMeasures(p) {
		c := chart.Chart{Title: m.title, X: "layer", Y: m.name + " per weight", LogY: true, Categories: names}
		for _, at := range places(p) {
			s := chart.Series{Name: at.name}
			for i := range p.Layers {
				score := m.of(at.of(&p.Layers[i]))
				if score == nil {
					break
				}
				c.LogY = c.LogY && score.PerWeight > 0
				s.Y = append(s.Y, score.PerWeight)
				if score.Err > 0 {
					e := score.Err / float64(p.Layers[i].Weights)
					s.Low, s.High = append(s.Low, score.PerWeight-e), append(s.High, score.PerWeight+e)
				}
			}
			if len(s.Low) != len(s.Y) {
				s.Low, s.High = nil, nil
			}
			if s.Y != nil {
				c.Series = append(c.Series, s)
			}
		}
		if c.Series != nil {
			charts = append(charts, c)
		}
	}
	for _, at := range places(p) {
		c := chart.Chart{Title: "one layer quantized alone, at " + at.name, X: "layer", Y: "margin error (rms, logits)", LogY: true, Categories: names}
		for f, b := range p.BitWidths {
			s := chart.Series{Name: fmt.Sprintf("%d bits", b)}
			for i := range p.Layers {
				s.Y = append(s.Y, math.Sqrt(at.of(&p.Layers[i]).MarginError[f]))
			}
			c.Series = append(c.Series, s)
		}
		charts = append(charts, c)
	}
	return append(charts, ruleChart(p)...)
}

// ruleChart draws what becomes of the margin with the bits of each rule.
func ruleChart(p *ptq.Profile) []chart.Chart {
	c := chart.Chart{
		Title: fmt.Sprintf("bits as each rule gives them, budget %g", p.Budget), X: "rule, and where it looks",
		Y: "margin error (rms, logits)",
	}
	s := chart.Series{Name: "whole model"}
	for _, r := range p.Rules {
		if r.Error == "" {
			c.Categories = append(c.Categories, strings.TrimSpace(string(r.Name)+" "+r.At))
			s.Y = append(s.Y, r.MarginError)
		}
	}
	if s.Y == nil {
		return nil
	}
	c.Series = []chart.Series{s}
	return []chart.Chart{c}
}

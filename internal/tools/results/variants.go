package main

import "cfq"

// variant is a row of the tables.
type variant struct {
	label string
	o     cfq.Options
}

// Labels that other tables look rows up by.
const (
	ours      = "cf-ptq, 4.0"
	oursBytes = "cf-ptq, 4.0, every stored byte counted"
	oursThree = "cf-ptq, 3.0"
	oursEight = "cf-ptq, 8.0, input int8"
)

// variants are the rows of every data set: the paper's methods, some of them with a scale
// for each output channel, and the default method.
func variants() []variant {
	var out []variant
	for _, p := range paper() {
		if p.method != "" {
			out = append(out, variant{p.label(), cfq.Options{Method: p.method, Budget: p.budget}})
		}
	}
	return append(out, []variant{
		{"ptq, 4, per channel", cfq.Options{Method: "ptq", Budget: 4, Scales: cfq.ScaleChannel}},
		{"ptq, 4, per channel, on recourse points", cfq.Options{Method: "ptq", Budget: 4, Scales: cfq.ScaleChannel, CalibrateOn: cfq.OnRecourse}},
		{"cf-ptq-paper, 4, per channel", cfq.Options{Method: "cf-ptq-paper", Budget: 4, Scales: cfq.ScaleChannel}},
		{ours, cfq.Options{Method: "cf-ptq", Budget: 4}},
		{oursBytes, cfq.Options{Method: "cf-ptq", Budget: 4, Cost: cfq.CostBytes}},
		{"cf-ptq, 4.0, input float", cfq.Options{Method: "cf-ptq", Budget: 4, Input: cfq.InputFloat}},
		{oursThree, cfq.Options{Method: "cf-ptq", Budget: 3}},
		{oursEight, cfq.Options{Method: "cf-ptq", Budget: 8, Input: cfq.InputInt8}},
	}...)
}

// stepsBelow is how many steps of the ladder stand below the default method.
const stepsBelow = 3

// ladder are the steps from rounding to the nearest to the default method at four bits,
// which comes after stepsBelow of them and is among variants; then what else there is to turn.
func ladder() []variant {
	const none = -1
	return []variant{
		{"nearest rounding, one width for each layer, no refinement", cfq.Options{Budget: 4, Rounding: cfq.RoundNearest, Widths: cfq.WidthsLayer, Refine: none}},
		{"+ compensated rounding", cfq.Options{Budget: 4, Widths: cfq.WidthsLayer, Refine: none}},
		{"+ widths of rows", cfq.Options{Budget: 4, Refine: none}},
		{"default, calibrated on factual rows alone", cfq.Options{Budget: 4, CalibrateOn: cfq.OnFactual}},
		{"default, rows and points weighted by inverse margin", cfq.Options{Budget: 4, CalibrateOn: cfq.OnWeighted}},
		{"default, adaptive rounding", cfq.Options{Budget: 4, Rounding: cfq.RoundAdaptive}},
		{"default, ranges by logits", cfq.Options{Budget: 4, WeightRange: "logits", ActRange: "logits"}},
		{"default, equalized layers", cfq.Options{Budget: 4, Equalize: true}},
	}
}

// defaults are the rows of the data sets with one network.
func defaults() []variant {
	return []variant{
		{ours, cfq.Options{Budget: 4}},
		{"cf-ptq, 4.0, input float", cfq.Options{Budget: 4, Input: cfq.InputFloat}},
		{oursEight, cfq.Options{Budget: 8, Input: cfq.InputInt8}},
		{"cf-ptq, 8.0, input float", cfq.Options{Budget: 8, Input: cfq.InputFloat}},
	}
}

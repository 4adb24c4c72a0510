package main

import "cfq/ptq"

// variant is a row of the tables.
type variant struct {
	label string
	o     ptq.Options
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
			out = append(out, variant{p.label(), ptq.Options{Method: p.method, Budget: p.budget}})
		}
	}
	return append(out, []variant{
		{"ptq, 4, per channel", ptq.Options{Method: "ptq", Budget: 4, Scales: ptq.ScalesPerChannel}},
		{"ptq, 4, per channel, on recourse points", ptq.Options{Method: "ptq", Budget: 4, Scales: ptq.ScalesPerChannel, CalibrateOn: ptq.OnRecourse}},
		{"cf-ptq-paper, 4, per channel", ptq.Options{Method: "cf-ptq-paper", Budget: 4, Scales: ptq.ScalesPerChannel}},
		{ours, ptq.Options{Method: "cf-ptq", Budget: 4}},
		{oursBytes, ptq.Options{Method: "cf-ptq", Budget: 4, Cost: ptq.CostBytes}},
		{"cf-ptq, 4.0, input float", ptq.Options{Method: "cf-ptq", Budget: 4, Input: ptq.InputFloat}},
		{oursThree, ptq.Options{Method: "cf-ptq", Budget: 3}},
		{oursEight, ptq.Options{Method: "cf-ptq", Budget: 8, Input: ptq.InputInt8}},
	}...)
}

// stepsBelow is how many steps of the ladder stand below the default method.
const stepsBelow = 3

// ladder are the steps from rounding to the nearest to the default method at four bits,
// which comes after stepsBelow of them and is among variants; then what else there is to turn.
func ladder() []variant {
	const none = -1
	return []variant{
		{"nearest rounding, one bit width for each layer, no refinement", ptq.Options{Budget: 4, Rounding: ptq.RoundNearest, BitWidths: ptq.BitWidthsPerLayer, Refine: none}},
		{"+ GPTQ rounding", ptq.Options{Budget: 4, BitWidths: ptq.BitWidthsPerLayer, Refine: none}},
		{"+ bit widths of rows", ptq.Options{Budget: 4, Refine: none}},
		{"default, calibrated on factual rows alone", ptq.Options{Budget: 4, CalibrateOn: ptq.OnFactual}},
		{"default, rows and points weighted by inverse margin", ptq.Options{Budget: 4, CalibrateOn: ptq.OnWeighted}},
		{"default, AdaRound", ptq.Options{Budget: 4, Rounding: ptq.RoundAdaRound}},
		{"default, ranges by logits", ptq.Options{Budget: 4, WeightRange: "logits", ActRange: "logits"}},
		{"default, cross-layer equalization", ptq.Options{Budget: 4, CrossLayerEqualization: true}},
	}
}

// defaults are the rows of the data sets with one network.
func defaults() []variant {
	return []variant{
		{ours, ptq.Options{Budget: 4}},
		{"cf-ptq, 4.0, input float", ptq.Options{Budget: 4, Input: ptq.InputFloat}},
		{oursEight, ptq.Options{Budget: 8, Input: ptq.InputInt8}},
		{"cf-ptq, 8.0, input float", ptq.Options{Budget: 8, Input: ptq.InputFloat}},
	}
}

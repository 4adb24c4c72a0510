package ptq

import "cfq/calib"

// Setting is an option whose values are those of a table. Checks, recipes and documentation
// are made from the list that Settings returns.
type Setting struct {
	Name    string // as a flag says it; in recipes with _ for -
	Doc     string // what it decides
	Choices []Choice
	Of      func(*Options) *string // where the options have it
	Default func(Method) string    // what "" stands for
}

// Settings lists the options whose values are those of a table.
func Settings() []Setting {
	always := func(name string) func(Method) string { return func(Method) string { return name } }
	return []Setting{
		{
			"allocator", "how bits are given", Allocators(),
			func(o *Options) *string { return &o.Allocator }, func(m Method) string { return m.Allocator },
		},
		{
			"cost", "what a budget counts", Costs(),
			func(o *Options) *string { return &o.Cost }, always(CostBits),
		},
		{
			"widths", "what has a width of its own", Granularities(),
			func(o *Options) *string { return &o.Widths }, func(m Method) string { return m.Widths },
		},
		{
			"scales", "what has a weight scale of its own", ScaleKinds(),
			func(o *Options) *string { return &o.Scales }, func(m Method) string { return m.Scales },
		},
		{
			"input", "how the model's input is quantized", InputKinds(),
			func(o *Options) *string { return &o.Input }, always(InputAuto),
		},
		{
			"calibrate-on", "what scales and codes are fitted on", Calibrations(),
			func(o *Options) *string { return &o.CalibrateOn }, func(m Method) string { return m.CalibrateOn },
		},
		{
			"weight-range", "how the scales of weights are fitted", Ranges(),
			func(o *Options) *string { return &o.WeightRange }, func(m Method) string { return m.WeightRange },
		},
		{
			"act-range", "how the ranges of activations are fitted", Ranges(),
			func(o *Options) *string { return &o.ActRange }, func(m Method) string { return m.ActRange },
		},
		{
			"rounding", "how weights are rounded", Roundings(),
			func(o *Options) *string { return &o.Rounding }, func(m Method) string { return m.Rounding },
		},
	}
}

// Ranges lists how ranges can be fitted.
func Ranges() []Choice {
	list := calib.Ranges()
	out := make([]Choice, len(list))
	for i, r := range list {
		out[i] = Choice(r)
	}
	return out
}

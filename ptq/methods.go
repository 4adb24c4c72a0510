package ptq

import (
	"fmt"
	"strings"

	"cfq/calib"
)

// Method is one way to quantize: what it is calibrated on and how it gives bits.
// Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name string
	Doc  string
	// Recourse sensitivity looks at recourse points, otherwise at factual rows.
	RecourseSensitivity bool
	// Allocator, Widths, Scales, WeightRange, ActRange, CalibrateOn, Rounding and Refine
	// stand for those of Options that are not given.
	Allocator, Widths, Scales, WeightRange, ActRange, CalibrateOn, Rounding string
	Refine                                                                  int
	// Paper is the row of the paper that the method is, with the options that make it so.
	Paper string
}

// Choice is a value that an option can have.
type Choice struct{ Name, Doc string }

// The ways of rounding weights.
const (
	RoundNearest    = calib.Nearest
	RoundCompensate = calib.Compensated
	RoundAdaptive   = calib.Adaptive
)

// Roundings lists the ways of rounding.
func Roundings() []Choice {
	return []Choice{
		{RoundNearest, "each weight to the nearest code"},
		{RoundCompensate, "each weight makes up for the error of those before it (GPTQ), the bias for the rest"},
		{RoundAdaptive, "each weight up or down, learned by gradient (AdaRound), the bias for the rest"},
	}
}

// The allocators.
const (
	AllocatorUniform = "uniform"
	AllocatorExact   = "exact"
	AllocatorPaper   = "paper"
)

// Allocators lists the allocators.
func Allocators() []Choice {
	return []Choice{
		{AllocatorExact, "least measured margin damage, exact knapsack"},
		{AllocatorPaper, "the paper's greedy rule over gradient scores"},
		{AllocatorUniform, "one width for all, the largest that fits"},
	}
}

// What a budget counts.
const (
	CostBits  = "bits"
	CostBytes = "bytes"
	CostBOPs  = "bops"
)

// Costs lists what a budget can count.
func Costs() []Choice {
	return []Choice{
		{CostBits, "the width of the weights alone, as the paper counts"},
		{CostBytes, "every byte that the file stores for the weights: codes, scales, zero points, order of rows; in bits per weight"},
		{CostBOPs, "weight bits x activation bits x multiplications, as a share of those with 8-bit activations; in bits per weight"},
	}
}

// What has a width of its own.
const (
	WidthsLayer = "layer"
	WidthsRow   = "row"
)

// Granularities lists what can have a width of its own.
func Granularities() []Choice {
	return []Choice{
		{WidthsLayer, "each layer"},
		{WidthsRow, "each output channel of each layer"},
	}
}

// What has a weight scale of its own.
const (
	ScaleTensor  = "tensor"
	ScaleChannel = "channel"
)

// ScaleKinds lists what can have a weight scale of its own.
func ScaleKinds() []Choice {
	return []Choice{
		{ScaleTensor, "each layer"},
		{ScaleChannel, "each output channel of each layer"},
	}
}

// What everything is fitted on.
const (
	OnFactual  = "factual"
	OnRecourse = "recourse"
	OnWeighted = "weighted"
)

// Calibrations lists what everything can be fitted on.
func Calibrations() []Choice {
	return []Choice{
		{OnFactual, "the rows"},
		{OnRecourse, "the rows and their recourse points, each counting the same (U_cal of the paper)"},
		{OnWeighted, "the rows and their recourse points, those near the decision counting most"},
	}
}

// How the model's input is quantized.
const (
	InputAuto  = "auto"
	InputInt8  = "int8"
	InputFloat = "float"
)

// InputKinds lists how the model's input can be quantized.
func InputKinds() []Choice {
	return []Choice{
		{InputAuto, "on an 8-bit grid, unless that alone harms the margin more than 4-bit weights do"},
		{InputInt8, "on an 8-bit grid: all layers run on integers"},
		{InputFloat, "not at all: layers that read the input compute in float, on weights of few bits"},
	}
}

// Names returns the names of choices.
func Names(choices []Choice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = c.Name
	}
	return out
}

// Methods is the table of methods. Those with Paper set are the paper's training-free rows.
func Methods() []Method {
	paper := func(m Method) Method {
		m.Scales, m.Widths, m.WeightRange, m.ActRange, m.Rounding, m.Refine = ScaleTensor, WidthsLayer, calib.Output, calib.MSE, RoundNearest, -1
		return m
	}
	return []Method{
		{
			Name: "cf-ptq", RecourseSensitivity: true, CalibrateOn: OnRecourse, Allocator: AllocatorExact, Widths: WidthsRow,
			Scales: ScaleChannel, WeightRange: calib.Output, ActRange: calib.MSE, Rounding: RoundCompensate, Refine: 8,
			Doc: "calibration on rows and recourse points, widths of rows by what hurts the margin there, compensated rounding, end-to-end refinement",
		},
		paper(Method{
			Name: "ptq", CalibrateOn: OnFactual, Allocator: AllocatorUniform, Paper: "PTQ INT8 (budget 8), PTQ INT4 (budget 4)",
			Doc: "factual calibration, the same width in every layer",
		}),
		paper(Method{
			Name: "mixed-ptq", CalibrateOn: OnFactual, Allocator: AllocatorPaper, Paper: "Mixed-precision PTQ",
			Doc: "factual calibration, widths by the greedy rule over factual gradients",
		}),
		paper(Method{
			Name: "cf-ptq-calib", CalibrateOn: OnRecourse, Allocator: AllocatorPaper, Paper: "CF-PTQ calibration",
			Doc: "calibration on rows and teacher recourse points, widths as in mixed-ptq",
		}),
		paper(Method{
			Name: "cf-ptq-paper", RecourseSensitivity: true, CalibrateOn: OnRecourse, Allocator: AllocatorPaper, Paper: "CF-PTQ + sensitivity allocation",
			Doc: "calibration on rows and teacher recourse points, widths by the greedy rule over gradients at recourse points",
		}),
	}
}

// FindMethod returns the method called name.
func FindMethod(name string) (Method, error) {
	var names []string
	for _, m := range Methods() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Method{}, fmt.Errorf("unknown method %q; the methods are %s", name, strings.Join(names, ", "))
}

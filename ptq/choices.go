package ptq

import (
	"fmt"
	"slices"

	"cfq/calib"
	"cfq/internal/message"
	"cfq/qat"
)

// MethodName is the name of one of Methods.
type MethodName string

// The methods.
const (
	CFPTQ       MethodName = "cf-ptq"
	CFQQAT      MethodName = "cfq-qat"
	PTQ         MethodName = "ptq"
	MixedPTQ    MethodName = "mixed-ptq"
	CFPTQCalib  MethodName = "cf-ptq-calib"
	CFPTQPaper  MethodName = "cf-ptq-paper"
	LSQ         MethodName = "lsq"
	PACT        MethodName = "pact"
	MixedQAT    MethodName = "mixed-qat"
	CFQQATPaper MethodName = "cfq-qat-paper"
	PruneQAT    MethodName = "prune-qat"
	KDQAT       MethodName = "kd-qat"
)

// Allocator says how bit widths are chosen within the budget.
type Allocator string

// The allocators.
const (
	AllocatorUniform Allocator = "uniform"
	AllocatorExact   Allocator = "exact"
	AllocatorPaper   Allocator = "paper"
	AllocatorOptimum Allocator = "paper-optimum"
	AllocatorHAWQ    Allocator = "hawq"
	AllocatorLearned Allocator = "learned"
)

// Cost is what a budget counts.
type Cost string

// The costs.
const (
	CostBits  Cost = "bits"
	CostBytes Cost = "bytes"
	CostBOPs  Cost = "bops"
)

// BitWidths says what has a bit width of its own.
type BitWidths string

// The granularities of bit widths.
const (
	BitWidthsPerLayer BitWidths = "per-layer"
	BitWidthsPerRow   BitWidths = "per-row"
)

// Scales says what has a weight scale of its own.
type Scales string

// The granularities of weight scales.
const (
	ScalesPerTensor  Scales = "per-tensor"
	ScalesPerChannel Scales = "per-channel"
)

// Input says how the model's input is quantized.
type Input string

// The treatments of the model's input.
const (
	InputAuto  Input = "auto"
	InputInt8  Input = "int8"
	InputFloat Input = "float"
)

// Compute says which layers do their arithmetic on integers.
type Compute string

// The kinds of arithmetic.
const (
	ComputeAuto    Compute = "auto"
	ComputeInteger Compute = "integer"
	ComputeFloat   Compute = "float"
)

// CalibrateOn says which rows, with which weights, scales and codes are fitted on.
type CalibrateOn string

// The calibration sets.
const (
	OnFactual  CalibrateOn = "factual"
	OnRecourse CalibrateOn = "recourse"
	OnWeighted CalibrateOn = "weighted"
)

// TeacherSteps says how the teacher recourse moves.
type TeacherSteps string

// The ways to move.
const (
	TeacherReach TeacherSteps = "reach"
	TeacherPaper TeacherSteps = "paper"
)

// Objective is what training minimises.
type Objective = qat.Objective

// Untrained is the objective of methods without training.
const Untrained Objective = "none"

// Range is a way of fitting scales and ranges; [calib.Range] has the constants.
type Range = calib.Range

// Rounding is a way of rounding weights.
type Rounding = calib.Rounding

// The ways of rounding weights.
const (
	RoundNearest  = calib.Nearest
	RoundGPTQ     = calib.GPTQ
	RoundAdaRound = calib.AdaRound
)

// Choice is a value that an option can have.
type Choice struct{ Name, Doc string }

// Setting is an option with a fixed set of values. Checks, flags, help, recipes and
// docs/method.md are made from the table that Settings returns.
type Setting struct {
	Name    string // as a flag spells it; in recipes with _ for -
	Doc     string // what it decides
	Choices []Choice
	Of      func(*Options) *string // where the options have it
}

// Settings is the table of options with a fixed set of values.
func Settings() []Setting {
	return slices.Concat([]Setting{
		{
			"allocator", "how bit widths are chosen",
			[]Choice{
				{string(AllocatorExact), "smallest quantization error of the margin, by a knapsack"},
				{string(AllocatorPaper), "the paper's greedy rule over gradient scores"},
				{string(AllocatorOptimum), "the optimum of the paper's objective, the sum of gradient scores times bits"},
				{string(AllocatorHAWQ), "smallest sum of mean Hessian trace times squared weight error (HAWQ-V2), by the same " +
					"knapsack"},
				{string(AllocatorUniform), "one bit width for all, the largest that fits"},
				{string(AllocatorLearned), "learned before training by straight-through Gumbel-Softmax with the paper's BitCost; " +
					"within the budget by the same knapsack"},
			},
			func(o *Options) *string { return (*string)(&o.Allocator) },
		},
		{
			"cost", "what a budget counts",
			[]Choice{
				{string(CostBits), "the bit width of the weights alone, as the paper counts"},
				{string(CostBytes), "every byte that the file stores for the weights: codes, scales, zero points, order of " +
					"rows; in bits per weight"},
				{string(CostBOPs), "weight bits x activation bits x multiplications, as a share of those with 8-bit " +
					"activations; in bits per weight"},
			},
			func(o *Options) *string { return (*string)(&o.Cost) },
		},
		{
			"bit-widths", "what has a bit width of its own",
			[]Choice{
				{string(BitWidthsPerLayer), "each layer"},
				{string(BitWidthsPerRow), "each output channel of each layer"},
			},
			func(o *Options) *string { return (*string)(&o.BitWidths) },
		},
		{
			"scales", "what has a weight scale of its own",
			[]Choice{
				{string(ScalesPerTensor), "each layer"},
				{string(ScalesPerChannel), "each output channel of each layer"},
			},
			func(o *Options) *string { return (*string)(&o.Scales) },
		},
	}, computeSettings(), []Setting{
		{
			"calibrate-on", "what scales and codes are fitted on",
			[]Choice{
				{string(OnFactual), "the rows"},
				{string(OnRecourse), "the rows and their recourse points, each counting the same (U_cal of the paper)"},
				{string(OnWeighted), "the rows and their recourse points, those near the decision counting most"},
			},
			func(o *Options) *string { return (*string)(&o.CalibrateOn) },
		},
		{
			"weight-range", "how the scales of weights are fitted", ranges(),
			func(o *Options) *string { return (*string)(&o.WeightRange) },
		},
		{
			"act-range", "how the ranges of activations are fitted", ranges(),
			func(o *Options) *string { return (*string)(&o.ActRange) },
		},
		{
			"rounding", "how weights are rounded",
			[]Choice{
				{string(RoundNearest), "each weight to the nearest code"},
				{string(RoundGPTQ), "each weight makes up for the error of those before it, the bias for the rest"},
				{string(RoundAdaRound), "each weight up or down, learned by gradient, the bias for the rest"},
			},
			func(o *Options) *string { return (*string)(&o.Rounding) },
		},
	}, trainingSettings())
}

// computeSettings are those of arithmetic.
func computeSettings() []Setting {
	return []Setting{
		{
			"compute", "what layers compute on",
			[]Choice{
				{string(ComputeAuto), "integers from the first dense layer on that is faster so, by its shape; float elsewhere"},
				{string(ComputeInteger), "integers, activations having 8 bits"},
				{string(ComputeFloat), "float: weights of few bits become floats when the model is loaded"},
			},
			func(o *Options) *string { return (*string)(&o.Compute) },
		},
		{
			"input", "how the model's input is quantized where layers that read it compute on integers",
			[]Choice{
				{string(InputAuto), "on an 8-bit grid, unless that alone moves margins by more than 0.05 logits (rms)"},
				{string(InputInt8), "on an 8-bit grid: these layers run on integers"},
				{string(InputFloat), "not at all: these layers compute in float, on weights of few bits"},
			},
			func(o *Options) *string { return (*string)(&o.Input) },
		},
	}
}

// trainingSettings are those of the teacher and of training.
func trainingSettings() []Setting {
	return []Setting{
		{
			"teacher", "how the teacher recourse moves", teachers(),
			func(o *Options) *string { return (*string)(&o.TeacherSteps) },
		},
		{
			"prune-by", "which weights --sparsity makes zero",
			[]Choice{
				{string(PruneMagnitude), "those with the least |w|"},
				{string(PruneSensitivity), "those with the least |w dm/dw|, m the margin at recourse points"},
			},
			func(o *Options) *string { return (*string)(&o.PruneBy) },
		},
		{
			"objective", "what training minimises", objectives(),
			func(o *Options) *string { return (*string)(&o.Objective) },
		},
	}
}

// teachers are the choices of how the teacher moves.
func teachers() []Choice {
	return []Choice{
		{string(TeacherReach), "steps as long as the linearised margin needs"},
		{string(TeacherPaper), "steps of one length, as the paper writes them"},
	}
}

// ranges are the choices of how to fit ranges.
func ranges() (out []Choice) {
	for _, r := range calib.Ranges() {
		out = append(out, Choice{string(r.Name), r.Doc})
	}
	return out
}

// objectives are the choices of what to train for.
func objectives() []Choice {
	out := []Choice{{string(Untrained), "nothing: the network is not trained"}}
	for _, o := range qat.Objectives() {
		if o.Quantized {
			out = append(out, Choice{string(o.Name), o.Doc})
		}
	}
	return out
}

// FindSetting returns the setting called name, which must be one of Settings.
func FindSetting(name string) Setting {
	all := Settings()
	return all[slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })]
}

// Names returns the names of choices.
func Names(choices []Choice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = c.Name
	}
	return out
}

// checkChoice reports a value of the option called name that is not among the choices.
func checkChoice(name, value string, choices []Choice) error {
	if names := Names(choices); !slices.Contains(names, value) {
		return fmt.Errorf("invalid value %q for %s: want %s", value, name, message.Or(names))
	}
	return nil
}

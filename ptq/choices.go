package ptq

import (
	"cfq/calib"
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

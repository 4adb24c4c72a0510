package ptq

import (
	"cfq/calib"
	"cfq/qat"
)

// Settings of a recipe that are choices; [Keys] says what each of them does.
type (
	// MethodName is one of Methods.
	MethodName string
	// Allocator is how bit widths are chosen within the budget.
	Allocator string
	// Cost is what a budget counts.
	Cost string
	// BitWidths is what has a bit width of its own.
	BitWidths string
	// Scales is what has a weight scale of its own.
	Scales string
	// Input is how the model's input is quantized.
	Input string
	// Compute is which layers do their arithmetic on integers.
	Compute string
	// CalibrateOn is which rows, with which weights, scales and codes are fitted on.
	CalibrateOn string
	// TeacherSteps is how the teacher recourse moves.
	TeacherSteps string
	// PruneBy is which weights become zero.
	PruneBy string
	// Objective is what training minimises.
	Objective = qat.Objective
	// Range is a way of fitting scales and ranges.
	Range = calib.Range
	// Rounding is how weights become codes.
	Rounding = calib.Rounding
)

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

// The costs.
const (
	CostBits  = "bits"
	CostBytes = "bytes"
	CostBOPs  = "bops"
)

const (
	allocatorUniform = "uniform"
	allocatorExact   = "exact"
	allocatorPaper   = "paper"
	allocatorOptimum = "paper-optimum"
	allocatorHAWQ    = "hawq"
	allocatorLearned = "learned"

	bitWidthsPerLayer = "per-layer"
	bitWidthsPerRow   = "per-row"
	scalesPerTensor   = "per-tensor"
	scalesPerChannel  = "per-channel"

	inputAuto  = "auto"
	inputInt8  = "int8"
	inputFloat = "float"

	computeAuto    = "auto"
	computeInteger = "integer"
	computeFloat   = "float"

	onFactual  = "factual"
	onRecourse = "recourse"
	onWeighted = "weighted"

	teacherReach = "reach"
	teacherPaper = "paper"

	untrained = "none"

	pruneMagnitude   = "magnitude"
	pruneSensitivity = "sensitivity"
)

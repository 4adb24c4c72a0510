package ptq

import (
	"cfq/calib"
	"cfq/qat"
)

// MethodName and the types after it are settings of a recipe that are choices; [Keys] says what each choice does.
type (
	MethodName   string          // one of Methods
	Allocator    string          // how bit widths are chosen within the budget
	Cost         string          // what a budget counts
	BitWidths    string          // what has a bit width of its own
	Scales       string          // what has a weight scale of its own
	Input        string          // how the model's input is quantized
	Compute      string          // which layers do their arithmetic on integers
	CalibrateOn  string          // which rows, with which weights, scales and codes are fitted on
	TeacherSteps string          // how the teacher recourse moves
	PruneBy      string          // which weights become zero
	Objective    = qat.Objective // what training minimises
	Range        = calib.Range   // a way of fitting scales and ranges
	Rounding     = calib.Rounding
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

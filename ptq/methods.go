package ptq

import (
	"fmt"

	"cfq/calib"
	"cfq/internal/message"
	"cfq/qat"
)

// Method is one way to quantize: what it is calibrated on and how it chooses bit widths.
// Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name MethodName
	Doc  string
	// RecourseSensitivity: the importance of layers is measured at recourse points, otherwise at factual rows.
	RecourseSensitivity bool
	// Defaults has a value for each of Settings and for Refine: those of Options that are not given.
	Defaults Options
	// Paper is the row of the paper that the method is, with the options that make it so.
	Paper string
}

// Methods is the table of methods. Those with Paper set are the paper's training-free rows.
func Methods() []Method {
	paper := func(name MethodName, on CalibrateOn, allocator Allocator, row, doc string) Method {
		return Method{Name: name, Doc: doc, Paper: row, Defaults: Options{
			Allocator: allocator, Cost: CostBits, BitWidths: BitWidthsPerLayer, Scales: ScalesPerTensor,
			Compute: ComputeAuto, Input: InputAuto, CalibrateOn: on, WeightRange: calib.Output, ActRange: calib.MSE,
			Rounding: RoundNearest, Refine: -1,
			TeacherSteps: TeacherReach, Objective: Untrained, PruneBy: PruneMagnitude,
		}}
	}
	cf := Options{
		Allocator: AllocatorExact, Cost: CostBits, BitWidths: BitWidthsPerRow, Scales: ScalesPerChannel,
		Compute: ComputeAuto, Input: InputAuto, CalibrateOn: OnRecourse, WeightRange: calib.Output, ActRange: calib.MSE,
		Rounding: RoundGPTQ, Refine: 8,
		TeacherSteps: TeacherReach, Objective: Untrained, PruneBy: PruneMagnitude,
	}
	// trained is a method that trains on labels from a factual calibration on.
	trained := func(name MethodName, allocator Allocator, row, doc string) Method {
		m := paper(name, OnFactual, allocator, row, doc)
		m.Defaults.Scales, m.Defaults.Objective, m.Defaults.Train.Quantizers = ScalesPerChannel, qat.Task, qat.LSQ
		return m
	}
	pact := trained(PACT, AllocatorUniform, "QAT (PACT)",
		"the same bit width in every layer, trained on the labels, with learned "+
			"clipping of activations, which --compute integer has")
	pact.Defaults.Train.Quantizers, pact.Defaults.Compute = qat.PACT, ComputeInteger
	prune := trained(PruneQAT, AllocatorUniform, "Prune+Quant",
		"as lsq, half of the weights being zero (--sparsity)")
	prune.Defaults.Sparsity = 0.5
	kd := trained(KDQAT, AllocatorUniform, "KD+Quant", "as lsq, trained on the full-precision model's probabilities")
	kd.Defaults.Objective = qat.KD
	sensitive := paper(CFPTQPaper, OnRecourse, AllocatorPaper, "CF-PTQ + sensitivity allocation",
		"calibration on rows and teacher recourse points, bit widths by the greedy rule over gradients at recourse points")
	sensitive.RecourseSensitivity = true
	cfq := cf
	cfq.Objective = qat.Distil
	faithful := paper(CFQQATPaper, OnRecourse, AllocatorLearned, "CFQ", "the paper's CFQ: bit widths of layers are "+
		"learned, then step sizes, on the labels and on validity at teacher recourse points")
	faithful.RecourseSensitivity = true
	d := &faithful.Defaults
	d.Scales, d.Objective, d.Train.Quantizers = ScalesPerChannel, qat.Validity, qat.LSQ
	list := []Method{
		{
			Name: CFPTQ, RecourseSensitivity: true, Defaults: cf,
			Doc: "calibration on rows and recourse points, bit widths of rows by the quantization error of the margin there, " +
				"GPTQ rounding, end-to-end refinement",
		},
		{
			Name: CFQQAT, RecourseSensitivity: true, Defaults: cfq,
			Doc: "cf-ptq, then trained through fake quantizers on the margins of people and of recourse points",
		},
		paper(PTQ, OnFactual, AllocatorUniform, "PTQ INT8 (budget 8), PTQ INT4 (budget 4)",
			"factual calibration, the same bit width in every layer"),
		paper(MixedPTQ, OnFactual, AllocatorPaper, "Mixed-precision PTQ",
			"factual calibration, bit widths by the greedy rule over factual gradients"),
		paper(CFPTQCalib, OnRecourse, AllocatorPaper, "CF-PTQ calibration",
			"calibration on rows and teacher recourse points, bit widths as in mixed-ptq"),
		sensitive,
		trained(LSQ, AllocatorUniform, "QAT (LSQ)", "the same bit width in every layer, trained on the labels, with learned "+
			"step sizes"),
		pact,
		trained(MixedQAT, AllocatorExact, "Mixed-precision QAT", "bit widths of layers by the quantization error of the "+
			"margin at factual rows, trained as lsq"),
		prune, kd, faithful,
	}
	return list
}

// MethodNames lists the names of Methods.
func MethodNames() []string {
	var names []string
	for _, m := range Methods() {
		names = append(names, string(m.Name))
	}
	return names
}

// FindMethod returns the method called name.
func FindMethod(name MethodName) (Method, error) {
	for _, m := range Methods() {
		if m.Name == name {
			return m, nil
		}
	}
	return Method{}, fmt.Errorf("invalid value %q for method: want %s", name, message.Or(MethodNames()))
}

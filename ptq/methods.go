package ptq

import (
	"fmt"

	"cfq/calib"
	"cfq/internal/message"
	"cfq/qat"
	"cfq/recourse"
)

// Method is one way to quantize. Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name   MethodName
	Doc    string
	Recipe Recipe
	// Paper is the row of the paper that the method is, with the settings that make it so.
	Paper string
}

// Methods is the table of methods. Those with Paper set are the paper's training-free rows.
func Methods() []Method {
	pact, pruned := stepSizes(onFactual, allocatorUniform, qat.Task), stepSizes(onFactual, allocatorUniform, qat.Task)
	pact.Train.Quantizers, pact.Write.Compute, pruned.Train.Sparsity = qat.PACT, computeInteger, 0.5
	list := []Method{
		{
			Name: CFPTQ, Recipe: counterfactual(),
			Doc: "calibration on rows and recourse points, bit widths of rows by the quantization error of the margin there, " +
				"GPTQ rounding, end-to-end refinement",
		},
		{
			Name: CFQQAT, Recipe: counterfactual().trained(qat.Distil),
			Doc: "cf-ptq, then trained through fake quantizers on the margins of people and of recourse points",
		},
		{
			Name: PTQ, Recipe: paper(onFactual, onFactual, allocatorUniform),
			Doc: "factual calibration, the same bit width in every layer", Paper: "PTQ INT8 (budget 8), PTQ INT4 (budget 4)",
		},
		{
			Name: MixedPTQ, Recipe: paper(onFactual, onFactual, allocatorPaper),
			Doc: "factual calibration, bit widths by the greedy rule over factual gradients", Paper: "Mixed-precision PTQ",
		},
		{
			Name: CFPTQCalib, Recipe: paper(onRecourse, onFactual, allocatorPaper),
			Doc:   "calibration on rows and teacher recourse points, bit widths as in mixed-ptq",
			Paper: "CF-PTQ calibration",
		},
		{
			Name: CFPTQPaper, Recipe: paper(onRecourse, onRecourse, allocatorPaper),
			Doc: "calibration on rows and teacher recourse points, bit widths by the greedy rule over gradients at recourse " +
				"points",
			Paper: "CF-PTQ + sensitivity allocation",
		},
		{
			Name: LSQ, Recipe: stepSizes(onFactual, allocatorUniform, qat.Task),
			Doc: "the same bit width in every layer, trained on the labels, with learned step sizes", Paper: "QAT (LSQ)",
		},
		{
			Name: PACT, Recipe: pact, Paper: "QAT (PACT)",
			Doc: "the same bit width in every layer, trained on the labels, with learned clipping of activations, which " +
				"write.compute=integer has",
		},
		{
			Name: MixedQAT, Recipe: stepSizes(onFactual, allocatorExact, qat.Task), Paper: "Mixed-precision QAT",
			Doc: "bit widths of layers by the quantization error of the margin at factual rows, trained as lsq",
		},
		{
			Name: PruneQAT, Recipe: pruned, Paper: "Prune+Quant",
			Doc: "as lsq, half of the weights being zero (train.sparsity)",
		},
		{
			Name: KDQAT, Recipe: stepSizes(onFactual, allocatorUniform, qat.KD), Paper: "KD+Quant",
			Doc: "as lsq, trained on the full-precision model's probabilities",
		},
		{
			Name: CFQQATPaper, Recipe: stepSizes(onRecourse, allocatorLearned, qat.Validity), Paper: "CFQ",
			Doc: "the paper's CFQ: bit widths of layers are learned, then step sizes, on the labels and on validity at " +
				"teacher recourse points",
		},
	}
	for i := range list {
		list[i].Recipe.Method = list[i].Name
	}
	return list
}

func paper(points, scores CalibrateOn, rule Allocator) Recipe {
	return Recipe{
		Calibrate: CalibrateSpec{
			Points: points, Rows: 4096, Teacher: TeacherSpec{Moves: teacherReach, Steps: recourse.DefaultSteps, Seed: 1},
		},
		Allocate: AllocateSpec{Budget: 4, Cost: CostBits, Rule: rule, Unit: bitWidthsPerLayer, Scores: scores},
		Round: RoundSpec{
			Rule: calib.Nearest, Scales: scalesPerTensor, WeightRange: calib.Output, ActRange: calib.MSE,
		},
		Write: WriteSpec{Compute: computeAuto, Input: inputAuto, ActBits: 8},
	}
}

func counterfactual() Recipe {
	r := paper(onRecourse, onRecourse, allocatorExact)
	r.Allocate.Unit = bitWidthsPerRow
	r.Round.Rule, r.Round.Scales = calib.GPTQ, scalesPerChannel
	r.Refine.Rounds = 8
	return r
}

func (r Recipe) trained(objective Objective) Recipe {
	r.Train = &TrainSpec{TeacherActions: 1, PruneBy: pruneMagnitude}
	r.Train.Objective, r.Train.Steps, r.Train.Rate, r.Train.Seed = objective, qat.DefaultSteps, qat.DefaultRate, 1
	return r
}

func stepSizes(points CalibrateOn, rule Allocator, objective Objective) Recipe {
	r := paper(points, points, rule).trained(objective)
	r.Round.Scales, r.Train.Quantizers = scalesPerChannel, qat.LSQ
	return r
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

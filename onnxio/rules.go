package onnxio

import (
	"errors"
	"strings"

	"cfq/onnxio/graph"
)

// change is what happened to an operator at a version of the operator set.
type change struct {
	version int64
	rewrite func(*upgrader, *graph.Node) error
}

// compatible lists the operators whose changes between opset 9 and 25 only
// allowed more: more element types, attributes and inputs whose absence means
// what the operator did before.
const compatible = `
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitShift BitwiseAnd BitwiseNot
BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Col2Im Compress Concat Constant
ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Det Div
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual HammingWindow HannWindow HardSigmoid
HardSwish Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Multinomial
Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN
RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal Relu Reshape ReverseSequence
RotaryEmbedding Round ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softplus Softsign
SpaceToDepth Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Tile Transpose Trilu Unique Where Xor`

// changes is the table of the operators that Upgrade knows.
// References: the operators' histories in ONNX's Changelog.md.
func changes() map[string][]change {
	t := map[string][]change{}
	for op := range strings.FieldsSeq(compatible) {
		t[op] = nil
	}
	for _, op := range []string{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"} {
		t[op] = []change{{18, intsInput("axes")}}
	}
	t["ReduceSum"] = []change{{13, intsInput("axes")}}
	t["Squeeze"] = []change{{13, intsInput("axes")}}
	t["Unsqueeze"] = []change{{13, unsqueeze}}
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		t[op] = []change{{13, flattened}}
	}
	t["BatchNormalization"] = []change{{14, inferenceForm}}
	t["Clip"] = []change{{11, clip}}
	t["DFT"] = []change{{20, dftAxis}}
	t["Dropout"] = []change{{10, boolMask}, {12, dropout}}
	t["GridSample"] = []change{{20, gridMode}}
	t["GroupNormalization"] = []change{{21, impossible("has a scale per group; from opset 21 on it is one per channel")}}
	t["Pad"] = []change{{11, pad}}
	t["Resize"] = []change{{11, resize}}
	t["RoiAlign"] = []change{{16, roiAlign}}
	t["Scatter"] = []change{{11, rename("ScatterElements")}}
	t["Slice"] = []change{{10, slice}}
	t["Split"] = []change{{13, intsInput("split")}, {18, splitOutputs}}
	t["TopK"] = []change{{10, topK}}
	t["Upsample"] = []change{{10, rename("Resize")}}
	return t
}

func impossible(why string) func(*upgrader, *graph.Node) error {
	return func(*upgrader, *graph.Node) error { return errors.New(why) }
}

func rename(op string) func(*upgrader, *graph.Node) error {
	return func(_ *upgrader, n *graph.Node) error {
		n.Op = op
		return nil
	}
}

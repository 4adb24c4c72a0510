package onnxio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
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
	for _, op := range []string{
		"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
		"ReduceMin", "ReduceProd", "ReduceSumSquare",
	} {
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
	t["Dropout"] = []change{{10, boolMask}, {12, dropout}}
	t["Pad"] = []change{{11, pad}}
	t["Slice"] = []change{{10, slice}}
	t["Split"] = []change{{13, intsInput("split")}, {18, splitOutputs}}
	// What classifiers hardly have is not rewritten.
	for op, version := range map[string]int64{
		"DFT": 20, "GridSample": 20, "GroupNormalization": 21, "Resize": 11, "RoiAlign": 16, "Scatter": 11,
		"TopK": 10, "Upsample": 10,
	} {
		err := fmt.Errorf("changed at opset %d in a way that is not rewritten: export the model at a newer opset", version)
		t[op] = []change{{version, func(*upgrader, *graph.Node) error { return err }}}
	}
	return t
}

// remove takes the attribute called name from n and returns it, nil when there
// is none. An attribute that stands for a function's attribute has no value yet
// and cannot be turned into an input.
func remove(n *graph.Node, name string) (*graph.Attr, error) {
	for i, a := range n.Attrs {
		if a.Name != name {
			continue
		}
		if a.Ref != "" {
			return nil, fmt.Errorf("has the attribute %q, which stands for one of the function's and cannot become an input",
				name)
		}
		n.Attrs = slices.Delete(slices.Clone(n.Attrs), i, i+1)
		return &a, nil
	}
	return nil, nil
}

// input sets the i-th input of n.
func input(n *graph.Node, i int, value string) {
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	n.Inputs[i] = value
}

// intsInput turns the integer-list attribute called name into the second input,
// if it has elements: an empty list meant the same as none.
func intsInput(name string) func(*upgrader, *graph.Node) error {
	return func(u *upgrader, n *graph.Node) error {
		if a := n.Attr(name); a != nil && a.Ref == "" && len(a.Ints) == 0 {
			_, err := remove(n, name)
			return err
		}
		return u.ints(n, name, 1)
	}
}

// ints turns the integer-list attribute called name into the i-th input.
func (u *upgrader) ints(n *graph.Node, name string, i int) error {
	a, err := remove(n, name)
	if err != nil || a == nil {
		return err
	}
	input(n, i, u.constant(n, name, graph.FromInts("", a.Ints, int64(len(a.Ints)))))
	return nil
}

// unsqueeze: the axes became an input, which has to be there.
func unsqueeze(u *upgrader, n *graph.Node) error { return u.ints(n, "axes", 1) }

// scalar makes a constant of v in the element type of like.
func (u *upgrader) scalar(n *graph.Node, hint, like string, v float32) (string, error) {
	t := &graph.Tensor{DType: u.types[like].DType}
	switch t.DType {
	case graph.Float:
		t.Raw = binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	case graph.Double:
		t.Raw = binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v)))
	case graph.Undefined:
		return "", fmt.Errorf("has the attribute %q, which becomes an input of the type of %q, but the model does not say "+
			"which that is", hint, like)
	default:
		return "", fmt.Errorf("has the attribute %q, which cannot be made an input of type %s", hint, t.DType)
	}
	return u.constant(n, hint, t), nil
}

// clip: the attributes min and max became inputs. The old defaults are the
// ends of float32's range and are left out.
func clip(u *upgrader, n *graph.Node) error {
	for i, name := range []string{"min", "max"} {
		a, err := remove(n, name)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		value, err := u.scalar(n, name, n.Input(0), a.F)
		if err != nil {
			return err
		}
		input(n, i+1, value)
	}
	return nil
}

// boolMask: the mask, which had the type of the data, became one of booleans.
func boolMask(u *upgrader, n *graph.Node) error {
	if len(n.Outputs) > 1 {
		if u.used(n.Outputs[1]) {
			return errors.New("has a mask whose type changed and that is used")
		}
		n.Outputs = n.Outputs[:1]
	}
	return nil
}

// dropout: the ratio became an input. The node still does nothing: its third
// input, training_mode, is absent.
func dropout(u *upgrader, n *graph.Node) error {
	a, err := remove(n, "ratio")
	if err != nil || a == nil {
		return err
	}
	input(n, 1, u.constant(n, "ratio", graph.FromFloats("", []float32{a.F})))
	return nil
}

// inferenceForm: training became an attribute, with other outputs. Until then
// outputs other than the first said that the node normalises by the statistics
// of the batch, which is what ONNX Runtime does even if nothing uses them.
func inferenceForm(_ *upgrader, n *graph.Node) error {
	first := min(1, len(n.Outputs))
	if slices.ContainsFunc(n.Outputs[first:], func(o string) bool { return o != "" }) {
		return errors.New("is in training form, in which outputs depend on the batch: export the model in evaluation mode")
	}
	n.Outputs = n.Outputs[:first]
	return nil
}

// flattened: Softmax, LogSoftmax and Hardmax normalised over all axes from axis
// (default 1) on, as if the input were flattened to a matrix there; from opset
// 13 on they do so over the one axis (default -1).
func flattened(u *upgrader, n *graph.Node) error {
	a := n.Attr("axis")
	if a != nil && a.Ref != "" {
		return errors.New("has the attribute \"axis\", which stands for one of the function's and changed its meaning")
	}
	axis := n.Int("axis", 1)
	t, known := u.types[n.Input(0)]
	if axis == -1 || known && axis == int64(len(t.Shape))-1 {
		setInt(n, "axis", axis)
		return nil
	}
	if len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return errors.New("does not have one input and one output")
	}
	in, out := n.Inputs[0], n.Outputs[0]
	shape, flat, soft := u.name(n, "shape"), u.name(n, "flat"), u.name(n, "matrix")
	u.put(&graph.Node{Name: u.name(n, "Shape"), Op: "Shape", Inputs: []string{in}, Outputs: []string{shape}}, true)
	u.put(&graph.Node{
		Name: u.name(n, "Flatten"), Op: "Flatten", Inputs: []string{in}, Outputs: []string{flat},
		Attrs: []graph.Attr{graph.IntAttr("axis", axis)},
	}, true)
	u.put(&graph.Node{Name: u.name(n, "Reshape"), Op: "Reshape", Inputs: []string{soft, shape}, Outputs: []string{out}},
		false)
	n.Inputs, n.Outputs = []string{flat}, []string{soft}
	setInt(n, "axis", -1)
	return nil
}

func setInt(n *graph.Node, name string, v int64) {
	if a := n.Attr(name); a != nil {
		a.I = v
		return
	}
	n.Attrs = append(n.Attrs, graph.IntAttr(name, v))
}

// pad: the attributes pads and value became inputs.
func pad(u *upgrader, n *graph.Node) error {
	data := n.Input(0)
	if err := u.ints(n, "pads", 1); err != nil {
		return err
	}
	a, err := remove(n, "value")
	if err != nil || a == nil || a.F == 0 {
		return err
	}
	value, err := u.scalar(n, "value", data, a.F)
	if err != nil {
		return err
	}
	input(n, 2, value)
	return nil
}

// slice: starts, ends and axes became inputs.
func slice(u *upgrader, n *graph.Node) error {
	for i, name := range []string{"starts", "ends", "axes"} {
		if err := u.ints(n, name, i+1); err != nil {
			return err
		}
	}
	return nil
}

// splitOutputs: an even split has to say into how many parts.
func splitOutputs(_ *upgrader, n *graph.Node) error {
	if n.Input(1) == "" && n.Attr("num_outputs") == nil {
		n.Attrs = append(n.Attrs, graph.IntAttr("num_outputs", int64(len(n.Outputs))))
	}
	return nil
}

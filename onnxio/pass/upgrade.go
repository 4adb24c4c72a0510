package pass

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

const (
	// minOpset is the oldest operator set that can be upgraded, and that ONNX Runtime promises to run.
	minOpset = 7
	// upgradedOpset is the least operator set of an upgraded model: the first that has INT4 and scales
	// per block, which quantized models are written with. upgradedIR is the IR version that appeared with it.
	upgradedOpset = 21
	upgradedIR    = 10
)

// Upgrade raises the standard operator set of m to 21, unless it is that or newer, rewriting the nodes
// whose operators changed their form or meaning on the way, so that the model computes what it did. The
// IR version is raised to the one that goes with it. On the way past IR version 3, initializers cease to
// be listed as inputs: there they were constants, later they would be defaults that a caller may replace.
//
// Nodes that cannot be upgraded are collected into one error that names each
// of them; m is then unchanged. types are those of its values that are known beyond what it declares.
func Upgrade(m *graph.Model, types graph.Types) error {
	c := m.Clone()
	up := Upgrading()
	if err := up.Apply(c, types); err != nil {
		return err
	}
	*m.Graph = *c.Graph // callers may hold m.Graph
	c.Graph = m.Graph
	*m = *c
	return nil
}

// Upgrading is the pass that Upgrade applies.
func Upgrading() graph.Pass {
	return graph.Pass{
		Name: "upgrade", Doc: "Operators become those of opset 21.",
		Needed: func(m *graph.Model) bool { return m.Opset("") < upgradedOpset },
		Run: func(r *graph.Rewriter) error {
			m, version := r.Model, r.Model.Opset("")
			var errs []error
			switch {
			case !slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).Standard):
			case version == 0:
				errs = append(errs, errors.New("the model has standard operators, but imports no standard operator set"))
			case version < minOpset:
				errs = append(errs, fmt.Errorf("opset %d is older than %d, the oldest that can be upgraded: export the model at "+
					"a newer one, 17 or above", version, minOpset))
			case len(m.Functions) > 0:
				errs = append(errs, fmt.Errorf("the model has functions, such as %q: inline them (onnx.inliner)",
					m.Functions[0].Name))
			default:
				r.Types = typesOf(r.G, r.Types)
				errs = upgradeNodes(r, func(*graph.Node) int64 { return version }, upgradedOpset)
			}
			if len(errs) > 0 {
				return fmt.Errorf("upgrade to opset %d: %w", upgradedOpset, errors.Join(errs...))
			}
			m.SetOpset("", upgradedOpset)
			if m.IRVersion <= 3 {
				m.Graph.Inputs = m.Graph.DataInputs()
			}
			m.IRVersion = max(m.IRVersion, upgradedIR)
			return nil
		},
	}
}

type upgrader struct {
	*graph.Rewriter
	before []*graph.Node // what a rule puts before its node
	after  []*graph.Node // and after it
}

func upgradeNodes(r *graph.Rewriter, from func(*graph.Node) int64, to int64) []error {
	u, rules := &upgrader{Rewriter: r}, changes()
	var errs []error
	nodes := r.G.Nodes
	var out []*graph.Node
	for _, n := range nodes {
		u.before, u.after = nil, nil
		label := n.Label()
		if err := u.node(n, rules, from(n), to); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", label, err))
		}
		out = append(append(append(out, u.before...), n), u.after...)
	}
	r.G.Nodes = out
	return errs
}

func (u *upgrader) node(n *graph.Node, rules map[string][]change, from, to int64) error {
	if !n.Standard() || from >= to {
		return nil
	}
	list, known := rules[n.Op]
	switch {
	case !known:
		return errors.New("is of an operator that cannot be upgraded")
	case n.HasGraphs():
		return errors.New("has a subgraph, which cannot be upgraded")
	}
	for _, c := range list {
		if c.version <= from || c.version > to {
			continue
		}
		if err := c.rewrite(u, n); err != nil {
			return err
		}
	}
	return nil
}

func (u *upgrader) nameOf(n *graph.Node, hint string) string {
	base := n.Name
	if base == "" && len(n.Outputs) > 0 {
		base = n.Outputs[0]
	}
	return u.Name(base + "_" + hint)
}

func (u *upgrader) constant(n *graph.Node, hint string, t *graph.Tensor) string {
	t.Name = u.nameOf(n, hint)
	u.G.Inits = append(u.G.Inits, t)
	return t.Name
}

type change struct {
	version int64
	rewrite func(*upgrader, *graph.Node) error
}

// compatible lists the operators whose changes between opset 7 and 21 only
// allowed more: more element types, attributes and inputs whose absence means
// what the operator did before.
const compatible = `
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitShift BitwiseAnd
BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Col2Im Compress Concat Constant
ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DeformConv DequantizeLinear Det Div
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual HammingWindow HannWindow HardSigmoid
HardSwish Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization Min Mish
Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pow QLinearConv QLinearMatMul QuantizeLinear
RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal Relu Reshape
ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softplus
Softsign SpaceToDepth Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Tile Transpose Trilu Unique Where Xor`

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
	for _, op := range []string{"ReduceSum", "Squeeze", "Unsqueeze"} {
		t[op] = []change{{13, intsInput("axes")}}
	}
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		t[op] = []change{{13, flattened}}
	}
	t["BatchNormalization"] = []change{{9, byChannel}, {14, inferenceForm}}
	t["Clip"] = []change{{11, clip}}
	t["Dropout"] = []change{{10, boolMask}, {12, dropout}}
	t["Pad"] = []change{{11, pad}}
	t["Slice"] = []change{{10, slice}}
	t["Split"] = []change{{13, intsInput("split")}, {18, splitOutputs}}
	t["Upsample"] = []change{{9, scales}, {10, renamed("Resize")}, {11, resize}}
	t["Resize"] = []change{{11, resize}}
	t["TopK"] = []change{{10, topK}}
	t["Scatter"] = []change{{11, renamed("ScatterElements")}}
	t["GroupNormalization"] = []change{{21, groupsToChannels}}
	t["GridSample"] = []change{{20, interpolations}}
	t["RoiAlign"] = []change{{16, outputHalfPixel}}
	t["DFT"] = []change{{20, axisOfDFT}}
	return t
}

func remove(n *graph.Node, name string) *graph.Attr {
	a := n.Attr(name)
	if a == nil {
		return nil
	}
	removed := *a
	n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a graph.Attr) bool { return a.Name == name })
	return &removed
}

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
		u.ints(n, name, 1)
		return nil
	}
}

func (u *upgrader) ints(n *graph.Node, name string, i int) {
	if a := remove(n, name); a != nil && len(a.Ints) > 0 {
		input(n, i, u.constant(n, name, graph.FromInts("", a.Ints, int64(len(a.Ints)))))
	}
}

// scalar turns the float attribute called name into the i-th input, a constant of the element type of
// the first one.
func (u *upgrader) scalar(n *graph.Node, name string, i int) error {
	a := remove(n, name)
	if a == nil {
		return nil
	}
	dtype := u.Types[n.Input(0)].DType
	t := graph.FromNumbers("", dtype, []float32{a.F})
	switch {
	case dtype == graph.Undefined:
		return fmt.Errorf("has the attribute %q, which becomes an input of the type of %q, but the model does not say "+
			"which that is", name, n.Input(0))
	case t == nil:
		return fmt.Errorf("has the attribute %q, which cannot be made an input of type %s", name, dtype)
	}
	input(n, i, u.constant(n, name, t))
	return nil
}

// clip: the attributes min and max became inputs. The old defaults are the
// ends of float32's range and are left out.
func clip(u *upgrader, n *graph.Node) error {
	return errors.Join(u.scalar(n, "min", 1), u.scalar(n, "max", 2))
}

// boolMask: the mask, which had the type of the data, became one of booleans.
func boolMask(u *upgrader, n *graph.Node) error {
	if len(n.Outputs) > 1 {
		g, mask := u.G, n.Outputs[1]
		if len(g.Consumers()[mask]) > 0 || g.IsOutput(mask) {
			return errors.New("has a mask whose type changed and that is used")
		}
		n.Outputs = n.Outputs[:1]
	}
	return nil
}

// dropout: the ratio became an input. The node still does nothing: its third
// input, training_mode, is absent.
func dropout(u *upgrader, n *graph.Node) error {
	if a := remove(n, "ratio"); a != nil {
		input(n, 1, u.constant(n, "ratio", graph.FromFloats("", []float32{a.F})))
	}
	return nil
}

// byChannel: the statistics are those of channels; they could be of each position before.
func byChannel(_ *upgrader, n *graph.Node) error {
	if a := remove(n, "spatial"); a != nil && a.I == 0 {
		return errors.New("normalizes every position by itself (spatial: 0), which opset 9 dropped: export the model at a " +
			"newer opset")
	}
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
	axis := n.Int("axis", 1)
	t, known := u.Types[n.Input(0)]
	if axis == -1 || known && axis == int64(len(t.Shape))-1 {
		setInt(n, "axis", axis)
		return nil
	}
	if len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return errors.New("does not have one input and one output")
	}
	in, out := n.Inputs[0], n.Outputs[0]
	shape, flat, soft := u.nameOf(n, "shape"), u.nameOf(n, "flat"), u.nameOf(n, "matrix")
	u.before = []*graph.Node{
		{Name: u.nameOf(n, "Shape"), Op: "Shape", Inputs: []string{in}, Outputs: []string{shape}},
		{
			Name: u.nameOf(n, "Flatten"), Op: "Flatten", Inputs: []string{in}, Outputs: []string{flat},
			Attrs: []graph.Attr{graph.IntAttr("axis", axis)},
		},
	}
	u.after = []*graph.Node{
		{Name: u.nameOf(n, "Reshape"), Op: "Reshape", Inputs: []string{soft, shape}, Outputs: []string{out}},
	}
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

func pad(u *upgrader, n *graph.Node) error {
	u.ints(n, "pads", 1)
	if n.Float("value", 0) == 0 {
		remove(n, "value")
	}
	return u.scalar(n, "value", 2)
}

func slice(u *upgrader, n *graph.Node) error {
	for i, name := range []string{"starts", "ends", "axes"} {
		u.ints(n, name, i+1)
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

func renamed(op string) func(*upgrader, *graph.Node) error {
	return func(_ *upgrader, n *graph.Node) error {
		n.Op = op
		return nil
	}
}

func scales(u *upgrader, n *graph.Node) error {
	if a := remove(n, "scales"); a != nil {
		input(n, 1, u.constant(n, "scales", graph.FromFloats("", a.Floats, int64(len(a.Floats)))))
	}
	return nil
}

// resize: the scales became the third input, and where elements are taken from became attributes. It was the
// asymmetric way, and of the nearest elements the one in front, behind where the image became smaller.
func resize(u *upgrader, n *graph.Node) error {
	by := n.Input(1)
	n.Inputs = []string{n.Input(0), "", by}
	n.Attrs = append(slices.Clone(n.Attrs), graph.StringAttr("coordinate_transformation_mode", "asymmetric"))
	if a := n.Attr("mode"); a != nil && string(a.S) != "nearest" {
		return nil
	}
	t := u.G.Init(by)
	for _, m := range u.G.Nodes {
		if slices.Contains(m.Outputs, by) {
			t = m.Constant()
		}
	}
	if t == nil {
		return errors.New("takes the nearest elements at scales that are not constant, and what is nearest changed at " +
			"opset 11: export the model at a newer opset")
	}
	v, err := t.Doubles()
	if err != nil {
		return fmt.Errorf("scales: %w", err)
	}
	mode := "floor"
	if slices.ContainsFunc(v, func(s float64) bool { return s < 1 }) {
		if mode = "ceil"; slices.Max(v) > 1 {
			return errors.New("makes some axes larger and some smaller, and what is nearest changed at opset 11: export the " +
				"model at a newer opset")
		}
	}
	n.Attrs = append(n.Attrs, graph.StringAttr("nearest_mode", mode))
	return nil
}

func topK(u *upgrader, n *graph.Node) error {
	if a := remove(n, "k"); a != nil {
		input(n, 1, u.constant(n, "k", graph.FromInts("", []int64{a.I}, 1)))
	}
	return nil
}

// groupsToChannels: scale and bias had one number for each group, and have one for each channel.
func groupsToChannels(u *upgrader, n *graph.Node) error {
	groups, s := n.Int("num_groups", 0), u.Types[n.Input(0)].Shape
	if len(s) < 2 || s[1].Size < 1 || groups < 1 || s[1].Size%groups != 0 {
		return fmt.Errorf("has %d groups of the channels of %q, of which the model does not say how many there are: export "+
			"the model at opset 21", groups, n.Input(0))
	}
	list := func(hint string, v ...int64) string { return u.constant(n, hint, graph.FromInts("", v, int64(len(v)))) }
	column, wide, flat := list("column", -1, 1), list("wide", 1, s[1].Size/groups), list("flat", -1)
	inputs := slices.Clone(n.Inputs)
	for i := 1; i < min(3, len(inputs)); i++ {
		at := inputs[i]
		for _, step := range [][2]string{{"Reshape", column}, {"Expand", wide}, {"Reshape", flat}} {
			out := u.nameOf(n, "channels")
			u.before = append(u.before, &graph.Node{
				Name: u.nameOf(n, step[0]), Op: step[0], Inputs: []string{at, step[1]}, Outputs: []string{out},
			})
			at = out
		}
		inputs[i] = at
	}
	n.Inputs = inputs
	return nil
}

func interpolations(_ *upgrader, n *graph.Node) error {
	if a := remove(n, "mode"); a != nil {
		mode := string(a.S)
		if to, ok := map[string]string{"bilinear": "linear", "bicubic": "cubic"}[mode]; ok {
			mode = to
		}
		n.Attrs = append(slices.Clone(n.Attrs), graph.StringAttr("mode", mode))
	}
	return nil
}

// outputHalfPixel: the default of an attribute that was new.
func outputHalfPixel(_ *upgrader, n *graph.Node) error {
	if n.Attr("coordinate_transformation_mode") == nil {
		n.Attrs = append(slices.Clone(n.Attrs), graph.StringAttr("coordinate_transformation_mode", "output_half_pixel"))
	}
	return nil
}

// axisOfDFT: the axis became an input, with another default.
func axisOfDFT(u *upgrader, n *graph.Node) error {
	axis := n.Int("axis", 1)
	remove(n, "axis")
	input(n, 2, u.constant(n, "axis", graph.FromInts("", []int64{axis})))
	return nil
}

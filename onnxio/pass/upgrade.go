package pass

import (
	"errors"
	"fmt"
	"slices"

	"cfq/internal/lists"
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
// Nodes that cannot be upgraded are collected into one error that names each of them; m is then half upgraded. types
// are those of its values that are known beyond what it declares.
func Upgrade(m *graph.Model, types graph.Types) error {
	up := Upgrading()
	return up.Apply(m, types)
}

// Upgrading is the pass that Upgrade applies.
func Upgrading() graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool { return m.Opset("") < upgradedOpset },
		Run: func(r *graph.Rewriter) error {
			m, version := r.Model, r.Model.Opset("")
			var err error
			switch {
			case !slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).Standard):
			case version == 0:
				err = errors.New("the model has standard operators, but imports no standard operator set")
			case version < minOpset:
				err = fmt.Errorf("opset %d is older than %d, the oldest that can be upgraded: export the model at "+
					"a newer one, 17 or above", version, minOpset)
			case len(m.Functions) > 0:
				err = fmt.Errorf("the model has functions, such as %q: inline them (onnx.inliner)", m.Functions[0].Name)
			default:
				r.Types = typesOf(r.G, r.Types)
				err = upgradeNodes(r, version)
			}
			if err != nil {
				return fmt.Errorf("upgrade to opset %d: %w", upgradedOpset, err)
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

type upgrader struct{ *graph.Rewriter }

func upgradeNodes(r *graph.Rewriter, version int64) error {
	rules := changes()
	var errs []error
	r.Rebuild(func(n *graph.Node) {
		label, err := n.Label(), error(nil)
		if n.Standard() && n.HasGraphs() {
			err = errors.New("has a subgraph, which cannot be upgraded")
		}
		for _, c := range rules[n.Op] {
			if err == nil && n.Standard() && version < c.version {
				err = c.rewrite(upgrader{r}, n)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", label, err))
		}
		r.G.Nodes = append(r.G.Nodes, n)
	})
	return errors.Join(errs...)
}

func (u upgrader) nameOf(n *graph.Node, hint string) string {
	base := n.Name
	if base == "" && len(n.Outputs) > 0 {
		base = n.Outputs[0]
	}
	return u.Name(base + "_" + hint)
}

func (u upgrader) input(n *graph.Node, hint string, i int, t *graph.Tensor) {
	if t == nil {
		return
	}
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	t.Name = u.nameOf(n, hint)
	u.G.Inits = append(u.G.Inits, t)
	u.Inits[t.Name] = t
	n.Inputs[i] = t.Name
}

type (
	// change is what happened to an operator at a version of the operator set.
	change struct {
		version int64
		rewrite upgradeRule
	}
	upgradeRule func(upgrader, *graph.Node) error
)

// changes is the table of the operators that changed their form or meaning between opset 7 and 21. Others only allowed
// more: more element types, attributes and inputs whose absence means what the operator did before.
// References: the operators' histories in ONNX's Changelog.md.
func changes() map[string][]change {
	integers := func(a *graph.Attr) *graph.Tensor {
		if len(a.Ints) == 0 { // an empty list meant the same as none
			return nil
		}
		return graph.FromInts("", a.Ints, int64(len(a.Ints)))
	}
	k := func(a *graph.Attr) *graph.Tensor { return graph.FromInts("", []int64{a.I}, 1) }
	ratio := func(a *graph.Attr) *graph.Tensor { return graph.FromFloats("", []float32{a.F}) }
	t := map[string][]change{
		// The statistics are those of channels; they could be of each position before.
		"BatchNormalization": {{9, func(_ upgrader, n *graph.Node) error {
			if a := remove(n, "spatial"); a != nil && a.I == 0 {
				return errors.New("normalizes every position by itself (spatial: 0), which opset 9 dropped: export the model at " +
					"a newer opset")
			}
			return nil
			// Training became an attribute, with other outputs. Until then outputs other than the first said that the node
			// normalises by the statistics of the batch, which is what ONNX Runtime does even if nothing uses them.
		}}, {14, func(_ upgrader, n *graph.Node) error {
			first := min(1, len(n.Outputs))
			if slices.ContainsFunc(n.Outputs[first:], func(o string) bool { return o != "" }) {
				return errors.New("is in training form, in which outputs depend on the batch: export the model in evaluation mode")
			}
			n.Outputs = n.Outputs[:first]
			return nil
		}}},
		// The old defaults are the ends of float32's range.
		"Clip": {{11, numberInput("min", 1)}, {11, numberInput("max", 2)}},
		// The mask, which had the type of the data, became one of booleans.
		"Dropout": {{10, func(u upgrader, n *graph.Node) error {
			if len(n.Outputs) > 1 {
				if mask := n.Outputs[1]; len(u.Consumers[mask]) > 0 || u.G.IsOutput(mask) {
					return errors.New("has a mask whose type changed and that is used")
				}
				n.Outputs = n.Outputs[:1]
			}
			return nil
		}}, {12, asInput("ratio", 1, ratio)}},
		"Pad": {{11, asInput("pads", 1, integers)}, {11, numberInput("value", 2)}},
		"Slice": {
			{10, asInput("starts", 1, integers)}, {10, asInput("ends", 2, integers)}, {10, asInput("axes", 3, integers)},
		},
		"Split": {{13, asInput("split", 1, integers)}, {18, func(_ upgrader, n *graph.Node) error {
			if n.Input(1) == "" && n.Attr("num_outputs") == nil {
				n.Attrs = append(n.Attrs, graph.IntAttr("num_outputs", int64(len(n.Outputs))))
			}
			return nil
		}}},
		"TopK":    {{10, asInput("k", 1, k)}},
		"Scatter": {{11, func(_ upgrader, n *graph.Node) error { n.Op = "ScatterElements"; return nil }}},
	}
	for op, version := range map[string]int64{
		"Upsample": 10, "Resize": 11, "RoiAlign": 16, "GridSample": 20, "DFT": 20, "GroupNormalization": 21,
	} {
		t[op] = []change{{version, func(upgrader, *graph.Node) error {
			return errors.New("is of an operator that cannot be upgraded: export the model at a newer opset")
		}}}
	}
	for _, op := range []string{
		"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
		"ReduceMin", "ReduceProd", "ReduceSumSquare",
	} {
		t[op] = []change{{18, asInput("axes", 1, integers)}}
	}
	for _, op := range []string{"ReduceSum", "Squeeze", "Unsqueeze"} {
		t[op] = []change{{13, asInput("axes", 1, integers)}}
	}
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		t[op] = []change{{13, oneAxis}}
	}
	return t
}

// oneAxis: softmaxes normalised over all axes from axis (default 1) on, as if the input were flattened to a matrix
// there; from opset 13 on they do so over the one axis (default -1).
func oneAxis(u upgrader, n *graph.Node) error {
	axis := n.Int("axis", 1)
	t, known := u.Types[n.Input(0)]
	remove(n, "axis")
	if axis == -1 || known && axis == int64(len(t.Shape))-1 {
		n.Attrs = append(n.Attrs, graph.IntAttr("axis", axis))
		return nil
	}
	if len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return errors.New("does not have one input and one output")
	}
	shape, flat, soft := u.nameOf(n, "shape"), u.nameOf(n, "flat"), u.nameOf(n, "matrix")
	step := func(op string, in []string, out string, attrs ...graph.Attr) *graph.Node {
		return &graph.Node{Name: u.nameOf(n, op), Op: op, Inputs: in, Outputs: []string{out}, Attrs: attrs}
	}
	softmax := *n
	softmax.Inputs, softmax.Outputs = []string{flat}, []string{soft}
	softmax.Attrs = append(slices.Clone(n.Attrs), graph.IntAttr("axis", -1))
	u.G.Nodes = append(u.G.Nodes, step("Shape", n.Inputs, shape),
		step("Flatten", n.Inputs, flat, graph.IntAttr("axis", axis)), &softmax)
	*n = *step("Reshape", []string{soft, shape}, n.Outputs[0])
	return nil
}

func asInput(name string, i int, constant func(*graph.Attr) *graph.Tensor) upgradeRule {
	return func(u upgrader, n *graph.Node) error {
		if a := remove(n, name); a != nil {
			u.input(n, name, i, constant(a))
		}
		return nil
	}
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

func numberInput(name string, i int) upgradeRule {
	return func(u upgrader, n *graph.Node) error {
		a := remove(n, name)
		if a == nil || a.F == 0 && n.Op == "Pad" { // zeros are what is padded with anyway
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
		u.input(n, name, i, t)
		return nil
	}
}

// Current returns m, and where it states a newer operator set or IR version than runtimes of today know, a copy that
// states what its operators need: from operator set 25 to 28 operators gained only element types, and some are new.
func Current(m *graph.Model) *graph.Model {
	const opset, newestOpset, ir, newestIR = 25, 28, 13, 14
	added := func(n *graph.Node) bool {
		return slices.Contains([]string{"BitCast", "CumProd", "CausalConvWithState", "LinearAttention", "SwiGLU"}, n.Op) ||
			n.Op == "SpaceToDepth" && n.Attr("mode") != nil || n.Op == "Range" && n.Attr("stash_type") != nil
	}
	inner := lists.Join(m.Functions, func(f *graph.Function) []*graph.Node { return f.Nodes })
	nodes := slices.Concat(m.Graph.Nodes, inner)
	if m.Opset("") > newestOpset || m.Opset("") <= opset && m.IRVersion <= ir || slices.ContainsFunc(nodes, added) {
		return m
	}
	c := m.Clone()
	importing := []*graph.Model{c}
	for _, f := range c.Functions {
		f.Opsets = slices.Clone(f.Opsets)
		importing = append(importing, &graph.Model{Opsets: f.Opsets})
	}
	for _, i := range importing {
		if i.Opset("") > opset {
			i.SetOpset("", opset)
		}
	}
	if c.IRVersion <= newestIR {
		c.IRVersion = min(c.IRVersion, ir)
	}
	return c
}

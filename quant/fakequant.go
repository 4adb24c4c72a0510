package quant

import (
	"math"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// The model-local functions that quantize weights and choose bit widths for training.
const (
	fakeWeight  = "FakeQuantWeight"
	learnedStep = "LearnedStep"
	hardest     = "Hardest"
)

// Fake writes quantizers of weights into a graph that is trained.
type Fake struct {
	*graph.Builder // of Model

	Model *graph.Model
	Types graph.Types              // of the values, also of those that are written
	Rules map[string]autodiff.Rule // gets the gradient rules that training needs
}

// FakeWeights names the values of quantized weights, and of their codes and scales.
type FakeWeights struct{ Value, Codes, Scale string }

// Weights appends weights as a file stores them: codes, which are the ratios (Out x In)
// rounded and clipped to lo and hi, times the scale; these three have one number for each row, or one for all.
//
// The gradient passes straight through rounding, where the rounded ratio is not clipped; that by the scale is exact.
func (f *Fake) Weights(ratio, scale string, lo, hi *graph.Tensor) FakeWeights {
	n := f.call(fakeWeight, []string{ratio, scale}, lo, hi)
	f.Rules[ownDomain+"."+fakeWeight] = func(c *autodiff.Call, i int) string {
		switch i {
		case 0:
			return c.Op("Mul", []string{unclipped(c), c.Node.Input(1)})
		case 1:
			return c.Op("Mul", []string{c.Grad(), c.Node.Outputs[2]})
		}
		return ""
	}
	return FakeWeights{n.Outputs[0], n.Outputs[2], scale}
}

// LearnedSteps is Weights of weights in their own units and of the logarithms of the scales, with a dimension
// in front of scales, lo and hi, and of the results, where there are several candidates.
//
// This is learned step size quantization, by the logarithm of the step: the gradient by the scale is round(w/s) - w/s
// where w is not clipped, and the bound where it is, times the scale. (As published, the gradient by the weights ends
// half a step earlier, at the bound itself; a weight that is moved across it could not come back.)
//
// Reference: Esser et al., Learned Step Size Quantization, 2020, equations 1 to 3.
func (f *Fake) LearnedSteps(weights, logs string, lo, hi *graph.Tensor) FakeWeights {
	n := f.call(learnedStep, []string{weights, logs}, lo, hi)
	// The gradient by the weights (input 0) and the logarithm of the scale (input 1) has half the nodes that Div and Exp
	// make of it, and a step of a small network costs what its nodes cost.
	f.Rules[ownDomain+"."+learnedStep] = func(c *autodiff.Call, i int) string {
		switch i {
		case 0:
			return unclipped(c)
		case 1: // ONNX Runtime computes the equal parts of both once
			return c.Op("Sub", []string{
				c.Op("Mul", []string{c.Grad(), c.Node.Outputs[0]}), c.Op("Mul", []string{unclipped(c), c.Node.Input(0)}),
			})
		}
		return ""
	}
	return FakeWeights{n.Outputs[0], n.Outputs[2], n.Outputs[3]}
}

func (f *Fake) call(op string, inputs []string, lo, hi *graph.Tensor) *graph.Node {
	// The outputs are the quantized weights and, for the gradient, the ratios rounded, before and after clipping.
	body := &graph.Function{
		Name: op, Domain: ownDomain, Opsets: []graph.Opset{{Version: f.Model.Opset("")}},
		Inputs: []string{"v", "s", "lo", "hi"}, Outputs: []string{"y", "r", "q"},
		Nodes: []*graph.Node{
			bodyNode("Round", "r", "v"), bodyNode("Max", "above", "r", "lo"), bodyNode("Min", "q", "above", "hi"),
			bodyNode("Mul", "y", "q", "s"),
		},
	}
	if op == learnedStep {
		body.Inputs[0], body.Inputs[1], body.Outputs = "w", "log", append(body.Outputs, "s")
		body.Nodes = append([]*graph.Node{bodyNode("Exp", "s", "log"), bodyNode("Div", "v", "w", "s")}, body.Nodes...)
	}
	f.define(body)
	n := &graph.Node{
		Op: op, Domain: ownDomain, Name: f.Name("fake_quant"), Inputs: append(inputs, f.Const(lo), f.Const(hi)),
	}
	in := f.Types[inputs[0]].Shape
	all := graph.Type{DType: graph.Float, Shape: graph.Fixed(lo.Dims...)}
	all.Shape[len(all.Shape)-1] = in[len(in)-1]
	for _, name := range []string{"weights", "rounded", "codes"} {
		name = f.Name(name)
		n.Outputs = append(n.Outputs, name)
		f.Types[name] = all
	}
	if op == learnedStep {
		name := f.Name("scale")
		n.Outputs = append(n.Outputs, name)
		f.Types[name] = f.Types[inputs[1]]
	}
	f.Append(n)
	return n
}

// Hardest appends, for shares along axis 0, 1 where a share is the largest and 0 elsewhere, the first one of equals.
// The gradient passes straight through to the shares: with those of a Gumbel-Softmax sample this is the
// straight-through choice of a bit width.
//
// Reference: section Mixed-precision bit allocation of the paper; Jang et al., Categorical Reparameterization with
// Gumbel-Softmax, 2017.
func (f *Fake) Hardest(shares string) string {
	k, z := bodyNode("ArgMax", "k", "p"), bodyNode("OneHot", "z", "k", "depth", "values")
	k.Attrs = []graph.Attr{graph.IntAttr("axis", 0), graph.IntAttr("keepdims", 0)}
	z.Attrs = []graph.Attr{graph.IntAttr("axis", 0)}
	f.define(&graph.Function{
		Name: hardest, Domain: ownDomain, Opsets: []graph.Opset{{Version: f.Model.Opset("")}},
		Inputs: []string{"p", "depth", "values"}, Outputs: []string{"z"},
		Nodes: []*graph.Node{k, z},
	})
	depth := f.Const(graph.FromInts("depth", []int64{f.Types[shares].Shape[0].Size}, 1))
	choice := f.Name("choice")
	f.Append(&graph.Node{
		Op: hardest, Domain: ownDomain, Name: f.Name("hardest"), Outputs: []string{choice},
		Inputs: []string{shares, depth, f.Const(graph.FromFloats("values", []float32{0, 1}, 2))},
	})
	f.Types[choice] = f.Types[shares]
	f.Rules[ownDomain+"."+hardest] = func(c *autodiff.Call, i int) string {
		if i != 0 {
			return ""
		}
		return c.Grad()
	}
	return choice
}

func bodyNode(op, out string, in ...string) *graph.Node {
	return &graph.Node{Op: op, Inputs: in, Outputs: []string{out}}
}

func (f *Fake) define(fn *graph.Function) {
	if slices.ContainsFunc(f.Model.Functions, func(have *graph.Function) bool {
		return have.Domain == fn.Domain && have.Name == fn.Name
	}) {
		return
	}
	f.Model.SetOpset(fn.Domain, 1)
	f.Model.Functions = append(f.Model.Functions, fn)
}

func unclipped(c *autodiff.Call) string {
	rounded, codes := c.Node.Outputs[1], c.Node.Outputs[2]
	to := graph.IntAttr("to", int64(c.Type(codes).DType))
	return c.Op("Mul", []string{c.Grad(), c.Op("Cast", []string{c.Op("Equal", []string{rounded, codes})}, to)})
}

// A quantized model's derivative is zero almost everywhere. What a solver needs is the slope of the function that the
// quantizers approximate, so gradients pass them straight through: each QuantizeLinear -> [Clip] -> DequantizeLinear on
// the way from the input becomes one call of a model-local function with the same body, with the gradient of a clip.
// The forward pass is unchanged.

const (
	ownDomain = "cfq"
	fakeQuant = "FakeQuant"
	fakeClip  = "FakeQuantClip"
)

// StraightThrough rewrites the quantizers of activations of m in place into calls of
// fake-quantize functions and returns the rules for their gradients, nil when there are none.
//
// Reference: Bengio et al., Estimating or Propagating Gradients Through Stochastic Neurons,
// 2013 (the straight-through estimator), here with the gradient of the clip.
func StraightThrough(m *graph.Model) map[string]autodiff.Rule {
	g := m.Graph
	producers, inits := g.Producers(), g.InitMap()
	rules := map[string]autodiff.Rule{}
	for i, dq := range g.Nodes {
		q, clip := producers[dq.Input(0)], (*graph.Node)(nil)
		if q != nil && q.Op == "Clip" {
			q, clip = producers[q.Input(0)], q
		}
		if !dq.Is("DequantizeLinear") || q == nil || !q.Is("QuantizeLinear") || inits[q.Input(0)] != nil ||
			q.Input(2) == "" || q.Input(1) != dq.Input(1) || q.Input(2) != dq.Input(2) { // per tensor, on one grid
			continue
		}
		call := &graph.Node{
			Op: fakeQuant, Domain: ownDomain, Name: dq.Name, Outputs: dq.Outputs,
			Inputs: []string{q.Inputs[0], q.Inputs[1], q.Input(2)},
		}
		if clip != nil {
			call.Op = fakeClip
			call.Inputs = append(call.Inputs, clip.Input(1), clip.Input(2))
		}
		g.Nodes[i] = call
		rules[ownDomain+"."+call.Op] = throughClip
	}
	if len(rules) == 0 {
		return nil
	}
	m.SetOpset(ownDomain, 1)
	for _, name := range []string{fakeQuant, fakeClip} {
		if rules[ownDomain+"."+name] == nil {
			continue
		}
		f := &graph.Function{
			Name: name, Domain: ownDomain, Inputs: []string{"x", "s", "z"}, Outputs: []string{"y"},
			Opsets: []graph.Opset{{Version: m.Opset("")}},
			Nodes:  []*graph.Node{bodyNode("QuantizeLinear", "q", "x", "s", "z")},
		}
		last := "q"
		if name == fakeClip {
			f.Inputs, last = append(f.Inputs, "lo", "hi"), "c"
			f.Nodes = append(f.Nodes, bodyNode("Clip", "c", "q", "lo", "hi"))
		}
		f.Nodes = append(f.Nodes, bodyNode("DequantizeLinear", "y", last, "s", "z"))
		m.Functions = append(m.Functions, f)
	}
	// The gradient of a minimum goes to the input that is below all others, to none where inputs tie. A wide input column
	// is the sum of segments min(x, hi) - lo; where x stands at the end of one, the next one has the slope, and the usual
	// rule would count it twice.
	rules["Min"] = func(c *autodiff.Call, i int) string {
		x := c.Node.Input(i)
		g := c.Grad()
		for k, other := range c.Node.Inputs {
			if k != i {
				g = c.Op("Where", []string{c.Op("Less", []string{x, other}), g, c.Scalar(x, 0)})
			}
		}
		return g
	}
	return rules
}

// throughClip passes the gradient where the quantizer does not saturate: between
// the numbers that its least and its largest code stand for. By the scale it is
// exact but for rounding: what a code lacks of x there, and the outermost code elsewhere.
//
// Reference: Esser et al., Learned Step Size Quantization, 2020, equation 3.
func throughClip(c *autodiff.Call, i int) string {
	if i > 1 {
		return ""
	}
	x, y, in := c.Node.Input(0), c.Node.Outputs[0], inside(c)
	switch {
	case in == "":
		return ""
	case i == 0:
		return c.Op("Where", []string{in, c.Grad(), c.Scalar(x, 0)})
	}
	return byScale(c, c.Op("Sub", []string{y, c.Op("Where", []string{in, x, c.Scalar(x, 0)})}))
}

func byScale(c *autodiff.Call, diff string) string {
	return c.Op("Div", []string{c.Op("Mul", []string{c.Grad(), diff}), c.Node.Input(1)})
}

// ClipScales changes the rules that StraightThrough returns: scales get a gradient from what is clipped alone, as
// parameterized clipping is published.
//
// Reference: Choi et al., PACT: Parameterized Clipping Activation for Quantized Neural Networks, 2018, equation 3.
func ClipScales(rules map[string]autodiff.Rule) {
	for _, name := range []string{ownDomain + "." + fakeQuant, ownDomain + "." + fakeClip} {
		if rules[name] == nil {
			continue
		}
		rules[name] = func(c *autodiff.Call, i int) string {
			if i != 1 {
				return throughClip(c, i)
			}
			in, y := inside(c), c.Node.Outputs[0]
			if in == "" {
				return ""
			}
			return byScale(c, c.Op("Where", []string{in, c.Scalar(y, 0), y}))
		}
	}
}

// SetScale makes a node take its scale from a value, a scalar, and reports whether the node is a call that
// StraightThrough made.
func SetScale(n *graph.Node, scale string) bool {
	if n == nil || n.Domain != ownDomain || n.Op != fakeQuant && n.Op != fakeClip {
		return false
	}
	n.Inputs[1] = scale
	return true
}

func inside(c *autodiff.Call) string {
	x, scale, zero := c.Node.Input(0), c.Node.Input(1), c.Node.Input(2)
	number := func(code string) string {
		return c.Op("Cast", []string{code}, graph.IntAttr("to", int64(c.Type(x).DType)))
	}
	var lo, hi string
	t := c.Type(zero).DType
	half := math.Exp2(float64(t.Bits() - 1))
	switch {
	case c.Node.Op == fakeClip:
		lo, hi = number(c.Node.Input(3)), number(c.Node.Input(4))
	case t == graph.Uint4 || t == graph.Uint8 || t == graph.Uint16:
		lo, hi = c.Scalar(x, 0), c.Scalar(x, 2*half-1)
	case t == graph.Int4 || t == graph.Int8 || t == graph.Int16:
		lo, hi = c.Scalar(x, -half), c.Scalar(x, half-1)
	default:
		return c.Fail("no gradient passes through a quantizer to %s", t)
	}
	stands := func(code string) string {
		return c.Op("Mul", []string{c.Op("Sub", []string{code, number(zero)}), scale})
	}
	return c.Op("And", []string{
		c.Op("GreaterOrEqual", []string{x, stands(lo)}),
		c.Op("LessOrEqual", []string{x, stands(hi)}),
	})
}

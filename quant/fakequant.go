package quant

import (
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// The model-local functions that quantize weights and choose bit widths for training.
const (
	fakeWeight  = "FakeQuantWeight"
	learnedStep = "LearnedStep"
	hardest     = "Hardest"
)

// FakeQuantWeights appends to the model's graph weights as a file stores them: codes, which are the ratios (Out x In)
// rounded and clipped to lo and hi, times the scale; these three have one number for each row, or one for all. It
// returns the names of the value and of its codes, whose types go into types, and the gradient rules that training
// through it needs; they are the same for every call.
//
// The gradient passes straight through rounding, where the rounded ratio is not clipped; that by the scale is exact.
func FakeQuantWeights(m *graph.Model, b *graph.Builder, types graph.Types, ratio, scale string,
	lo, hi *graph.Tensor,
) (value, codes string, rules map[string]autodiff.Rule) {
	n := weightCall(m, b, types, fakeWeight, []string{ratio, scale}, lo, hi)
	return n.Outputs[0], n.Outputs[2], map[string]autodiff.Rule{ownDomain + "." + fakeWeight: throughRounding}
}

// LearnedSteps is FakeQuantWeights of weights in their own units and of the logarithms of the scales, with a dimension
// in front of scales, lo and hi, and of the results, where there are several candidates. It also returns the scales.
//
// This is learned step size quantization, by the logarithm of the step: the gradient by the scale is round(w/s) - w/s
// where w is not clipped, and the bound where it is, times the scale. (As published, the gradient by the weights ends
// half a step earlier, at the bound itself; a weight that is moved across it could not come back.)
//
// Reference: Esser et al., Learned Step Size Quantization, 2020, equations 1 to 3.
func LearnedSteps(m *graph.Model, b *graph.Builder, types graph.Types, weights, logs string, lo, hi *graph.Tensor) (
	value, codes, scale string, rules map[string]autodiff.Rule,
) {
	n := weightCall(m, b, types, learnedStep, []string{weights, logs}, lo, hi)
	return n.Outputs[0], n.Outputs[2], n.Outputs[3], map[string]autodiff.Rule{ownDomain + "." + learnedStep: throughStep}
}

// weightCall appends a call of one of the two quantizers of weights, the first of inputs.
func weightCall(m *graph.Model, b *graph.Builder, types graph.Types, op string, inputs []string,
	lo, hi *graph.Tensor,
) *graph.Node {
	define(m, weightQuantizer(op, m.Opset("")))
	n := &graph.Node{
		Op: op, Domain: ownDomain, Name: b.Name("fake_quant"), Inputs: append(inputs, b.Const(lo), b.Const(hi)),
	}
	in := types[inputs[0]].Shape
	all := graph.Type{DType: graph.Float, Shape: graph.Fixed(lo.Dims...)}
	all.Shape[len(all.Shape)-1] = in[len(in)-1]
	for _, name := range []string{"weights", "rounded", "codes"} {
		name = b.Name(name)
		n.Outputs = append(n.Outputs, name)
		types[name] = all
	}
	if op == learnedStep {
		name := b.Name("scale")
		n.Outputs = append(n.Outputs, name)
		types[name] = types[inputs[1]]
	}
	b.Append(n)
	return n
}

// Hardest appends, for shares along axis 0, 1 where a share is the largest and 0 elsewhere, the first one of equals.
// The gradient passes straight through to the shares: with those of a Gumbel-Softmax sample this is the
// straight-through choice of a bit width. It returns the value, whose type goes into types, and the rule.
//
// Reference: section Mixed-precision bit allocation of the paper; Jang et al., Categorical Reparameterization with
// Gumbel-Softmax, 2017.
func Hardest(m *graph.Model, b *graph.Builder, types graph.Types, shares string) (string, map[string]autodiff.Rule) {
	node := func(op string, in []string, out string, attrs ...graph.Attr) *graph.Node {
		return &graph.Node{Op: op, Inputs: in, Outputs: []string{out}, Attrs: attrs}
	}
	define(m, &graph.Function{
		Name: hardest, Domain: ownDomain, Opsets: []graph.Opset{{Version: m.Opset("")}},
		Inputs: []string{"p", "depth", "values"}, Outputs: []string{"z"},
		Nodes: []*graph.Node{
			node("ArgMax", []string{"p"}, "k", graph.IntAttr("axis", 0), graph.IntAttr("keepdims", 0)),
			node("OneHot", []string{"k", "depth", "values"}, "z", graph.IntAttr("axis", 0)),
		},
	})
	depth := b.Const(graph.FromInts("depth", []int64{types[shares].Shape[0].Size}, 1))
	z := b.Name("choice")
	b.Append(&graph.Node{
		Op: hardest, Domain: ownDomain, Name: b.Name("hardest"), Outputs: []string{z},
		Inputs: []string{shares, depth, b.Const(graph.FromFloats("values", []float32{0, 1}, 2))},
	})
	types[z] = types[shares]
	return z, map[string]autodiff.Rule{ownDomain + "." + hardest: func(c *autodiff.Call, i int) string {
		if i != 0 {
			return ""
		}
		return c.Grad()
	}}
}

func define(m *graph.Model, f *graph.Function) {
	for _, have := range m.Functions {
		if have.Domain == f.Domain && have.Name == f.Name {
			return
		}
	}
	m.SetOpset(f.Domain, 1)
	m.Functions = append(m.Functions, f)
}

// weightQuantizer is the body of a call. Its outputs are the quantized weights and, for the gradient, the ratios
// rounded, before and after clipping.
func weightQuantizer(op string, opset int64) *graph.Function {
	node := func(op, out string, in ...string) *graph.Node {
		return &graph.Node{Op: op, Inputs: in, Outputs: []string{out}}
	}
	f := &graph.Function{
		Name: op, Domain: ownDomain, Opsets: []graph.Opset{{Version: opset}},
		Inputs: []string{"v", "s", "lo", "hi"}, Outputs: []string{"y", "r", "q"},
		Nodes: []*graph.Node{
			node("Round", "r", "v"), node("Max", "above", "r", "lo"), node("Min", "q", "above", "hi"),
			node("Mul", "y", "q", "s"),
		},
	}
	if op == learnedStep {
		f.Inputs[0], f.Inputs[1], f.Outputs = "w", "log", append(f.Outputs, "s")
		f.Nodes = append([]*graph.Node{node("Exp", "s", "log"), node("Div", "v", "w", "s")}, f.Nodes...)
	}
	return f
}

// unclipped is the gradient by the result, where the weight is not clipped.
func unclipped(c *autodiff.Call) string {
	rounded, codes := c.Node.Outputs[1], c.Node.Outputs[2]
	to := graph.IntAttr("to", int64(c.Type(codes).DType))
	return c.Op("Mul", []string{c.Grad(), c.Op("Cast", []string{c.Op("Equal", []string{rounded, codes})}, to)})
}

func throughRounding(c *autodiff.Call, i int) string {
	switch i {
	case 0:
		return c.Op("Mul", []string{unclipped(c), c.Node.Input(1)})
	case 1:
		return c.Op("Mul", []string{c.Grad(), c.Node.Outputs[2]})
	}
	return ""
}

// throughStep is the gradient of LearnedSteps by the weights (input 0) and the logarithm of the scale (input 1). It
// has half the nodes that Div and Exp make of it, and a step of a small network costs what its nodes cost.
func throughStep(c *autodiff.Call, i int) string {
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

package quant

import (
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
	f.Rules[ownDomain+"."+fakeWeight] = throughRounding
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
	f.Rules[ownDomain+"."+learnedStep] = throughStep
	return FakeWeights{n.Outputs[0], n.Outputs[2], n.Outputs[3]}
}

func (f *Fake) call(op string, inputs []string, lo, hi *graph.Tensor) *graph.Node {
	f.define(weightQuantizer(op, f.Model.Opset("")))
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

// bodyNode is a node in the body of a function.
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

// weightQuantizer is the body of a call. Its outputs are the quantized weights and, for the gradient, the ratios
// rounded, before and after clipping.
func weightQuantizer(op string, opset int64) *graph.Function {
	f := &graph.Function{
		Name: op, Domain: ownDomain, Opsets: []graph.Opset{{Version: opset}},
		Inputs: []string{"v", "s", "lo", "hi"}, Outputs: []string{"y", "r", "q"},
		Nodes: []*graph.Node{
			bodyNode("Round", "r", "v"), bodyNode("Max", "above", "r", "lo"), bodyNode("Min", "q", "above", "hi"),
			bodyNode("Mul", "y", "q", "s"),
		},
	}
	if op == learnedStep {
		f.Inputs[0], f.Inputs[1], f.Outputs = "w", "log", append(f.Outputs, "s")
		f.Nodes = append([]*graph.Node{bodyNode("Exp", "s", "log"), bodyNode("Div", "v", "w", "s")}, f.Nodes...)
	}
	return f
}

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

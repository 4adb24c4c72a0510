package quant

import (
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// fakeWeight is the model-local function that quantizes weights for training.
const fakeWeight = "FakeQuantWeight"

// FakeQuantWeights appends to the model's graph weights as a file stores them: codes, which are the ratios (Out x In)
// rounded and clipped to the rows' lo and hi, times the scale (Out x 1, or 1 x 1). It returns the names of the value
// and of its codes, whose types go into types, and the gradient rules that training through it needs; they are the same
// for every call.
//
// The gradient passes straight through rounding, where the rounded ratio is not clipped; that by the scale is exact.
// With ratio = w / scale this is learned step size quantization: by the rule of Div the scale's gradient is then
// round(w/s) - w/s where w is not clipped, and the bound where it is. (As published, the gradient ends half a step
// earlier, at the bound itself; a weight that is moved across it could not come back.)
//
// Reference: Esser et al., Learned Step Size Quantization, 2020, equations 1 to 3.
func FakeQuantWeights(m *graph.Model, b *graph.Builder, types autodiff.Types, ratio, scale string, lo, hi []float32) (
	value, codes string, rules map[string]autodiff.Rule,
) {
	found := false
	for _, f := range m.Functions {
		found = found || f.Domain == ownDomain && f.Name == fakeWeight
	}
	if !found {
		m.SetOpset(ownDomain, 1)
		m.Functions = append(m.Functions, weightQuantizer(m.Opset("")))
	}
	bound := func(name string, v []float32) string {
		return b.Const(graph.FromFloats(name, v, int64(len(v)), 1))
	}
	n := &graph.Node{
		Op: fakeWeight, Domain: ownDomain, Name: b.Name("fake_quant"),
		Inputs: []string{ratio, scale, bound("lo", lo), bound("hi", hi)},
	}
	for _, name := range []string{"weights", "rounded", "codes"} {
		name = b.Name(name)
		n.Outputs = append(n.Outputs, name)
		types[name] = types[ratio]
	}
	b.Append(n)
	return n.Outputs[0], n.Outputs[2], map[string]autodiff.Rule{ownDomain + "." + fakeWeight: throughRounding}
}

// weightQuantizer is the body of a call. Its outputs are the quantized weights and, for the gradient, the ratios
// rounded, before and after clipping.
func weightQuantizer(opset int64) *graph.Function {
	node := func(op, out string, in ...string) *graph.Node {
		return &graph.Node{Op: op, Inputs: in, Outputs: []string{out}}
	}
	return &graph.Function{
		Name: fakeWeight, Domain: ownDomain, Opsets: []graph.Opset{{Version: opset}},
		Inputs: []string{"v", "s", "lo", "hi"}, Outputs: []string{"y", "r", "q"},
		Nodes: []*graph.Node{
			node("Round", "r", "v"), node("Max", "above", "r", "lo"), node("Min", "q", "above", "hi"),
			node("Mul", "y", "q", "s"),
		},
	}
}

// throughRounding is the gradient of FakeQuantWeights by the ratios (input 0) and the scale (input 1).
func throughRounding(c *autodiff.Call, i int) string {
	scale, rounded, codes := c.Node.Input(1), c.Node.Outputs[1], c.Node.Outputs[2]
	switch i {
	case 0:
		inside := c.Op("Cast", []string{c.Op("Equal", []string{rounded, codes})},
			graph.IntAttr("to", int64(c.Type(codes).DType)))
		return c.Op("Mul", []string{c.Op("Mul", []string{c.Grad(), inside}), scale})
	case 1:
		return c.Op("Mul", []string{c.Grad(), codes})
	}
	return ""
}

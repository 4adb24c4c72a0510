package quant

import (
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// The model-local functions that quantize weights and choose bit widths for training.
const (
	fakeWeight = "FakeQuantWeight"
	hardest    = "Hardest"
)

// FakeQuantWeights appends to the model's graph weights as a file stores them: codes, which are the ratios (Out x In)
// rounded and clipped to lo and hi, times the scale; these three have one number for each row, or one for all. It
// returns the names of the value and of its codes, whose types go into types, and the gradient rules that training
// through it needs; they are the same for every call. A dimension in front of all four, of candidates, changes nothing.
//
// The gradient passes straight through rounding, where the rounded ratio is not clipped; that by the scale is exact.
// With ratio = w / scale this is learned step size quantization: by the rule of Div the scale's gradient is then
// round(w/s) - w/s where w is not clipped, and the bound where it is. (As published, the gradient ends half a step
// earlier, at the bound itself; a weight that is moved across it could not come back.)
//
// Reference: Esser et al., Learned Step Size Quantization, 2020, equations 1 to 3.
func FakeQuantWeights(m *graph.Model, b *graph.Builder, types autodiff.Types, ratio, scale string,
	lo, hi *graph.Tensor,
) (value, codes string, rules map[string]autodiff.Rule) {
	define(m, weightQuantizer(m.Opset("")))
	n := &graph.Node{
		Op: fakeWeight, Domain: ownDomain, Name: b.Name("fake_quant"),
		Inputs: []string{ratio, scale, b.Const(lo), b.Const(hi)},
	}
	for _, name := range []string{"weights", "rounded", "codes"} {
		name = b.Name(name)
		n.Outputs = append(n.Outputs, name)
		types[name] = types[ratio]
	}
	b.Append(n)
	return n.Outputs[0], n.Outputs[2], map[string]autodiff.Rule{ownDomain + "." + fakeWeight: throughRounding}
}

// Hardest appends, for shares along axis 0, 1 where a share is the largest and 0 elsewhere, the first one of equals.
// The gradient passes straight through to the shares: with those of a Gumbel-Softmax sample this is the
// straight-through choice of a bit width. It returns the value, whose type goes into types, and the rule.
//
// Reference: section Mixed-precision bit allocation of the paper; Jang et al., Categorical Reparameterization with
// Gumbel-Softmax, 2017.
func Hardest(m *graph.Model, b *graph.Builder, types autodiff.Types, shares string) (string, map[string]autodiff.Rule) {
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

// define adds a function to a model that does not have it yet.
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

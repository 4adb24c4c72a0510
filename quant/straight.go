package quant

import (
	"math"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

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
		if rules[ownDomain+"."+name] != nil {
			m.Functions = append(m.Functions, activationQuantizer(name, m.Opset("")))
		}
	}
	rules["Min"] = strictMin
	return rules
}

func activationQuantizer(name string, opset int64) *graph.Function {
	f := &graph.Function{
		Name: name, Domain: ownDomain, Inputs: []string{"x", "s", "z"}, Outputs: []string{"y"},
		Opsets: []graph.Opset{{Version: opset}}, Nodes: []*graph.Node{bodyNode("QuantizeLinear", "q", "x", "s", "z")},
	}
	last := "q"
	if name == fakeClip {
		f.Inputs, last = append(f.Inputs, "lo", "hi"), "c"
		f.Nodes = append(f.Nodes, bodyNode("Clip", "c", "q", "lo", "hi"))
	}
	f.Nodes = append(f.Nodes, bodyNode("DequantizeLinear", "y", last, "s", "z"))
	return f
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

// strictMin gives the gradient of a minimum to the input that is below all others, to none where inputs tie. A wide
// input column is the sum of segments min(x, hi) - lo; where x stands at the end of one, the next one has the slope,
// and the usual rule would count it twice.
func strictMin(c *autodiff.Call, i int) string {
	x := c.Node.Input(i)
	g := c.Grad()
	for k, other := range c.Node.Inputs {
		if k != i {
			g = c.Op("Where", []string{c.Op("Less", []string{x, other}), g, c.Scalar(x, 0)})
		}
	}
	return g
}

package autodiff

import (
	"math"

	"cfq/onnxio/graph"
)

// arithmetic lists the elementwise functions of arithmetic.
func arithmetic() []Operator {
	return []Operator{
		{Name: "Add", Since: 7, Doc: "g to both", infer: elementwise, grads: []Rule{pass, pass}},
		{Name: "Sub", Since: 7, Doc: "g and −g", infer: elementwise, grads: []Rule{pass, minus}},
		{Name: "Mul", Since: 7, Doc: "g·b and g·a", infer: elementwise, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.in(1)) },
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.in(0)) },
		}},
		{Name: "Div", Since: 7, Doc: "g/b and −(g/b)·y", infer: elementwise, grads: []Rule{
			func(c *Call, _ int) string { return c.div(c.Grad(), c.in(1)) },
			func(c *Call, _ int) string { return c.neg(c.mul(c.div(c.Grad(), c.in(1)), c.y())) },
		}},
		{Name: "Sum", Since: 8, Doc: "g to each", infer: elementwise, grads: []Rule{pass}, variadic: true},
		{Name: "Neg", Since: 6, Doc: "−g", infer: like, grads: []Rule{minus}},
		{Name: "Abs", Since: 6, Doc: "g·sign(x); 0 at 0", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.Op("Sign", []string{c.x()})) },
		}},
		{Name: "Reciprocal", Since: 6, Doc: "−g·y²", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.neg(c.mul(c.Grad(), c.mul(c.y(), c.y()))) },
		}},
		{Name: "Exp", Since: 6, Doc: "g·y", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.y()) },
		}},
		{Name: "Log", Since: 6, Doc: "g/x", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.div(c.Grad(), c.x()) },
		}},
		{Name: "Sqrt", Since: 6, Doc: "g/(2y); taken as 0 at x = 0, where it is infinite", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.div(c.scale(c.Grad(), 0.5), c.nonzero(c.y())) },
		}},
		{
			Name: "Pow", Since: 7, need: 2, infer: elementwise, grads: []Rule{powBase, powExponent},
			Doc: "g·p·x^(p−1), taken as 0 at x = 0 if p < 1; " +
				"g·y·log x for the exponent, 0 where x ≤ 0",
		},
		{Name: "Erf", Since: 9, Doc: "g·(2/√π)·exp(−x²)", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				e := c.Op("Exp", []string{c.neg(c.mul(c.x(), c.x()))})
				return c.mul(c.Grad(), c.scale(e, 2/math.Sqrt(math.Pi)))
			},
		}},
		{Name: "Sin", Since: 7, Doc: "g·cos x", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.Op("Cos", []string{c.x()})) },
		}},
		{Name: "Cos", Since: 7, Doc: "−g·sin x", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.neg(c.mul(c.Grad(), c.Op("Sin", []string{c.x()}))) },
		}},
		{Name: "Sign", Since: 9, Doc: "constant almost everywhere", infer: like},
		{Name: "Floor", Since: 6, Doc: "constant almost everywhere", infer: like},
		{Name: "Ceil", Since: 6, Doc: "constant almost everywhere", infer: like},
		{Name: "Round", Since: 11, Doc: "constant almost everywhere; quantizers pass a straight-through policy", infer: like},
	}
}

func minus(c *Call, _ int) string { return c.neg(c.Grad()) }

// nonzero replaces zeros by infinity, so that a division by it gives 0 there,
// in the gradient and in the gradient of the gradient.
func (c *Call) nonzero(a string) string {
	return c.where(c.compare("Equal", a, 0), c.Scalar(a, math.Inf(1)), a)
}

// powBase has short forms for a constant exponent, which nearly all are.
func powBase(c *Call, _ int) string {
	g, x, p := c.Grad(), c.x(), c.in(1)
	if k, ok := c.constant(p); ok {
		switch {
		case k == 0:
			return ""
		case k == 1:
			return g
		case k == 2:
			return c.mul(g, c.scale(x, 2))
		case k == 0.5:
			return c.div(c.scale(g, 0.5), c.nonzero(c.y()))
		case k > 1:
			return c.mul(g, c.scale(c.Op("Pow", []string{x, c.Scalar(x, k-1)}), k))
		}
	}
	if t := c.Type(x).DType; c.Type(p).DType != t {
		p = c.Op("Cast", []string{p}, graph.IntAttr("to", int64(t)))
	}
	flat := c.Op("And", []string{c.compare("Equal", x, 0), c.compare("Less", p, 1)})
	safe := c.where(flat, c.Scalar(x, math.Inf(1)), x)
	return c.mul(g, c.mul(p, c.Op("Pow", []string{safe, c.sub(p, c.Scalar(p, 1))})))
}

func powExponent(c *Call, _ int) string {
	x := c.x()
	safe := c.where(c.compare("Greater", x, 0), x, c.Scalar(x, 1))
	return c.mul(c.Grad(), c.mul(c.y(), c.Op("Log", []string{safe})))
}

// constant returns the number that a constant of one element holds.
func (c *Call) constant(name string) (float64, bool) {
	t := c.b.inits[name]
	if n := c.b.made[name]; t == nil && n != nil {
		t = n.Constant()
	}
	if t == nil || t.Len() != 1 {
		return 0, false
	}
	if v, err := t.Doubles(); err == nil {
		return v[0], true
	}
	if v, err := t.Ints(); err == nil {
		return float64(v[0]), true
	}
	return 0, false
}

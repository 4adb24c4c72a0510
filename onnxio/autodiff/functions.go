package autodiff

import (
	"math"

	"cfq/onnxio/graph"
)

func unary(name string, rule func(c *Call) string) Operator {
	return Operator{Name: name, grads: []Rule{func(c *Call, _ int) string { return rule(c) }}}
}

func (op Operator) of(infer inference) Operator {
	op.infer = infer
	return op
}

func (op Operator) needing(inputs int) Operator {
	op.need = inputs
	return op
}

func composite(name string, expand func(c *Call) string) Operator {
	return Operator{Name: name, expand: expand}
}

func arithmetic() []Operator {
	return []Operator{
		{Name: "Add", infer: elementwise, grads: []Rule{pass, pass}},
		{Name: "Sub", infer: elementwise, grads: []Rule{pass, minus}},
		{Name: "Mul", infer: elementwise, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.in(1)) },
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.in(0)) },
		}},
		{Name: "Div", infer: elementwise, grads: []Rule{
			func(c *Call, _ int) string { return c.div(c.Grad(), c.in(1)) },
			func(c *Call, _ int) string { return c.neg(c.mul(c.div(c.Grad(), c.in(1)), c.y())) },
		}},
		{Name: "Sum", infer: elementwise, grads: []Rule{pass}, variadic: true},
		{Name: "Neg", grads: []Rule{minus}},
		unary("Abs", func(c *Call) string { return c.mul(c.Grad(), c.op("Sign", c.x())) }),
		unary("Reciprocal", func(c *Call) string { return c.neg(c.mul(c.Grad(), c.mul(c.y(), c.y()))) }),
		unary("Exp", func(c *Call) string { return c.mul(c.Grad(), c.y()) }),
		unary("Log", func(c *Call) string { return c.div(c.Grad(), c.x()) }),
		unary("Sqrt", func(c *Call) string { return c.div(c.scale(c.Grad(), 0.5), c.nonzero(c.y())) }),
		{Name: "Pow", need: 2, infer: elementwise, grads: []Rule{func(c *Call, _ int) string {
			g, x, p := c.Grad(), c.x(), c.in(1)
			if k, ok := c.number(1); ok {
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
					return c.mul(g, c.scale(c.op("Pow", x, c.Scalar(x, k-1)), k))
				}
			}
			if t := c.Type(x).DType; c.Type(p).DType != t {
				p = c.cast(p, t)
			}
			flat := c.op("And", c.compare("Equal", x, 0), c.compare("Less", p, 1))
			safe := c.where(flat, c.Scalar(x, math.Inf(1)), x)
			return c.mul(g, c.mul(p, c.op("Pow", safe, c.sub(p, c.Scalar(p, 1)))))
		}, func(c *Call, _ int) string {
			x := c.x()
			safe := c.where(c.compare("Greater", x, 0), x, c.Scalar(x, 1))
			return c.mul(c.Grad(), c.mul(c.y(), c.op("Log", safe)))
		}}},
		unary("Erf", func(c *Call) string {
			e := c.op("Exp", c.neg(c.mul(c.x(), c.x())))
			return c.mul(c.Grad(), c.scale(e, 2/math.Sqrt(math.Pi)))
		}),
		composite("Mean", func(c *Call) string {
			return c.scale(c.op("Sum", c.Node.Inputs...), 1/float64(len(c.Node.Inputs)))
		}).of(elementwise),
		{Name: "Mod", need: 2, infer: elementwise, grads: []Rule{pass, func(c *Call, _ int) string {
			return c.neg(c.mul(c.Grad(), c.op("Round", c.div(c.sub(c.in(0), c.y()), c.in(1)))))
		}}},
		{Name: "Sign"},
		{Name: "Floor"},
		{Name: "Ceil"},
		{Name: "Hardmax"},
		{Name: "Round"},
	}
}

func trigonometry() []Operator {
	of := func(op string) func(c *Call) string {
		return func(c *Call) string { return c.mul(c.Grad(), c.op(op, c.x())) }
	}
	// root is g/√(a·x² + b).
	root := func(a, b float64) func(c *Call) string {
		return func(c *Call) string {
			square := c.scale(c.mul(c.x(), c.x()), a)
			return c.div(c.Grad(), c.nonzero(c.op("Sqrt", c.add(square, c.Scalar(c.x(), b)))))
		}
	}
	minus := func(rule func(c *Call) string) func(c *Call) string {
		return func(c *Call) string { return c.neg(rule(c)) }
	}
	return []Operator{
		unary("Sin", of("Cos")),
		unary("Cos", minus(of("Sin"))),
		unary("Tan", func(c *Call) string { return c.mul(c.Grad(), c.add(c.mul(c.y(), c.y()), c.Scalar(c.y(), 1))) }),
		unary("Asin", root(-1, 1)),
		unary("Acos", minus(root(-1, 1))),
		unary("Atan", func(c *Call) string { return c.div(c.Grad(), c.add(c.mul(c.x(), c.x()), c.Scalar(c.x(), 1))) }),
		unary("Sinh", of("Cosh")),
		unary("Cosh", of("Sinh")),
		unary("Asinh", root(1, 1)),
		unary("Acosh", root(1, -1)),
		unary("Atanh", func(c *Call) string { return c.div(c.Grad(), c.sub(c.Scalar(c.x(), 1), c.mul(c.x(), c.x()))) }),
	}
}

func minus(c *Call, _ int) string { return c.neg(c.Grad()) }

// nonzero replaces zeros by infinity, so that a division by it gives 0 there,
// in the gradient and in the gradient of the gradient.
func (c *Call) nonzero(a string) string {
	return c.where(c.compare("Equal", a, 0), c.Scalar(a, math.Inf(1)), a)
}

func (c *Call) number(i int) (v float64, known bool) {
	list, err := c.floats(i)
	if err != nil || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

// steep as the slope of a HardSigmoid makes it a step from 0 to 1.
const steep = math.MaxFloat32

func activations() []Operator {
	return []Operator{
		unary("Relu", func(c *Call) string {
			if c.Type(c.y()).DType == graph.Float { // one pass, exact but for numbers below the normal ones
				step := []graph.Attr{graph.FloatAttr("alpha", steep), graph.FloatAttr("beta", 0)}
				return c.mul(c.Grad(), c.Op("HardSigmoid", []string{c.y()}, step...))
			}
			return c.mul(c.Grad(), c.mask(c.positive(c.y())))
		}),
		// The sign is that of y, which lets a runtime fuse the activation into the product before it, unless a negative
		// alpha makes it differ from that of x.
		{Name: "LeakyRelu", grads: []Rule{func(c *Call, _ int) string {
			alpha, of := c.float("alpha", 0.01), c.y()
			if alpha < 0 {
				of = c.x()
			}
			return c.where(c.positive(of), c.Grad(), c.scale(c.Grad(), alpha))
		}}},
		{Name: "PRelu", grads: []Rule{
			func(c *Call, _ int) string { return c.where(c.positive(c.x()), c.Grad(), c.mul(c.Grad(), c.in(1))) },
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.op("Min", c.x(), c.Scalar(c.x(), 0))) },
		}},
		unary("Sigmoid", func(c *Call) string { return c.mul(c.Grad(), c.mul(c.y(), c.sub(c.Scalar(c.y(), 1), c.y()))) }),
		unary("Tanh", func(c *Call) string { return c.mul(c.Grad(), c.sub(c.Scalar(c.y(), 1), c.mul(c.y(), c.y()))) }),
		composite("Softsign", func(c *Call) string { return c.div(c.x(), c.add(c.op("Abs", c.x()), c.Scalar(c.x(), 1))) }),
		unary("Softplus", func(c *Call) string { return c.mul(c.Grad(), c.op("Sigmoid", c.x())) }),
		unary("Elu", func(c *Call) string { // y' is y + alpha below 0
			below := c.add(c.y(), c.Scalar(c.y(), c.float("alpha", 1)))
			return c.where(c.positive(c.x()), c.Grad(), c.mul(c.Grad(), below))
		}),
		composite("Celu", func(c *Call) string {
			alpha := c.float("alpha", 1)
			return c.scale(c.op("Elu", c.scale(c.x(), 1/alpha)), alpha)
		}),
		composite("Selu", func(c *Call) string {
			alpha := graph.FloatAttr("alpha", c.Node.Float("alpha", 1.67326319217681884765625))
			return c.scale(c.Op("Elu", []string{c.x()}, alpha), c.float("gamma", 1.05070102214813232421875))
		}),
		unary("HardSigmoid", func(c *Call) string {
			alpha := c.float("alpha", 0.2)
			if alpha >= steep {
				return ""
			}
			inside := c.op("And", c.compare("Greater", c.y(), 0), c.compare("Less", c.y(), 1))
			return c.keep(inside, c.scale(c.Grad(), alpha))
		}),
		composite("HardSwish", func(c *Call) string { // not every runtime has HardSigmoid in double
			line := c.add(c.scale(c.x(), 1./6), c.Scalar(c.x(), 0.5))
			return c.mul(c.x(), c.op("Clip", line, c.Scalar(c.x(), 0), c.Scalar(c.x(), 1)))
		}),
		composite("Mish", func(c *Call) string { return c.mul(c.x(), c.op("Tanh", c.op("Softplus", c.x()))) }),
		composite("Swish", func(c *Call) string {
			return c.mul(c.x(), c.op("Sigmoid", c.scale(c.x(), c.float("alpha", 1))))
		}),
		composite("ThresholdedRelu", func(c *Call) string {
			return c.keep(c.compare("Greater", c.x(), c.float("alpha", 1)), c.x())
		}),
		composite("Shrink", func(c *Call) string {
			x, edge, bias := c.x(), c.float("lambd", 0.5), c.float("bias", 0)
			above := c.keep(c.compare("Greater", x, edge), c.sub(x, c.Scalar(x, bias)))
			return c.where(c.compare("Less", x, -edge), c.add(x, c.Scalar(x, bias)), above)
		}),
		composite("Gelu", func(c *Call) string {
			x := c.x()
			f := ""
			if c.Node.Text("approximate", "") == "tanh" {
				cube := c.mul(x, c.mul(x, x))
				f = c.op("Tanh", c.scale(c.add(x, c.scale(cube, 0.044715)), math.Sqrt(2/math.Pi)))
			} else {
				f = c.op("Erf", c.scale(x, math.Sqrt2/2))
			}
			return c.mul(c.scale(x, 0.5), c.add(f, c.Scalar(x, 1)))
		}),
	}
}

func (c *Call) float(name string, def float32) float64 { return float64(c.Node.Float(name, def)) }

func (c *Call) positive(a string) string { return c.compare("Greater", a, 0) }

func selections() []Operator {
	ops := []Operator{
		{Name: "Max", infer: elementwise, grads: []Rule{first}, variadic: true},
		{Name: "Min", infer: elementwise, grads: []Rule{first}, variadic: true},
		{Name: "Where", need: 3, infer: func(c *Call) []graph.Type {
			out := elementwise(c)
			return single(c.types[1].DType, out[0].Shape)
		}, grads: []Rule{
			nil,
			func(c *Call, _ int) string { return c.keep(c.in(0), c.Grad()) },
			func(c *Call, _ int) string { return c.where(c.in(0), c.Scalar(c.Grad(), 0), c.Grad()) },
		}},
		{Name: "Clip", grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.mask(c.op("Equal", c.x(), c.y()))) },
			func(c *Call, i int) string { return c.keep(c.op("Less", c.x(), c.in(i)), c.Grad()) },
			func(c *Call, i int) string { return c.keep(c.op("Greater", c.x(), c.in(i)), c.Grad()) },
		}},
	}
	for _, name := range []string{
		"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf",
	} {
		ops = append(ops, Operator{Name: name, infer: func(c *Call) []graph.Type {
			return single(graph.Bool, elementwise(c)[0].Shape)
		}})
	}
	return ops
}

// first gives nothing to an input when an earlier one equals the output, too.
func first(c *Call, i int) string {
	mine := c.op("Equal", c.in(i), c.y())
	for _, in := range c.Node.Inputs[:i] {
		mine = c.op("And", mine, c.op("Not", c.op("Equal", in, c.y())))
	}
	return c.keep(mine, c.Grad())
}

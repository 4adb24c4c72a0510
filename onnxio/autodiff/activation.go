package autodiff

import "math"

// activations lists the nonlinearities of networks.
func activations() []Operator {
	return []Operator{
		{Name: "Relu", Since: 6, Doc: "g where y > 0; 0 at 0", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.keep(c.compare("Greater", c.y(), 0), c.Grad()) },
		}},
		{Name: "LeakyRelu", Since: 6, Doc: "g where x > 0, alpha·g elsewhere", infer: like, grads: []Rule{leaky}},
		{
			Name: "PRelu", Since: 9, Doc: "g where x > 0, slope·g elsewhere; g·min(x, 0) for the slope", infer: like,
			grads: []Rule{
				func(c *Call, _ int) string {
					return c.where(c.positive(c.x()), c.Grad(), c.mul(c.Grad(), c.in(1)))
				},
				func(c *Call, _ int) string {
					return c.mul(c.Grad(), c.Op("Min", []string{c.x(), c.Scalar(c.x(), 0)}))
				},
			},
		},
		{Name: "Sigmoid", Since: 6, Doc: "g·y·(1 − y)", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				return c.mul(c.Grad(), c.mul(c.y(), c.sub(c.Scalar(c.y(), 1), c.y())))
			},
		}},
		{Name: "Tanh", Since: 6, Doc: "g·(1 − y²)", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				return c.mul(c.Grad(), c.sub(c.Scalar(c.y(), 1), c.mul(c.y(), c.y())))
			},
		}},
		{Name: "Softplus", Since: 1, Doc: "g·sigmoid(x)", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.mul(c.Grad(), c.Op("Sigmoid", []string{c.x()})) },
		}},
		{Name: "Softsign", Since: 1, Doc: "g·(1 − abs y)²", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				r := c.sub(c.Scalar(c.y(), 1), c.Op("Abs", []string{c.y()}))
				return c.mul(c.Grad(), c.mul(r, r))
			},
		}},
		{Name: "Elu", Since: 6, Doc: "g where x > 0, g·(y + alpha) elsewhere", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.exponential(1, 1, c.float("alpha", 1)) },
		}},
		{Name: "Selu", Since: 6, Doc: "gamma·g where x > 0, g·(y + alpha·gamma) elsewhere", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				gamma := c.float("gamma", 1.05070102214813232421875)
				return c.exponential(gamma, 1, gamma*c.float("alpha", 1.67326319217681884765625))
			},
		}},
		{Name: "Celu", Since: 12, Doc: "g where x > 0, g·(y/alpha + 1) elsewhere", infer: like, grads: []Rule{
			func(c *Call, _ int) string { return c.exponential(1, 1/c.float("alpha", 1), 1) },
		}},
		{Name: "HardSigmoid", Since: 6, Doc: "alpha·g where 0 < y < 1", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				inside := c.Op("And", []string{c.compare("Greater", c.y(), 0), c.compare("Less", c.y(), 1)})
				return c.keep(inside, c.scale(c.Grad(), c.float("alpha", 0.2)))
			},
		}},
		{Name: "HardSwish", Since: 14, Doc: "x·HardSigmoid(x; 1/6, 1/2)", infer: like, expand: hardSwish},
		{Name: "Mish", Since: 18, Doc: "x·tanh(softplus(x))", infer: like, expand: func(c *Call) []string {
			return []string{c.mul(c.x(), c.Op("Tanh", []string{c.Op("Softplus", []string{c.x()})}))}
		}},
		{Name: "Gelu", Since: 20, Doc: "x·(1 + erf(x/√2))/2, or its tanh form", infer: like, expand: gelu},
	}
}

// float returns a float attribute.
func (c *Call) float(name string, def float32) float64 { return float64(c.Node.Float(name, def)) }

func (c *Call) positive(a string) string { return c.compare("Greater", a, 0) }

// leaky looks at the sign of y, which lets a runtime fuse the activation into the
// product before it, unless a negative alpha makes it differ from that of x.
func leaky(c *Call, _ int) string {
	alpha, of := c.float("alpha", 0.01), c.y()
	if alpha < 0 {
		of = c.x()
	}
	return c.where(c.positive(of), c.Grad(), c.scale(c.Grad(), alpha))
}

// exponential is the gradient of y = pos·x above 0 and a function with y' = slope·y + offset below.
func (c *Call) exponential(pos, slope, offset float64) string {
	below := c.add(c.scale(c.y(), slope), c.Scalar(c.y(), offset))
	return c.where(c.positive(c.x()), c.scale(c.Grad(), pos), c.mul(c.Grad(), below))
}

// hardSwish writes out the clipped line, since not every runtime has HardSigmoid in double.
func hardSwish(c *Call) []string {
	x := c.x()
	line := c.add(c.scale(x, 1./6), c.Scalar(x, 0.5))
	return []string{c.mul(x, c.Op("Clip", []string{line, c.Scalar(x, 0), c.Scalar(x, 1)}))}
}

func gelu(c *Call) []string {
	x := c.x()
	var f string
	if a := c.Node.Attr("approximate"); a != nil && string(a.S) == "tanh" {
		cube := c.mul(x, c.mul(x, x))
		f = c.Op("Tanh", []string{c.scale(c.add(x, c.scale(cube, 0.044715)), math.Sqrt(2/math.Pi))})
	} else {
		f = c.Op("Erf", []string{c.scale(x, math.Sqrt2/2)})
	}
	return []string{c.mul(c.scale(x, 0.5), c.add(f, c.Scalar(x, 1)))}
}

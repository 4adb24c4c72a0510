package autodiff

import (
	"slices"

	"cfq/onnxio/graph"
)

// reductions lists the operators that sum, select or normalise along axes. The axes are an
// input since opset 13 (ReduceSum) or 18, an attribute before; both are read.
func reductions() []Operator {
	reduce := func(name string, rule func(c *Call) string) Operator { return unary(name, rule).of(reduceType) }
	return []Operator{
		reduce("ReduceSum", func(c *Call) string { return c.spreadOf(c.Grad()) }),
		reduce("ReduceMean", mean),
		reduce("ReduceMax", extremum),
		reduce("ReduceMin", extremum),
		reduce("ReduceL1", func(c *Call) string { return c.mul(c.kept(c.Grad()), c.op("Sign", c.x())) }),
		reduce("ReduceL2", func(c *Call) string { return c.mul(c.kept(c.Grad()), c.div(c.x(), c.nonzero(c.kept(c.y())))) }),
		reduce("ReduceSumSquare", func(c *Call) string { return c.mul(c.scale(c.kept(c.Grad()), 2), c.x()) }),
		reduce("ReduceLogSum", func(c *Call) string { return c.spreadOf(c.div(c.Grad(), c.op("Exp", c.y()))) }),
		reduce("ReduceLogSumExp", func(c *Call) string {
			return c.mul(c.kept(c.Grad()), c.op("Exp", c.sub(c.x(), c.kept(c.y()))))
		}),
		// The halves of an axis are multiplied until one element is left: exact where elements are 0.
		{Name: "ReduceProd", infer: reduceType, expand: func(c *Call) string {
			axes := c.axes()
			y := c.x()
			for _, axis := range axes {
				at := axis
				part := func(from, to int64) string { return c.slice(y, []int64{from}, []int64{to}, []int64{at}) }
				n := c.Type(y).Shape[axis].Size
				c.failIf(n < 1, "axis %d of %v is not of a constant size", axis, c.Type(y))
				for n > 1 {
					h := n / 2
					half := c.mul(part(0, h), part(h, 2*h))
					if n%2 > 0 {
						half = c.Op("Concat", []string{half, part(2*h, n)}, graph.IntAttr("axis", at))
					}
					y, n = half, n-h
				}
			}
			if c.Node.Int("keepdims", 1) == 0 && len(axes) > 0 {
				y = c.op("Squeeze", y, c.b.vector(axes...))
			}
			return y
		}},
		// Before opset 13 the names meant another function, of a value flattened to a matrix.
		unary("Softmax", func(c *Call) string { return c.mul(c.y(), c.sub(c.Grad(), c.sumAxis(c.mul(c.Grad(), c.y())))) }),
		unary("LogSoftmax", func(c *Call) string {
			return c.sub(c.Grad(), c.mul(c.op("Exp", c.y()), c.sumAxis(c.Grad())))
		}),
		{Name: "ArgMax", infer: argType},
		{Name: "ArgMin", infer: argType},
	}
}

func (c *Call) axes() []int64 {
	r := len(c.types[0].Shape)
	v, ok := c.constInts(1, "axes")
	if !ok || len(v) == 0 {
		if c.Node.Int("noop_with_empty_axes", 0) != 0 {
			return nil
		}
		v = axesFrom(0, c.types[0])
	}
	return normals(v, r)
}

// kept gives a, which has the shape of the node's output, the reduced axes back, with size one.
func (c *Call) kept(a string) string {
	axes := c.axes()
	if c.Node.Int("keepdims", 1) != 0 || len(axes) == 0 {
		return a
	}
	return c.op("Unsqueeze", a, c.b.vector(axes...))
}

func (c *Call) spreadOf(a string) string {
	k := c.kept(a)
	if k == "" || sameShape(c.Type(k).Shape, c.Type(c.x()).Shape) {
		return k
	}
	return c.op("Expand", k, c.b.shapeOf(c.x()))
}

func mean(c *Call) string { return c.spreadOf(c.shares(c.Grad(), c.x(), c.y())) }

func (c *Call) shares(g, x, y string) string {
	if n := c.Type(x).Shape.Over(c.Type(y).Shape); n.Size > 0 {
		return c.scale(g, 1/float64(n.Size))
	}
	size := func(v string) string { return c.cast(c.op("Size", v), c.Type(g).DType) }
	return c.mul(g, c.div(size(y), size(x)))
}

func extremum(c *Call) string {
	axes := c.axes()
	if len(axes) == 0 {
		return c.Grad()
	}
	return c.shared(c.kept(c.Grad()), c.kept(c.y()), axes)
}

func (c *Call) shared(g, y string, axes []int64) string {
	hit := c.cast(c.op("Equal", c.x(), y), c.Type(y).DType)
	count := c.reduce("ReduceSum", hit, 1, axes...)
	return c.mul(hit, c.div(g, count))
}

func reduceType(c *Call) []graph.Type {
	axes := c.axes()
	return single(c.types[0].DType, reduced(c.types[0].Shape, axes, c.Node.Int("keepdims", 1) != 0))
}

func argType(c *Call) []graph.Type {
	axis := normal(c.Node.Int("axis", 0), len(c.types[0].Shape))
	return single(graph.Int64, reduced(c.types[0].Shape, []int64{axis}, c.Node.Int("keepdims", 1) != 0))
}

func reduced(s graph.Shape, axes []int64, keep bool) graph.Shape {
	out := graph.Shape{}
	for i, d := range s {
		switch {
		case !slices.Contains(axes, int64(i)):
			out = append(out, d)
		case keep:
			out = append(out, one())
		}
	}
	return out
}

func (c *Call) sumAxis(a string) string {
	axes := c.b.vector(c.Node.Int("axis", -1))
	return c.Op("ReduceSum", []string{a, axes}, graph.IntAttr("keepdims", 1))
}

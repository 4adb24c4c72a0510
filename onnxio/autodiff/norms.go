package autodiff

import (
	"slices"

	"cfq/onnxio/graph"
)

func normalizations() []Operator {
	return []Operator{
		// What does not depend on x is kept apart from it, so that a runtime computes factor and offset once, at load.
		{Name: "BatchNormalization", expand: func(c *Call) string {
			statistics := slices.ContainsFunc(c.Node.Outputs[1:], func(o string) bool { return o != "" })
			c.failIf(c.Node.Int("training_mode", 0) != 0 || statistics, "it is in training mode")
			x, scale, bias, mean, variance := c.x(), c.in(1), c.in(2), c.in(3), c.in(4)
			factor := c.div(scale, c.standardDeviation(variance))
			offset := c.sub(bias, c.mul(mean, factor))
			if len(c.Type(x).Shape) > 2 {
				factor, offset = c.perChannel(factor), c.perChannel(offset)
			}
			return c.add(c.mul(x, factor), offset)
		}},
		{Name: "LayerNormalization", need: 2, infer: func(c *Call) []graph.Type {
			stat := graph.Type{DType: c.types[0].DType, Shape: reduced(c.types[0].Shape, c.normAxes(), true)}
			return []graph.Type{c.types[0], stat, stat}
			// The deviations and r are computed anew: the operator stays whole in the forward pass, where a runtime has it
			// as one kernel that returns r in float32 only.
		}, grads: []Rule{func(c *Call, _ int) string {
			axes := c.normAxes()
			d, r := c.normal(axes)
			h := c.mul(c.Grad(), c.in(1))
			along := c.mul(c.average(c.mul(h, d), axes), c.mul(r, c.mul(r, r)))
			return c.sub(c.sub(c.mul(h, r), c.mul(d, along)), c.mul(r, c.average(h, axes)))
		}, func(c *Call, _ int) string {
			d, r := c.normal(c.normAxes())
			return c.mul(c.Grad(), c.mul(d, r))
		}, pass}},
		{Name: "RMSNormalization", need: 2, expand: func(c *Call) string {
			return c.mul(c.normed(c.x(), c.normAxes()), c.in(1))
		}},
		{Name: "InstanceNormalization", need: 3, expand: func(c *Call) string {
			c.failIf(len(c.Type(c.x()).Shape) < 3, "%v is not rows x channels x image", c.Type(c.x()))
			axes := axesFrom(2, c.Type(c.x()))
			return c.scaledAndShifted(c.normed(c.centred(c.x(), axes), axes))
		}},
		{Name: "GroupNormalization", need: 3, expand: func(c *Call) string {
			x, groups, s := c.x(), c.Node.Int("num_groups", 0), c.Type(c.x()).Shape
			c.failIf(len(s) < 2 || groups < 1 || s[1].Size < 0 || s[1].Size%groups != 0,
				"%d groups of the channels of %v", groups, c.Type(x))
			axes, flat := []int64{2}, c.op("Reshape", x, c.b.vector(0, groups, -1))
			return c.scaledAndShifted(c.reshapeLike(c.normed(c.centred(flat, axes), axes), x))
		}},
		{Name: "MeanVarianceNormalization", expand: func(c *Call) string {
			axes := c.Node.Ints("axes")
			if axes == nil {
				axes = []int64{0, 2, 3}
			}
			axes = normals(axes, len(c.Type(c.x()).Shape))
			d := c.centred(c.x(), axes)
			sd := c.op("Sqrt", c.average(c.mul(d, d), axes))
			return c.div(d, c.add(sd, c.Scalar(sd, 1e-9)))
		}},
		{Name: "LpNormalization", expand: func(c *Call) string {
			norm := map[int64]string{1: "ReduceL1", 2: "ReduceL2"}[c.Node.Int("p", 2)]
			axis := normal(c.Node.Int("axis", -1), len(c.Type(c.x()).Shape))
			c.failIf(norm == "", "p %d: p is 1 or 2", c.Node.Int("p", 2))
			return c.div(c.x(), c.nonzero(c.reduce(norm, c.x(), 1, axis)))
		}},
		// The squares of neighbouring channels are summed by a product with a matrix of ones and zeros.
		{Name: "LRN", expand: func(c *Call) string {
			x, size, s := c.x(), c.Node.Int("size", 0), c.Type(c.x()).Shape
			c.failIf(len(s) < 3 || s[1].Size < 1 || size < 1 || s[1].Size > 1<<10,
				"size %d over the channels of %v", size, c.Type(x))
			n := s[1].Size
			band := make([]float64, n*n)
			for i := range n {
				for k := max(0, i-(size-1)/2); k <= min(n-1, i+size/2); k++ {
					band[i*n+k] = 1
				}
			}
			sums := c.along(c.mul(x, x), 1, band, n)
			of := c.add(c.scale(sums, c.float("alpha", 1e-4)/float64(size)), c.Scalar(x, c.float("bias", 1)))
			return c.div(x, c.op("Pow", of, c.Scalar(x, c.float("beta", 0.75))))
		}},
	}
}

// normal returns d = x − mean(x) and r = 1/√(mean(d²) + epsilon).
func (c *Call) normal(axes []int64) (d, r string) {
	d = c.centred(c.x(), axes)
	squares := c.reduce("ReduceSumSquare", d, 1, axes...)
	v := c.shares(squares, d, squares)
	return d, c.op("Reciprocal", c.standardDeviation(v))
}

func (c *Call) average(a string, axes []int64) string {
	return c.reduce("ReduceMean", a, 1, axes...)
}

func (c *Call) centred(x string, axes []int64) string { return c.sub(x, c.average(x, axes)) }

// standardDeviation is √(variance + epsilon).
func (c *Call) standardDeviation(variance string) string {
	return c.op("Sqrt", c.add(variance, c.Scalar(variance, c.float("epsilon", 1e-5))))
}

// normed is d/√(mean(d²) + epsilon).
func (c *Call) normed(d string, axes []int64) string {
	return c.div(d, c.standardDeviation(c.average(c.mul(d, d), axes)))
}

func (c *Call) scaledAndShifted(y string) string {
	return c.add(c.mul(y, c.perChannel(c.in(1))), c.perChannel(c.in(2)))
}

func (c *Call) perChannel(v string) string {
	r := len(c.Type(c.x()).Shape)
	return c.Op("Reshape", []string{v, c.b.vector(append([]int64{-1}, slices.Repeat([]int64{1}, r-2)...)...)})
}

func (c *Call) along(a string, axis int64, matrix []float64, rows int64) string {
	s := c.Type(a).Shape
	r, cols := int64(len(s)), s[axis].Size
	m := c.b.numbers(a, matrix, rows, cols)
	if r == 1 || axis == r-2 {
		return c.op("MatMul", m, a)
	}
	return c.swapped(c.op("MatMul", m, c.swapped(a, axis, r-2)), axis, r-2)
}

func (c *Call) normAxes() []int64 {
	return axesFrom(normal(c.Node.Int("axis", -1), len(c.types[0].Shape)), c.types[0])
}

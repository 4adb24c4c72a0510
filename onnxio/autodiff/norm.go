package autodiff

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// composites lists the operators that are written out in simpler ones.
func composites() []Operator {
	return []Operator{
		{
			Name: "BatchNormalization", Since: 9, infer: like, expand: batchNorm,
			Doc: "x·a + (B − mean·a) with a = scale/√(var + epsilon): inference only; " +
				"training mode is an error",
		},
		{
			Name: "LayerNormalization", Since: 17, need: 2, infer: layerNormType, expand: layerNorm,
			Doc: "d/√(mean(d²) + epsilon)·scale + B with d = x − mean(x)",
		},
	}
}

// batchNorm keeps everything that does not depend on x apart from it, so that a
// runtime computes the factor and the offset once, at load.
func batchNorm(c *Call) []string {
	statistics := slices.ContainsFunc(c.Node.Outputs[1:], func(o string) bool { return o != "" })
	if c.Node.Int("training_mode", 0) != 0 || statistics {
		c.Fail("it is in training mode")
		return nil
	}
	x, scale, bias, mean, variance := c.x(), c.in(1), c.in(2), c.in(3), c.in(4)
	sd := c.Op("Sqrt", []string{c.add(variance, c.Scalar(variance, c.float("epsilon", 1e-5)))})
	factor := c.div(scale, sd)
	offset := c.sub(bias, c.mul(mean, factor))
	if r := len(c.Type(x).Shape); r > 2 {
		shape := make([]int64, r-1)
		for i := range shape {
			shape[i] = 1
		}
		shape[0] = -1
		to := c.b.vector(shape...)
		factor, offset = c.Op("Reshape", []string{factor, to}), c.Op("Reshape", []string{offset, to})
	}
	return []string{c.add(c.mul(x, factor), offset)}
}

func layerNorm(c *Call) []string {
	x := c.x()
	axes, err := c.query().normAxes()
	if err != nil {
		c.Fail("%w", err)
		return nil
	}
	at := c.b.vector(axes...)
	avg := func(v string) string {
		return c.Op("ReduceMean", []string{v, at}, graph.IntAttr("keepdims", 1))
	}
	mean := avg(x)
	d := c.sub(x, mean)
	variance := avg(c.mul(d, d))
	sd := c.Op("Sqrt", []string{c.add(variance, c.Scalar(variance, c.float("epsilon", 1e-5)))})
	y := c.mul(c.div(d, sd), c.in(1))
	if b := c.in(2); b != "" {
		y = c.add(y, b)
	}
	out := []string{y, mean}
	if len(c.Node.Outputs) > 2 && c.Node.Outputs[2] != "" {
		out = append(out, c.Op("Reciprocal", []string{sd}))
	}
	return out[:min(len(out), len(c.Node.Outputs))]
}

// normAxes returns the axes that a LayerNormalization averages over.
func (q *query) normAxes() ([]int64, error) {
	r := len(q.in[0].Shape)
	from, err := normal(q.node.Int("axis", -1), r)
	if err != nil {
		return nil, err
	}
	var axes []int64
	for i := from; i < r; i++ {
		axes = append(axes, int64(i))
	}
	return axes, nil
}

func layerNormType(q *query) ([]Type, error) {
	axes, err := q.normAxes()
	if err != nil {
		return nil, fmt.Errorf("axis: %w", err)
	}
	s := q.in[0].Shape
	for _, a := range axes {
		s = replaced(s, int(a), one())
	}
	stat := Type{q.in[0].DType, s}
	return []Type{q.in[0], stat, stat}, nil
}

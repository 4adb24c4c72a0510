package autodiff

import "cfq/onnxio/graph"

// softmaxes lists the normalised exponentials. Before opset 13 the names meant
// another function, of a value flattened to a matrix.
func softmaxes() []Operator {
	return []Operator{
		{Name: "Softmax", Since: 13, Doc: "y·(g − Σ g·y) along axis", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				return c.mul(c.y(), c.sub(c.Grad(), c.sumAxis(c.mul(c.Grad(), c.y()))))
			},
		}},
		{Name: "LogSoftmax", Since: 13, Doc: "g − exp(y)·Σ g along axis", infer: like, grads: []Rule{
			func(c *Call, _ int) string {
				return c.sub(c.Grad(), c.mul(c.Op("Exp", []string{c.y()}), c.sumAxis(c.Grad())))
			},
		}},
	}
}

// sumAxis sums a over the node's axis, which stays with size one.
func (c *Call) sumAxis(a string) string {
	axes := c.b.vector(c.Node.Int("axis", -1))
	return c.Op("ReduceSum", []string{a, axes}, graph.IntAttr("keepdims", 1))
}

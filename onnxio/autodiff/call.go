package autodiff

import (
	"fmt"

	"cfq/onnxio/graph"
)

// Call is what a rule sees: the node, the gradients of its outputs, and the
// means to append nodes. Values are named by strings.
type Call struct {
	Node  *graph.Node
	b     *builder
	grads []string // by output; "" where y does not depend on it
}

// Grad returns the gradient of the node's first output; it has that output's type.
func (c *Call) Grad() string { return c.grads[0] }

// Type returns the type of a value.
func (c *Call) Type(name string) Type { return c.b.types[name] }

// Op appends a node of the standard domain that has one output and returns that
// output's name. The operator must be in the table, and not a composite.
func (c *Call) Op(op string, inputs []string, attrs ...graph.Attr) string {
	return c.b.op(op, inputs, attrs...)
}

// Scalar returns a constant of rank 0 of the element type of like.
func (c *Call) Scalar(like string, v float64) string {
	t := c.Type(like).DType
	if k := scalar(t, v); k != nil {
		return c.b.constant(k)
	}
	return c.Op("Cast", []string{c.b.constant(scalar(graph.Float, v))}, graph.IntAttr("to", int64(t)))
}

// Fail records that the node cannot be differentiated and returns "".
func (c *Call) Fail(format string, a ...any) string {
	c.b.fail(fmt.Errorf("%s: %w", c.Node.Label(), fmt.Errorf(format, a...)))
	return ""
}

// in is the name of input i; x is input 0, y is output 0.
func (c *Call) in(i int) string { return c.Node.Input(i) }
func (c *Call) x() string       { return c.Node.Input(0) }
func (c *Call) y() string       { return c.Node.Outputs[0] }

func (c *Call) add(a, b string) string { return c.Op("Add", []string{a, b}) }
func (c *Call) sub(a, b string) string { return c.Op("Sub", []string{a, b}) }
func (c *Call) div(a, b string) string { return c.Op("Div", []string{a, b}) }
func (c *Call) neg(a string) string    { return c.Op("Neg", []string{a}) }

// mul multiplies, unless one factor is known to be ones and adds no axis.
func (c *Call) mul(a, b string) string {
	if sameShape(c.Type(a).Shape, c.Type(b).Shape) {
		if c.b.ones[a] {
			return b
		}
		if c.b.ones[b] {
			return a
		}
	}
	return c.Op("Mul", []string{a, b})
}

// scale multiplies by a number.
func (c *Call) scale(a string, k float64) string {
	switch k {
	case 1:
		return a
	case -1:
		return c.neg(a)
	}
	return c.Op("Mul", []string{a, c.Scalar(a, k)})
}

// where selects a where cond holds and b elsewhere.
func (c *Call) where(cond, a, b string) string { return c.Op("Where", []string{cond, a, b}) }

// keep passes a where cond holds; elsewhere it is 0.
func (c *Call) keep(cond, a string) string { return c.where(cond, a, c.Scalar(a, 0)) }

// compare applies a comparison operator to a and a number.
func (c *Call) compare(op, a string, k float64) string {
	return c.Op(op, []string{a, c.Scalar(a, k)})
}

// reshapeLike gives a the shape of like.
func (c *Call) reshapeLike(a, like string) string {
	if sameShape(c.Type(a).Shape, c.Type(like).Shape) {
		return a
	}
	return c.Op("Reshape", []string{a, c.b.shapeOf(like)})
}

// pass is the rule of inputs that reach the output with derivative one.
func pass(c *Call, _ int) string { return c.Grad() }

// back is the rule of operators that only rearrange: the gradient, reshaped.
func back(c *Call, _ int) string { return c.reshapeLike(c.Grad(), c.x()) }

// query returns the inference's view of the node of c.
func (c *Call) query() *query { return c.b.query(c.Node) }

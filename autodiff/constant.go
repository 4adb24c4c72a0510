package autodiff

import (
	"fmt"

	"cfq/graph"
)

// constants lists the operators whose output depends on no element of an input:
// constants, and shapes as values.
func constants() []Operator {
	return []Operator{
		{Name: "Constant", Since: 1, Doc: "no input", infer: constantType},
		{Name: "ConstantOfShape", Since: 9, Doc: "depends on a shape only", infer: constantOfShapeType},
		{Name: "Shape", Since: 1, Doc: "depends on a shape only", infer: shapeType},
		{Name: "Size", Since: 1, Doc: "depends on a shape only", infer: func(*query) ([]Type, error) {
			return []Type{{graph.Int64, graph.Shape{}}}, nil
		}},
	}
}

// constantTensor returns the value of a Constant node, or nil for the kinds of
// constants that are no dense tensor of numbers.
func constantTensor(n *graph.Node) *graph.Tensor {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		switch a.Name {
		case "value":
			return a.T
		case "value_float":
			return graph.FromFloats("", []float32{a.F})
		case "value_floats":
			return graph.FromFloats("", a.Floats, int64(len(a.Floats)))
		case "value_int":
			return graph.FromInts("", []int64{a.I})
		case "value_ints":
			return graph.FromInts("", a.Ints, int64(len(a.Ints)))
		}
	}
	return nil
}

func constantType(q *query) ([]Type, error) {
	t := constantTensor(q.node)
	if t == nil {
		return nil, fmt.Errorf("the constant is not a dense tensor of numbers")
	}
	return []Type{{t.DType, graph.Fixed(t.Dims...)}}, nil
}

func constantOfShapeType(q *query) ([]Type, error) {
	e, ok := q.ints(0)
	if !ok {
		return nil, fmt.Errorf("shape (input %q) is %w", q.node.Input(0), errVariable)
	}
	t := graph.Float
	if a := q.node.Attr("value"); a != nil && a.T != nil {
		t = a.T.DType
	}
	return []Type{{t, append(graph.Shape{}, e.dims...)}}, nil
}

func shapeType(q *query) ([]Type, error) {
	if err := q.need(1); err != nil {
		return nil, err
	}
	from, to := shapeRange(q.node, len(q.in[0].Shape))
	return []Type{{graph.Int64, graph.Fixed(int64(to - from))}}, nil
}

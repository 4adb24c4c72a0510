package autodiff

import (
	"fmt"

	"cfq/onnxio/graph"
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

func constantType(q *query) ([]Type, error) {
	t := q.node.Constant()
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

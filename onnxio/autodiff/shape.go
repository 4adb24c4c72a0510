package autodiff

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// shaping lists the operators that pass elements on, in another shape or type.
func shaping() []Operator {
	return []Operator{
		{Name: "Identity", Since: 1, Doc: "g", infer: like, grads: []Rule{pass}},
		{
			Name: "Dropout", Since: 7, Doc: "g: inference only; a training mode that is not constantly false is an error",
			infer: dropoutType, grads: []Rule{dropout},
		},
		{
			Name: "Cast", Since: 6, Doc: "g, cast back; nothing flows through other than floating-point types",
			infer: castType, grads: []Rule{
				func(c *Call, _ int) string {
					return c.Op("Cast", []string{c.Grad()}, graph.IntAttr("to", int64(c.Type(c.x()).DType)))
				},
			},
		},
		{Name: "Reshape", Since: 5, need: 2, Doc: "g in x's shape", infer: reshapeType, grads: []Rule{back}},
		{Name: "Flatten", Since: 1, Doc: "g in x's shape", infer: flattenType, grads: []Rule{back}},
		{Name: "Squeeze", Since: 1, Doc: "g in x's shape", infer: squeezeType, grads: []Rule{back}},
		{Name: "Unsqueeze", Since: 1, Doc: "g in x's shape", infer: unsqueezeType, grads: []Rule{back}},
		{Name: "Transpose", Since: 1, Doc: "g, transposed back", infer: transposeType, grads: []Rule{transposeBack}},
		{Name: "Expand", Since: 8, need: 2, Doc: "g, summed over the repeated axes", infer: expandType, grads: []Rule{pass}},
	}
}

func dropout(c *Call, _ int) string {
	if mode := c.in(2); mode != "" {
		if on, ok := c.constant(mode); !ok || on != 0 {
			return c.Fail("training mode is not constantly false")
		}
	}
	return c.Grad()
}

func transposeBack(c *Call, _ int) string {
	perm := permutation(c.Node, len(c.Type(c.x()).Shape))
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	return c.Op("Transpose", []string{c.Grad()}, graph.IntsAttr("perm", inverse...))
}

// permutation returns the perm of a Transpose; absent, it reverses the axes.
func permutation(n *graph.Node, rank int) []int64 {
	if p := n.Ints("perm"); p != nil {
		return p
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(rank - 1 - i)
	}
	return perm
}

func transposeType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	perm := permutation(q.node, len(s))
	out, seen := make(graph.Shape, len(s)), make([]bool, len(s))
	if len(perm) != len(s) {
		return nil, fmt.Errorf("perm %v of a value of rank %d", perm, len(s))
	}
	for i, p := range perm {
		if p < 0 || p >= int64(len(s)) || seen[p] {
			return nil, fmt.Errorf("perm %v of a value of rank %d", perm, len(s))
		}
		out[i], seen[p] = s[p], true
	}
	return []Type{{q.in[0].DType, out}}, nil
}

func dropoutType(q *query) ([]Type, error) {
	return []Type{q.in[0], {graph.Bool, q.in[0].Shape}}, nil
}

func castType(q *query) ([]Type, error) {
	return []Type{{graph.DType(q.node.Int("to", 0)), q.in[0].Shape}}, nil
}

func reshapeType(q *query) ([]Type, error) {
	in := q.in[0].Shape
	e, ok := q.ints(1)
	if !ok {
		return nil, fmt.Errorf("shape (input %q) is %w", q.node.Input(1), errVariable)
	}
	want := e.dims
	out, free := slices.Clone(want), -1
	if out == nil {
		out = graph.Shape{}
	}
	for i, d := range want {
		switch {
		case d.Size == 0 && q.node.Int("allowzero", 0) == 0:
			if i >= len(in) {
				return nil, fmt.Errorf("shape %v copies an axis that %v does not have", sizes(want), q.in[0])
			}
			out[i] = in[i]
		case d.Size == -1 && d.Param == "":
			free = i
		}
	}
	if free >= 0 {
		others := slices.Delete(slices.Clone(out), free, free+1)
		out[free] = quotient(in, others)
	}
	return []Type{{q.in[0].DType, out}}, nil
}

func flattenType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	axis := q.node.Int("axis", 1)
	if axis < 0 {
		axis += int64(len(s))
	}
	if axis < 0 || axis > int64(len(s)) {
		return nil, fmt.Errorf("axis %d of a value of rank %d", axis, len(s))
	}
	return []Type{{q.in[0].DType, graph.Shape{product(s[:axis]), product(s[axis:])}}}, nil
}

func squeezeType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	axes, ok, err := q.constInts(1, "axes")
	if err != nil {
		return nil, err
	}
	drop, err := normals(axes, len(s))
	if err != nil {
		return nil, err
	}
	if !ok {
		for i, d := range s {
			if d == one() {
				drop = append(drop, i)
			} else if d.Size < 0 {
				return nil, fmt.Errorf("what goes depends on the size %s, which is %w", d, errVariable)
			}
		}
	}
	return []Type{{q.in[0].DType, reduced(s, drop, false)}}, nil
}

func unsqueezeType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	axes, ok, err := q.constInts(1, "axes")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("axes are missing")
	}
	at, err := normals(axes, len(s)+len(axes))
	if err != nil {
		return nil, err
	}
	if len(at) != len(axes) {
		return nil, fmt.Errorf("axes %v name one twice", axes)
	}
	out := slices.Clone(s)
	for _, a := range at {
		out = slices.Insert(out, a, one())
	}
	return []Type{{q.in[0].DType, out}}, nil
}

func expandType(q *query) ([]Type, error) {
	e, ok := q.ints(1)
	if !ok {
		return nil, fmt.Errorf("shape (input %q) is %w", q.node.Input(1), errVariable)
	}
	s, err := broadcast(q.in[0].Shape, e.dims)
	if err != nil {
		return nil, err
	}
	return []Type{{q.in[0].DType, s}}, nil
}

// constants lists the operators whose output depends on no element of an input:
// constants, and shapes as values.
func constants() []Operator {
	return []Operator{
		{Name: "Constant", Since: 1, need: none, Doc: "no input", infer: constantType},
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
	from, to := shapeRange(q.node, len(q.in[0].Shape))
	return []Type{{graph.Int64, graph.Fixed(int64(to - from))}}, nil
}

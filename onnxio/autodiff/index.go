package autodiff

import (
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// indexing lists the operators that take a value apart and put it together.
func indexing() []Operator {
	return []Operator{
		{
			Name: "Concat", Since: 4, Doc: "the part of g that came from each input", infer: concatType, grads: []Rule{part},
			variadic: true,
		},
		{Name: "Split", Since: 2, Doc: "the g of all outputs, joined", infer: splitType, grads: []Rule{joined}},
		{
			Name: "Slice", Since: 10, need: 3, Doc: "g, with zeros around it; bounds must be constant", infer: sliceType,
			grads: []Rule{unsliced},
		},
		{Name: "Pad", Since: 11, need: 2, infer: padType, grads: []Rule{
			unpadded, nil,
			func(c *Call, _ int) string { return c.Fail("the padding value depends on the variables") },
		}, Doc: "the part of g that x fills; mode constant, pads constant and not negative"},
		{
			Name: "Gather", Since: 1, need: 2, Doc: "g, added up where it was taken from; none for the indices",
			infer: gatherType, grads: []Rule{ungathered},
		},
		{
			Name: "GatherElements", Since: 11, need: 2, Doc: "g, added up where it was taken from; none for the indices",
			infer: gatherElementsType, grads: []Rule{
				func(c *Call, _ int) string {
					return c.scatter(c.b.filled(c.x(), 0), c.in(1), c.Grad(), c.Node.Int("axis", 0))
				},
			},
		},
		{Name: "ScatterElements", Since: 16, infer: like, grads: []Rule{
			adding(pass), nil,
			adding(func(c *Call, _ int) string {
				return c.Op("GatherElements", []string{c.Grad(), c.in(1)}, graph.IntAttr("axis", c.Node.Int("axis", 0)))
			}),
		}, Doc: "g, and the g that each update went to; reduction add only"},
	}
}

func part(c *Call, i int) string {
	axis, _ := normal(c.Node.Int("axis", 0), len(c.Type(c.x()).Shape)) // the driver has checked the types
	if len(c.Node.Inputs) == 1 {
		return c.Grad()
	}
	var start, end int64
	for _, in := range c.Node.Inputs[:i+1] {
		n := c.Type(in).Shape[axis].Size
		if n < 0 {
			return c.Fail("the size of %q along axis %d is not constant", in, axis)
		}
		start, end = end, end+n
	}
	return c.slice(c.Grad(), []int64{start}, []int64{end}, []int64{int64(axis)})
}

func (c *Call) slice(a string, starts, ends, axes []int64) string {
	return c.Op("Slice", []string{a, c.b.vector(starts...), c.b.vector(ends...), c.b.vector(axes...)})
}

func joined(c *Call, _ int) string {
	parts := slices.Clone(c.grads)
	for i, g := range parts {
		if g == "" {
			parts[i] = c.b.filled(c.Node.Outputs[i], 0)
		}
	}
	return c.Op("Concat", parts, graph.IntAttr("axis", c.Node.Int("axis", 0)))
}

func unsliced(c *Call, _ int) string {
	cuts, err := c.query().cuts()
	if err != nil {
		return c.Fail("%w", err)
	}
	g := c.Grad()
	for _, k := range cuts {
		if k.step == 1 {
			g = padded(c, g, k.axis, k.start, k.size-k.start-k.count)
			continue
		}
		at := make([]int64, k.count)
		for i := range at {
			at[i] = k.start + int64(i)*k.step
		}
		zeros := padded(c, c.b.filled(g, 0), k.axis, 0, k.size-k.count)
		g = addUp(c, zeros, g, c.b.vector(at...), k.axis)
	}
	return g
}

// padded puts zeros before and after a along axis.
func padded(c *Call, a string, axis int, before, after int64) string {
	if before == 0 && after == 0 {
		return a
	}
	r := len(c.Type(a).Shape)
	pads := make([]int64, 2*r)
	pads[axis], pads[r+axis] = before, after
	return c.Op("Pad", []string{a, c.b.vector(pads...)})
}

func unpadded(c *Call, _ int) string {
	pads, err := c.query().pads()
	if err != nil {
		return c.Fail("%w", err)
	}
	if m := c.Node.Attr("mode"); m != nil && string(m.S) != "constant" {
		return c.Fail("padding mode %s", m.S)
	}
	r := len(pads) / 2
	var starts, ends, axes []int64
	for i := range r {
		before, after := pads[i], pads[r+i]
		if before < 0 || after < 0 {
			return c.Fail("negative padding")
		}
		if before+after > 0 {
			end := int64(math.MaxInt64)
			if after > 0 {
				end = -after
			}
			starts, ends, axes = append(starts, before), append(ends, end), append(axes, int64(i))
		}
	}
	if len(axes) == 0 {
		return c.Grad()
	}
	return c.slice(c.Grad(), starts, ends, axes)
}

// ungathered adds g up along the axis, with the indices as a list. The shape of g is then that of a
// Gather by the list.
func ungathered(c *Call, _ int) string {
	axis, _ := normal(c.Node.Int("axis", 0), len(c.Type(c.x()).Shape)) // the driver has checked the types
	g, idx := c.Grad(), c.in(1)
	if len(c.Type(idx).Shape) != 1 {
		idx = c.Op("Reshape", []string{idx, c.b.vector(-1)})
		g = c.reshapeLike(g, c.Op("Gather", []string{c.x(), idx}, graph.IntAttr("axis", int64(axis))))
	}
	return addUp(c, c.b.filled(c.x(), 0), g, idx, axis)
}

// addUp adds the i-th part of g along axis to the part of onto that the i-th index names.
func addUp(c *Call, onto, g, idx string, axis int) string {
	var others []int64
	for i := range c.Type(g).Shape {
		if i != axis {
			others = append(others, int64(i))
		}
	}
	if len(others) > 0 {
		idx = c.Op("Unsqueeze", []string{idx, c.b.vector(others...)})
		idx = c.Op("Expand", []string{idx, c.b.shapeOf(g)})
	}
	return c.scatter(onto, idx, g, int64(axis))
}

func (c *Call) scatter(onto, idx, updates string, axis int64) string {
	return c.Op("ScatterElements", []string{onto, idx, updates}, graph.IntAttr("axis", axis),
		graph.StringAttr("reduction", "add"))
}

// adding is a rule of updates that are added up.
func adding(rule Rule) Rule {
	return func(c *Call, i int) string {
		if a := c.Node.Attr("reduction"); a == nil || string(a.S) != "add" {
			return c.Fail("only the reduction add has a gradient")
		}
		return rule(c, i)
	}
}

func concatType(q *query) ([]Type, error) {
	t := q.in[0]
	axis, err := normal(q.node.Int("axis", 0), len(t.Shape))
	if err != nil {
		return nil, err
	}
	sum := graph.Dim{}
	for i, u := range q.in {
		if len(u.Shape) != len(t.Shape) {
			return nil, fmt.Errorf("input %q is %v, which does not go with %v", q.node.Inputs[i], u, t)
		}
		if u.Shape[axis].Size < 0 {
			sum.Size = -1
		} else if sum.Size >= 0 {
			sum.Size += u.Shape[axis].Size
		}
	}
	if len(q.in) == 1 {
		sum = t.Shape[axis]
	}
	return []Type{{t.DType, replaced(t.Shape, axis, sum)}}, nil
}

func splitType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	axis, err := normal(q.node.Int("axis", 0), len(s))
	if err != nil {
		return nil, err
	}
	parts, ok, err := q.constInts(1, "split")
	if err != nil {
		return nil, err
	}
	n := int64(len(q.node.Outputs))
	if !ok {
		total := s[axis].Size
		if total < 0 {
			return nil, fmt.Errorf("the size of axis %d is %w", axis, errVariable)
		}
		each := (total + n - 1) / n
		for left := total; int64(len(parts)) < n; left -= each {
			parts = append(parts, max(0, min(each, left)))
		}
	}
	if int64(len(parts)) != n {
		return nil, fmt.Errorf("%d sizes for %d outputs", len(parts), n)
	}
	out := make([]Type, n)
	for i, k := range parts {
		out[i] = Type{q.in[0].DType, replaced(s, axis, graph.Dim{Size: k})}
	}
	return out, nil
}

// cut is what a Slice does to one axis of known size: it takes count elements
// from start on, step apart.
type cut struct {
	axis                     int
	start, count, step, size int64
}

// cuts returns what a Slice does, axis by axis, without axes that stay whole.
func (q *query) cuts() ([]cut, error) {
	s := q.in[0].Shape
	var lists [4][]int64
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		v, ok, err := q.constInts(i+1, name)
		if err != nil {
			return nil, err
		}
		if ok && i > 0 && len(v) != len(lists[0]) {
			return nil, fmt.Errorf("%d starts, but %d %s", len(lists[0]), len(v), name)
		}
		lists[i] = v
	}
	var out []cut
	for i, start := range lists[0] {
		k := cut{axis: i, step: 1}
		if lists[2] != nil {
			a, err := normal(lists[2][i], len(s))
			if err != nil {
				return nil, err
			}
			k.axis = a
		}
		if lists[3] != nil {
			k.step = lists[3][i]
		}
		if k.axis >= len(s) || k.step == 0 {
			return nil, fmt.Errorf("axis %d, step %d of a value of rank %d", k.axis, k.step, len(s))
		}
		end := lists[1][i]
		if k.size = s[k.axis].Size; k.size < 0 {
			if start == 0 && end >= math.MaxInt32 && k.step == 1 {
				continue
			}
			return nil, fmt.Errorf("the size of axis %d, which is cut, is %w", k.axis, errVariable)
		}
		k.fill(start, end)
		out = append(out, k)
	}
	return out, nil
}

// fill resolves negative and excessive bounds.
func (k *cut) fill(start, end int64) {
	bound := func(v, lo, hi int64) int64 {
		if v < 0 {
			v += k.size
		}
		return max(lo, min(v, hi))
	}
	if k.step > 0 {
		k.start, end = bound(start, 0, k.size), bound(end, 0, k.size)
		k.count = max(0, (end-k.start+k.step-1)/k.step)
		return
	}
	k.start, end = bound(start, 0, k.size-1), bound(end, -1, k.size-1)
	k.count = max(0, (end-k.start+k.step+1)/k.step)
}

func sliceType(q *query) ([]Type, error) {
	cuts, err := q.cuts()
	if err != nil {
		return nil, err
	}
	s := slices.Clone(q.in[0].Shape)
	for _, k := range cuts {
		s[k.axis] = graph.Dim{Size: k.count}
	}
	return []Type{{q.in[0].DType, s}}, nil
}

// pads returns the padding before each axis, then that after each axis.
func (q *query) pads() ([]int64, error) {
	r := len(q.in[0].Shape)
	v, _, err := q.constInts(1, "pads")
	if err != nil {
		return nil, err
	}
	axes, ok, err := q.constInts(3, "axes")
	if err != nil {
		return nil, err
	}
	if !ok {
		if len(v) != 2*r {
			return nil, fmt.Errorf("%d pads for a value of rank %d", len(v), r)
		}
		return v, nil
	}
	out := make([]int64, 2*r)
	if len(v) != 2*len(axes) {
		return nil, fmt.Errorf("%d pads for %d axes", len(v), len(axes))
	}
	for i, a := range axes {
		n, err := normal(a, r)
		if err != nil {
			return nil, err
		}
		out[n], out[r+n] = v[i], v[len(axes)+i]
	}
	return out, nil
}

func padType(q *query) ([]Type, error) {
	pads, err := q.pads()
	if err != nil {
		return nil, err
	}
	s := slices.Clone(q.in[0].Shape)
	for i := range s {
		more := pads[i] + pads[len(s)+i]
		switch {
		case s[i].Size >= 0:
			s[i].Size += more
		case more != 0:
			s[i] = graph.Dim{Size: -1}
		}
	}
	return []Type{{q.in[0].DType, s}}, nil
}

func gatherType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	axis, err := normal(q.node.Int("axis", 0), len(s))
	if err != nil {
		return nil, err
	}
	return []Type{{q.in[0].DType, slices.Concat(graph.Shape{}, s[:axis], q.in[1].Shape, s[axis+1:])}}, nil
}

func gatherElementsType(q *query) ([]Type, error) {
	return []Type{{q.in[0].DType, q.in[1].Shape}}, nil
}

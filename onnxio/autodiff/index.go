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
			func(c *Call, _ int) string {
				inside := unpadded(c, 0)
				if inside == "" {
					return ""
				}
				all := func(v string) string { return c.Op("ReduceSum", []string{v}, graph.IntAttr("keepdims", 0)) }
				return c.sub(all(c.Grad()), all(inside))
			},
		}, Doc: "the part of g that x fills, and the sum of the rest for the padding value; mode constant, " +
			"pads constant and not negative"},
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
			scatterData, nil, scatterUpdates,
		}, Doc: "g (without reduction: 0 where it was overwritten) and the g that each update went to; reduction none or " +
			"add"},
	}
}

func part(c *Call, i int) string {
	axis, _ := normal(c.Node.Int("axis", 0), len(c.Type(c.x()).Shape)) // the driver has checked the types
	var at int64
	for _, in := range c.Node.Inputs[:i] {
		n := c.Type(in).Shape[axis].Size
		if n < 0 {
			return c.Fail("the size of %q along axis %d is not constant", in, axis)
		}
		at += n
	}
	n := c.Type(c.in(i)).Shape[axis].Size
	switch {
	case i == 0 && len(c.Node.Inputs) == 1:
		return c.Grad()
	case n < 0:
		return c.Fail("the size of %q along axis %d is not constant", c.in(i), axis)
	}
	return c.slice(c.Grad(), []int64{at}, []int64{at + n}, []int64{int64(axis)})
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
	r := len(c.Type(c.x()).Shape)
	pads, any := make([]int64, 2*r), false
	for _, k := range cuts {
		if k.step == 1 {
			pads[k.axis], pads[r+k.axis] = k.start, k.size-k.start-k.count
			any = any || k.count < k.size
		}
	}
	if any {
		g = c.Op("Pad", []string{g, c.b.vector(pads...)})
	}
	for _, k := range cuts {
		if k.step == 1 {
			continue
		}
		at := make([]int64, k.count)
		for i := range at {
			at[i] = k.start + int64(i)*k.step
		}
		g = c.place(g, k.axis, at, k.size)
	}
	return g
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

func ungathered(c *Call, _ int) string {
	s, idx := c.Type(c.x()).Shape, c.in(1)
	axis, _ := normal(c.Node.Int("axis", 0), len(s)) // the driver has checked the types
	g, at := c.Grad(), int64(axis)
	// One axis of g per axis of x: that of the indices, flattened.
	switch len(c.Type(idx).Shape) {
	case 0:
		g = c.Op("Unsqueeze", []string{g, c.b.vector(at)})
	case 1:
	default:
		g = c.Op("Reshape", []string{g, c.shapeWith(c.x(), axis, c.b.vector(-1))})
	}
	if list, ok := c.query().ints(1); ok && list.constant && s[axis].Size >= 0 {
		where := sizes(list.dims)
		for i, k := range where {
			if k < 0 {
				where[i] += s[axis].Size
			}
			if where[i] < 0 || where[i] >= s[axis].Size {
				return c.Fail("index %d of an axis of size %d", k, s[axis].Size)
			}
		}
		return c.place(g, axis, where, s[axis].Size)
	}
	if len(c.Type(idx).Shape) != 1 {
		idx = c.Op("Reshape", []string{idx, c.b.vector(-1)})
	}
	return c.addUp(g, axis, idx, c.size(c.x(), axis))
}

// selectorLimit is the number of elements up to which the matrix that puts
// columns in their places is worth its product; beyond, they are scattered.
const selectorLimit = 1 << 13

// place puts the i-th part of g along axis at index at[i] of an axis of the given
// size; parts of the same place are added, and the rest is zero.
func (c *Call) place(g string, axis int, at []int64, size int64) string {
	r := len(c.Type(g).Shape)
	run := len(at) > 0
	for i := range at {
		run = run && at[i] == at[0]+int64(i)
	}
	if run && at[0] >= 0 && at[0]+int64(len(at)) <= size {
		if int64(len(at)) == size {
			return g
		}
		pads := make([]int64, 2*r)
		pads[axis], pads[r+axis] = at[0], size-at[0]-int64(len(at))
		return c.Op("Pad", []string{g, c.b.vector(pads...)})
	}
	if m := c.selector(g, at, size); m != "" && axis == r-1 {
		return c.Op("MatMul", []string{g, m})
	}
	return c.addUp(g, axis, c.b.vector(at...), c.b.vector(size))
}

// selector is the matrix with a one in row i and column at[i], or "".
func (c *Call) selector(g string, at []int64, size int64) string {
	m := int64(len(at))
	k := scalar(c.Type(g).DType, 1)
	if k == nil || m*size > selectorLimit || m*size == 0 {
		return ""
	}
	width := int64(len(k.Raw))
	raw := make([]byte, m*size*width)
	for i, j := range at {
		copy(raw[(int64(i)*size+j)*width:], k.Raw)
	}
	k.Raw, k.Dims = raw, []int64{m, size}
	return c.b.constant(k)
}

// addUp is place for indices and a size that are values.
func (c *Call) addUp(g string, axis int, idx, size string) string {
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
	t := scalar(c.Type(g).DType, 0)
	if t == nil {
		return c.Fail("cannot scatter elements of type %s", c.Type(g).DType)
	}
	t.Dims = []int64{1}
	zeros := c.Op("ConstantOfShape", []string{c.shapeWith(g, axis, size)}, graph.TensorAttr("value", t))
	return c.scatter(zeros, idx, g, int64(axis))
}

func (c *Call) scatter(onto, idx, updates string, axis int64) string {
	return c.Op("ScatterElements", []string{onto, idx, updates}, graph.IntAttr("axis", axis),
		graph.StringAttr("reduction", "add"))
}

// size is the size of a along axis, as a list of one.
func (c *Call) size(a string, axis int) string {
	if n := c.Type(a).Shape[axis].Size; n >= 0 {
		return c.b.vector(n)
	}
	return c.Op("Shape", []string{a}, graph.IntAttr("start", int64(axis)), graph.IntAttr("end", int64(axis+1)))
}

// shapeWith is the shape of a with the list n in the place of the size of axis.
func (c *Call) shapeWith(a string, axis int, n string) string {
	s := c.Type(a).Shape
	if t := c.b.inits[n]; t != nil && fixed(replaced(s, axis, one())) {
		if k, err := t.Ints(); err == nil {
			return c.b.vector(sizes(replaced(s, axis, graph.Dim{Size: k[0]}))...)
		}
	}
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = n
		if i != axis {
			parts[i] = c.size(a, i)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return c.Op("Concat", parts, graph.IntAttr("axis", 0))
}

func scatterData(c *Call, _ int) string {
	switch c.reduction() {
	case "add":
		return c.Grad()
	case "none":
		none := c.b.filled(c.in(2), 0)
		return c.Op("ScatterElements", []string{c.Grad(), c.in(1), none}, graph.IntAttr("axis", c.Node.Int("axis", 0)))
	}
	return c.Fail("reduction %s", c.reduction())
}

func scatterUpdates(c *Call, _ int) string {
	if r := c.reduction(); r != "add" && r != "none" {
		return c.Fail("reduction %s", r)
	}
	return c.Op("GatherElements", []string{c.Grad(), c.in(1)}, graph.IntAttr("axis", c.Node.Int("axis", 0)))
}

func (c *Call) reduction() string {
	if a := c.Node.Attr("reduction"); a != nil {
		return string(a.S)
	}
	return "none"
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

package autodiff

import (
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// shaping are the operators that keep elements and their order.
func shaping() []Operator {
	return []Operator{
		{Name: "Identity", grads: []Rule{pass}},
		{Name: "Dropout", grads: []Rule{func(c *Call, _ int) string {
			if on, ok := c.number(2); c.in(2) != "" && (!ok || on != 0) {
				return c.Fail("training mode is not constantly false")
			}
			return c.Grad()
		}}, infer: func(c *Call) []graph.Type {
			return append(like(c), single(graph.Bool, c.types[0].Shape)...)
		}},
		{Name: "Cast", grads: []Rule{castBack}, infer: func(c *Call) []graph.Type {
			return single(graph.DType(c.Node.Int("to", 0)), c.types[0].Shape)
		}},
		{Name: "CastLike", need: 2, grads: []Rule{castBack}, infer: func(c *Call) []graph.Type {
			return single(c.types[1].DType, c.types[0].Shape)
		}},
		{Name: "Reshape", need: 2, infer: func(c *Call) []graph.Type {
			in, want := c.types[0].Shape, c.shapeIn(1)
			out, free := slices.Clone(want), -1
			for i, d := range want {
				switch {
				case d.Size == 0 && c.Node.Int("allowzero", 0) == 0:
					c.failIf(i >= len(in), "shape %v copies an axis that %v does not have", sizes(want), c.types[0])
					out[i] = in[i]
				case d.Size == -1 && d.Param == "":
					free = i
				}
			}
			if free >= 0 {
				others := slices.Delete(slices.Clone(out), free, free+1)
				out[free] = in.Over(others)
			}
			return single(c.types[0].DType, out)
		}, grads: []Rule{back}},
		{Name: "Flatten", infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axis := c.Node.Int("axis", 1)
			if axis < 0 {
				axis += int64(len(s))
			}
			c.failIf(axis < 0 || axis > int64(len(s)), "axis %d of a value of rank %d", axis, len(s))
			return single(c.types[0].DType, graph.Shape{s[:axis].Elements(), s[axis:].Elements()})
		}, grads: []Rule{back}},
		{Name: "Squeeze", infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axes, ok := c.constInts(1, "axes")
			drop := normals(axes, len(s))
			if !ok {
				for i, d := range s {
					if d == one() {
						drop = append(drop, int64(i))
					} else if d.Size < 0 {
						c.Fail("what goes depends on the size %s, which is %w", d, errVariable)
					}
				}
			}
			return single(c.types[0].DType, reduced(s, drop, false))
		}, grads: []Rule{back}},
		{Name: "Unsqueeze", infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axes, ok := c.constInts(1, "axes")
			c.failIf(!ok, "axes are missing")
			at := normals(axes, len(s)+len(axes))
			c.failIf(len(at) != len(axes), "axes %v name one twice", axes)
			out := slices.Clone(s)
			for _, a := range at {
				out = slices.Insert(out, int(a), one())
			}
			return single(c.types[0].DType, out)
		}, grads: []Rule{back}},
	}
}

// arranging are those that move or repeat them.
func arranging() []Operator {
	return []Operator{
		{Name: "Transpose", infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			perm := permutation(c.Node, len(s))
			out, seen := make(graph.Shape, len(s)), make([]bool, len(s))
			c.failIf(len(perm) != len(s), "perm %v of a value of rank %d", perm, len(s))
			for i, p := range perm {
				c.failIf(p < 0 || p >= int64(len(s)) || seen[p], "perm %v of a value of rank %d", perm, len(s))
				out[i], seen[p] = s[p], true
			}
			return single(c.types[0].DType, out)
		}, grads: []Rule{func(c *Call, _ int) string {
			perm := permutation(c.Node, len(c.Type(c.x()).Shape))
			inverse := make([]int64, len(perm))
			for i, p := range perm {
				inverse[p] = int64(i)
			}
			return c.transpose(c.Grad(), inverse...)
		}}},
		{Name: "Expand", need: 2, grads: []Rule{pass}, infer: func(c *Call) []graph.Type {
			return single(c.types[0].DType, broadcast(c.types[0].Shape, c.shapeIn(1)))
		}},
		{Name: "Tile", need: 2, infer: func(c *Call) []graph.Type {
			shape := slices.Clone(c.types[0].Shape)
			for i, r := range c.repeats() {
				switch {
				case r == 1:
				case shape[i].Size < 0:
					shape[i] = graph.Shape{shape[i], {Size: r}}.Elements()
				case r > 0 && shape[i].Size > math.MaxInt64/r:
					c.Fail("axis %d of size %d is repeated %d times", i, shape[i].Size, r)
				default:
					shape[i].Size *= r
				}
			}
			return single(c.types[0].DType, shape)
			// Each axis of g becomes two, the repeats and what is repeated, and g is summed over the former.
		}, grads: []Rule{func(c *Call, _ int) string {
			s, repeats := c.Type(c.x()).Shape, c.repeats()
			var apart, summed []int64
			for i, d := range s {
				summed = append(summed, int64(2*i))
				apart = append(apart, repeats[i], d.Size)
			}
			to := c.b.vector(apart...)
			if !fixed(s) {
				shape := c.b.shapeOf(c.x())
				var parts []string
				for i, r := range repeats {
					parts = append(parts, c.b.vector(r), c.slice(shape, []int64{int64(i)}, []int64{int64(i + 1)}, []int64{0}))
				}
				to = c.Op("Concat", parts, graph.IntAttr("axis", 0))
			}
			g := c.op("Reshape", c.Grad(), to)
			return c.reduce("ReduceSum", g, 0, summed...)
		}}},
	}
}

func castBack(c *Call, _ int) string { return c.cast(c.Grad(), c.Type(c.x()).DType) }

func permutation(n *graph.Node, rank int) []int64 {
	if p := n.Ints("perm"); p != nil {
		return p
	}
	return lists.Make(rank, func(i int) int64 { return int64(rank - 1 - i) })
}

func (c *Call) shapeIn(i int) graph.Shape {
	e, ok := c.ints(i)
	c.failIf(!ok, "shape (input %q) is %w", c.in(i), errVariable)
	return append(graph.Shape{}, e.dims...)
}

func (c *Call) repeats() []int64 {
	v, _ := c.constInts(1, "repeats")
	if rank := len(c.types[0].Shape); len(v) != rank || slices.ContainsFunc(v, func(r int64) bool { return r < 0 }) {
		c.Fail("repeats %v for a value of rank %d", v, rank)
	}
	return v
}

func constants() []Operator {
	return []Operator{
		{Name: "Constant", need: none, infer: func(c *Call) []graph.Type {
			t := c.Node.Constant()
			c.failIf(t == nil, "the constant is not a dense tensor of numbers")
			return single(t.DType, graph.Fixed(t.Dims...))
		}},
		{Name: "ConstantOfShape", infer: func(c *Call) []graph.Type {
			t := graph.Float
			if a := c.Node.Attr("value"); a != nil && a.T != nil {
				t = a.T.DType
			}
			return single(t, c.shapeIn(0))
		}},
		{Name: "Shape", infer: func(c *Call) []graph.Type {
			from, to := shapeRange(c.Node, len(c.types[0].Shape))
			return single(graph.Int64, graph.Fixed(int64(to-from)))
		}},
		{Name: "Size", infer: func(*Call) []graph.Type { return single(graph.Int64, graph.Shape{}) }},
	}
}

func cutting() []Operator {
	return []Operator{
		{Name: "Concat", infer: func(c *Call) []graph.Type {
			t := c.types[0]
			axis := normal(c.Node.Int("axis", 0), len(t.Shape))
			sum := graph.Dim{}
			for i, u := range c.types {
				c.failIf(len(u.Shape) != len(t.Shape), "input %q is %v, which does not go with %v", c.Node.Inputs[i], u, t)
				if u.Shape[axis].Size < 0 {
					sum.Size = -1
				} else if sum.Size >= 0 {
					sum.Size += u.Shape[axis].Size
				}
			}
			if len(c.types) == 1 {
				sum = t.Shape[axis]
			}
			return single(t.DType, replaced(t.Shape, axis, sum))
		}, grads: []Rule{part}, variadic: true},
		{Name: "Split", infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axis := normal(c.Node.Int("axis", 0), len(s))
			parts, ok := c.constInts(1, "split")
			n := int64(len(c.Node.Outputs))
			if !ok {
				total := s[axis].Size
				c.failIf(total < 0, "the size of axis %d is %w", axis, errVariable)
				each := (total + n - 1) / n
				for left := total; int64(len(parts)) < n; left -= each {
					parts = append(parts, max(0, min(each, left)))
				}
			}
			c.failIf(int64(len(parts)) != n, "%d sizes for %d outputs", len(parts), n)
			return lists.Map(parts, func(k int64) graph.Type {
				return graph.Type{DType: c.types[0].DType, Shape: replaced(s, axis, graph.Dim{Size: k})}
			})
		}, grads: []Rule{func(c *Call, _ int) string {
			parts := slices.Clone(c.grads)
			for i, g := range parts {
				if g == "" {
					parts[i] = c.b.filled(c.Node.Outputs[i], 0)
				}
			}
			return c.Op("Concat", parts, graph.IntAttr("axis", c.Node.Int("axis", 0)))
		}}},
		{Name: "Slice", need: 3, infer: func(c *Call) []graph.Type {
			s := slices.Clone(c.types[0].Shape)
			for _, k := range c.cuts() {
				s[k.axis] = graph.Dim{Size: k.count}
			}
			return single(c.types[0].DType, s)
		}, grads: []Rule{func(c *Call, _ int) string {
			g := c.Grad()
			for _, k := range c.cuts() {
				at := lists.Make(int(k.count), func(i int) int64 { return k.start + int64(i)*k.step })
				g = placed(c, g, k.axis, at, k.size)
			}
			return g
		}}},
		{Name: "Pad", need: 2, infer: func(c *Call) []graph.Type {
			pads := c.pads()
			s := slices.Clone(c.types[0].Shape)
			for i := range s {
				if more := pads[i] + pads[len(s)+i]; s[i].Size >= 0 {
					s[i].Size += more
				} else if more != 0 {
					s[i] = graph.Dim{Size: -1}
				}
			}
			return single(c.types[0].DType, s)
		}, grads: []Rule{unpadded, nil, func(c *Call, i int) string {
			inside := unpadded(c, 0)
			if inside == "" {
				return ""
			}
			return c.reshapeLike(c.sub(c.total(c.Grad()), c.total(inside)), c.in(i))
		}}},
	}
}

func part(c *Call, i int) string {
	axis := normal(c.Node.Int("axis", 0), len(c.Type(c.x()).Shape))
	if len(c.Node.Inputs) == 1 {
		return c.Grad()
	}
	var start, end int64
	for _, in := range c.Node.Inputs[:i+1] {
		n := c.Type(in).Shape[axis].Size
		c.failIf(n < 0, "the size of %q along axis %d is not constant", in, axis)
		start, end = end, end+n
	}
	return c.slice(c.Grad(), []int64{start}, []int64{end}, []int64{axis})
}

func (c *Call) slice(a string, starts, ends, axes []int64) string {
	return c.op("Slice", a, c.b.vector(starts...), c.b.vector(ends...), c.b.vector(axes...))
}

// placed returns size parts along axis, of which the i-th of a is number at[i], no two the same, and the others are 0.
func placed(c *Call, a string, axis int64, at []int64, size int64) string {
	count, run := int64(len(at)), true
	for i, k := range at {
		run = run && k == at[0]+int64(i)
	}
	if run && count > 0 {
		return padded(c, a, axis, at[0], size-at[0]-count)
	}
	from := slices.Repeat([]int64{count}, int(size)) // where a part of zeros stands behind those of a
	for i, k := range at {
		from[k] = int64(i)
	}
	if count < size {
		a = padded(c, a, axis, 0, 1)
	}
	return c.Op("Gather", []string{a, c.b.vector(from...)}, graph.IntAttr("axis", axis))
}

func padded(c *Call, a string, axis, before, after int64) string {
	if before == 0 && after == 0 {
		return a
	}
	r := int64(len(c.Type(a).Shape))
	pads := make([]int64, 2*r)
	pads[axis], pads[r+axis] = before, after
	return c.op("Pad", a, c.b.vector(pads...))
}

func unpadded(c *Call, _ int) string {
	pads := c.pads()
	r := int64(len(pads) / 2)
	if mode := c.Node.Text("mode", "constant"); mode != "constant" {
		return c.unmirrored(mode, pads)
	}
	var starts, ends, axes []int64
	for i := range r {
		before, after := max(0, pads[i]), max(0, pads[r+i])
		if before+after > 0 {
			end := int64(math.MaxInt64)
			if after > 0 {
				end = -after
			}
			starts, ends, axes = append(starts, before), append(ends, end), append(axes, i)
		}
	}
	g := c.Grad()
	if len(axes) > 0 {
		g = c.slice(g, starts, ends, axes)
	}
	for i := range r { // negative padding cuts off
		g = padded(c, g, i, max(0, -pads[i]), max(0, -pads[r+i]))
	}
	return g
}

func (c *Call) unmirrored(mode string, pads []int64) string {
	g, s := c.Grad(), c.Type(c.x()).Shape
	for _, axis := range slices.Backward(axesFrom(0, c.Type(c.x()))) {
		before, after, n := pads[axis], pads[int64(len(s))+axis], s[axis].Size
		if before == 0 && after == 0 {
			continue
		}
		c.failIf(before < 0 || after < 0 || n < 1 || before+after+n > largestConstant,
			"mode %s with padding %d and %d of axis %d of %v", mode, before, after, axis, c.Type(c.x()))
		from := make([]int64, before+n+after)
		for i := range from {
			k := int64(i) - before
			switch {
			case mode == "edge":
				k = min(max(k, 0), n-1)
			case mode == "wrap":
				k = ((k % n) + n) % n
			case mode == "reflect" && n > 1:
				k = ((k % (2*n - 2)) + 2*n - 2) % (2*n - 2)
				k = min(k, 2*n-2-k)
			default:
				return c.Fail("padding mode %s of axis %d of %v", mode, axis, c.Type(c.x()))
			}
			from[i] = k
		}
		zeros := c.b.filled(c.slice(g, []int64{0}, []int64{n}, []int64{axis}), 0)
		g = addUp(c, zeros, g, c.b.vector(from...), axis)
	}
	return g
}

// addUp adds the i-th part of g along axis to the part of onto that the i-th index names.
func addUp(c *Call, onto, g, idx string, axis int64) string {
	others := slices.DeleteFunc(axesFrom(0, c.Type(g)), func(a int64) bool { return a == axis })
	if len(others) > 0 {
		idx = c.op("Unsqueeze", idx, c.b.vector(others...))
		idx = c.op("Expand", idx, c.b.shapeOf(g))
	}
	return c.scatter(onto, idx, g, axis)
}

func (c *Call) scatter(onto, idx, updates string, axis int64) string {
	return c.Op("ScatterElements", []string{onto, idx, updates}, graph.IntAttr("axis", axis),
		graph.StringAttr("reduction", "add"))
}

// cut is what a Slice does to one axis of known size: it takes count elements from start on, step apart.
type cut struct {
	axis, start, count, step, size int64
}

func (c *Call) cuts() []cut {
	s := c.types[0].Shape
	var lists [4][]int64
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		v, ok := c.constInts(i+1, name)
		c.failIf(ok && i > 0 && len(v) != len(lists[0]), "%d starts, but %d %s", len(lists[0]), len(v), name)
		lists[i] = v
	}
	var out []cut
	for i, start := range lists[0] {
		k := cut{axis: int64(i), step: 1}
		if lists[2] != nil {
			k.axis = normal(lists[2][i], len(s))
		}
		if lists[3] != nil {
			k.step = lists[3][i]
		}
		c.failIf(k.axis >= int64(len(s)) || k.step == 0, "axis %d, step %d of a value of rank %d", k.axis, k.step, len(s))
		end := lists[1][i]
		if k.size = s[k.axis].Size; k.size < 0 {
			if start == 0 && end >= math.MaxInt32 && k.step == 1 {
				continue
			}
			c.Fail("the size of axis %d, which is cut, is %w", k.axis, errVariable)
		}
		k.fill(start, end)
		out = append(out, k)
	}
	return out
}

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

func (c *Call) pads() []int64 {
	r := len(c.types[0].Shape)
	v, _ := c.constInts(1, "pads")
	axes, ok := c.constInts(3, "axes")
	if !ok {
		axes = axesFrom(0, c.types[0])
	}
	c.failIf(len(v) != 2*len(axes), "%d pads for %d axes", len(v), len(axes))
	out := make([]int64, 2*r)
	for i, a := range axes {
		n := normal(a, r)
		out[n], out[int64(r)+n] = v[i], v[len(axes)+i]
	}
	return out
}

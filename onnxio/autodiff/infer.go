package autodiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// errVariable marks what inference cannot know of a sound node: it depends on
// values that are known only when the model runs.
var errVariable = errors.New("not constant")

type inference func(c *Call) []graph.Type

// Infer fills types with the types of all values of g that follow, by the table's inference, from the types given and
// from those that g declares for inputs and initializers. Entries that are there already are kept. The error names
// every node whose output types could not be found.
func Infer(g *graph.Graph, types graph.Types) error {
	b := newBuilder(g, types, "")
	err := errors.Join(lists.Map(g.Nodes, b.complete)...)
	maps.Copy(types, b.types)
	return err
}

func (b *gradientBuilder) complete(n *graph.Node) error {
	for _, o := range n.Outputs {
		if _, ok := b.types[o]; o != "" && !ok {
			return b.infer(n)
		}
	}
	return nil
}

func (b *gradientBuilder) infer(n *graph.Node) error {
	op := b.table[key(n)]
	if op == nil {
		return fmt.Errorf("%s: the type of its output is not known", n.Label())
	}
	for _, name := range n.Inputs {
		if _, ok := b.types[name]; name != "" && !ok {
			return fmt.Errorf("%s: the type of its input %q is not known", n.Label(), name)
		}
	}
	out, err := op.types(b.call(n))
	if err != nil {
		return fmt.Errorf("%s: %w", n.Label(), err)
	}
	for i, o := range n.Outputs {
		if _, known := b.types[o]; o != "" && !known && i < len(out) {
			b.types[o] = out[i]
		}
	}
	return nil
}

func like(c *Call) []graph.Type {
	return []graph.Type{c.types[0]}
}

func elementwise(c *Call) []graph.Type {
	t := c.types[0]
	for i, u := range c.types[1:] {
		if c.Node.Input(i+1) != "" {
			t.Shape = broadcast(t.Shape, u.Shape)
		}
	}
	return []graph.Type{t}
}

// elements is what is known about an integer value: a Shape node's output has
// symbolic elements, and is then not constant. A constant may hold -1 as a number.
type elements struct {
	dims     graph.Shape
	constant bool
}

func (c *Call) ints(i int) (elements, bool) { return c.b.ints(c.Node.Input(i)) }

func (b *gradientBuilder) ints(name string) (elements, bool) {
	steps := 256 // nodes that are looked at
	return b.follow(name, &steps)
}

func (b *gradientBuilder) follow(name string, steps *int) (elements, bool) {
	if t := b.inits[name]; t != nil {
		return tensorInts(t)
	}
	n := b.made[name]
	if *steps--; n == nil || *steps < 0 {
		return elements{}, false
	}
	get := func(i int) (elements, bool) { return b.follow(n.Input(i), steps) }
	switch key(n) {
	case "Shape":
		if t, ok := b.types[n.Input(0)]; ok {
			from, to := shapeRange(n, len(t.Shape))
			return elements{t.Shape[from:to], fixed(t.Shape[from:to])}, true
		}
	case "Size":
		if t, ok := b.types[n.Input(0)]; ok {
			d := t.Shape.Elements()
			return elements{graph.Shape{d}, d.Size >= 0}, true
		}
	case "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape":
		return get(0)
	case "Concat":
		all := elements{constant: true}
		for i := range n.Inputs {
			e, ok := get(i)
			if !ok {
				return elements{}, false
			}
			all = elements{append(all.dims, e.dims...), all.constant && e.constant}
		}
		return all, true
	case "Not":
		if x, ok := get(0); ok {
			return computed(n, x, elements{graph.Fixed(0), true})
		}
	case "Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or":
		x, ok1 := get(0)
		y, ok2 := get(1)
		if ok1 && ok2 {
			return computed(n, x, y)
		}
	case "Slice":
		from, ok := get(0)
		if !ok {
			return elements{}, false
		}
		c := b.call(n)
		c.types = single(graph.Int64, graph.Fixed(int64(len(from.dims))))
		var cuts []cut
		if attempt(func() { cuts = c.cuts() }) != nil || len(cuts) > 1 {
			return elements{}, false
		}
		for _, k := range cuts {
			from.dims = lists.Make(int(k.count), func(i int) graph.Dim { return from.dims[k.start+int64(i)*k.step] })
			from.constant = from.constant || fixed(from.dims)
		}
		return from, true
	case "Gather":
		from, ok := get(0)
		at, known := get(1)
		if !ok || !known || !at.constant {
			return elements{}, false
		}
		out := elements{}
		for _, d := range at.dims {
			if d.Size < 0 {
				d.Size += int64(len(from.dims))
			}
			if d.Size < 0 || d.Size >= int64(len(from.dims)) {
				return elements{}, false
			}
			out.dims = append(out.dims, from.dims[d.Size])
		}
		out.constant = from.constant || fixed(out.dims)
		return out, true
	}
	return elements{}, false
}

func computed(n *graph.Node, x, y elements) (elements, bool) {
	size := max(len(x.dims), len(y.dims))
	if len(x.dims) != size && len(x.dims) != 1 || len(y.dims) != size && len(y.dims) != 1 || size == 0 {
		return elements{}, false
	}
	out := elements{constant: true}
	for i := range size {
		a, b := x.dims[i%len(x.dims)], y.dims[i%len(y.dims)]
		d, known := graph.Dim{Size: -1}, (x.constant || a.Size >= 0) && (y.constant || b.Size >= 0)
		switch {
		case b == one() && (n.Op == "Mul" || n.Op == "Div"):
			d = a
		case !known:
		case b.Size == 0 && (n.Op == "Div" || n.Op == "Mod"),
			n.Op == "Mod" && n.Int("fmod", 0) == 0 && (a.Size < 0 || b.Size < 0):
			known = false
		default:
			d.Size = operation(n.Op, a.Size, b.Size)
		}
		out.constant = out.constant && known
		out.dims = append(out.dims, d)
	}
	for i, d := range out.dims {
		if !out.constant && d.Size < 0 { // it would look like a size that is known
			out.dims[i].Size = -1
		}
	}
	return out, true
}

func operation(op string, a, b int64) int64 {
	holds := false
	switch op {
	case "Add":
		return a + b
	case "Sub":
		return a - b
	case "Mul":
		return a * b
	case "Div":
		return a / b
	case "Mod":
		return a % b
	case "Equal", "Not":
		holds = a == b
	case "Less":
		holds = a < b
	case "LessOrEqual":
		holds = a <= b
	case "Greater":
		holds = a > b
	case "GreaterOrEqual":
		holds = a >= b
	case "And":
		holds = a != 0 && b != 0
	case "Or":
		holds = a != 0 || b != 0
	}
	if holds {
		return 1
	}
	return 0
}

func tensorInts(t *graph.Tensor) (elements, bool) {
	if t.DType.IsFloat() || len(t.Dims) > 1 {
		return elements{}, false
	}
	v, err := t.Ints()
	if err != nil {
		return elements{}, false
	}
	return elements{graph.Fixed(v...), true}, true
}

// constInts returns the constant integers that input i or, in older operator
// sets, the attribute holds; ok is false when both are absent.
func (c *Call) constInts(i int, attr string) (v []int64, ok bool) {
	if a := c.Node.Attr(attr); a != nil {
		return a.Ints, true
	}
	if c.Node.Input(i) == "" {
		return nil, false
	}
	e, known := c.ints(i)
	c.failIf(!known || !e.constant, "%s (input %q) is %w", attr, c.Node.Input(i), errVariable)
	return sizes(e.dims), true
}

func shapeRange(n *graph.Node, rank int) (from, to int) {
	clamp := func(v int64) int {
		if v < 0 {
			v += int64(rank)
		}
		return int(min(max(v, 0), int64(rank)))
	}
	from, to = clamp(n.Int("start", 0)), clamp(n.Int("end", int64(rank)))
	return from, max(from, to)
}

func replaced(s graph.Shape, axis int64, d graph.Dim) graph.Shape {
	out := slices.Clone(s)
	out[axis] = d
	return out
}

func fixed(s graph.Shape) bool {
	return !slices.ContainsFunc(s, func(d graph.Dim) bool { return d.Size < 0 })
}

func sizes(s graph.Shape) []int64 { return lists.Map(s, func(d graph.Dim) int64 { return d.Size }) }

func sameDim(a, b graph.Dim) bool {
	return a.Size == b.Size && (a.Size >= 0 || a.Param == b.Param)
}

func sameShape(a, b graph.Shape) bool { return slices.EqualFunc(a, b, sameDim) }

func one() graph.Dim { return graph.Dim{Size: 1} }

func broadcast(a, b graph.Shape) graph.Shape {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	lead := len(a) - len(b)
	for i, d := range b {
		e := out[lead+i]
		switch {
		case sameDim(d, e) || sameDim(d, one()):
		case sameDim(e, one()) || (e.Size < 0 && d.Size >= 0):
			out[lead+i] = d
		case d.Size < 0 && e.Size >= 0:
		case d.Size < 0 && e.Size < 0 && (d.Param == "" || e.Param == ""):
			out[lead+i] = graph.Dim{Size: -1}
		case d.Size < 0:
			panic(failf("whether the sizes %s and %s of axis %d are equal is %w", d, e, lead+i, errVariable))
		default:
			panic(failf("sizes %s and %s of axis %d do not broadcast", d, e, lead+i))
		}
	}
	return out
}

func normal(axis int64, r int) int64 {
	if axis < 0 {
		axis += int64(r)
	}
	if axis < 0 || axis >= int64(r) {
		panic(failf("axis %d of a value of rank %d", axis, r))
	}
	return axis
}

func normals(axes []int64, r int) []int64 {
	out := lists.Map(axes, func(a int64) int64 { return normal(a, r) })
	slices.Sort(out)
	return slices.Compact(out)
}

func axesFrom(first int64, t graph.Type) []int64 {
	return lists.Make(max(0, len(t.Shape)-int(first)), func(i int) int64 { return first + int64(i) })
}

// Integers returns the elements of a boolean or integer value of rank 0 or 1 of g, as far as constants and the sizes in
// types decide them: the fixed ones of a Shape, what is gathered, cut and joined of them, and what they compare as.
func Integers(g *graph.Graph, types graph.Types, value string) (elements []int64, known bool) {
	e, ok := newBuilder(g, types, "").ints(value)
	return sizes(e.dims), ok && e.constant
}

func typeOf(t *graph.Tensor) graph.Type {
	return graph.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
}

func single(t graph.DType, s graph.Shape) []graph.Type { return []graph.Type{{DType: t, Shape: s}} }

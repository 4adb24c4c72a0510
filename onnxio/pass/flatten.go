package pass

import (
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// flattener gives products of values of any rank with stored weights the form of a layer. A product over the last axes
// of a value computes with each vector along them by itself, so it is
//
//	Reshape to [-1, D] -> Gemm -> Reshape back
//
// and everything that knows dense layers knows it. Where other axes are summed, as with weights on the left, a
// Transpose puts them last. ONNX Runtime computes the product with a matrix in one call, too, and a Reshape copies
// nothing.
//
// What is computed element by element behind the layer goes in front of the second Reshape: there biases fold into the
// layer, activations fuse with it, and where another layer follows, the two Reshapes between go away.
type flattener struct {
	*canonicalizer
	backs map[*graph.Node]bool // the Reshapes behind layers, all from [-1, E] to [..., E]
}

func (r *canonicalizer) flatten() {
	f := &flattener{canonicalizer: r, backs: map[*graph.Node]bool{}}
	for _, n := range slices.Clone(r.G.Nodes) {
		f.contract(n)
	}
	r.Repeat(f.sink)
	r.Repeat(func(n *graph.Node) bool { // two Reshapes of which one undoes the other go away
		back, to := f.Producers[n.Input(0)], f.Inits[n.Input(1)]
		if !n.Is("Reshape") || f.backs[n] || back == nil || !f.backs[back] || to == nil {
			return false
		}
		from := f.Types[back.Input(0)].Shape
		v, err := to.Ints()
		if err != nil || len(from) != 2 || from[1].Size < 1 || !slices.Equal(v, []int64{-1, from[1].Size}) {
			return false
		}
		n.Inputs[0] = back.Input(0)
		return f.Bypass(n)
	})
	r.Repeat(func(n *graph.Node) bool { // what nothing reads any more goes away
		if !f.backs[n] || len(f.Consumers[n.Outputs[0]]) > 0 || f.G.IsOutput(n.Outputs[0]) {
			return false
		}
		f.Forget(n.Outputs[0])
		f.Remove(n)
		return true
	})
}

// contract makes a layer of n where it is a product of stored weights with a value: a dense one or, where places of the
// value have matrices of their own, a convolution with a group for each place and a kernel of one number.
func (f *flattener) contract(n *graph.Node) {
	side := 1 // of the weights
	if f.Float(n.Input(1)) == nil {
		side = 0
	}
	value, w := n.Input(1-side), f.Float(n.Input(side))
	shape := f.Types[value].Shape
	if len(n.Inputs) != 2 || w == nil || w.Len() == 0 || len(shape) == 0 || f.Inits[value] != nil {
		return
	}
	a := axesOf(n, side, shape, w.Dims)
	rows, places := a.each, "" // a convolution has the batch as rows, and the other axes as places
	if a.per != "" && rows != "" {
		k := max(0, strings.IndexFunc(rows, func(l rune) bool { return a.sizes[l].Size < 0 }))
		rows, places = rows[k:k+1], rows[:k]+rows[k+1:]
	}
	given, made := rows+a.per+a.summed+places, rows+a.per+a.out+places
	to, ok := sizesOf(a.shape(made))
	v, err := w.Doubles()
	batch := a.shape(rows).Elements()
	if _, times := batch.Multiple(); rows == "" || !ok || err != nil || a.per != "" && times > 1 {
		return
	}
	in, out, groups := a.shape(a.summed).Elements(), a.shape(a.out).Elements(), a.shape(a.per).Elements().Size
	dims, takes, gives := []int64{groups * out.Size, in.Size}, graph.Shape{batch, {Size: groups * in.Size}},
		graph.Shape{batch, {Size: groups * out.Size}}
	n.Op, n.Attrs = "Gemm", []graph.Attr{graph.IntAttr("transB", 1)}
	if a.per != "" {
		size := a.shape(places).Elements()
		dims, takes, gives = append(dims, 1), append(takes, size), append(gives, size)
		n.Op, n.Attrs = "Conv", []graph.Attr{graph.IntAttr("group", groups)}
	}
	f.Retire(w.Name)
	n.Inputs = []string{value, f.numbers("w", permuted(v, a.dims, order(a.w, a.per+a.out+a.summed)), dims...)}
	if perm := order(a.x, given); !slices.IsSorted(perm) {
		f.before(n, &graph.Node{Op: "Transpose", Attrs: []graph.Attr{graph.IntsAttr("perm", perm...)}}, a.shape(given))
	}
	if perm := order(made, a.y); !slices.IsSorted(perm) {
		f.after(n, &graph.Node{Op: "Transpose", Attrs: []graph.Attr{graph.IntsAttr("perm", perm...)}}, a.shape(made))
	}
	if len(takes) > 2 || len(a.x) != 2 || len(rows) != 1 {
		split, _ := sizesOf(takes)
		f.before(n, &graph.Node{Op: "Reshape", Inputs: []string{f.shape(append([]int64{-1}, split[1:]...))}}, takes)
	}
	if len(gives) > 2 || len(to) != 2 || len(rows) != 1 {
		f.behind(n, to, gives)
	}
}

// before puts a node in front of n, and after one behind it; the value between the two has this shape.
func (f *flattener) before(n, add *graph.Node, shape graph.Shape) {
	name := f.Name("r")
	f.Types[name] = graph.Type{DType: graph.Float, Shape: shape}
	add.Inputs, add.Outputs = append([]string{n.Inputs[0]}, add.Inputs...), []string{name}
	f.Insert(n, add)
	n.Inputs[0] = name
}

func (f *flattener) after(n, add *graph.Node, shape graph.Shape) {
	name := f.Name("y")
	f.Types[name] = graph.Type{DType: graph.Float, Shape: shape}
	add.Inputs, add.Outputs, n.Outputs = append([]string{name}, add.Inputs...), n.Outputs, []string{name}
	f.InsertAfter(n, add)
}

// productAxes are the axes of a product by letters: of the value x, the weights w without those repeated along the
// value's, and the result y; and by their use: per place there is a matrix of its own, and the weights add out.
type productAxes struct {
	x, w, y, each, per, summed, out string
	sizes                           map[rune]graph.Dim
	dims                            []int64 // of w
}

func (a *productAxes) shape(letters string) graph.Shape {
	return lists.Map([]rune(letters), func(l rune) graph.Dim { return a.sizes[l] })
}

func order(from, to string) []int64 {
	return lists.Map([]rune(to), func(l rune) int64 { return int64(strings.IndexRune(from, l)) })
}

// axesOf describes the product n, of which input side is weights of these dims; there is no axis of other products.
func axesOf(n *graph.Node, side int, value graph.Shape, dims []int64) (none productAxes) {
	ranks := []int{len(value), len(value)}
	ranks[side] = len(dims)
	equation := &graph.Node{Inputs: n.Inputs, Attrs: []graph.Attr{graph.StringAttr("equation", "...ij,...jk->...ik")}}
	switch {
	case n.Is("Einsum"):
		equation = n
	case !n.Is("MatMul") || slices.Min(ranks) < 2 || side == 1 && slices.Max(ranks) == 2: // or a dense layer as it is
		return none
	}
	in, y, err := autodiff.Equation(equation, ranks...)
	if err != nil {
		return none
	}
	a := productAxes{x: in[1-side], y: y, sizes: map[rune]graph.Dim{}}
	for i, l := range a.x {
		a.sizes[l] = value[i]
	}
	for i, l := range in[side] {
		switch have, both := a.sizes[l]; {
		case both && dims[i] == 1 && strings.ContainsRune(y, l):
			continue
		case both && have.Size != dims[i]:
			return none
		}
		a.w, a.dims, a.sizes[l] = a.w+string(l), append(a.dims, dims[i]), graph.Dim{Size: dims[i]}
	}
	kept := among(a.x, y, true)
	a.each, a.per, a.summed, a.out = among(kept, a.w, false), among(kept, a.w, true),
		among(among(a.x, y, false), a.w, true), among(y, a.x, false)
	whole := len(kept+a.summed) == len(a.x) && len(a.per+a.summed+a.out) == len(a.w)
	if !whole || a.summed+a.out == "" {
		return none
	}
	return a
}

func among(letters, others string, in bool) string {
	return strings.Map(func(l rune) rune {
		if strings.ContainsRune(others, l) == in {
			return l
		}
		return -1
	}, letters)
}

func (f *flattener) shape(v []int64) string {
	for _, t := range f.G.Inits {
		if t.DType == graph.Int64 && len(t.Dims) == 1 {
			if have, err := t.Ints(); err == nil && slices.Equal(have, v) {
				return t.Name
			}
		}
	}
	name := f.Const(graph.FromInts("n", v, int64(len(v))))
	f.Retire(name)
	return name
}

func (f *flattener) behind(n *graph.Node, to []int64, flat graph.Shape) {
	back := &graph.Node{Op: "Reshape", Inputs: []string{f.shape(to)}}
	f.backs[back] = len(flat) == 2 // what follows a convolution stays behind it
	f.after(n, back, flat)
}

func sizesOf(s graph.Shape) ([]int64, bool) {
	out, free := make([]int64, len(s)), 0
	for i, d := range s {
		if out[i] = d.Size; d.Size < 0 {
			out[i] = -1
			free++
		} else if d.Size == 0 {
			return nil, false
		}
	}
	return out, free < 2
}

func (f *flattener) sink(n *graph.Node) bool {
	if !n.Standard() || !slices.Contains(elementwise(), n.Op) || len(n.Outputs) != 1 {
		return false
	}
	shape := f.Types[n.Outputs[0]].Shape
	to, ok := sizesOf(shape)
	if !ok || len(to) < 2 || n.Outputs[0] == "" {
		return false
	}
	last := len(to) - 1
	inputs, constants := slices.Clone(n.Inputs), []int(nil)
	var flat graph.Shape
	for i, in := range n.Inputs {
		back := f.Producers[in]
		switch {
		case in == "":
		case f.Inits[in] != nil:
			constants = append(constants, i)
		case back == nil || !f.backs[back] || len(f.Types[in].Shape) != len(to) ||
			!slices.Equal(f.Types[in].Shape[:last], shape[:last]) ||
			flat != nil && !slices.Equal(flat, f.Types[back.Input(0)].Shape):
			return false
		default:
			inputs[i], flat = back.Input(0), f.Types[back.Input(0)].Shape
		}
	}
	if flat == nil || slices.ContainsFunc(constants, func(i int) bool {
		along := trimmed(f.Inits[n.Inputs[i]].Dims)
		return len(along) > 0 &&
			(graph.Fixed(along...).Elements() != flat[1] || !slices.Equal(along, to[len(to)-len(along):]))
	}) {
		return false
	}
	for _, i := range constants {
		if c := *f.Inits[n.Inputs[i]]; len(c.Dims) > 2 || len(trimmed(c.Dims)) > 1 {
			c.Name, c.Dims = "c", []int64{int64(c.Len())}
			inputs[i] = f.Const(&c)
			f.Retire(n.Inputs[i])
		}
	}
	n.Inputs = inputs
	f.behind(n, to, slices.Clone(flat))
	return true
}

func trimmed(dims []int64) []int64 {
	for len(dims) > 0 && dims[0] == 1 {
		dims = dims[1:]
	}
	return dims
}

func elementwise() []string {
	return []string{
		"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
		"Softplus", "Softsign", "Mish", "Gelu", "Swish", "Erf", "Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Clip",
		"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max",
	}
}

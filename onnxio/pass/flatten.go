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
// and everything that knows dense layers knows it. A product with matrices for each place, and one with the weights on
// the left, stays as it is. ONNX Runtime computes the product of a value of any rank with a
// matrix in one call, too, and a Reshape copies nothing.
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

// contract makes a dense layer of n where it is a product of stored weights with a value, over the value's last axes.
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
	rows, dims, perm := productAxes(n, side, shape, w.Dims)
	sizes := graph.Fixed(lists.Map(perm, func(i int64) int64 { return dims[i] })...)
	summed := len(shape) - rows
	if len(sizes) < summed || !slices.Equal(shape[rows:], sizes[:summed]) {
		return
	}
	to, ok := sizesOf(slices.Concat(shape[:rows], sizes[summed:]))
	v, err := w.Doubles()
	if !ok || err != nil {
		return
	}
	batch, in, out := shape[:rows].Elements(), sizes[:summed].Elements(), sizes[summed:].Elements()
	f.Retire(w.Name)
	n.Op, n.Attrs = "MatMul", nil
	n.Inputs = []string{value, f.numbers("w", permuted(v, dims, perm), in.Size, out.Size)}
	if rows != 1 || summed != 1 {
		flat := f.Name("r")
		f.Types[flat] = graph.Type{DType: graph.Float, Shape: graph.Shape{batch, in}}
		shape := f.shape([]int64{-1, in.Size})
		f.Insert(n, &graph.Node{Op: "Reshape", Inputs: []string{value, shape}, Outputs: []string{flat}})
		n.Inputs[0] = flat
	}
	if len(to) != 2 || rows != 1 {
		f.behind(n, to, graph.Shape{batch, out})
	}
}

// productAxes describes the product n, of which input side is weights of these dims, where the value's axes that the
// result has come before those that are summed, and those that the weights add come last. It returns the number of the
// former, the weights' dims without those that are repeated, and the order that puts the summed ones first.
func productAxes(n *graph.Node, side int, value graph.Shape, dims []int64) (rows int, weights, perm []int64) {
	ranks := []int{len(value), len(value)}
	ranks[side] = len(dims)
	equation := &graph.Node{Inputs: n.Inputs, Attrs: []graph.Attr{graph.StringAttr("equation", "...ij,...jk->...ik")}}
	switch {
	case n.Is("Einsum"):
		equation = n
	case !n.Is("MatMul") || slices.Min(ranks) < 2 || slices.Max(ranks) == 2: // or a dense layer as it is
		return 0, nil, nil
	}
	in, y, err := autodiff.Equation(equation, ranks...)
	if err != nil {
		return 0, nil, nil
	}
	x, letters := in[1-side], ""
	for i, l := range in[side] {
		if repeated := dims[i] == 1 && strings.ContainsRune(x, l) && strings.ContainsRune(y, l); !repeated {
			letters, weights = letters+string(l), append(weights, dims[i])
		}
	}
	kept := strings.TrimRight(x, letters)
	added, follows := strings.CutPrefix(y, kept)
	for _, l := range x[len(kept):] + added {
		perm = append(perm, int64(strings.IndexRune(letters, l)))
	}
	other := !follows || strings.ContainsAny(added, x) || slices.Contains(perm, -1)
	if other || kept == "" || len(perm) != len(weights) {
		return 0, nil, nil
	}
	return len(kept), weights, perm
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
	y := n.Outputs[0]
	n.Outputs = []string{f.Name("y")}
	f.Types[n.Outputs[0]] = graph.Type{DType: graph.Float, Shape: flat}
	back := &graph.Node{Op: "Reshape", Inputs: []string{n.Outputs[0], f.shape(to)}, Outputs: []string{y}}
	f.backs[back] = true
	f.InsertAfter(n, back)
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

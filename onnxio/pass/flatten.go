package pass

import (
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// flattener gives products of values of any rank with stored weights the form of a layer, see contract. A product with
// [D, E] computes with each vector along the last axis by itself, so it is
//
//	Reshape to [-1, D] -> Gemm -> Reshape back
//
// and everything that knows dense layers knows it. ONNX Runtime computes the product of a value of any rank with a
// matrix in one call, too, and a Reshape copies nothing.
//
// What is computed element by element behind the layer goes in front of the second Reshape: there biases fold into the
// layer, activations fuse with it, and where another layer follows, the two Reshapes between go away.
type flattener struct {
	*canonicalizer
	backs map[*graph.Node]bool // the Reshapes behind layers, all from [-1, E] to [..., E]
	turns map[*graph.Node]bool // the Transposes around layers
}

func (r *canonicalizer) flatten() {
	f := &flattener{canonicalizer: r, backs: map[*graph.Node]bool{}, turns: map[*graph.Node]bool{}}
	for _, n := range slices.Clone(r.G.Nodes) {
		f.contract(n)
	}
	r.Index()
	r.Repeat(func(n *graph.Node) bool { // two Transposes become one
		first := f.Producers[n.Input(0)]
		if !n.Is("Transpose") || first == nil || !first.Is("Transpose") || !f.turns[n] && !f.turns[first] {
			return false
		}
		a, b := first.Ints("perm"), n.Ints("perm")
		if len(a) != len(b) || len(a) == 0 {
			return false
		}
		f.turns[n], f.turns[first] = true, true // one that nothing reads any more goes away
		perm := lists.Map(b, func(k int64) int64 { return a[k] })
		n.Inputs[0] = first.Input(0)
		if slices.IsSorted(perm) && f.Bypass(n) {
			return true
		}
		n.Attrs = []graph.Attr{graph.IntsAttr("perm", perm...)}
		return true
	})
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
		if !f.backs[n] && !f.turns[n] || len(f.Consumers[n.Outputs[0]]) > 0 || f.G.IsOutput(n.Outputs[0]) {
			return false
		}
		f.Forget(n.Outputs[0])
		f.Remove(n)
		return true
	})
}

func (f *flattener) front(n *graph.Node, to []int64, shape graph.Shape) {
	flat := f.reshape(n.Inputs[0], to, shape)
	f.Insert(n, flat)
	n.Inputs[0] = flat.Outputs[0]
}

func (f *flattener) reshape(value string, to []int64, shape graph.Shape) *graph.Node {
	out := f.Name("r")
	f.Types[out] = graph.Type{DType: graph.Float, Shape: shape}
	return &graph.Node{Op: "Reshape", Inputs: []string{value, f.shape(to)}, Outputs: []string{out}}
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
	inputs, constants := slices.Clone(n.Inputs), map[int][]int64{}
	var flat graph.Shape
	for i, in := range n.Inputs {
		if in == "" {
			continue
		}
		back := f.Producers[in]
		switch t := f.Inits[in]; {
		case t != nil:
			if !alongLast(t.Dims, to[last]) {
				return false
			}
			constants[i] = t.Dims
		case back == nil || !f.backs[back] || len(f.Types[in].Shape) != len(to) ||
			!slices.Equal(f.Types[in].Shape[:last], shape[:last]) ||
			flat != nil && !slices.Equal(flat, f.Types[back.Input(0)].Shape):
			return false
		default:
			inputs[i], flat = back.Input(0), f.Types[back.Input(0)].Shape
		}
	}
	if flat == nil {
		return false
	}
	for i := range constants {
		if flat[1].Size != to[last] && f.Inits[n.Inputs[i]].Len() != 1 { // several axes are one here
			return false
		}
	}
	for i, dims := range constants {
		if len(dims) > 2 {
			c := *f.Inits[n.Inputs[i]]
			c.Name, c.Dims = "c", dims[len(dims)-1:]
			inputs[i] = f.Const(&c)
			f.Retire(n.Inputs[i])
		}
	}
	n.Inputs = inputs
	f.behind(n, to, slices.Clone(flat))
	return true
}

func alongLast(dims []int64, last int64) bool {
	for i, d := range dims {
		if d != 1 && (i < len(dims)-1 || d != last) {
			return false
		}
	}
	return true
}

func elementwise() []string {
	return []string{
		"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
		"Softplus", "Softsign", "Mish", "Gelu", "Swish", "Erf", "Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Clip",
		"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max",
	}
}

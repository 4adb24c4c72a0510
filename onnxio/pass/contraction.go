package pass

import (
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// contraction is the product of a value with stored weights, as the letters of their axes describe it: the factors are
// multiplied along axes of one letter, and summed where the result does not have it.
type contraction struct {
	x, w, y string // of the value, the weights and the result
	sizes   map[rune]graph.Dim
	value   string
	weights *graph.Tensor
	// The axes by their use: along each, the product is repeated; for every place of per there is a matrix of its own;
	// summed are those of a sum, and out are those that the weights add.
	each, per, summed, out string
}

// once stands for an axis of size 1 that is repeated along a longer one of the other factor.
const once = '1'

func (f *flattener) contraction(n *graph.Node) *contraction {
	if len(n.Inputs) != 2 || !n.Is("MatMul") && !n.Is("Einsum") {
		return nil
	}
	side := 1
	if f.Float(n.Input(1)) == nil {
		side = 0
	}
	c := &contraction{value: n.Input(1 - side), weights: f.Float(n.Input(side))}
	c.sizes = map[rune]graph.Dim{once: {Size: 1}}
	shape := f.Types[c.value].Shape
	if c.weights == nil || c.weights.Len() == 0 || len(shape) == 0 || f.Inits[c.value] != nil {
		return nil
	}
	ranks := []int{len(shape), len(shape)}
	ranks[side] = len(c.weights.Dims)
	equation := n
	if n.Is("MatMul") {
		if min(ranks[0], ranks[1]) < 2 || side == 1 && max(ranks[0], ranks[1]) == 2 {
			return nil // a dense layer as it is
		}
		equation = &graph.Node{Inputs: n.Inputs, Attrs: []graph.Attr{graph.StringAttr("equation", "...ij,...jk->...ik")}}
	}
	in, y, err := autodiff.Equation(equation, ranks...)
	if err != nil {
		return nil
	}
	c.x, c.w, c.y = in[1-side], in[side], y
	if !c.fits(shape) || !c.sort() {
		return nil
	}
	return c
}

func (c *contraction) fits(shape graph.Shape) bool {
	var w strings.Builder
	for i, l := range c.w {
		k := strings.IndexRune(c.x, l)
		if k >= 0 && c.weights.Dims[i] == 1 && shape[k].Size != 1 {
			continue
		}
		w.WriteRune(l)
		c.sizes[l] = graph.Dim{Size: c.weights.Dims[i]}
	}
	c.w = w.String()
	for i, l := range c.x {
		size, both := c.sizes[l]
		switch {
		case !both:
			c.sizes[l] = shape[i]
		case shape[i].Size == 1 && size.Size != 1:
			c.x = strings.Replace(c.x, string(l), string(once), 1)
		case shape[i].Size != size.Size:
			return false
		}
	}
	return true
}

// sort sorts the axes by their use. It is false where one that a single factor has is summed, where factors are only
// multiplied element by element, and where another size than that of the batch is not known.
func (c *contraction) sort() bool {
	unknown := 0
	for _, l := range c.x {
		inW, inY := strings.ContainsRune(c.w, l), strings.ContainsRune(c.y, l)
		switch {
		case l == once:
			continue
		case inW && inY:
			c.per += string(l)
		case inW:
			c.summed += string(l)
		case !inY:
			return false
		case c.sizes[l].Size < 0: // the batch comes first
			c.each = string(l) + c.each
			unknown++
		default:
			c.each += string(l)
		}
		if c.sizes[l].Size == 0 {
			return false
		}
	}
	for _, l := range c.w {
		if !strings.ContainsRune(c.x, l) {
			c.out += string(l)
			if !strings.ContainsRune(c.y, l) {
				return false
			}
		}
	}
	return unknown < 2 && c.summed+c.out != ""
}

func (c *contraction) shape(letters string) graph.Shape {
	return lists.Map([]rune(letters), func(l rune) graph.Dim { return c.sizes[l] })
}

func (c *contraction) count(letters string) int64 { return Elements(c.shape(letters)).Size }

func order(from, to string) []int64 {
	if from == to {
		return nil
	}
	perm := make([]int64, 0, len(to))
	used := map[int]bool{}
	for _, l := range to {
		i := strings.IndexRune(from, l)
		for used[i] { // axes of size 1 share their letter
			i += 1 + strings.IndexRune(from[i+1:], l)
		}
		used[i] = true
		perm = append(perm, int64(i))
	}
	return perm
}

func (c *contraction) stored(letters string) ([]float64, error) {
	v, err := c.weights.Doubles()
	if err != nil {
		return nil, err
	}
	return c.reordered(v, c.w, letters), nil
}

func (c *contraction) reordered(v []float64, from, to string) []float64 {
	perm := order(from, to)
	if perm == nil {
		return v
	}
	return permuted(v, lists.Map(c.shape(from), func(d graph.Dim) int64 { return d.Size }), perm)
}

// contract gives the product n of a value and stored weights the form of a layer. One matrix for all places is a dense
// layer. Where places have matrices of their own, it is a convolution with a group for each place and a kernel of one
// number: a group of channels is multiplied by its own matrix.
func (f *flattener) contract(n *graph.Node) {
	c := f.contraction(n)
	if c == nil {
		return
	}
	ones := strings.Repeat(string(once), strings.Count(c.x, string(once)))
	if c.per == "" {
		f.dense(n, c, ones+c.each+c.summed)
		return
	}
	batch, rest := "", ""
	if c.each != "" {
		batch, rest = c.each[:1], c.each[1:]
	}
	f.grouped(n, c, ones+batch+c.per+c.summed+rest, batch+c.per+c.out+rest)
}

func (f *flattener) dense(n *graph.Node, c *contraction, x string) {
	back, ok := sizesOf(c.shape(c.each + c.out))
	v, err := c.stored(c.summed + c.out)
	if !ok || err != nil {
		return
	}
	in, out := c.count(c.summed), c.count(c.out)
	var bias []float64
	if len(c.out) != 1 { // that of a single axis folds into every dense layer
		bias = f.bias(n, c)
	}
	f.turn(n, c, x, c.each+c.out)
	n.Op, n.Attrs = "MatMul", nil
	n.Inputs = append(n.Inputs, f.numbers("w", v, in, out))
	if bias != nil {
		n.Op, n.Inputs = "Gemm", append(n.Inputs, f.numbers("b", bias, out))
	}
	rows := Elements(c.shape(c.each))
	if len(c.x) != 2 || len(c.each) != 1 {
		f.front(n, []int64{-1, in}, graph.Shape{rows, {Size: in}})
	}
	if len(c.each) != 1 || len(c.out) != 1 {
		f.behind(n, back, graph.Shape{rows, {Size: out}})
	}
}

func (f *flattener) grouped(n *graph.Node, c *contraction, x, y string) {
	batch := c.shape(y)[0]
	back, ok := sizesOf(c.shape(y))
	v, err := c.stored(c.per + c.out + c.summed)
	if _, times := Multiple(batch); !ok || err != nil || batch.Size < 0 && times > 1 {
		return
	}
	groups, in, out := c.count(c.per), c.count(c.summed), c.count(c.out)
	places := c.count(c.each[min(1, len(c.each)):])
	bias := f.bias(n, c)
	f.turn(n, c, x, y)
	f.front(n, []int64{-1, groups * in, places}, graph.Shape{batch, {Size: groups * in}, {Size: places}})
	n.Op, n.Attrs = "Conv", []graph.Attr{graph.IntAttr("group", groups)}
	n.Inputs = append(n.Inputs, f.numbers("w", v, groups*out, in, 1))
	if bias != nil {
		n.Inputs = append(n.Inputs, f.numbers("b", bias, groups*out))
	}
	unfold := f.reshape(f.Name("y"), back, c.shape(y))
	n.Outputs, unfold.Outputs = slices.Clone(unfold.Inputs[:1]), n.Outputs
	f.InsertAfter(n, unfold)
}

func (f *flattener) turn(n *graph.Node, c *contraction, x, y string) {
	f.Retire(n.Inputs...)
	n.Inputs = []string{c.value}
	if perm := order(y, c.y); perm != nil {
		back := f.transpose(f.Name("t"), perm)
		n.Outputs, back.Outputs = slices.Clone(back.Inputs), n.Outputs
		f.Types[n.Outputs[0]] = graph.Type{DType: graph.Float, Shape: c.shape(y)}
		f.InsertAfter(n, back)
	}
	if perm := order(c.x, x); perm != nil {
		t := f.transpose(c.value, perm)
		n.Inputs = slices.Clone(t.Outputs)
		f.Types[n.Inputs[0]] = graph.Type{DType: graph.Float, Shape: c.shape(x)}
		f.Insert(n, t)
	}
}

func (f *flattener) transpose(value string, perm []int64) *graph.Node {
	n := &graph.Node{
		Op: "Transpose", Inputs: []string{value}, Outputs: []string{f.Name("t")},
		Attrs: []graph.Attr{graph.IntsAttr("perm", perm...)},
	}
	f.turns[n] = true
	return n
}

// bias takes the constant that alone is added to the result of n, one number for each of the weights' own axes, in the
// order of the layer's outputs; nil where there is none.
func (f *flattener) bias(n *graph.Node, c *contraction) []float64 {
	y := n.Outputs[0]
	readers := f.Consumers[y]
	if len(readers) != 1 || f.G.IsOutput(y) || !readers[0].Is("Add") || readers[0].Input(0) == readers[0].Input(1) {
		return nil
	}
	add := readers[0]
	b := f.Float(add.Inputs[1-slices.Index(add.Inputs, y)])
	if b == nil || len(b.Dims) > len(c.y) {
		return nil
	}
	axes, letters, repeated := c.per+c.out, "", ""
	for i, l := range c.y[len(c.y)-len(b.Dims):] {
		switch d := b.Dims[i]; {
		case d == c.sizes[l].Size && strings.ContainsRune(axes, l):
			letters += string(l)
		case d != 1:
			return nil
		}
	}
	v, err := b.Doubles()
	if err != nil {
		return nil
	}
	for _, l := range axes {
		if !strings.ContainsRune(letters, l) { // the same numbers all along it
			repeated += string(l)
		}
	}
	f.Retire(b.Name)
	f.Remove(add)
	f.Forget(y)
	n.Outputs = []string{add.Outputs[0]}
	return c.reordered(slices.Repeat(v, int(c.count(repeated))), repeated+letters, axes)
}

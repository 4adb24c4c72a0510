package qdq

import (
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/quant"
)

type graphWriter struct {
	*prepared
	g       *graph.Graph
	names   *graph.Builder
	values  map[string]string // what has been written already, by a description of it
	int2    bool              // an INT2 tensor was written
	unpacks bool              // the unpacking function is called
	// integers are the dense layers with integer arithmetic.
	integers []*graph.Node
}

func (w *graphWriter) layer(n *graph.Node, l *plannedLayer) {
	c := *n
	if l.enc.InScale == 0 {
		c.Inputs = []string{n.Inputs[0], w.floatWeights(l)}
		if !l.enc.AllZeroB {
			b := n.Input(2) // stays unless the plan has another
			if b == "" || !slices.Equal(l.enc.FloatB, l.info.B) {
				b = w.floats("b", l.enc.FloatB, int64(l.enc.Out))
			}
			c.Inputs = append(c.Inputs, b)
		}
		w.append(&c)
		return
	}
	var data string
	if l.plan.Act != nil {
		data = w.activation(n.Inputs[0], *l.plan.Act)
	} else {
		data = w.once("tabular", func() string {
			parts := lists.Map(w.parts(), func(p columnRun) string { return w.part(n.Inputs[0], p) })
			u := parts[0]
			if len(parts) > 1 {
				u = w.op("Concat", "u", parts, graph.IntAttr("axis", 1))
			}
			return w.activation(u, quant.Act{Bits: 8, Scale: w.input.Scale})
		})
	}
	scale := w.scales(l)
	c.Inputs = []string{data, w.weights(l, scale)}
	if !l.enc.AllZeroB {
		c.Inputs = append(c.Inputs, w.bias(l, scale))
	}
	if c.Is("Gemm") {
		w.integers = append(w.integers, &c)
	}
	w.append(&c)
}

func (w *graphWriter) activation(v string, a quant.Act) string {
	return w.once(fmt.Sprintf("act %q %v", v, a), func() string {
		scale := w.scalar("s", a.Scale)
		zero := w.uint8(a.Zero)
		q := w.op("QuantizeLinear", "q", []string{v, scale, zero})
		if a.Bits < 8 {
			q = w.op("Clip", "q", []string{q, w.uint8(0), w.uint8(uint8(a.QMax()))})
		}
		return w.op("DequantizeLinear", "d", []string{q, scale, zero})
	})
}

// scales adds those of the outputs of a layer.
func (w *graphWriter) scales(l *plannedLayer, behind ...int64) string {
	s := l.enc.Scales
	if len(s) == 1 {
		return w.scalar("s", s[0])
	}
	return w.floats("s", s, append([]int64{int64(len(s))}, behind...)...)
}

// floats adds numbers, as float16 behind a Cast when it has all of them and that is shorter.
func (w *graphWriter) floats(hint string, v []float32, dims ...int64) string {
	if w.plain || 2*len(v) <= castBytes || !quant.AreHalf(v...) {
		return w.tensor(graph.FromFloats(hint, v, dims...))
	}
	half := w.tensor(graph.FromNumbers(hint, graph.Float16, v, dims...))
	return w.shared("Cast", hint, []string{half}, graph.IntAttr("to", int64(graph.Float)))
}

func (w *graphWriter) weights(l *plannedLayer, scale string) string {
	codes := w.kernel(l, w.codes(l, graph.Int8))
	return w.op("DequantizeLinear", "d", []string{codes, scale, w.zeros(graph.Int8, l)}, perOutput(l)...)
}

func (w *graphWriter) bias(l *plannedLayer, scale string) string {
	b := w.tensor(graph.FromInt32s("b", l.enc.Bias, int64(len(l.enc.Bias))))
	in := w.scalar("s", l.enc.InScale)
	product := w.once("mul "+in+" "+scale, func() string {
		// Long vectors of scales are multiplied at load: a node is shorter than the product.
		if len(l.enc.Scales) > 6 && !w.plain {
			return w.op("Mul", "s", []string{in, scale})
		}
		p := lists.Map(l.enc.Scales, func(s float32) float32 { return l.enc.InScale * s })
		if len(p) == 1 {
			return w.scalar("s", p[0])
		}
		return w.tensor(graph.FromFloats("s", p, int64(len(p))))
	})
	return w.op("DequantizeLinear", "d", []string{b, product, w.zeros(graph.Int32, l)}, perOutput(l)...)
}

func perOutput(l *plannedLayer) []graph.Attr {
	if len(l.enc.Scales) > 1 {
		return []graph.Attr{graph.IntAttr("axis", 0)}
	}
	return nil
}

// floatWeights writes weights for float arithmetic: Cast and Mul, which the
// runtime folds at load. A DequantizeLinear here would run at every inference.
func (w *graphWriter) floatWeights(l *plannedLayer) string {
	if w.plain {
		v := lists.Make(len(l.enc.Codes), func(i int) float32 {
			return quant.Dequantize(l.enc.Codes[i], l.enc.Scale(i/l.enc.In))
		})
		return w.kernel(l, w.tensor(graph.FromFloats("w", v, int64(l.enc.Out), int64(l.enc.In))))
	}
	codes := w.codes(l, graph.Float)
	return w.kernel(l, w.op("Mul", "w", []string{codes, w.scales(l, 1)}))
}

func (w *graphWriter) scalar(hint string, v float32) string {
	return w.tensor(graph.FromFloats(hint, []float32{v}))
}

func (w *graphWriter) uint8(v uint8) string {
	return w.tensor(&graph.Tensor{Name: "z", DType: graph.Uint8, Raw: []byte{v}})
}

func (w *graphWriter) tensor(t *graph.Tensor) string {
	return w.once(fmt.Sprintf("tensor %d %v %s", t.DType, t.Dims, t.Raw), func() string { return w.names.Const(t) })
}

func (w *graphWriter) once(key string, make func() string) string {
	if v, ok := w.values[key]; ok {
		return v
	}
	v := make()
	w.values[key] = v
	return v
}

// shared returns the output of a node of the standard domain with whole numbers
// for attributes, or that of an equal one that was written before.
func (w *graphWriter) shared(op, hint string, inputs []string, attrs ...graph.Attr) string {
	key := fmt.Sprintf("%s %q", op, inputs)
	for _, a := range attrs {
		key += fmt.Sprint(" ", a.Name, a.I)
	}
	return w.once(key, func() string { return w.op(op, hint, inputs, attrs...) })
}

// op appends a node of the standard domain. New nodes have no names, which are optional, to keep the file small.
func (w *graphWriter) op(op, hint string, inputs []string, attrs ...graph.Attr) string {
	out := w.names.Name(hint)
	w.append(&graph.Node{Op: op, Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
	return out
}

func (w *graphWriter) append(n *graph.Node) { w.g.Nodes = append(w.g.Nodes, n) }

func (w *graphWriter) sweep() {
	gone := map[string]bool{}
	for _, l := range w.layers {
		gone[l.info.Weight], gone[l.info.Bias] = true, true
	}
	for _, n := range w.g.Nodes {
		for _, v := range n.Inputs {
			delete(gone, v)
		}
	}
	for _, v := range w.g.Outputs {
		delete(gone, v.Name)
	}
	w.g.Inits = slices.DeleteFunc(w.g.Inits, func(t *graph.Tensor) bool { return gone[t.Name] })
	w.g.Values = slices.DeleteFunc(w.g.Values, func(v graph.Value) bool { return gone[v.Name] })
}

// codes returns the codes of l as a value of type to, int8 or float, [outputs,
// columns of the kernel]. The file holds them by the containers of their rows and
// once for each input; what makes one tensor of that is folded by the runtime at load.
func (w *graphWriter) codes(l *plannedLayer, to graph.DType) string {
	groups, place := l.groups()
	parts := lists.Map(groups, func(g rowGroup) string { return w.group(l, g, to) })
	v := parts[0]
	if len(parts) > 1 {
		v = w.shared("Concat", "w", parts, graph.IntAttr("axis", 0))
	}
	if place != nil {
		v = w.shared("Gather", "w", []string{v, w.indices(place)})
	}
	if l.sources != nil {
		v = w.shared("Gather", "w", []string{v, w.indices(l.sources)}, graph.IntAttr("axis", 1))
	}
	return v
}

func (w *graphWriter) group(l *plannedLayer, g rowGroup, to graph.DType) string {
	t := packed(l, g)
	v := w.tensor(t)
	w.int2 = w.int2 || t.DType == graph.Int2
	if g.bits == planeBits {
		w.unpacks = true
		worth := lists.Make(g.bits, func(b int) float32 { return float32(int(1) << b) })
		worth[g.bits-1] *= -1 // two's complement
		planes := []string{v, w.tensor(graph.FromFloats("v", worth, int64(g.bits), 1)), w.shape(len(g.rows), l.enc.In)}
		v = w.once(fmt.Sprintf("unpack %q", planes), func() string {
			out := w.names.Name("w")
			w.append(&graph.Node{Op: functionName, Domain: functionDomain, Inputs: planes, Outputs: []string{out}})
			return out
		})
	}
	if to == graph.Int8 && (g.bits == planeBits || g.bits == 8) {
		return v
	}
	return w.shared("Cast", "w", []string{v}, graph.IntAttr("to", int64(to)))
}

func (w *graphWriter) indices(v []int) string {
	raw, ints := make([]byte, len(v)), make([]int32, len(v))
	for i, x := range v {
		raw[i], ints[i] = byte(x), int32(x)
	}
	if w.plain || len(v) <= castBytes/3 || slices.Max(v) > math.MaxUint8 {
		return w.tensor(graph.FromInt32s("i", ints, int64(len(v))))
	}
	t := w.tensor(&graph.Tensor{Name: "i", DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: raw})
	return w.shared("Cast", "i", []string{t}, graph.IntAttr("to", int64(graph.Int32)))
}

func isLayer(n *graph.Node) bool { return n.Is("Gemm") || n.Is("Conv") }

func (w *graphWriter) shape(dims ...int) string {
	n := lists.Map(dims, func(d int) int64 { return int64(d) })
	return w.tensor(graph.FromInts("n", n, int64(len(n))))
}

// kernel gives the weights of a convolution, which stand in the file as those of a
// dense layer do, the shape of its kernel; the runtime folds that at load.
func (w *graphWriter) kernel(l *plannedLayer, v string) string {
	c := l.info.Conv
	if c == nil {
		return v
	}
	shape := []int{l.info.Out, c.Channels / c.Group}
	for _, a := range c.Axes {
		shape = append(shape, a.Kernel)
	}
	return w.shared("Reshape", "w", []string{v, w.shape(shape...)})
}

func (w *graphWriter) result(n *graph.Node) {
	w.shield()
	if len(n.Outputs) == 0 {
		return
	}
	value := n.Outputs[0]
	a, ok := w.outputs[value]
	if !ok {
		return
	}
	last := w.g.Nodes[len(w.g.Nodes)-1]
	from := last.Input(0)
	if last.Is("Clip") && a.Bits < 8 {
		// The Clip of the codes bounds the value, too; two keep the kernel from fusing.
		w.g.Nodes = w.g.Nodes[:len(w.g.Nodes)-1]
	} else {
		from = w.names.Name("c")
		last.Outputs = []string{from}
	}
	w.activation(from, a)
	w.g.Nodes[len(w.g.Nodes)-1].Outputs = []string{value}
	// Layers that quantize the value in the same way read it as it is.
	for _, v := range []string{from, value} {
		w.values[fmt.Sprintf("act %q %v", v, a)] = value
	}
}

// shield puts a Clip that bounds nothing in front of the node that was written last, if that is a layer on float
// weights behind an output quantizer: between quantizers the runtime would silently round the weights to 8 bits.
func (w *graphWriter) shield() {
	end := len(w.g.Nodes) - 1
	n := w.g.Nodes[end]
	if len(w.outputs) == 0 || !isLayer(n) {
		return
	}
	made := w.g.Producers()
	if d := made[n.Input(1)]; d != nil && d.Is("DequantizeLinear") {
		return
	}
	v := n.Input(0)
	for p := made[v]; p != nil && quant.Moves(p); p = made[v] {
		if _, ok := w.outputs[v]; ok {
			break
		}
		v = p.Input(0)
	}
	if _, ok := w.outputs[v]; !ok {
		return
	}
	w.g.Nodes = w.g.Nodes[:end]
	clipped := w.op("Clip", "u", []string{n.Inputs[0], w.scalar("s", -unbounded)})
	n.Inputs = append([]string{clipped}, n.Inputs[1:]...)
	w.append(n)
}

// passLength is the number of columns from which a run that needs no arithmetic
// is passed on by itself: its nodes are shorter than constants for its columns.
const passLength = 8

type columnRun struct {
	from, to int
	pass     bool // neighbouring model inputs that need no arithmetic
}

func (w *graphWriter) parts() []columnRun {
	cols := w.input.Columns
	plain := func(j int) bool {
		return cols[j].Lo == 0 && cols[j].Gain == 1 && !w.input.Inner(j)
	}
	best := columnRun{pass: true}
	for from := 0; from < len(cols); {
		to := from
		for to < len(cols) && plain(to) && (to == from || cols[to].Source == cols[to-1].Source+1) {
			to++
		}
		if to-from > best.to-best.from {
			best.from, best.to = from, to
		}
		from = max(to, from+1)
	}
	if best.to-best.from < passLength && best.to-best.from < len(cols) {
		return []columnRun{{from: 0, to: len(cols)}}
	}
	out := []columnRun{{from: 0, to: best.from}, best, {from: best.to, to: len(cols)}}
	return slices.DeleteFunc(out, func(p columnRun) bool { return p.from == p.to })
}

// part writes (min(x,hi)-lo)*gain for the columns of p. The maximum with lo and
// the last segments' upper bound are the saturation of QuantizeLinear. Where columns are repeated or moved, that is
// done to the rows of the transposed input, which are copied as a whole and take one constant each: it costs a fifth.
func (w *graphWriter) part(x string, p columnRun) string {
	cols := w.input.Columns[p.from:p.to]
	sources, neighbours, dim := make([]int, len(cols)), true, 0
	hi, lo, gain := make([]float32, len(cols)), make([]float32, len(cols)), make([]float32, len(cols))
	for j, c := range cols {
		sources[j], hi[j], lo[j], gain[j] = c.Source, unbounded, c.Lo, c.Gain
		neighbours = neighbours && c.Source == cols[0].Source+j
		if w.input.Inner(p.from + j) {
			hi[j] = c.Hi
		}
	}
	for _, c := range w.input.Columns {
		dim = max(dim, c.Source+1)
	}
	first, last := slices.Min(sources), slices.Max(sources)
	if n := last + 1 - first; n < dim && (neighbours || 2*n <= dim) {
		number := func(v int) string { return w.tensor(graph.FromInts("i", []int64{int64(v)}, 1)) }
		x = w.op("Slice", "u", []string{x, number(first), number(last + 1), number(1)})
		for j := range sources {
			sources[j] -= first
		}
	}
	if p.pass {
		return x
	}
	dims := []int64{int64(len(cols))} // of one value per column
	if !neighbours {
		dims = append(dims, 1)
		x = w.op("Gather", "u", []string{w.op("Transpose", "u", []string{x}), w.indices(sources)})
	}
	for _, step := range []struct {
		op      string
		neutral float32
		values  []float32
	}{{"Min", unbounded, hi}, {"Sub", 0, lo}, {"Mul", 1, gain}} {
		switch v := slices.Compact(slices.Clone(step.values)); {
		case len(v) > 1:
			x = w.op(step.op, "u", []string{x, w.tensor(graph.FromFloats("u", step.values, dims...))})
		case v[0] != step.neutral:
			x = w.op(step.op, "u", []string{x, w.scalar("u", v[0])})
		}
	}
	if !neighbours {
		x = w.op("Transpose", "u", []string{x})
	}
	return x
}

const unbounded = 3.4028234663852886e38

// The overhead of nodes and tensors in the file, to a few bytes: enough to decide whether
// a constant is longer than the nodes that compute it at load.
const (
	castBytes   = 30
	expandBytes = 27
	shapeBytes  = 22 // of one number, with it
)

// zeros writes a zero point of the shape of l's scales. Without one the runtime
// does not fuse, or fails. Long ones are expanded at load.
func (w *graphWriter) zeros(t graph.DType, l *plannedLayer) string {
	n, size := len(l.enc.Scales), t.Bits()/8
	zero := func(n int, dims ...int64) string {
		return w.tensor(&graph.Tensor{Name: "z", DType: t, Dims: dims, Raw: make([]byte, n*size)})
	}
	switch {
	case n == 1:
		return zero(1)
	case w.plain || n*size <= expandBytes+shapeBytes+size:
		return zero(n, int64(n))
	}
	shape := w.shape(n)
	return w.shared("Expand", "z", []string{zero(1), shape})
}

// isolate keeps integer layers whose result is needed in float on integer kernels.
//
// The runtime takes the Relu or Clip that alone reads a layer into the layer's kernel, together with the QuantizeLinear
// behind that. Where there is none, because a float layer comes next, or where it does not cover what the Clip lets
// through, or where a quantizer is not the only reader, the layer runs on dequantized weights instead. A Max behind the
// layer is nothing that the runtime takes in, so what reads that does not matter.
func (w *graphWriter) isolate() {
	readers := w.g.Consumers()
	for _, n := range w.integers {
		y := n.Outputs[0]
		if w.takes(y, readers) {
			continue
		}
		if r := readers[y]; len(r) == 1 && r[0].Is("Relu") && !w.g.IsOutput(y) {
			r[0].Op, r[0].Inputs = "Max", []string{y, w.scalar("z", 0)}
			continue
		}
		n.Outputs = []string{w.names.Name("c")}
		bound := &graph.Node{Op: "Max", Inputs: []string{n.Outputs[0], w.scalar("z", -unbounded)}, Outputs: []string{y}}
		w.g.Nodes = slices.Insert(w.g.Nodes, slices.Index(w.g.Nodes, n)+1, bound)
	}
}

// takes reports whether all that stands behind the layer that makes y goes well with an
// integer kernel: a quantizer alone, perhaps behind a Relu or Clip, or none at all.
func (w *graphWriter) takes(y string, all map[string][]*graph.Node) bool {
	readers := all[y]
	bounds := func(n *graph.Node) bool { return n.Is("Relu") || n.Is("Clip") }
	switch {
	case !slices.ContainsFunc(readers, func(n *graph.Node) bool {
		return n.Is("QuantizeLinear") || bounds(n) || quant.Moves(n) // a quantizer moves in front of what only moves numbers
	}):
		return true
	case len(readers) != 1 || w.g.IsOutput(y):
		return false
	case !bounds(readers[0]):
		return true
	}
	behind := readers[0].Outputs[0]
	q := all[behind]
	return len(q) == 1 && q[0].Is("QuantizeLinear") && !w.g.IsOutput(behind) && covers(w.g, readers[0], q[0])
}

// covers reports whether the Relu or Clip n does nothing to what the codes of the
// QuantizeLinear q, uint8 with a scalar scale, stand for.
func covers(g *graph.Graph, n, q *graph.Node) bool {
	zero, scale := g.Init(q.Input(2)), quant.NumberOr(g, q.Input(1), math.NaN())
	if zero == nil || zero.DType != graph.Uint8 || len(zero.Raw) != 1 {
		return false
	}
	lowest, highest := -float32(zero.Raw[0])*scale, float32(255-int(zero.Raw[0]))*scale
	if n.Is("Relu") {
		return lowest == 0
	}
	return quant.NumberOr(g, n.Input(1), math.Inf(-1)) <= lowest && quant.NumberOr(g, n.Input(2), math.Inf(1)) >= highest
}

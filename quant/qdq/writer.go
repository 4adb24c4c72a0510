package qdq

import (
	"fmt"
	"slices"
	"strconv"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// writer builds one quantized graph.
type writer struct {
	*prepared
	g       *graph.Graph
	names   *graph.Builder
	values  map[string]string // what has been written already, by a description of it
	int2    bool              // an INT2 tensor was written
	unpacks bool              // the unpacking function is called
	// integers are the dense layers with integer arithmetic.
	integers []*graph.Node
	outputs  map[string]quant.Act // output quantizers by the values that they stand at
}

// write makes the quantized model with the containers of the layers; with the
// unpacking function in any case if unpacks is set.
func (p *prepared) write(unpacks bool) *graph.Model {
	m := p.m.Clone()
	w := &writer{prepared: p, unpacks: unpacks, g: m.Graph, names: graph.NewBuilder(m.Graph, ""), values: map[string]string{}, outputs: p.results()}
	nodes := m.Graph.Nodes
	m.Graph.Nodes = nil
	for _, n := range nodes {
		if l := p.layers[n.Name]; l != nil && l.enc != nil && isLayer(n) {
			w.layer(n, l)
		} else {
			w.append(n)
		}
		w.result(n)
	}
	w.isolate()
	w.sweep()
	if w.int2 {
		// From opset 21 to 25 operators gain types; none changes its meaning.
		m.SetOpset("", max(m.Opset(""), int2Opset))
		m.IRVersion = max(m.IRVersion, int2IR)
	}
	// Newer IR versions add element types, which come with newer opsets, and notes on devices.
	m.IRVersion = min(max(m.IRVersion, baseIR), p.runtime.IR)
	if w.unpacks {
		m.SetOpset(functionDomain, 1)
		m.Functions = append(m.Functions, unpackFunction(m.Opset("")))
	}
	return m
}

// layer writes the layer l in place of its Gemm node n.
func (w *writer) layer(n *graph.Node, l *layer) {
	gemm := &graph.Node{
		Name: n.Name, Op: n.Op, Outputs: n.Outputs, Attrs: n.Attrs, Doc: n.Doc, Extra: n.Extra,
	}
	if l.enc.InScale == 0 {
		gemm.Inputs = []string{n.Inputs[0], w.floatWeights(l)}
		if !l.enc.AllZeroB {
			gemm.Inputs = append(gemm.Inputs, w.floatBias(n, l))
		}
		w.append(gemm)
		return
	}
	var data string
	if l.plan.Act != nil {
		data = w.activation(n.Inputs[0], *l.plan.Act)
	} else {
		data = w.tabular(n.Inputs[0])
	}
	scale := w.scale(l)
	gemm.Inputs = []string{data, w.weights(l, scale)}
	if !l.enc.AllZeroB {
		gemm.Inputs = append(gemm.Inputs, w.bias(l, scale))
	}
	if gemm.Is("Gemm") {
		w.integers = append(w.integers, gemm)
	}
	w.append(gemm)
}

// activation quantizes and dequantizes value v; layers that share v and the
// quantizer share the nodes.
func (w *writer) activation(v string, a quant.Act) string {
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

// scale writes the weight scales of l: a scalar or one per output.
func (w *writer) scale(l *layer) string {
	if s := l.enc.Scales; len(s) > 1 {
		return w.vector("s", s, int64(len(s)))
	}
	return w.scalar("s", l.enc.Scales[0])
}

// weights writes the codes of l in their container and their DequantizeLinear.
func (w *writer) weights(l *layer, scale string) string {
	return w.op("DequantizeLinear", "d", []string{w.kernel(l, w.codes(l, graph.Int8)), scale, w.zeros(graph.Int8, l)}, perOutput(l)...)
}

// bias writes the int32 bias, whose scale is the product of the input's and the weights'.
func (w *writer) bias(l *layer, scale string) string {
	b := w.tensor(graph.FromInt32s("b", l.enc.Bias, int64(len(l.enc.Bias))))
	in := w.scalar("s", l.enc.InScale)
	product := w.once("mul "+in+" "+scale, func() string {
		// Long vectors of scales are multiplied at load: a node is shorter than the product.
		if len(l.enc.Scales) > 6 && !w.plain {
			return w.op("Mul", "s", []string{in, scale})
		}
		p := make([]float32, len(l.enc.Scales))
		for o, s := range l.enc.Scales {
			p[o] = l.enc.InScale * s
		}
		if len(p) == 1 {
			return w.scalar("s", p[0])
		}
		return w.tensor(graph.FromFloats("s", p, int64(len(p))))
	})
	return w.op("DequantizeLinear", "d", []string{b, product, w.zeros(graph.Int32, l)}, perOutput(l)...)
}

// perOutput is the axis attribute of a DequantizeLinear with one scale per output.
func perOutput(l *layer) []graph.Attr {
	if len(l.enc.Scales) > 1 {
		return []graph.Attr{graph.IntAttr("axis", 0)}
	}
	return nil
}

// floatWeights writes weights for float arithmetic: Cast and Mul, which the
// runtime folds at load. A DequantizeLinear here would run at every inference.
func (w *writer) floatWeights(l *layer) string {
	if w.plain {
		v := make([]float32, len(l.enc.Codes))
		for i, q := range l.enc.Codes {
			v[i] = quant.Dequantize(q, l.enc.Scale(i/l.enc.In))
		}
		return w.kernel(l, w.tensor(graph.FromFloats("w", v, int64(l.enc.Out), int64(l.enc.In))))
	}
	codes := w.codes(l, graph.Float)
	scale := w.scalarOrColumn(l.enc.Scales)
	return w.kernel(l, w.op("Mul", "w", []string{codes, scale}))
}

// floatBias keeps the bias of n unless the plan has another.
func (w *writer) floatBias(n *graph.Node, l *layer) string {
	if b := n.Input(2); b != "" && slices.Equal(l.enc.FloatB, l.info.B) {
		return b
	}
	return w.tensor(graph.FromFloats("b", l.enc.FloatB, int64(l.enc.Out)))
}

func (w *writer) scalarOrColumn(s []float32) string {
	if len(s) == 1 {
		return w.scalar("s", s[0])
	}
	return w.vector("s", s, int64(len(s)), 1)
}

func (w *writer) scalar(hint string, v float32) string {
	return w.tensor(graph.FromFloats(hint, []float32{v}))
}

func (w *writer) uint8(v uint8) string {
	return w.tensor(&graph.Tensor{Name: "z", DType: graph.Uint8, Raw: []byte{v}})
}

// tensor adds an initializer, or finds an equal one that was added before.
func (w *writer) tensor(t *graph.Tensor) string {
	key := make([]byte, 0, 32+len(t.Raw))
	key = strconv.AppendInt(append(key, "tensor "...), int64(t.DType), 10)
	for _, d := range t.Dims {
		key = strconv.AppendInt(append(key, ' '), d, 10)
	}
	key = append(append(key, ':'), t.Raw...)
	return w.once(string(key), func() string { return w.names.Const(t) })
}

// once returns the value described by key, making it the first time.
func (w *writer) once(key string, make func() string) string {
	if v, ok := w.values[key]; ok {
		return v
	}
	v := make()
	w.values[key] = v
	return v
}

// shared returns the output of a node of the standard domain with whole numbers for
// attributes, or that of an equal one that was written before.
func (w *writer) shared(op, hint string, inputs []string, attrs ...graph.Attr) string {
	key := make([]byte, 0, 64)
	key = append(key, op...)
	for _, in := range inputs {
		key = append(append(key, 0), in...)
	}
	for _, a := range attrs {
		key = strconv.AppendInt(append(append(key, 0, 0), a.Name...), a.I, 10)
	}
	return w.once(string(key), func() string { return w.op(op, hint, inputs, attrs...) })
}

// op appends a node of the standard domain. New nodes have no names, which are
// optional, to keep the file small.
func (w *writer) op(op, hint string, inputs []string, attrs ...graph.Attr) string {
	out := w.names.Name(hint)
	w.append(&graph.Node{Op: op, Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
	return out
}

func (w *writer) append(n *graph.Node) { w.g.Nodes = append(w.g.Nodes, n) }

// sweep drops the float weights and biases that nothing uses any more.
func (w *writer) sweep() {
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

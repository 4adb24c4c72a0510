package qdq

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// Rule is one thing that ONNX Runtime does badly with quantized graphs, and
// that can be seen in the graph.
type Rule struct {
	Name string
	Doc  string // what happens where the rule is broken
	// Advice marks rules that a good model may break.
	Advice bool
	// One of these says how it is broken, "" where it is not: by a dense layer, by one whose weights are
	// dequantized, or by a node of the operator op.
	layer, codes func(*view, dense) string
	node         func(*view, *graph.Node) string
	op           string
}

// Finding is one place where a rule is broken.
type Finding struct {
	Rule    string
	Node    string // its label
	Message string
	Advice  bool
}

// String returns the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.Node, f.Message, f.Rule) }

// Lint checks a quantized model, written by this package or another, and returns where it
// breaks the rules, in the order of the table.
func Lint(m *graph.Model) []Finding {
	v := newView(m)
	var out []Finding
	for _, r := range Rules() {
		add := func(n *graph.Node, message string) {
			if message != "" {
				out = append(out, Finding{r.Name, n.Label(), message, r.Advice})
			}
		}
		for _, d := range v.dense {
			switch {
			case r.layer != nil:
				add(d.node, r.layer(v, d))
			case r.codes != nil && d.weight != nil:
				add(d.node, r.codes(v, d))
			}
		}
		for _, n := range v.m.Graph.Nodes {
			if r.node != nil && n.Is(r.op) {
				add(n, r.node(v, n))
			}
		}
	}
	return out
}

type view struct {
	m         *graph.Model
	inits     map[string]*graph.Tensor
	producers map[string]*graph.Node
	consumers map[string][]*graph.Node
	constant  map[string]bool // values that depend on initializers only
	feeds     map[string]bool // values that a layer depends on
	dense     []dense
}

// dense is a Gemm, MatMul or Conv and the DequantizeLinear nodes at its inputs,
// nil where there is none.
type dense struct {
	node               *graph.Node
	data, weight, bias *graph.Node
}

func newView(m *graph.Model) *view {
	v := &view{
		m: m, inits: m.Graph.InitMap(), producers: m.Graph.Producers(), consumers: m.Graph.Consumers(),
		constant: map[string]bool{}, feeds: map[string]bool{},
	}
	for name := range v.inits {
		v.constant[name] = true
	}
	// Nodes stand in the order in which they are computed, so one pass knows the constants, ...
	for _, n := range m.Graph.Nodes {
		computed := slices.ContainsFunc(n.Inputs, func(in string) bool { return in != "" && !v.constant[in] })
		for _, out := range n.Outputs {
			v.constant[out] = !computed
		}
		if quant.IsLayer(n) {
			v.dense = append(v.dense, v.layer(n))
		}
	}
	// ... and one back what layers depend on.
	for _, n := range slices.Backward(m.Graph.Nodes) {
		if !quant.IsLayer(n) && !slices.ContainsFunc(n.Outputs, func(out string) bool { return v.feeds[out] }) {
			continue
		}
		for _, in := range n.Inputs {
			v.feeds[in] = in != "" // an absent input is no value
		}
	}
	return v
}

func (v *view) layer(n *graph.Node) dense {
	dq := func(name string, constant bool) *graph.Node {
		if p := v.producers[name]; p != nil && p.Is("DequantizeLinear") && v.constant[p.Input(0)] == constant {
			return p
		}
		return nil
	}
	d := dense{node: n, data: dq(n.Input(0), false), weight: dq(n.Input(1), true), bias: dq(n.Input(2), true)}
	if t := v.producers[n.Input(1)]; t != nil && d.weight == nil && t.Is("Transpose") {
		d.weight = dq(t.Input(0), true)
	}
	return d
}

// floats returns the value called name if it is a constant, a Cast of one that
// holds float16, or the product of two such, computed in float32.
func (v *view) floats(name string) []float32 {
	if t := v.inits[name]; t != nil {
		f, err := t.Floats()
		if err != nil || t.DType != graph.Float {
			return nil
		}
		return f
	}
	n := v.producers[name]
	switch {
	case n == nil:
	case n.Is("Cast") && n.Int("to", 0) == int64(graph.Float):
		t := v.inits[n.Input(0)]
		if t == nil || t.DType != graph.Float16 {
			return nil
		}
		f := make([]float32, len(t.Raw)/2)
		for i := range f {
			f[i] = fromHalf(binary.LittleEndian.Uint16(t.Raw[2*i:]))
		}
		return f
	case n.Is("Mul"):
		return product(v.scales(n.Input(0)), v.scales(n.Input(1)))
	}
	return nil
}

// scales is floats without products, so that no chain of them is followed.
func (v *view) scales(name string) []float32 {
	if n := v.producers[name]; n != nil && n.Is("Mul") {
		return nil
	}
	return v.floats(name)
}

// product multiplies two vectors of which one may have length 1; nil when they do not fit.
func product(a, b []float32) []float32 {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) == 0 || (len(b) != 1 && len(b) != len(a)) {
		return nil
	}
	out := make([]float32, len(a))
	for i := range a {
		out[i] = a[i] * b[i%len(b)]
	}
	return out
}

// dtype returns the element type of a constant in front of a DequantizeLinear.
func (v *view) dtype(name string) graph.DType {
	if t := v.inits[name]; t != nil {
		return t.DType
	}
	n := v.producers[name]
	switch {
	case n == nil:
		return graph.Undefined
	case n.Is("Cast"):
		return graph.DType(n.Int("to", 0))
	case n.Domain == functionDomain && n.Op == functionName:
		return graph.Int8
	case len(n.Inputs) > 0:
		return v.dtype(n.Inputs[0])
	}
	return graph.Undefined
}

func (d *dense) integer() bool { return d.data != nil && d.weight != nil }

func allZero(t *graph.Tensor) bool {
	return !slices.ContainsFunc(t.Raw, func(b byte) bool { return b != 0 })
}

// quantized returns the QuantizeLinear nodes that read name, directly or behind a Relu or Clip.
func (v *view) quantized(name string) []*graph.Node {
	var out []*graph.Node
	for _, n := range v.consumers[name] {
		switch {
		case n.Is("QuantizeLinear"):
			out = append(out, n)
		case n.Is("Relu") || n.Is("Clip"):
			for _, q := range v.consumers[n.Outputs[0]] {
				if q.Is("QuantizeLinear") {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

// zeroPoint says what is wrong with the zero point of a DequantizeLinear on
// constants of type t.
func (v *view) zeroPoint(n *graph.Node, t graph.DType) string {
	z, s := v.zeros(n.Input(2)), v.floats(n.Input(1))
	switch {
	case n.Input(2) == "":
		return "it has no zero point"
	case z == nil:
		return "its zero point is not a constant"
	case z.DType != t && z.DType.Bits() >= 8:
		return fmt.Sprintf("its zero point is %s, not %s", z.DType, t)
	case s != nil && z.Len() != len(s):
		return fmt.Sprintf("it has %d scales and %d zero points", len(s), z.Len())
	case !allZero(z):
		return "its zero point is not 0"
	}
	return ""
}

// zeros returns the zero point called name if it is a constant or made from one of
// one number by Expand.
func (v *view) zeros(name string) *graph.Tensor {
	if t := v.inits[name]; t != nil {
		return t
	}
	n := v.producers[name]
	if n == nil || !n.Is("Expand") {
		return nil
	}
	t, shape := v.inits[n.Input(0)], v.inits[n.Input(1)]
	if t == nil || shape == nil || t.Len() != 1 {
		return nil
	}
	dims, err := shape.Ints()
	if err != nil || shape.DType != graph.Int64 {
		return nil
	}
	return &graph.Tensor{DType: t.DType, Dims: dims, Raw: t.Raw}
}

// codeTensors returns the int8 and int4 tensors that the codes called name are put together from.
func (v *view) codeTensors(name string) []*graph.Tensor {
	var out []*graph.Tensor
	if s := v.trace(name, 0); s != nil {
		for _, p := range s.parts {
			if t := p.tensor; t != nil && (t.DType == graph.Int8 || t.DType == graph.Int4) {
				out = append(out, t)
			}
		}
	}
	return out
}

// saturating returns the largest absolute value of the codes called name where sums of their products with activations
// of that many bits saturate, see quant.Saturates; 0 where none do.
func (v *view) saturating(bits int, name string) (worst int64) {
	if !quant.Saturates(bits, -math.MinInt8) { // whatever the codes are
		return 0
	}
	for _, t := range v.codeTensors(name) {
		codes, _ := t.Ints() // those of fewer bits are smaller
		for _, q := range codes {
			worst = max(worst, q, -q)
		}
	}
	if !quant.Saturates(bits, worst) {
		return 0
	}
	return worst
}

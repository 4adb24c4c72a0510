package qdq

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// view is a written graph as it is read, whoever wrote it: what its descriptions, the rules and the sizes ask of it.
type view struct {
	m         *graph.Model
	inits     map[string]*graph.Tensor
	producers map[string]*graph.Node
	consumers map[string][]*graph.Node
	constant  map[string]bool // values that depend on initializers only
	feeds     map[string]bool // values that a layer depends on
	dense     []writtenLayer
}

type writtenLayer struct {
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

func (v *view) layer(n *graph.Node) writtenLayer {
	dq := func(name string, constant bool) *graph.Node {
		if p := v.producers[name]; p != nil && p.Is("DequantizeLinear") && v.constant[p.Input(0)] == constant {
			return p
		}
		return nil
	}
	d := writtenLayer{node: n, data: dq(n.Input(0), false), weight: dq(n.Input(1), true), bias: dq(n.Input(2), true)}
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
		f, _ := t.Floats() // cannot fail for this type
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

type stored struct {
	dims    []int64 // of all parts together
	parts   []storedPart
	columns int // of the kernel, where inputs are repeated; 0 without that
}

type storedPart struct {
	weights   int
	bits      int
	container string
	note      string
	tensor    *graph.Tensor // nil for what a function unpacks
}

func (s *stored) holdsFloats() bool {
	return slices.ContainsFunc(s.parts, func(p storedPart) bool { return p.tensor != nil && p.tensor.DType.IsFloat() })
}

func (s *stored) weights() int {
	n := 0
	for _, p := range s.parts {
		n += p.weights
	}
	return n
}

func (v *view) tensor(name string) *graph.Tensor {
	if t := v.inits[name]; t != nil {
		return t
	}
	if p := v.producers[name]; p != nil {
		return p.Constant()
	}
	return nil
}

// trace follows a value to the tensors that it is made of. It returns nil when
// those are not all stored.
func (v *view) trace(name string, depth int) *stored {
	if c := v.tensor(name); c != nil {
		part := storedPart{weights: c.Len(), bits: c.DType.Bits(), container: c.DType.String(), tensor: c}
		if c.DType == graph.Int4 {
			if n := codeBits(c); n < 4 {
				part.note = fmt.Sprintf("codes of %d bits", n)
			}
		}
		return &stored{dims: c.Dims, parts: []storedPart{part}}
	}
	p := v.producers[name]
	const deepest = 20
	switch {
	case p == nil || depth > deepest:
		return nil
	case p.Is("Concat") && p.Int("axis", 0) == 0:
		return v.concat(p, depth)
	case slices.Contains(strings.Fields(moving), p.Op):
	case !p.Standard():
		return v.unpacked(p)
	default:
		return nil
	}
	s := v.trace(p.Input(0), depth+1)
	if s == nil {
		return nil
	}
	switch p.Op {
	case "QuantizeLinear": // of weights that the file holds as floats
		for i := range s.parts {
			s.parts[i].note = "quantized when the model runs"
		}
	case "Transpose":
		if len(s.dims) == 2 {
			s.dims = []int64{s.dims[1], s.dims[0]}
		}
	case "Reshape":
		if shape := v.ints(p.Input(1)); shape != nil {
			s.dims = shape
		}
	case "Gather":
		if indices := v.indices(p.Input(1)); p.Int("axis", 0) == 1 && indices > 0 {
			s.columns = indices
		}
	}
	return s
}

const moving = "QuantizeLinear DequantizeLinear Cast Identity Mul Pad Add Transpose Reshape Gather"

func (v *view) concat(n *graph.Node, depth int) *stored {
	var all *stored
	const maxParts = 64 // only a chain of doubling Concats has more
	for _, in := range n.Inputs {
		s := v.trace(in, depth+1)
		switch {
		case s == nil || len(s.dims) == 0 || all != nil && len(s.dims) != len(all.dims):
			return nil
		case all == nil:
			all = &stored{dims: slices.Clone(s.dims), parts: s.parts}
		default:
			all.dims[0] += s.dims[0]
			all.parts = append(slices.Clip(all.parts), s.parts...)
		}
		if len(all.parts) > maxParts {
			return nil
		}
	}
	return all
}

func (v *view) ints(name string) []int64 {
	c := v.tensor(name)
	if c == nil {
		return nil
	}
	ints, err := c.Ints()
	if err != nil || slices.Min(append(ints, 0)) < 0 {
		return nil
	}
	return ints
}

func (v *view) indices(name string) int {
	if p := v.producers[name]; p != nil && p.Is("Cast") {
		name = p.Input(0)
	}
	return len(v.ints(name))
}

// codeBits is the width that the codes of an int8 or int4 tensor need: a small layer
// takes fewer bytes in a wider container than with what unpacks a narrower one.
func codeBits(t *graph.Tensor) int {
	low, high := int8(0), int8(0)
	for i := range t.Len() {
		code := int8(0)
		if t.DType == graph.Int4 {
			code = int8(t.Raw[i/2]>>(i%2*4)<<4) >> 4
		} else {
			code = int8(t.Raw[i])
		}
		low, high = min(low, code), max(high, code)
	}
	for _, f := range quant.Formats() {
		if f.QMin <= int(low) && int(high) <= f.QMax {
			return f.Bits
		}
	}
	return t.DType.Bits()
}

// activation returns the bits of the value called name where a layer reads it: those of the codes after the
// DequantizeLinear that it comes from, and fewer where a Clip bounds the codes; 32 without one.
func (v *view) activation(name string) int {
	width, coded := graph.Float.Bits(), false
	for range len(v.producers) + 1 {
		n := v.producers[name]
		switch {
		case n == nil || n.Op == "QuantizeLinear":
			return width
		case n.Op == "DequantizeLinear":
			width, coded = 8, true
			if z := v.inits[n.Input(2)]; z != nil {
				width = z.DType.Bits()
			}
		case n.Is("Clip"):
			lo, hi := append(v.ints(n.Input(1)), 0), v.ints(n.Input(2))
			if coded && len(hi) == 1 && hi[0] >= lo[0] {
				width = min(width, max(1, bits.Len64(uint64(hi[0]-lo[0]))))
			}
		case !quant.Moves(n) && !n.Is("Relu") && !n.Is("Max") && !n.Is("Min"):
			return width
		}
		name = n.Input(0)
	}
	return width
}

func (v *view) unpacked(call *graph.Node) *stored {
	part := storedPart{container: fmt.Sprintf("packed, %s.%s", call.Domain, call.Op)}
	var packed *graph.Tensor
	var dims []int64
	for _, in := range call.Inputs {
		c := v.tensor(in)
		switch {
		case c == nil:
			return nil
		case c.DType == graph.Int64 && c.Len() == 2:
			dims, _ = c.Ints() // cannot fail for this type
		case c.DType == graph.Uint8 && (packed == nil || len(c.Raw) > len(packed.Raw)):
			packed = c
		}
	}
	if packed == nil || len(dims) != 2 || dims[0]*dims[1] <= 0 {
		return nil
	}
	part.weights = int(dims[0] * dims[1])
	part.bits = len(packed.Raw) / ((part.weights + 7) / 8) // planes of eight weights a byte, padded
	return &stored{dims: dims, parts: []storedPart{part}}
}

package qdq

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"cfq/onnxio/graph"
	"cfq/quant"
)

type view struct {
	m         *graph.Model
	constants map[string]*graph.Tensor
	producers map[string]*graph.Node
	consumers map[string][]*graph.Node
}

type stored struct {
	dims    []int64 // of all parts together
	parts   []storedPart
	columns int  // of the kernel, where inputs are repeated; 0 without that
	byRow   bool // each row has a scale
	turned  bool // rows are along another axis than in the tensor
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

func (v *view) trace(name string, depth int) *stored {
	if c := v.constants[name]; c != nil {
		part := storedPart{weights: c.Len(), bits: c.DType.Bits(), container: c.DType.String(), tensor: c}
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
	case "DequantizeLinear", "Mul":
		scales := v.constant(p.Input(1))
		s.byRow = s.byRow || scales != nil && scales.Len() > 1
	case "QuantizeLinear": // of weights that the file holds as floats
		for i := range s.parts {
			s.parts[i].note = "quantized when the model runs"
		}
	case "Transpose":
		if len(s.dims) == 2 {
			s.dims, s.turned = []int64{s.dims[1], s.dims[0]}, !s.turned
		}
	case "Reshape":
		if shape := v.ints(p.Input(1)); shape != nil {
			s.dims = shape
		}
	case "Gather":
		if n := len(v.ints(p.Input(1))); p.Int("axis", 0) == 1 && n > 0 {
			s.columns = n
		}
	}
	return s
}

const moving = "QuantizeLinear DequantizeLinear Cast Identity Mul Pad Add Transpose Reshape Gather"

func (v *view) concat(n *graph.Node, depth int) *stored {
	all := &stored{}
	const maxParts = 64 // only a chain of doubling Concats has more
	for i, in := range n.Inputs {
		s := v.trace(in, depth+1)
		if s == nil || len(s.dims) == 0 || i > 0 && len(s.dims) != len(all.dims) {
			return nil
		}
		if i == 0 {
			all.dims = append([]int64{0}, s.dims[1:]...)
		}
		all.dims[0] += s.dims[0]
		all.byRow = all.byRow || s.byRow
		if all.parts = append(all.parts, s.parts...); len(all.parts) > maxParts {
			return nil
		}
	}
	return all
}

// constant is the tensor that the file holds for a value, which may be cast; nil when there is none.
func (v *view) constant(name string) *graph.Tensor {
	if p := v.producers[name]; p != nil && p.Is("Cast") {
		name = p.Input(0)
	}
	return v.constants[name]
}

func (v *view) ints(name string) []int64 {
	c := v.constant(name)
	if c == nil {
		return nil
	}
	ints, err := c.Ints()
	if err != nil || slices.Min(append(ints, 0)) < 0 {
		return nil
	}
	return ints
}

// codeBits are the widths of the codes of each row that has a scale of its own, of all together if they share it. last
// says that rows are along the last axis of the tensor.
func (p *storedPart) codeBits(byRow, last bool) []int {
	t := p.tensor
	if t == nil || !slices.Contains([]graph.DType{graph.Int2, graph.Int4, graph.Int8}, t.DType) {
		return []int{p.bits}
	}
	codes, rows := make([]int8, t.Len()), 1
	if byRow && len(t.Dims) > 0 {
		rows = int(t.Dims[0])
		if last {
			rows = int(t.Dims[len(t.Dims)-1])
		}
	}
	for i := range codes {
		at := i
		if last && rows > 1 {
			at = i%rows*(len(codes)/rows) + i/rows
		}
		codes[at] = int8(t.Raw[i*p.bits/8]>>(i*p.bits%8)<<(8-p.bits)) >> (8 - p.bits)
	}
	return quant.CodeBits(codes, rows)
}

func (v *view) activation(name string) int {
	width, coded := graph.Float.Bits(), false
	for range len(v.producers) + 1 {
		n := v.producers[name]
		switch {
		case n == nil || n.Op == "QuantizeLinear":
			return width
		case n.Op == "DequantizeLinear":
			width, coded = 8, true
			if z := v.constants[n.Input(2)]; z != nil {
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

func (s *stored) saturates(activation int) bool {
	return slices.ContainsFunc(s.parts, func(p storedPart) bool {
		if p.tensor == nil || p.tensor.DType != graph.Int8 { // codes of fewer bits are smaller
			return false
		}
		codes, _ := p.tensor.Ints() // cannot fail for this type
		return slices.ContainsFunc(codes, func(q int64) bool { return quant.Saturates(activation, max(q, -q)) })
	})
}

func (v *view) unpacked(call *graph.Node) *stored {
	part := storedPart{container: fmt.Sprintf("packed, %s.%s", call.Domain, call.Op)}
	var packed *graph.Tensor
	var dims []int64
	for _, in := range call.Inputs {
		c := v.constants[in]
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

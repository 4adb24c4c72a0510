package footprint

import (
	"math/bits"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// activation returns the bits of the value called name where a layer reads it: those of the codes behind the DequantizeLinear that it
// comes from, and fewer where a Clip bounds the codes; 32 without one.
func activation(name string, producers map[string]*graph.Node, inits map[string]*graph.Tensor) int {
	width, coded := floatBits, false
	for range len(producers) + 1 {
		n := producers[name]
		switch {
		case n == nil:
			return width
		case n.Is("DequantizeLinear"):
			if z := inits[n.Input(2)]; z != nil {
				width = z.DType.Bits()
			} else {
				width = 8
			}
			coded = true
		case n.Is("QuantizeLinear"):
			return width
		case n.Is("Clip") && coded:
			width = min(width, clipped(n, inits, width))
		case !moves(n):
			return width
		}
		name = n.Input(0)
	}
	return width
}

// clipped returns the bits that the codes behind a Clip need.
func clipped(n *graph.Node, inits map[string]*graph.Tensor, width int) int {
	lo, hi := integer(inits[n.Input(1)]), integer(inits[n.Input(2)])
	if hi == nil {
		return width
	}
	span := *hi
	if lo != nil {
		span -= *lo
	}
	if span < 0 {
		return width
	}
	return max(1, bits.Len64(uint64(span)))
}

// integer returns the only element of an integer constant, nil when it is none.
func integer(t *graph.Tensor) *int64 {
	if t == nil || t.Len() != 1 {
		return nil
	}
	v, err := t.Ints()
	if err != nil {
		return nil
	}
	return &v[0]
}

// moves says whether an operator passes numbers on as they are, or bounds them.
func moves(n *graph.Node) bool {
	return quant.Moves(n) || n.Is("Relu") || n.Is("Clip") || n.Is("Max") || n.Is("Min")
}

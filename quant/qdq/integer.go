package qdq

import (
	"cfq/onnxio/graph"
)

// integerLayer says where a layer's operator that multiplies integers has what.
type integerLayer struct {
	weight     []int // inputs: the codes, then their scales and zero points
	bias       int   // input
	activation int   // bits of what it multiplies with
}

// integerOf returns the form of a layer that multiplies integers itself, as other tools write it; nil when n is none.
func integerOf(n *graph.Node) *integerLayer {
	switch n.Op {
	case "MatMulInteger", "ConvInteger":
		return &integerLayer{[]int{1, 3}, 4, 8} // there is no bias
	case "DynamicQuantizeMatMul":
		return &integerLayer{[]int{1, 2, 3}, 4, 8}
	case "MatMulIntegerToFloat":
		return &integerLayer{[]int{1, 3, 5}, 6, 8}
	case "QGemm", "QLinearMatMul":
		return &integerLayer{[]int{3, 4, 5}, map[bool]int{true: 6, false: 8}[n.Op == "QGemm"], 8}
	case "QLinearConv":
		return &integerLayer{[]int{3, 4, 5}, 8, 8}
	case "MatMulNBits":
		return &integerLayer{[]int{1, 2, 3, 4}, 5, graph.Float.Bits()}
	}
	return nil
}

func (l *integerLayer) names(n *graph.Node) (names []string) {
	for _, i := range l.weight[1:] {
		names = append(names, n.Input(i))
	}
	return names
}

// outerScales are the scales of weights that a dynamically quantized layer multiplies its sums with: MatMulInteger ->
// Cast -> Mul by the product of two scales, of which one is stored.
func (v *view) outerScales(n *graph.Node) (names []string) {
	next := func(n *graph.Node, op string) *graph.Node {
		if readers := v.consumers[n.Outputs[0]]; len(readers) == 1 && readers[0].Is(op) {
			return readers[0]
		}
		return nil
	}
	if cast := next(n, "Cast"); cast != nil {
		if mul := next(cast, "Mul"); mul != nil {
			for _, in := range mul.Inputs {
				if scales := v.producers[in]; scales != nil && scales.Is("Mul") {
					names = append(names, scales.Inputs...)
				}
			}
		}
	}
	for i, name := range names {
		if v.inits[name] == nil { // of the activations
			names[i] = ""
		}
	}
	return names
}

func blocks(n *graph.Node, packed *stored) *stored {
	in, out := n.Int("K", 0), n.Int("N", 0)
	if packed == nil || in < 1 || out < 1 {
		return nil
	}
	part := storedPart{weights: int(in * out), bits: int(n.Int("bits", 4)), container: "packed, " + n.Op}
	return &stored{dims: []int64{in, out}, parts: []storedPart{part}}
}

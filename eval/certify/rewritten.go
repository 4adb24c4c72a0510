package certify

import (
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant/verify"
)

// What ONNX Runtime computes otherwise than the file says.

// kernel is the node that ONNX Runtime runs for the node, nil when that is not seen. A MatMul with the Add behind it becomes one Gemm.
func (k *compiler) kernel(n *graph.Node) *graph.Node {
	if at := slices.IndexFunc(k.kernels.Nodes, func(o *graph.Node) bool {
		return n.Is("MatMul") && n.Name != "" && o.Name == n.Name+"/MatMulAddFusion"
	}); at >= 0 {
		return k.kernels.Nodes[at]
	}
	return verify.Kernel(k.kernels, n.Name, n.Outputs[0])
}

// isInteger says whether a kernel adds up integers.
func isInteger(kernel *graph.Node) bool {
	return slices.Contains([]string{"QGemm", "QLinearMatMul", "MatMulIntegerToFloat"}, kernel.Op)
}

// dequantized returns the DequantizeLinear that makes the value out of what depends on the model's input, past operators that move
// numbers; nil without one.
func (k *compiler) dequantized(value string) *graph.Node {
	for range len(k.producers) + 1 {
		n := k.producers[value]
		_, moving := k.slot[value]
		switch {
		case n == nil || !moving:
			return nil
		case n.Is("DequantizeLinear"):
			return n
		case !slices.Contains(movers(), n.Op) || n.Op == "Concat":
			return nil
		}
		value = n.Input(0)
	}
	return nil
}

// doubled refuses a quantizer that reads what another one has rounded on another grid: ONNX Runtime makes one of the two.
func (k *compiler) doubled(n *graph.Node) error {
	d := k.dequantized(n.Input(0))
	if d == nil || k.o.Level == ort.Disabled {
		return nil
	}
	scale, zero, codes, err := k.grid(d)
	if s, z, c, err2 := k.grid(n); err != nil || err2 != nil || s != scale || z != zero || c != codes {
		return fmt.Errorf("it reads what %s made on another grid, and ONNX Runtime makes one quantizer of the two: remove one", d.Label())
	}
	return nil
}

// rounds refuses a layer whose weights or bias are floats in the file and integers when it runs: between quantizers, ONNX Runtime rounds them.
// Integer kernels are not its concern.
func (k *compiler) rounds(n *graph.Node) error {
	if k.o.Level == ort.Disabled || k.dequantized(n.Input(0)) == nil {
		return nil
	}
	coded := func(producers map[string]*graph.Node, value string) bool {
		p := producers[value]
		return p != nil && p.Is("DequantizeLinear")
	}
	running := k.kernels.Producers()
	kernel := k.kernel(n)
	for i, value := range []string{n.Input(1), k.biasOf(n)} {
		switch {
		case value == "" || coded(k.producers, value):
		case kernel == nil:
			return errors.New("its weights or bias are floats behind a quantizer, and it is not seen how ONNX Runtime runs it: give the node a name")
		case isInteger(kernel) || coded(running, kernel.Input(i+1)):
			return errors.New("its weights or bias are floats that ONNX Runtime rounds, since there are quantizers on both sides: remove one of those")
		}
	}
	return nil
}

// biasOf returns what is added to the layer's sums, also by an Add behind a MatMul, which may run as one with it; "" for nothing.
func (k *compiler) biasOf(n *graph.Node) string {
	if !n.Is("MatMul") {
		return n.Input(2)
	}
	for _, o := range k.m.Graph.Nodes {
		if at := slices.Index(o.Inputs, n.Outputs[0]); o.Is("Add") && at >= 0 {
			return o.Input(1 - at)
		}
	}
	return ""
}

package certify

import (
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant/verify"
)

// ONNX Runtime does not always compute what the file says: between quantizers it rounds float weights, and it merges
// quantizers. The methods of this file find the kernels that it runs, and refuse what it changes.

// kernel returns the node that ONNX Runtime runs for n, nil when it is not found. A MatMul and the Add behind
// it become one Gemm.
func (k *compiler) kernel(n *graph.Node) *graph.Node {
	if at := slices.IndexFunc(k.kernels.Nodes, func(o *graph.Node) bool {
		return n.Is("MatMul") && n.Name != "" && o.Name == n.Name+"/MatMulAddFusion"
	}); at >= 0 {
		return k.kernels.Nodes[at]
	}
	return verify.Kernel(k.kernels, n.Name, n.Outputs[0])
}

// isInteger reports whether a kernel adds up integers.
func isInteger(kernel *graph.Node) bool {
	return slices.Contains([]string{"QGemm", "QLinearMatMul", "MatMulIntegerToFloat"}, kernel.Op)
}

// dequantizer returns the DequantizeLinear that the value comes from, through operators that only move numbers; nil
// without one, or when its input does not depend on the model's.
func (k *compiler) dequantizer(value string) *graph.Node {
	for range len(k.producers) + 1 {
		n := k.producers[value]
		_, varying := k.slot[value]
		switch {
		case n == nil || !varying:
			return nil
		case n.Is("DequantizeLinear"):
			return n
		case !slices.Contains(movers(), n.Op):
			return nil
		}
		value = n.Input(0)
	}
	return nil
}

// refuseRequantize refuses a quantizer that reads what another one rounded with another scale, zero point or
// type: ONNX Runtime merges the two.
func (k *compiler) refuseRequantize(n *graph.Node) error {
	d := k.dequantizer(n.Input(0))
	if d == nil || k.o.Level == ort.Disabled {
		return nil
	}
	scale, zero, codes, err := k.grid(d)
	if s, z, c, err2 := k.grid(n); err != nil || err2 != nil || s != scale || z != zero || c != codes {
		return fmt.Errorf("it quantizes again what %s made with another scale, "+
			"and ONNX Runtime makes one quantizer of the two: remove one", d.Label())
	}
	return nil
}

// refuseRounding refuses a layer of float arithmetic whose weights or bias are floats in the file and integers
// when it runs: between quantizers, ONNX Runtime rounds them.
func (k *compiler) refuseRounding(n *graph.Node) error {
	if k.o.Level == ort.Disabled || k.dequantizer(n.Input(0)) == nil {
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
			return errors.New("its weights or bias are floats behind a quantizer, " +
				"and its kernel is not found in the graph that ONNX Runtime runs: give the node a name")
		case isInteger(kernel) || coded(running, kernel.Input(i+1)):
			return errors.New("its weights or bias are floats that ONNX Runtime rounds, " +
				"since there are quantizers on both sides: remove one of those")
		}
	}
	return nil
}

// biasOf returns the value that is added to the layer's sums, by the layer or by the Add behind a MatMul,
// which may run as one kernel with it; "" without one.
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

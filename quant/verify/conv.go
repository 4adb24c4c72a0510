package verify

import (
	"fmt"
	"strconv"
	"strings"

	"cfq/onnxio/graph"
)

// isLayer reports whether n is of an operator that has weights.
func isLayer(n *graph.Node) bool { return n.Is("Gemm") || n.Is("MatMul") || n.Is("Conv") }

// runs reports whether the node n that runs the layer w of the written graph does
// so on integers, or, for float arithmetic, on weights that are folded at load.
func runs(n, w *graph.Node, integers bool, inits map[string]*graph.Tensor) bool {
	kernels := "QGemm QLinearMatMul MatMulIntegerToFloat"
	switch {
	case w.Is("Conv") && integers:
		kernels = "QLinearConv"
	case w.Is("Conv"):
		kernels = "Conv FusedConv"
	case !integers:
		kernels = "Gemm FusedGemm MatMul"
	}
	known := strings.Contains(" "+kernels+" ", " "+n.Op+" ")
	return known && (integers || inits[n.Input(1)] != nil)
}

// integers reports whether n is an integer kernel with weights.
func integers(n *graph.Node) bool {
	switch n.Op {
	case "QGemm", "QLinearMatMul", "MatMulIntegerToFloat", "QLinearConv", "DynamicQuantizeMatMul", "MatMulInteger", "ConvInteger":
		return true
	}
	return false
}

// moved reports whether the optimizer gave the node called by to another layout of
// its data: such a node is called after it.
func moved(name, by string) bool {
	number, ok := strings.CutPrefix(name, by+"_token_")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// blocked returns the convolution that the optimizer made for blocks of channels,
// which it calls after the value that it computes; nil without one.
func blocked(optimized *graph.Graph, output string) *graph.Node {
	for _, n := range optimized.Nodes {
		if output != "" && n.Name == output+"_nchwc" {
			return n
		}
	}
	return nil
}

// space follows rounding differences through the operators that stand around
// convolutions; known is false for others. Channels are not told apart.
func (b *bounded) space(n *graph.Node, in spread, weights map[string]matrix, ranges map[string]float64) (_ spread, known bool) {
	switch n.Op {
	case "Conv":
		w, ok := weights[n.Name]
		if !ok {
			return nil, false
		}
		out := spread{b.gemm(n, w, spread{in.max()}, ranges).max()}
		b.convs[n.Outputs[0]] = true
		return out, true
	case "MaxPool", "GlobalMaxPool", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose":
		return spread{in.max()}, true
	case "AveragePool", "GlobalAveragePool":
		if in.max() == 0 {
			return nil, false
		}
		return spread{in.max() + floatRounding*max(ranges[n.Input(0)], 1)}, true
	case "Add", "Sub", "Concat":
		sum, most := 0.0, 0.0
		for _, name := range n.Inputs {
			s, ok := b.values[name]
			if !ok {
				return nil, false
			}
			sum, most = sum+s.max(), max(most, s.max())
		}
		if n.Op == "Concat" {
			return spread{most}, true
		}
		return spread{sum * (1 + floatRounding)}, true
	}
	return nil, false
}

// rounded notes that value is quantized with a scale: where it is what a
// convolution makes, that is the step of the outputs.
func (b *bounded) rounded(n *graph.Node, scale float64) {
	if b.convs[n.Input(0)] {
		b.step = max(b.step, scale)
	}
}

// passed notes that n, an activation function, passes a convolution's output on.
func (b *bounded) passed(n *graph.Node) {
	if b.convs[n.Input(0)] {
		b.convs[n.Outputs[0]] = true
	}
}

// flat returns the dimensions of a layer's weights as outputs x inputs.
func flat(dims []int64) (rows, cols int, err error) {
	if len(dims) < 2 {
		return 0, 0, fmt.Errorf("weights of %d dimensions", len(dims))
	}
	cols = 1
	for _, d := range dims[1:] {
		cols *= int(d)
	}
	return int(dims[0]), cols, nil
}

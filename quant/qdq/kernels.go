package qdq

import (
	"math"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// Kernel says at which inputs an operator that ONNX Runtime runs a layer with has what.
type Kernel struct {
	Weights    []int // the weights; of codes also their scales and, where there are such, zero points
	Bias       int
	Activation int // bits of what it multiplies the weights with
	// Scale and OutputScale are those of the activations, of the integer kernels that written layers are planned for.
	Scale, OutputScale int
}

// Kernels is the table of these operators, those that other tools write included.
func Kernels() map[string]Kernel {
	whole := graph.Float.Bits()
	table := map[string]Kernel{
		"MatMulInteger":         {Weights: []int{1, 3}, Bias: math.MaxInt, Activation: 8},
		"ConvInteger":           {Weights: []int{1, 3}, Bias: math.MaxInt, Activation: 8},
		"DynamicQuantizeMatMul": {Weights: []int{1, 2, 3}, Bias: 4, Activation: 8},
		"MatMulIntegerToFloat":  {[]int{1, 3, 5}, 6, 8, 2, math.MaxInt},
		"QGemm":                 {[]int{3, 4, 5}, 6, 8, 1, 7},
		"QLinearMatMul":         {[]int{3, 4, 5}, math.MaxInt, 8, 1, 6},
		"QLinearConv":           {[]int{3, 4, 5}, 8, 8, 1, 6},
		"MatMulNBits":           {Weights: []int{1, 2, 3, 4}, Bias: 5, Activation: whole},
		"Gather":                {Weights: []int{0}, Bias: math.MaxInt, Activation: whole},
	}
	for _, op := range []string{"Gemm", "FusedGemm", "MatMul", "Conv", "FusedConv"} {
		table[op] = Kernel{Weights: []int{1}, Bias: 2, Activation: whole}
	}
	return table
}

// Planned reports whether written layers are planned for the kernel.
func (k Kernel) Planned() bool { return k.Scale > 0 || len(k.Weights) == 1 }

// Integer reports whether the kernel multiplies integers.
func (k Kernel) Integer() bool { return k.Activation == 8 }

func integerOf(n *graph.Node) *Kernel {
	if k := Kernels()[n.Op]; len(k.Weights) > 1 {
		return &k
	}
	return nil
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

// IntegerWeights is the number of weights from which a dense layer computes faster on integers, the cost of
// quantizing what it reads included: 256 x 256. BenchmarkCompute measures it.
const IntegerWeights = 256 * 256

// Integers says for each layer of a model, in the order of the graph, whether its arithmetic is faster on integers than
// in float in ONNX Runtime, by shapes alone, so that the same model always gives the same file.
//
// Dense layers that read the same value are on integers together, from IntegerWeights weights on, and so are all dense
// layers behind them: the kernel in front hands them codes. Convolutions stay in float: their blocked layouts are
// faster than integer convolutions at every size. Tables that are looked up compute nothing.
func Integers(layers []quant.LayerInfo) []bool {
	weights := map[string]int{}
	for i := range layers {
		if layers[i].Conv == nil && !layers[i].Table {
			weights[layers[i].Input] += layers[i].Params()
		}
	}
	out, behind := make([]bool, len(layers)), false
	for i := range layers {
		if layers[i].Conv == nil && !layers[i].Table {
			behind = behind || weights[layers[i].Input] >= IntegerWeights
			out[i] = behind
		}
	}
	return out
}

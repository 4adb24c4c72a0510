package qdq

import "cfq/quant"

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

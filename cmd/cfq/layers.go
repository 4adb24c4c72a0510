package main

import (
	"cmp"

	"cfq/onnxio/graph"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

// stored is the mean of the stored bits over all weights, and the bytes of the weights in the file; 0 without any.
func stored(layers []qdq.LayerNote) (bits float64, bytes int) {
	weights := 0
	for _, l := range layers {
		weights += l.Params()
		bits += float64(l.Params()) * l.Bits
		bytes += l.Stored
	}
	return bits / float64(max(1, weights)), bytes
}

// weightBits is the mean of the stored bits over all weights of a model, 0 when its layers are not understood.
func weightBits(m *graph.Model) float64 {
	layers, err := qdq.Layers(m)
	if err != nil {
		return 0
	}
	bits, _ := stored(layers)
	return bits
}

// setKernels finds each layer in the graph that ONNX Runtime made.
func setKernels(layers []qdq.LayerNote, optimized *graph.Graph) {
	for i := range layers {
		l := &layers[i]
		n := cmp.Or(verify.Kernel(optimized, l.Node, l.Output), verify.Kernel(optimized, "", l.Behind))
		if n != nil {
			l.Kernel = n.Op
		}
	}
}

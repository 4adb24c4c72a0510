package main

import (
	"slices"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

// layer is a dense layer as it is stored and as ONNX Runtime runs it.
type layer struct {
	qdq.LayerNote
	Kernel string `json:"kernel"` // operator that ONNX Runtime runs; "" when not known
}

// findLayers lists the layers of m. A float model is looked at in its canonical
// form, as quantize does; a quantized one as it stands, and so is one that has no
// canonical form, which is an error.
func findLayers(m *graph.Model) ([]layer, error) {
	quantized := slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return n.Is("DequantizeLinear") || n.Is("QuantizeLinear")
	})
	var unusual error
	if !quantized {
		var c *graph.Model
		if c, unusual = onnxio.Canonical(m); unusual == nil {
			m = c
		}
	}
	notes, err := qdq.Describe(m)
	layers := []layer{}
	for _, n := range notes {
		if !quantized && unusual == nil && n.Fixed != "" {
			n.Note = "stays in float: " + n.Fixed
		}
		layers = append(layers, layer{LayerNote: n})
	}
	if unusual != nil {
		err = unusual
	}
	return layers, err
}

// stored is the mean of the stored bits over all weights, and the bytes of the weights in the file; 0 without any.
func stored(layers []layer) (bits float64, bytes int) {
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
	layers, err := findLayers(m)
	if err != nil {
		return 0
	}
	bits, _ := stored(layers)
	return bits
}

// setKernels finds each layer in the graph that ONNX Runtime made.
func setKernels(layers []layer, optimized *graph.Graph) {
	for i := range layers {
		l := &layers[i]
		n := verify.Kernel(optimized, l.Node, l.Output)
		if n == nil {
			n = verify.Kernel(optimized, "", l.Behind)
		}
		if n != nil {
			l.Kernel = n.Op
		}
	}
}

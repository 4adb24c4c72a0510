package main

import (
	"cmp"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

func storedBits(m *onnxio.Model) float64 {
	layers, err := qdq.LayersOf(m)
	if err != nil {
		return 0
	}
	return qdq.StoredBits(layers)
}

func setKernels(layers []qdq.LayerNote, optimized *graph.Graph) {
	for i := range layers {
		l := &layers[i]
		n := cmp.Or(verify.Kernel(optimized, l.Node, l.Output), verify.Kernel(optimized, "", l.Behind))
		if n != nil {
			l.Kernel = n.Op
		}
	}
}

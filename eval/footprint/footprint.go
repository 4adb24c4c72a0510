// Package footprint measures what a quantized model takes, and what the full-precision one takes: bytes, bits,
// bit operations, time.
//
// In: two models, their files' sizes, rows for the clock. Out: eval.Footprint and eval.Timing. The invariant:
// bits and operations are read from the graphs that are shipped, and time is that of ONNX Runtime at the
// optimization level of production; nothing is taken from the plan that a model was made from.
package footprint

import (
	"fmt"
	"slices"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/quant/qdq"
)

// floatBits is the width of what is not quantized.
const floatBits = 32

// Measure counts bits and bit operations of one row in both models; the bytes of their files are the caller's
// to say. The weights are those of Gemm, MatMul and Conv. A quantized one takes what the file stores for it,
// see qdq.Stored. A bit operation is a multiplication times the bits of its weight (of a layer's rows in
// several widths, their mean) times the bits of its activation; a layer that computes in float has 32 x 32,
// and one of quantized weights and float activations has 32 for the latter.
//
// How often a convolution uses its weights follows from the sizes in the full model. Where these are not
// declared, or the layers cannot be told, the number is 0.
func Measure(full, quantized *graph.Model, fullBytes, quantBytes int64) (*eval.Footprint, error) {
	f, err := qdq.Layers(full)
	if f == nil {
		return nil, fmt.Errorf("footprint of the original: %w", err)
	}
	q, err := qdq.Layers(quantized)
	if q == nil {
		return nil, fmt.Errorf("footprint of the quantized model: %w", err)
	}
	for i := range q { // how often a convolution uses its weights follows from the full model
		at := slices.IndexFunc(f, func(l qdq.LayerNote) bool { return l.Node == q[i].Node })
		if at < 0 {
			at = i
		}
		l := &q[i]
		if l.Positions == 0 && at < len(f) && f[at].Op == l.Op && f[at].In == l.In && f[at].Out == l.Out {
			l.Positions = f[at].Positions
		}
	}
	return &eval.Footprint{Full: weight(f, fullBytes), Quant: weight(q, quantBytes)}, nil
}

// weight sums over layers.
func weight(layers []qdq.LayerNote, bytes int64) eval.Weight {
	w := eval.Weight{Bytes: bytes, StoredBits: qdq.StoredBits(layers)}
	known := true
	for i := range layers {
		l := &layers[i]
		width, activation := l.Bits, l.Activation
		if l.IsFloat() {
			width, activation = floatBits, floatBits
		}
		known = known && l.Positions > 0
		w.BOPs += float64(l.Positions) * float64(l.Columns) * float64(l.Out) * width * float64(activation)
	}
	if !known {
		w.BOPs = 0
	}
	return w
}

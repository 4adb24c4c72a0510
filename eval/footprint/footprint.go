// Package footprint measures what a quantized model takes, and what the full-precision one takes: bytes, bits,
// bit operations, time.
//
// In: two models, their files' sizes, rows for the clock. Out: eval.Footprint and eval.Timing. The invariant:
// bits and operations are read from the graphs that are shipped, and time is that of ONNX Runtime at the
// optimization level of production; nothing is taken from the plan that a model was made from.
package footprint

import (
	"fmt"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/quant/qdq"
)

// Measure counts bits and bit operations of one row in both models; the bytes of their files are the caller's
// to say. The weights are those of Gemm, MatMul, Einsum and Conv. A quantized one takes what the file stores for it,
// see qdq.LayerNote. A bit operation is a multiplication times the bits of its weight (of a layer's rows in
// several widths, their mean) times the bits of its activation; a layer that computes in float has 32 x 32, in float16
// 16 x 16, and one of quantized weights and float activations has 32 for the latter. What is looked up has none.
//
// How often a row uses the weights of a layer, at positions of a convolution or for tokens, follows from the shapes
// that running the models has shown. Where it does not, the number is 0.
func Measure(full, quantized *onnxio.Model, fullBytes, quantBytes int64) (*eval.Footprint, error) {
	f, _, err := weigh(full, fullBytes)
	if err != nil {
		return nil, fmt.Errorf("footprint of the original: %w", err)
	}
	q, saturating, err := weigh(quantized, quantBytes)
	if err != nil {
		return nil, fmt.Errorf("footprint of the quantized model: %w", err)
	}
	return &eval.Footprint{Full: f, Quant: q, Saturating: saturating}, nil
}

func weigh(m *onnxio.Model, bytes int64) (w eval.Weight, saturating int, err error) {
	const floatBits = 32
	notes, err := qdq.LayersOf(m)
	if err != nil {
		return w, 0, err
	}
	if !qdq.Quantized(m.Graph()) {
		if c, err := m.Canonical(); err == nil {
			m = c
		}
	}
	known := true
	for i := range notes {
		l := &notes[i]
		if l.Saturates {
			saturating++
		}
		if l.Table {
			continue
		}
		width, activation := l.Held, float64(l.Activation)
		if l.IsFloat() {
			width, activation = floatBits, floatBits
		}
		if l.IsFloat() && m.Converted() { // of the file
			width, activation = l.Bits, l.Bits
		}
		outputs, ok := m.PerRow(l.Output)
		known = known && ok && outputs > 0 && outputs%l.Out == 0
		w.BOPs += float64(outputs) * float64(l.Columns) * width * activation
	}
	if w.Bytes, w.StoredBits = bytes, qdq.StoredBits(notes); !known {
		w.BOPs = 0
	}
	return w, saturating, nil
}

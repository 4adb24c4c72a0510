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

const floatBits = 32

// Measure counts bits and bit operations of one row in both models; the bytes of their files are the caller's
// to say. The weights are those of Gemm, MatMul, Einsum and Conv. A quantized one takes what the file stores for it,
// see qdq.Stored. A bit operation is a multiplication times the bits of its weight (of a layer's rows in
// several widths, their mean) times the bits of its activation; a layer that computes in float has 32 x 32,
// and one of quantized weights and float activations has 32 for the latter. What is looked up has none.
//
// How often a row uses the weights of a layer, at positions of a convolution or for tokens, follows from the shapes
// that running the models has shown. Where it does not, the number is 0.
func Measure(full, quantized *onnxio.Model, fullBytes, quantBytes int64) (*eval.Footprint, error) {
	f, err := layersOf(full)
	if err != nil {
		return nil, fmt.Errorf("footprint of the original: %w", err)
	}
	q, err := layersOf(quantized)
	if err != nil {
		return nil, fmt.Errorf("footprint of the quantized model: %w", err)
	}
	out := &eval.Footprint{Full: weight(f, fullBytes), Quant: weight(q, quantBytes)}
	for i := range q {
		if q[i].Saturates {
			out.Saturating++
		}
	}
	return out, nil
}

// used is a layer and how often a row uses its weights; 0 where that is not known.
type used struct {
	qdq.LayerNote
	times int
}

func layersOf(m *onnxio.Model) ([]used, error) {
	notes, err := qdq.LayersOf(m)
	if !qdq.Quantized(m.Graph()) {
		if c, err := m.Canonical(); err == nil {
			m = c
		}
	}
	out := make([]used, len(notes))
	for i := range notes {
		l := &notes[i]
		out[i].LayerNote = *l
		if n, ok := m.PerRow(l.Output); ok && n%l.Out == 0 {
			out[i].times = n / l.Out
		}
	}
	return out, err
}

func weight(layers []used, bytes int64) eval.Weight {
	w, known := eval.Weight{Bytes: bytes}, true
	notes := make([]qdq.LayerNote, len(layers))
	for i := range layers {
		l := &layers[i]
		notes[i] = l.LayerNote
		width, activation := l.Bits, l.Activation
		if l.IsFloat() {
			width, activation = floatBits, floatBits
		}
		if l.Table {
			continue
		}
		known = known && l.times > 0
		w.BOPs += float64(l.times) * float64(l.Columns) * float64(l.Out) * width * float64(activation)
	}
	if w.StoredBits = qdq.StoredBits(notes); !known {
		w.BOPs = 0
	}
	return w
}

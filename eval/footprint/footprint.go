// Package footprint measures what a quantized model takes, and what the full-precision one takes: bytes, bits,
// bit operations, time.
//
// In: two models, their files' sizes, rows for the clock. Out: eval.Footprint and eval.Timing. The invariant:
// bits and operations are read from the graphs that are shipped, and time is that of ONNX Runtime at the
// optimization level of production; nothing is taken from the plan that a model was made from.
package footprint

import (
	"fmt"
	"math/bits"
	"slices"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/quant"
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
	f, err := layersOf(full)
	if err != nil {
		return nil, fmt.Errorf("footprint of the original: %w", err)
	}
	q, err := layersOf(quantized)
	if err != nil {
		return nil, fmt.Errorf("footprint of the quantized model: %w", err)
	}
	for i := range q { // how often a convolution uses its weights follows from the full model
		at := slices.IndexFunc(f, func(l layer) bool { return l.Node == q[i].Node })
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

// layer is a layer with the bits of what it reads.
type layer struct {
	qdq.LayerNote
	activation int
}

// layersOf lists the layers of a model.
func layersOf(m *graph.Model) ([]layer, error) {
	notes, err := qdq.Layers(m)
	if notes == nil {
		return nil, err
	}
	layers := make([]layer, len(notes))
	producers, inits := m.Graph.Producers(), m.Graph.InitMap()
	for i, n := range notes {
		layers[i] = layer{n, activation(n.Input, producers, inits)}
	}
	return layers, nil
}

// weight sums over layers.
func weight(layers []layer, bytes int64) eval.Weight {
	w := eval.Weight{Bytes: bytes}
	weights, stored, known := 0, 0.0, true
	for i := range layers {
		l := &layers[i]
		weights += l.Params()
		width := l.Bits
		if l.isFloat() {
			stored += l.Bits * float64(l.Params())
			width, l.activation = floatBits, floatBits
		} else {
			stored += 8 * float64(l.Stored)
		}
		known = known && l.Positions > 0
		w.BOPs += float64(l.Positions) * float64(l.Columns) * float64(l.Out) * width * float64(l.activation)
	}
	if weights > 0 {
		w.WeightBits = stored / float64(weights)
	}
	if !known {
		w.BOPs = 0
	}
	return w
}

// isFloat reports whether the weights are stored as floats.
func (l *layer) isFloat() bool {
	return slices.ContainsFunc([]graph.DType{graph.Float, graph.Double, graph.Float16, graph.BFloat16},
		func(t graph.DType) bool { return l.Container == t.String() })
}

// activation returns the bits of the value called name where a layer reads it: those of the codes behind the
// DequantizeLinear that it comes from, and fewer where a Clip bounds the codes; 32 without one.
func activation(name string, producers map[string]*graph.Node, inits map[string]*graph.Tensor) int {
	width, coded := floatBits, false
	for range len(producers) + 1 {
		n := producers[name]
		switch {
		case n == nil || n.Is("QuantizeLinear"):
			return width
		case n.Is("DequantizeLinear"):
			width, coded = 8, true
			if z := inits[n.Input(2)]; z != nil {
				width = z.DType.Bits()
			}
		case n.Is("Clip"):
			if hi, ok := integer(inits[n.Input(2)]); ok && coded {
				lo, _ := integer(inits[n.Input(1)])
				if hi >= lo {
					width = min(width, max(1, bits.Len64(uint64(hi-lo))))
				}
			}
		case !quant.Moves(n) && !n.Is("Relu") && !n.Is("Max") && !n.Is("Min"):
			return width
		}
		name = n.Input(0)
	}
	return width
}

// integer returns the only element of an integer constant.
func integer(t *graph.Tensor) (v int64, ok bool) {
	if t == nil || t.Len() != 1 {
		return 0, false
	}
	all, err := t.Ints()
	if err != nil {
		return 0, false
	}
	return all[0], true
}

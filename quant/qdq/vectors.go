package qdq

import (
	"encoding/binary"
	"math"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// What nodes and tensors take in the file beside their data, to a few bytes:
// enough to tell when a constant is longer than what computes it at load.
const (
	castBytes   = 30
	expandBytes = 27
	shapeBytes  = 22 // of one number, with it
)

// vector adds numbers that belong to the outputs of a layer, as float16 behind a
// Cast when it has all of them and that is shorter.
func (w *writer) vector(hint string, v []float32, dims ...int64) string {
	raw := make([]byte, 2*len(v))
	for i, x := range v {
		h, ok := quant.Half(x)
		if !ok || h != x || 2*len(v) <= castBytes || w.plain {
			return w.tensor(graph.FromFloats(hint, v, dims...))
		}
		binary.LittleEndian.PutUint16(raw[2*i:], halfBits(h))
	}
	half := w.tensor(&graph.Tensor{Name: hint, DType: graph.Float16, Dims: dims, Raw: raw})
	return w.shared("Cast", hint, []string{half}, graph.IntAttr("to", int64(graph.Float)))
}

// halfBits is the float16 form of a positive number that float16 has: one with
// another bias of the exponent and a shorter fraction.
func halfBits(x float32) uint16 {
	const bias, dropped = 127 - 15, 13
	return uint16(math.Float32bits(x)>>dropped - bias<<10)
}

// halfFloat is the number whose float16 form is h.
func halfFloat(h uint16) float32 {
	const bias, dropped = 127 - 15, 13
	x := math.Float32frombits(uint32(h)&0x8000<<16 | (uint32(h)&0x7fff+bias<<10)<<dropped)
	switch h >> 10 & 31 {
	case 0: // denormal: without the leading one
		return float32(int(h&0x3ff)) * 0x1p-24
	case 31:
		return float32(math.Inf(1))
	}
	return x
}

// zeros writes a zero point of the shape of l's scales. Without one the runtime
// does not fuse, or fails. Long ones are expanded at load.
func (w *writer) zeros(t graph.DType, l *layer) string {
	n, size := len(l.enc.Scales), t.Bits()/8
	zero := func(n int, dims ...int64) string {
		return w.tensor(&graph.Tensor{Name: "z", DType: t, Dims: dims, Raw: make([]byte, n*size)})
	}
	switch {
	case n == 1:
		return zero(1)
	case w.plain || n*size <= expandBytes+shapeBytes+size:
		return zero(n, int64(n))
	}
	shape := w.tensor(graph.FromInts("n", []int64{int64(n)}, 1))
	return w.shared("Expand", "z", []string{zero(1), shape})
}

package quant

import (
	"fmt"
	"math"
)

// Format is a number format of weights: symmetric (zero point 0) signed integers
// QMin..QMax times a scale.
type Format struct {
	Bits       int
	QMin, QMax int
	Doc        string
}

// ReducedMax bounds the codes of a reduced 8-bit layer: two products of 255 with
// 64 still fit the 16-bit sums of CPUs without VNNI, so that every machine
// computes the same result.
const ReducedMax = 64

// Formats returns the one table of weight formats, narrowest first. The ranges
// are the paper's (section "Quantizer parameterization"): q- = -2^(b-1),
// q+ = 2^(b-1)-1.
func Formats() []Format {
	return []Format{
		{2, -2, 1, "INT2 behind Cast(int8); two bit planes for ONNX Runtime before 1.24"},
		{3, -4, 3, "three bit planes unpacked by one shared function, or INT4 where that is smaller"},
		{4, -8, 7, "INT4 behind Cast(int8); four bit planes for ONNX Runtime before 1.23"},
		{8, -128, 127, "int8; -64..64 when reduced, which cannot saturate on x64 CPUs without VNNI"},
	}
}

// FormatsFor returns Formats, with 8 bits narrowed to -ReducedMax..ReducedMax when
// reduced is set.
func FormatsFor(reduced bool) []Format {
	formats := Formats()
	for i := range formats {
		if f := &formats[i]; reduced && f.QMax > ReducedMax {
			f.QMin, f.QMax = -ReducedMax, ReducedMax
		}
	}
	return formats
}

// FormatOf returns the format of weights of the given width out of FormatsFor.
func FormatOf(bits int, reduced bool) (Format, error) {
	for _, f := range FormatsFor(reduced) {
		if f.Bits == bits {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("%d-bit weights are not supported: the widths are 2, 3, 4 and 8", bits)
}

// Quantize returns the code of w: round(w/scale) with halves to even, saturated,
// computed in float32 as ONNX's QuantizeLinear does. scale must be positive. NaN gives 0.
func (f Format) Quantize(w, scale float32) int8 {
	return int8(quantize(w, scale, 0, f.QMin, f.QMax))
}

// Dequantize returns the number that code stands for, as DequantizeLinear computes it.
func Dequantize(code int8, scale float32) float32 { return float32(code) * scale }

// quantize is ONNX's QuantizeLinear in float32, halves to even, saturating.
func quantize(x, scale float32, zero, lo, hi int) int {
	q := math.RoundToEven(float64(x/scale)) + float64(zero)
	// Comparisons in the order in which they are likely: fitting does little else.
	switch {
	case q < float64(hi) && q > float64(lo):
		return int(q)
	case q <= float64(lo):
		return lo
	case q != q:
		return min(max(zero, lo), hi)
	}
	return hi
}

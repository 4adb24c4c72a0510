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
		{2, -2, 1, "INT2 behind Cast(int8), or two bit planes where the runtime has no INT2"},
		{3, -4, 3, "three bit planes unpacked by one shared function, or INT4 where that is smaller"},
		{4, -8, 7, "INT4 behind Cast(int8)"},
		{8, -128, 127, "int8; -64..64 when reduced, which cannot saturate on x64 CPUs without VNNI"},
	}
}

// FormatOf returns the format of weights of the given width. Reduced narrows 8
// bits to -ReducedMax..ReducedMax and changes nothing for other widths.
func FormatOf(bits int, reduced bool) (Format, error) {
	for _, f := range Formats() {
		if f.Bits != bits {
			continue
		}
		if reduced && f.QMax > ReducedMax {
			f.QMin, f.QMax = -ReducedMax, ReducedMax
		}
		return f, nil
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
	q := math.RoundToEven(float64(x / scale))
	if q != q {
		return min(max(zero, lo), hi)
	}
	q += float64(zero)
	return int(math.Min(math.Max(q, float64(lo)), float64(hi)))
}

// FitScale returns the smallest scale at which every value of w lies within the
// format's range: max-abs calibration. It is 1 when w is all zero.
func (f Format) FitScale(w []float32) float32 {
	var lo, hi float64
	for _, x := range w {
		lo, hi = math.Min(lo, float64(x)), math.Max(hi, float64(x))
	}
	s := float32(math.Max(lo/float64(f.QMin), hi/float64(f.QMax)))
	if !(s > math.SmallestNonzeroFloat32*(1<<23)) {
		return 1
	}
	return s
}

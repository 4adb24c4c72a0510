package quant

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Format is a number format of weights: symmetric (zero point 0) signed integers QMin..QMax times a scale.
type Format struct {
	Bits       int
	QMin, QMax int
	Doc        string
}

// ReducedMax bounds the codes of a reduced 8-bit layer: two products of 255 with 64 still fit the 16-bit sums of CPUs
// without VNNI, so that every machine computes the same result.
const ReducedMax = 64

// Saturates reports whether the 16-bit sum of two products of activations of that many bits and weights of that code is
// cut off by x64 CPUs without VNNI.
func Saturates(actBits int, code int64) bool {
	return actBits <= 8 && 2*(int64(1)<<actBits-1)*code > math.MaxInt16
}

// Formats returns the one table of weight formats, narrowest first. The ranges are the paper's (section "Quantizer
// parameterization"): q- = -2^(b-1), q+ = 2^(b-1)-1.
func Formats() []Format {
	return []Format{
		{2, -2, 1, "INT2 behind Cast(int8)"},
		{3, -4, 3, "three bit planes unpacked by one shared function, or INT4 where that is smaller"},
		{4, -8, 7, "INT4 behind Cast(int8)"},
		{8, -128, 127, "int8; -64..64 when reduced, which cannot saturate on x64 CPUs without VNNI"},
	}
}

// FormatsFor returns Formats, with 8 bits narrowed to -ReducedMax..ReducedMax when reduced is set.
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

// CodeBits is the bit width of each of n rows of codes: that of the narrowest format that holds the row.
func CodeBits(codes []int8, n int) []int {
	bits := make([]int, 0, n)
	for row := range slices.Chunk(codes, max(1, len(codes)/n)) {
		low, high := int(slices.Min(row)), int(slices.Max(row))
		holds := func(f Format) bool { return f.QMin <= low && high <= f.QMax }
		bits = append(bits, Formats()[slices.IndexFunc(Formats(), holds)].Bits)
	}
	return bits
}

// Quantize returns the code of w: round(w/scale) with halves to even, saturated,
// computed in float32 as ONNX's QuantizeLinear does. scale must be positive. NaN gives 0.
func (f Format) Quantize(w, scale float32) int8 {
	return int8(quantize(w, scale, 0, f.QMin, f.QMax))
}

// Dequantize returns the number that code stands for, as DequantizeLinear computes it.
func Dequantize(code int8, scale float32) float32 { return float32(code) * scale }

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

// Half returns the float16 number nearest to scale, of two equally near the one with the even last bit: a file holds
// such a scale in two bytes. It reports false when that is no normal float16, from 2^-14 to 65504 without the sign; the
// scale then has to be a float32.
func Half(scale float32) (float32, bool) {
	const dropped = 13 // bits of the fraction that float16 does not have
	b := math.Float32bits(scale)
	b += 1<<(dropped-1) - 1 + b>>dropped&1
	h := math.Float32frombits(b &^ (1<<dropped - 1))
	if a := max(h, -h); !(a >= 0x1p-14 && a <= 65504) {
		return 0, false
	}
	return h, true
}

// HalfScales replaces scales by the float16 numbers nearest to them, which take half the bytes in a file, where Half
// has one.
func HalfScales(scales []float32) {
	for k, v := range scales {
		if half, ok := Half(v); ok {
			scales[k] = half
		}
	}
}

// HalfBiases is HalfScales of biases, of which small ones become 0 or the least such number, whichever is nearer.
func HalfBiases(biases []float32) {
	HalfScales(biases)
	for k, v := range biases {
		if max(v, -v) < 0x1p-14 {
			biases[k] = float32(math.Round(float64(v)*0x1p14) * 0x1p-14)
		}
	}
}

// AreHalf reports whether a file can hold the numbers as float16.
func AreHalf(v ...float32) bool {
	return !slices.ContainsFunc(v, func(x float32) bool {
		half, ok := Half(x)
		return x != 0 && (!ok || half != x)
	})
}

const hexDigits = "0123456789abcdef"

func codeDigits(bits int) int {
	if bits > 4 {
		return 2
	}
	return 1
}

// encodeCodes writes codes in two's complement: two hexadecimal digits each for 8 bits, one for fewer.
func encodeCodes(codes []int8, bits int) string {
	out := make([]byte, 0, 2*len(codes))
	for _, c := range codes {
		if codeDigits(bits) == 2 {
			out = append(out, hexDigits[uint8(c)>>4])
		}
		out = append(out, hexDigits[uint8(c)&15])
	}
	return string(out)
}

func decodeCodes(s string, f Format) ([]int8, error) {
	digits := codeDigits(f.Bits)
	if len(s)%digits != 0 {
		return nil, fmt.Errorf("%d digits: codes of %d bits have two each", len(s), f.Bits)
	}
	out := make([]int8, len(s)/digits)
	for i := range out {
		word := s[i*digits : (i+1)*digits]
		v, err := strconv.ParseUint(word, 16, 8)
		if err != nil {
			return nil, fmt.Errorf("code %d: %q is not a code: want hexadecimal digits", i, word)
		}
		sign := 8 - 4*digits // bits to the left of the sign
		out[i] = int8(v<<sign) >> sign
		if q := int(out[i]); q < f.QMin || q > f.QMax {
			return nil, fmt.Errorf("code %d: %q is %d, outside %d..%d", i, word, q, f.QMin, f.QMax)
		}
	}
	return out, nil
}

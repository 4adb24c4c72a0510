package graph

import (
	"encoding/binary"
	"math"
)

func halves(t DType, raw []byte) []float64 {
	out := make([]float64, len(raw)/2)
	for i := range out {
		b := binary.LittleEndian.Uint16(raw[2*i:])
		if t == BFloat16 {
			out[i] = float64(math.Float32frombits(uint32(b) << 16))
		} else {
			out[i] = fromHalf(b)
		}
	}
	return out
}

func fromHalf(b uint16) float64 {
	const fraction = 1<<10 - 1
	e, f := int(b>>10&31), float64(b&fraction)
	var v float64
	switch {
	case e == 31 && f > 0:
		v = math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(f, -24)
	default:
		v = math.Ldexp(f+fraction+1, e-25)
	}
	return math.Copysign(v, 1-2*float64(b>>15))
}

// toHalves encodes numbers, rounded to the nearest, ties to even.
func toHalves(t DType, v []float64) []byte {
	raw := make([]byte, 0, 2*len(v))
	for _, x := range v {
		b := toHalf(x)
		if t == BFloat16 {
			b = toBFloat(float32(x))
		}
		raw = binary.LittleEndian.AppendUint16(raw, b)
	}
	return raw
}

func toHalf(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign = 1 << 15
	}
	a := math.Abs(x)
	_, e := math.Frexp(a)
	e = max(e-1, -14)
	switch units := math.RoundToEven(math.Ldexp(a, 10-e)); { // of the last bit
	case a == 0:
		return sign
	case x != x:
		return sign | 31<<10 | 1<<9
	case a >= 65520: // rounds to 2^16
		return sign | 31<<10
	default:
		return sign | (uint16(e+14)<<10 + uint16(units))
	}
}

func toBFloat(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 1<<6
	}
	return uint16((b + 1<<15 - 1 + b>>16&1) >> 16)
}

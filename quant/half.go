package quant

import "math"

// Half returns the float16 number nearest to scale, of two equally near the one
// with the even last bit: a file holds such a scale in two bytes. It reports false
// when that is no positive normal float16, from 2^-14 to 65504; the scale then
// has to be a float32.
func Half(scale float32) (float32, bool) {
	const dropped = 13 // bits of the fraction that float16 does not have
	b := math.Float32bits(scale)
	b += 1<<(dropped-1) - 1 + b>>dropped&1
	h := math.Float32frombits(b &^ (1<<dropped - 1))
	if !(h >= 0x1p-14 && h <= 65504) {
		return 0, false
	}
	return h, true
}

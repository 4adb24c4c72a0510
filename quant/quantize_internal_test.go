package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// reference is QuantizeLinear as its definition says it, in float64 behind the division in float32.
func reference(x, scale float32, zero, lo, hi int) int {
	r := float64(x / scale)
	if math.IsNaN(r) {
		return int(math.Min(math.Max(float64(zero), float64(lo)), float64(hi)))
	}
	return int(math.Min(math.Max(math.RoundToEven(r)+float64(zero), float64(lo)), float64(hi)))
}

func TestQuantizeEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negative := float32(math.Copysign(0, -1))
	numbers := []float32{
		0, negative, inf, -inf, nan, 0.5, -0.5, 1.5, 2.5, -2.5, 7.5, 8.5, -8.5, -9,
		127.5, 254.5, 255.5, -0.49999997, 0.50000006,
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
		1 << 24, 1 << 31, -(1 << 31), 1 << 62, 1 << 63, 0x1p100,
	}
	scales := []float32{
		1, 0.3, 3, 0x1p-126, 0x1p100, math.MaxFloat32, math.SmallestNonzeroFloat32, 0, negative, -1,
		inf, nan,
	}
	ranges := [][3]int{ // zero point, smallest and largest code
		{0, -8, 7},
		{0, -2, 1},
		{0, -128, 127},
		{0, -64, 64},
		{0, 0, 255},
		{7, 0, 255},
		{255, 0, 255},
		{15, 0, 15},
		{200, 0, 15},
		{-3, 0, 15},
		{0, 0, 1 << 20},
		{3, 3, 3},
	}
	check := func(x, s float32, r [3]int) {
		if got, want := quantize(x, s, r[0], r[1], r[2]), reference(x, s, r[0], r[1], r[2]); got != want {
			t.Errorf("%v with scale %v and %v has the code %d, want %d", x, s, r, got, want)
		}
	}
	for _, r := range ranges {
		for _, s := range scales {
			for _, x := range numbers {
				check(x, s, r)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200000 { // any bits are a number
		check(math.Float32frombits(rng.Uint32()), math.Float32frombits(rng.Uint32()), ranges[rng.IntN(len(ranges))])
	}
}

package quant_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"cfq/quant"
)

func TestHalf(t *testing.T) {
	for _, c := range []struct{ scale, want float32 }{
		{1, 1},
		{0x1p-14, 0x1p-14},
		{65504, 65504},
		{1.0 / 3, 0x1.554p-2},
		{1 + 0x1p-11, 1}, // halves go to even
		{1 + 3*0x1p-11, 1 + 0x1p-9},
		{2 - 0x1p-23, 2}, // into the next power of two
		{65519, 65504},   // into the range
		{0x1.fff8p-15, 0x1p-14},
		{65520, 0},
		{0x1.ff8p-15, 0},
		{1e-6, 0},
		{0, 0},
		{-1, 0},
		{float32(math.Inf(1)), 0},
		{math.MaxFloat32, 0},
	} {
		got, ok := quant.Half(c.scale)
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("%v becomes %v (%v), want %v", c.scale, got, ok, c.want)
		}
	}
	if got, ok := quant.Half(float32(math.NaN())); ok {
		t.Errorf("NaN becomes %v", got)
	}
}

// TestHalfIsNearest: no float16 number, all of which are multiples of 2^-10 of a power of two here, is nearer.
func TestHalfIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Float32Range(0x1p-14, 65504).Draw(t, "scale")
		got, ok := quant.Half(s)
		if !ok {
			t.Fatalf("%v is out of range", s)
		}
		fraction, exp := math.Frexp(float64(s))
		unit := math.Ldexp(1, exp-11)
		down := math.Floor(fraction*0x1p11) * unit
		want := math.Min(math.Abs(float64(s)-down), math.Abs(float64(s)-down-unit))
		if d := math.Abs(float64(got) - float64(s)); d != want {
			t.Fatalf("%v becomes %v, %v away; %v would do", s, got, d, want)
		}
		if again, ok := quant.Half(got); !ok || again != got {
			t.Fatalf("%v is not its own nearest: %v", got, again)
		}
	})
}

package graph

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func TestHalves(t *testing.T) {
	for b, want := range map[uint16]float64{
		0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0x83ff: -0x1.ff8p-15, 0x3555: 0.333251953125,
	} {
		must.Same(t, want, fromHalf(b))
	}
	for b := range 1 << 16 {
		for _, of := range []DType{Float16, BFloat16} {
			v := halves(of, []byte{byte(b), byte(b >> 8)})
			raw := toHalves(of, v)
			if back := uint16(raw[0]) | uint16(raw[1])<<8; back != uint16(b) && !math.IsNaN(v[0]) {
				t.Fatalf("%s %#x is %v, and that %#x", of, b, v[0], back)
			}
			if math.IsNaN(v[0]) && !math.IsNaN(halves(of, raw)[0]) {
				t.Fatalf("%s %#x: not a number any more", of, b)
			}
		}
	}
}

func TestNearestHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-70000, 70000).Draw(t, "x")
		if rapid.Bool().Draw(t, "small") {
			x /= 1 << 28
		}
		b := toHalf(x)
		got := fromHalf(b)
		for _, n := range []uint16{b - 1, b + 1} {
			if b&0x7fff == 0 || n&0x7fff > 0x7c00 || b&0x7fff == 0x7c00 {
				continue
			}
			other := fromHalf(n)
			mine, its := math.Abs(got-x), math.Abs(other-x)
			if its < mine || its == mine && b&1 == 1 {
				t.Fatalf("%v becomes %v (%#x), not %v (%#x)", x, got, b, other, n)
			}
		}
	})
}

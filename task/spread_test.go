package task

import "testing"

func TestPlainNumbers(t *testing.T) {
	t.Parallel()
	for _, spread := range []float64{0.3, 1, 12.53469, 21630.879, 6e6} {
		f := Standardized{Std: 1, Spread: spread}
		if r := f.Unit() / spread; r < 0.7 || r > 1.42 {
			t.Errorf("spread %v: %v", spread, f.Unit())
		}
		for _, v := range []float32{36, 32913, 0.1, 1 << 24, 999_999} {
			if x := f.ToInput(float64(v)); x*float32(f.Unit()) != v {
				t.Errorf("spread %v: %v becomes %v", spread, v, x*float32(f.Unit()))
			}
		}
	}
}

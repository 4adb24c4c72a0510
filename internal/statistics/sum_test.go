package statistics

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func TestSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOf(rapid.OneOf(rapid.Float64Range(-1e-12, 1e-12), rapid.Float64Range(-1e15, 1e15),
			rapid.SampledFrom([]float64{1e100, -1e100, 1e-300, -1e-300, 0.1, 1}))).Draw(t, "xs")
		exact, products := new(big.Rat), new(big.Rat)
		var s, p Sum
		for _, x := range xs {
			exact.Add(exact, new(big.Rat).SetFloat64(x))
			y := x
			if math.Abs(x) < 1e-100 || math.Abs(x) > 1e90 { // products that neither under- nor overflow
				y = 0
			}
			r := new(big.Rat).SetFloat64(y)
			products.Add(products, r.Mul(r, r))
			s.Add(x)
			p.AddProduct(y, y)
		}
		want, _ := exact.Float64()
		must.Same(t, want, s.Value())
		want, _ = products.Float64()
		must.Same(t, want, p.Value())
		rand.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		var again Sum
		for _, x := range xs {
			again.Add(x)
		}
		must.Same(t, s.Value(), again.Value())
	})
}

func TestSumOfMany(t *testing.T) {
	t.Parallel()
	for _, xs := range [][]float64{
		{math.MaxFloat64, -math.MaxFloat64, 5e-324},
		{-1},
		{1},
		{0.1, -0.3},
		{-5e-324, 2e-308},
		{1 << 53, 1<<53 - 1, -1},
		{math.Nextafter(2, 0)},
		{-math.Nextafter(2, 0), 1e-9},
	} {
		const times = 5003
		var s Sum
		exact := new(big.Rat)
		for _, x := range xs {
			exact.Add(exact, new(big.Rat).SetFloat64(x))
		}
		for range times {
			for _, x := range xs {
				s.Add(x)
			}
		}
		got, _ := s.Exact().Rat(nil)
		if exact.Mul(exact, big.NewRat(times, 1)); got == nil || got.Cmp(exact) != 0 {
			t.Errorf("%d times %v: %v, want %v", times, xs, s.Exact(), exact.FloatString(20))
		}
	}
	var s Sum
	s.Add(math.MaxFloat64)
	if s.Add(math.MaxFloat64); !math.IsInf(s.Value(), 1) {
		t.Errorf("a sum that is too large: %v", s.Value())
	}
}

func TestSumOfWhatIsNotFinite(t *testing.T) {
	t.Parallel()
	var s Sum
	s.Add(1)
	s.Add(math.Inf(1))
	if !math.IsInf(s.Value(), 1) || s.Exact() != nil {
		t.Errorf("sum %v", s.Value())
	}
	s.AddProduct(math.Inf(-1), 1)
	if !math.IsNaN(s.Value()) {
		t.Errorf("sum %v", s.Value())
	}
}

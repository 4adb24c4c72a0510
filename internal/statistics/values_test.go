package statistics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Few values are exact; of many, the quantiles are those of all within a part in 100,000, in any order.
func TestValues(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 1001, maxValues, maxValues + 1} {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64() * 3
		}
		var v, other Values
		for i := range x {
			v.Add(x[i])
			other.Add(x[n-1-i])
		}
		near := func(what string, got, again, want float64) {
			t.Helper()
			exact := math.IsNaN(got) && math.IsNaN(want) || got == want
			if n <= maxValues && !exact || n > maxValues && math.Abs(got-want) > 1e-5*math.Abs(want) || n > maxValues &&
				got != again {
				t.Errorf("%s of %d: %v and %v, want %v", what, n, got, again, want)
			}
		}
		qs := []float64{0, 0.05, 0.5, 0.95, 1}
		if n > 1001 {
			qs = qs[1:2]
		}
		for _, q := range qs {
			near("quantile", v.Quantile(q), other.Quantile(q), Quantile(x, q))
		}
		near("median", v.Median(), other.Median(), Median(x))
		sum := 0.0
		for _, y := range x {
			sum += y
		}
		m, again := v.Mean(), other.Mean()
		if v.Len() != n || n > 0 && (math.Abs(m-sum/float64(n)) > 1e-6 || m != again) || n == 0 && !math.IsNaN(m) {
			t.Errorf("mean of %d: %v and %v, want %v", v.Len(), m, again, sum/float64(n))
		}
		if len(v.x) > maxValues || len(v.times) > 1<<20 {
			t.Errorf("%d numbers and %d runs are kept of %d", len(v.x), len(v.times), n)
		}
	}
}

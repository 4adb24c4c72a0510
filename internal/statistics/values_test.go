package statistics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Few values are exact; of many, the quantiles are those of all within a part in 100,000, in any order.
func TestValues(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 1001, maxValues + 1} {
		x := make([]float64, n)
		for i := range x {
			if x[i] = rng.NormFloat64() * 3; i >= 1001 { // of a million, few are different: they are quicker to sort
				x[i] = x[i%1001]
			}
		}
		var v, other Values
		for i := range x {
			if v.Add(x[i]); i < maxValues && v.times != nil {
				t.Fatalf("%d numbers are rounded", i+1)
			}
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
		sorted := slices.Sorted(slices.Values(x))
		at := func(rank int) float64 {
			if n == 0 {
				return math.NaN()
			}
			return sorted[rank-1]
		}
		qs := []float64{0, 0.05, 0.5, 0.95, 1}
		if n > 1001 {
			qs = qs[1:2]
		}
		for _, q := range qs {
			near("quantile", v.Quantile(q), other.Quantile(q), at(max(1, int(math.Ceil(q*float64(n)-1e-9)))))
		}
		near("median", v.Median(), other.Median(), (at((n+1)/2)+at(n/2+1))/2)
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

func TestQuantileIsNearestRank(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 300).Draw(t, "xs")
		q := float64(rapid.IntRange(1, 100).Draw(t, "percent")) / 100
		var v Values
		for _, x := range xs {
			v.Add(x)
		}
		got := v.Quantile(q)
		atMost := func(v float64) (n int) {
			for _, x := range xs {
				if x <= v {
					n++
				}
			}
			return n
		}
		need := q*float64(len(xs)) - 1e-9
		if float64(atMost(got)) < need || float64(atMost(math.Nextafter(got, -10))) >= need {
			t.Fatalf("quantile %v of %v: %v", q, xs, got)
		}
	})
}

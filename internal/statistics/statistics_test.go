package statistics

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

// The first four rows are the examples of Newcombe, "Two-sided confidence
// intervals for the single proportion", Statistics in Medicine 17 (1998), table I.
func TestIntervalsAsPublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n                           int
		wilsonLo, wilsonHi, exLo, exHi float64
	}{
		{81, 263, 0.2553, 0.3662, 0.2527, 0.3676},
		{15, 148, 0.0624, 0.1605, 0.0578, 0.1617},
		{0, 20, 0, 0.1611, 0, 0.1684},
		{1, 29, 0.0061, 0.1718, 0.0009, 0.1776},
		{10, 100, 0.0552, 0.1744, 0.0490, 0.1762},
		{100, 100, 0.9630, 1, 0.9638, 1},
	} {
		lo, hi := Wilson(c.k, c.n, 0.95)
		near(t, "Wilson low", lo, c.wilsonLo, 5e-5)
		near(t, "Wilson high", hi, c.wilsonHi, 5e-5)
		lo, hi = ClopperPearsonLower(c.k, c.n, 0.975), ClopperPearsonUpper(c.k, c.n, 0.975)
		near(t, "Clopper-Pearson low", lo, c.exLo, 5e-5)
		near(t, "Clopper-Pearson high", hi, c.exHi, 5e-5)
	}
}

func TestOneSidedBounds(t *testing.T) {
	t.Parallel()
	// Nothing of n: the bound is 1 - 0.05^(1/n), close to the rule of three.
	near(t, "0 of 100", ClopperPearsonUpper(0, 100, 0.95), 0.0295, 5e-5)
	for _, n := range []int{1, 10, 100, 10000} {
		near(t, "0 of n", ClopperPearsonUpper(0, n, 0.95), 1-math.Pow(0.05, 1/float64(n)), 1e-9)
		near(t, "n of n", ClopperPearsonLower(n, n, 0.95), math.Pow(0.05, 1/float64(n)), 1e-9)
		near(t, "0 of n, next to certain", ClopperPearsonUpper(0, n, 1-1e-9), 1-math.Pow(1e-9, 1/float64(n)), 1e-6)
	}
	lo, hi := ClopperPearsonLower(0, 0, 0.975), ClopperPearsonUpper(0, 0, 0.975)
	if lo != 0 || hi != 1 {
		t.Errorf("of nobody: [%v, %v], want [0, 1]", lo, hi)
	}
	if lo, hi = Wilson(0, 0, 0.95); lo != 0 || hi != 1 {
		t.Errorf("of nobody: [%v, %v], want [0, 1]", lo, hi)
	}
}

func TestClopperPearsonTails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		c := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		if k < n {
			p := ClopperPearsonUpper(k, n, c)
			must.Near(must.In(t, k), 1-c, tail(n, p, 0, k), 1e-7)
		}
		if k > 0 {
			p := ClopperPearsonLower(k, n, c)
			must.Near(must.In(t, k), 1-c, tail(n, p, k, n), 1e-7)
		}
		lo, hi := Wilson(k, n, c)
		if share := float64(k) / float64(n); lo < 0 || lo > share || hi < share || hi > 1 {
			t.Fatalf("Wilson(%d, %d, %v) = [%v, %v] does not hold the share itself", k, n, c, lo, hi)
		}
	})
}

// tail sums the binomial probabilities of from..to.
func tail(n int, p float64, from, to int) float64 {
	var s float64
	for k := from; k <= to; k++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		s += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	return s
}

func TestFisherAsPublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		a, b, c, d int
		want, tol  float64
	}{
		// Agresti (2013), table 3.9: 1/70 + 16/70 + 16/70 + 1/70.
		{"Fisher's tea tasting", 3, 1, 1, 3, 34.0 / 70, 1e-12},
		{"all cups right", 4, 0, 0, 4, 2.0 / 70, 1e-12},
		// Fisher (1970), Statistical Methods for Research Workers, section 21.01, table 36; R's help of fisher.test
		// gives the two-sided value.
		{"convictions of twins", 2, 15, 10, 3, 0.0005367, 5e-8},
		{"nobody", 0, 0, 0, 0, 1, 0},
		{"one group", 7, 3, 0, 0, 1, 1e-12},
		{"all alike", 0, 10, 0, 90, 1, 1e-12},
	} {
		near(t, c.name, FisherExact(c.a, c.b, c.c, c.d), c.want, c.tol)
	}
}

func TestFisherByCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.IntRange(0, 40)
		a, b, c, d := cell.Draw(t, "a"), cell.Draw(t, "b"), cell.Draw(t, "c"), cell.Draw(t, "d")
		ways := func(k int) *big.Int { // tables with k in the first cell
			x := new(big.Int).Binomial(int64(a+b), int64(k))
			return x.Mul(x, new(big.Int).Binomial(int64(c+d), int64(a+c-k)))
		}
		none, all := new(big.Int), new(big.Int)
		for k := 0; k <= min(a+b, a+c); k++ {
			if a+c-k > c+d {
				continue
			}
			w := ways(k)
			all.Add(all, w)
			if w.Cmp(ways(a)) <= 0 {
				none.Add(none, w)
			}
		}
		want, _ := new(big.Rat).SetFrac(none, all).Float64()
		got := FisherExact(a, b, c, d)
		if math.Abs(got-want) > 1e-9*want {
			t.Fatalf("%d of %d and %d of %d: p = %v, want %v", a, a+b, c, c+d, got, want)
		}
		for _, same := range []float64{FisherExact(c, d, a, b), FisherExact(b, a, d, c), FisherExact(a, c, b, d)} {
			if math.Abs(same-got) > 1e-9*got {
				t.Fatalf("%d, %d, %d, %d: turned round p is %v instead of %v", a, b, c, d, same, got)
			}
		}
	})
}

func TestFisherIsMonotone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 20000} {
		last := 2.0
		for _, percent := range []int{10, 12, 16, 24, 40} {
			p := FisherExact(n/10, n-n/10, n*percent/100, n-n*percent/100)
			if !(p >= 0 && p < last) {
				t.Errorf("10 %% and %d %% of %d: p = %v after %v", percent, n, p, last)
			}
			last = p
		}
	}
	near(t, "equal shares of many", FisherExact(1000, 99000, 1000, 99000), 1, 1e-9)
}

func TestMcNemarAsPublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		b, c      int
		want, tol float64
	}{
		// Agresti (2013), table 11.1: of 1600 people 150 turned from approval of the prime minister and 86 turned to it. He
		// gives z = -4.17, and p of the normal approximation is 3.1e-5; of the exact test it is the binomial sum below.
		{"approval of the prime minister", 150, 86, twoSidedCoins(150, 86), 1e-15},
		{"the same, roughly", 150, 86, 3.7e-5, 5e-7},
		{"by hand, 2*(1+10)/2^10", 1, 9, 22.0 / 1024, 1e-15},
		{"by hand, 2/2^5", 5, 0, 2.0 / 32, 1e-15},
		{"even", 12, 12, 1, 0},
		{"nobody", 0, 0, 1, 0},
	} {
		near(t, c.name, McNemarExact(c.b, c.c), c.want, c.tol)
		near(t, c.name+", turned round", McNemarExact(c.c, c.b), c.want, c.tol)
	}
}

// twoSidedCoins sums the smaller tail of b+c fair coins in whole numbers, and doubles it.
func twoSidedCoins(b, c int) float64 {
	s := new(big.Int)
	for k := 0; k <= min(b, c); k++ {
		s.Add(s, new(big.Int).Binomial(int64(b+c), int64(k)))
	}
	p, _ := new(big.Rat).SetFrac(s.Lsh(s, 1), new(big.Int).Lsh(big.NewInt(1), uint(b+c))).Float64()
	return min(1, p)
}

func TestMcNemarByCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, c := rapid.IntRange(0, 600).Draw(t, "b"), rapid.IntRange(0, 600).Draw(t, "c")
		if got, want := McNemarExact(b, c), twoSidedCoins(b, c); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("%d and %d: p = %v, want %v", b, c, got, want)
		}
		if b > c && McNemarExact(b+1, c) >= McNemarExact(b, c) {
			t.Fatalf("%d and %d: one more makes p larger", b, c)
		}
	})
}

func TestHolm(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		p, want []float64
	}{
		{"four tests, by hand", []float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{"no more than 1", []float64{0.7, 0.6}, []float64{1, 1}},
		{"ties", []float64{0.01, 0.01, 0.02}, []float64{0.03, 0.03, 0.03}},
		{"one", []float64{0.2}, []float64{0.2}},
		{"none", nil, nil},
		{"undefined ones are no tests", []float64{nan, 0.04, nan, 0.01}, []float64{nan, 0.04, nan, 0.02}},
	} {
		got := Holm(c.p)
		must.Same(t, len(c.p), len(got))
		for i := range got {
			if math.IsNaN(c.want[i]) != math.IsNaN(got[i]) || math.Abs(got[i]-c.want[i]) > 1e-15 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// TestHolmIsClosed: Holm's procedure is the closed test of Bonferroni's, which rejects a hypothesis when every set of
// hypotheses that it is in is rejected (Marcus, Peritz and Gabriel 1976).
func TestHolmIsClosed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 7).Draw(t, "p")
		before := slices.Clone(p)
		got := Holm(p)
		must.Same(t, before, p)
		want := make([]float64, len(p))
		for set := 1; set < 1<<len(p); set++ {
			size, least := 0, 1.0
			for i := range p {
				if set>>i&1 == 1 {
					size++
					least = min(least, p[i])
				}
			}
			for i := range p {
				if set>>i&1 == 1 {
					want[i] = max(want[i], min(1, float64(size)*least))
				}
			}
		}
		for i := range p {
			if math.Abs(got[i]-want[i]) > 1e-12 || got[i] < p[i] {
				t.Fatalf("%v: %v, want %v", p, got, want)
			}
		}
	})
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v (within %v)", what, got, want, tol)
	}
}

// The ranks of the 95 % interval of a median as tables of nonparametric statistics give them.
func TestMedianRanksAsPublished(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int{
		{5, 0, 6},
		{6, 1, 6},
		{8, 1, 8},
		{9, 2, 8},
		{10, 2, 9},
		{12, 3, 10},
		{15, 4, 12},
		{20, 6, 15},
		{25, 8, 18},
		{30, 10, 21},
		{50, 18, 33},
		{100, 40, 61},
	} {
		if lo, hi := OrderRanks(c[0], 0.5, 0.025); lo != c[1] || hi != c[2] {
			t.Errorf("%d numbers: ranks %d and %d, want %d and %d", c[0], lo, hi, c[1], c[2])
		}
	}
}

func TestRanksByCounting(t *testing.T) {
	t.Parallel()
	for _, q := range []float64{0.05, 0.25, 0.5, 0.9, 0.95, 0.99} {
		for _, side := range []float64{0.05, 0.025, 0.005} {
			for n := 1; n <= 130; n++ {
				lo, hi := OrderRanks(n, q, side)
				// The quantile lies below the k-th number when at most k-1 of the n are below it, above when at least k are.
				below := func(k int) float64 { return tail(n, q, 0, k-1) }
				above := func(k int) float64 { return tail(n, q, k, n) }
				if lo < 0 || lo > n || lo > 0 && below(lo) > side+1e-9 || lo < n && below(lo+1) < side-1e-9 {
					t.Fatalf("n = %d, q = %v, side %v: lower rank %d", n, q, side, lo)
				}
				if hi < 1 || hi > n+1 || hi <= n && above(hi) > side+1e-9 || hi > 1 && above(hi-1) < side-1e-9 {
					t.Fatalf("n = %d, q = %v, side %v: upper rank %d", n, q, side, hi)
				}
			}
		}
	}
}

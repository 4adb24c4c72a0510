package eval

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFisherAsPublished(t *testing.T) {
	for _, c := range []struct {
		name       string
		a, b, c, d int
		want, tol  float64
	}{
		// Agresti (2013), table 3.9: 1/70 + 16/70 + 16/70 + 1/70.
		{"Fisher's tea tasting", 3, 1, 1, 3, 34.0 / 70, 1e-12},
		{"all cups right", 4, 0, 0, 4, 2.0 / 70, 1e-12},
		// Fisher (1970), Statistical Methods for Research Workers, section 21.01, table 36; R's help of fisher.test gives the two-sided value.
		{"convictions of twins", 2, 15, 10, 3, 0.0005367, 5e-8},
		{"nobody", 0, 0, 0, 0, 1, 0},
		{"one group", 7, 3, 0, 0, 1, 1e-12},
		{"all alike", 0, 10, 0, 90, 1, 1e-12},
	} {
		near(t, c.name, FisherExact(c.a, c.b, c.c, c.d), c.want, c.tol)
	}
}

// TestFisherByCounting: all tables of the same sums, in whole numbers.
func TestFisherByCounting(t *testing.T) {
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

// The farther apart two groups are, the smaller p is; so it stays when the numbers are large.
func TestFisherIsMonotone(t *testing.T) {
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
	for _, c := range []struct {
		name      string
		b, c      int
		want, tol float64
	}{
		// Agresti (2013), table 11.1: of 1600 people 150 turned from approval of the prime minister and 86 turned to it. He gives z = -4.17, and p of
		// the normal approximation is 3.1e-5; of the exact test it is the binomial sum below.
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
		if len(got) != len(c.p) {
			t.Fatalf("%s: %v", c.name, got)
		}
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
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 7).Draw(t, "p")
		before := slices.Clone(p)
		got := Holm(p)
		if !slices.Equal(p, before) {
			t.Fatal("the numbers given were changed")
		}
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

package eval

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The first four rows are the examples of Newcombe, "Two-sided confidence
// intervals for the single proportion", Statistics in Medicine 17 (1998), table I.
func TestIntervalsAsPublished(t *testing.T) {
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
		lo, hi = ClopperPearson(c.k, c.n, 0.95)
		near(t, "Clopper-Pearson low", lo, c.exLo, 5e-5)
		near(t, "Clopper-Pearson high", hi, c.exHi, 5e-5)
	}
}

func TestOneSidedBounds(t *testing.T) {
	// Nothing of n: the bound is 1 - 0.05^(1/n), close to the rule of three.
	near(t, "0 of 100", ClopperPearsonUpper(0, 100, 0.95), 0.0295, 5e-5)
	for _, n := range []int{1, 10, 100, 10000} {
		near(t, "0 of n", ClopperPearsonUpper(0, n, 0.95), 1-math.Pow(0.05, 1/float64(n)), 1e-9)
		near(t, "n of n", ClopperPearsonLower(n, n, 0.95), math.Pow(0.05, 1/float64(n)), 1e-9)
	}
	lo, hi := ClopperPearson(0, 0, 0.95)
	if lo != 0 || hi != 1 {
		t.Errorf("of nobody: [%v, %v], want [0, 1]", lo, hi)
	}
	if lo, hi = Wilson(0, 0, 0.95); lo != 0 || hi != 1 {
		t.Errorf("of nobody: [%v, %v], want [0, 1]", lo, hi)
	}
}

// The exact bounds are defined by binomial tails: sum those directly.
func TestClopperPearsonTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		c := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		if k < n {
			p := ClopperPearsonUpper(k, n, c)
			if got := tail(n, p, 0, k); math.Abs(got-(1-c)) > 1e-7 {
				t.Fatalf("P(X <= %d | n = %d, p = %v) = %v, want %v", k, n, p, got, 1-c)
			}
		}
		if k > 0 {
			p := ClopperPearsonLower(k, n, c)
			if got := tail(n, p, k, n); math.Abs(got-(1-c)) > 1e-7 {
				t.Fatalf("P(X >= %d | n = %d, p = %v) = %v, want %v", k, n, p, got, 1-c)
			}
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

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v (within %v)", what, got, want, tol)
	}
}

package eval

import (
	"cmp"
	"math"
	"slices"
)

// FisherExact returns the two-sided p of Fisher's exact test: of two groups, a of a+b count in the one and c of c+d in the other. It sums the probabilities
// of all tables with the same sums of rows and columns that are no more probable than this one. It is 1 when there is nothing to tell apart, and
// panics when a count is negative.
//
// References: Fisher (1935), The Design of Experiments, chapter II; Agresti (2013), Categorical Data Analysis, section 3.5.
func FisherExact(a, b, c, d int) float64 {
	if min(a, b, c, d) < 0 {
		panic("eval: a count is negative")
	}
	row, column, n := a+b, a+c, a+b+c+d
	log := func(k int) float64 { return logChoose(row, k) + logChoose(n-row, column-k) - logChoose(n, column) }
	// Tables that are equally probable differ by rounding; none that is less probable comes as close as this.
	limit := log(a) + 1e-7
	var p float64
	for k := max(0, row+column-n); k <= min(row, column); k++ {
		if l := log(k); l <= limit {
			p += math.Exp(l)
		}
	}
	return min(1, p)
}

// McNemarExact returns the two-sided p of the exact McNemar test: of people who are judged twice, b count the first time alone and c the second
// time alone; by chance, either is equally probable. Who counts both times or neither says nothing. It is 1 when b = c, and panics when a count is negative.
//
// References: McNemar (1947); Agresti (2013), Categorical Data Analysis, section 11.1.
func McNemarExact(b, c int) float64 {
	if min(b, c) < 0 {
		panic("eval: a count is negative")
	}
	n, k := b+c, min(b, c)
	// P(X <= k) of n fair coins, from its largest term down.
	term, tail := 1.0, 1.0
	for i := k; i > 0 && term > 1e-18*tail; i-- {
		term *= float64(i) / float64(n-i+1)
		tail += term
	}
	return min(1, 2*tail*math.Exp(logChoose(n, k)-float64(n)*math.Ln2))
}

// Holm adjusts the p of several tests, in the order given: those that stay at or below some level are wrong, any of them, with no
// more probability than the level. Undefined ones (NaN) are no tests and stay undefined.
//
// References: Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
func Holm(p []float64) []float64 {
	var order []int
	adjusted := slices.Clone(p)
	for i, x := range p {
		if !math.IsNaN(x) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	var least float64
	for rank, i := range order {
		least = max(least, float64(len(order)-rank)*p[i])
		adjusted[i] = min(1, least)
	}
	return adjusted
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

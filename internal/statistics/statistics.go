// Package statistics has intervals and tests of counts, and ranks of numbers.
//
// In: plain counts and numbers. Out: bounds, p-values and ranks. The invariant: what is exact is exact for every count,
// however small, and undefined numbers are NaN.
package statistics

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// Rank is the nearest rank, from 1, of a quantile among n numbers.
func Rank(n int, q float64) int {
	// The slack keeps a product such as 0.99*100 that rounding has put above 99 at rank 99.
	return min(max(int(math.Ceil(q*float64(n)-1e-9)), 1), n)
}

// OrderRanks returns the ranks (1 to n, 0 and n+1 where there is none) of the order statistics that the
// q-quantile of the population lies below and above with probability of at most side each: of n numbers, k
// below the quantile are binomial.
func OrderRanks(n int, q, side float64) (lo, hi int) {
	b := distuv.Binomial{N: float64(n), P: q}
	// The quantile lies below the lo-th number when fewer than lo are below it.
	at := func(k int) bool { return b.CDF(float64(k)) <= side }
	lo = searchLast(n, func(k int) bool { return at(k - 1) })
	// It lies above the hi-th one when at least hi are below it.
	hi = n + 1 - searchLast(n, func(k int) bool { return b.Survival(float64(n-k)) <= side })
	return lo, hi
}

// searchLast returns the largest k of 1..n for which ok, which holds up to some k, is true; 0 when there is none.
func searchLast(n int, ok func(k int) bool) int {
	return sort.Search(n, func(i int) bool { return !ok(i + 1) })
}

// Wilson returns the score interval of a proportion: k successes of n trials at a two-sided confidence such as 0.95. It
// is the interval to show: it is never empty, never leaves [0, 1] and covers well for small n. n = 0 gives [0, 1].
//
// References: Wilson (1927); Brown, Cai and DasGupta (2001).
func Wilson(k, n int, confidence float64) (lo, hi float64) {
	if n == 0 {
		return 0, 1
	}
	z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
	p, m, zz := float64(k)/float64(n), float64(n), z*z
	centre := (p + zz/(2*m)) / (1 + zz/m)
	half := z / (1 + zz/m) * math.Sqrt(p*(1-p)/m+zz/(4*m*m))
	lo, hi = max(0, centre-half), min(1, centre+half)
	if k == 0 {
		lo = 0 // exactly, in spite of rounding
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}

// ClopperPearsonUpper returns the exact one-sided upper bound of a proportion, k successes of n trials: the largest
// proportion for which k or fewer successes of n still have a probability of
// 1-confidence. A limit such as "at most 2 % break" is compared with it. n = 0 gives 1.
//
// References: Clopper and Pearson (1934).
func ClopperPearsonUpper(k, n int, confidence float64) float64 {
	if k == n {
		return 1
	}
	// Of the proportion of failures, whose quantile is exact where the confidence is next to 1.
	return 1 - distuv.Beta{Alpha: float64(n - k), Beta: float64(k) + 1}.Quantile(1-confidence)
}

// ClopperPearsonLower returns the exact one-sided lower bound. n = 0 gives 0.
func ClopperPearsonLower(k, n int, confidence float64) float64 {
	if k == 0 {
		return 0
	}
	return distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.Quantile(1 - confidence)
}

// FisherExact returns the two-sided p of Fisher's exact test: of two groups, a of a+b count in the one and c
// of c+d in the other. It sums the probabilities of all tables with the same sums of rows and columns that
// are no more probable than this one. It is 1 when there is nothing to tell apart.
//
// References: Fisher (1935), The Design of Experiments, chapter II; Agresti (2013), Categorical Data
// Analysis, section 3.5.
func FisherExact(a, b, c, d int) float64 {
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

// McNemarExact returns the two-sided p of the exact McNemar test: of people who are judged twice, b count the
// first time alone and c the second time alone; by chance, either is equally probable. Who counts both times
// or neither says nothing. It is 1 when b = c.
//
// References: McNemar (1947); Agresti (2013), Categorical Data Analysis, section 11.1.
func McNemarExact(b, c int) float64 {
	n, k := b+c, min(b, c)
	// P(X <= k) of n fair coins, from its largest term down.
	term, tail := 1.0, 1.0
	for i := k; i > 0 && term > 1e-18*tail; i-- {
		term *= float64(i) / float64(n-i+1)
		tail += term
	}
	return min(1, 2*tail*math.Exp(logChoose(n, k)-float64(n)*math.Ln2))
}

// Holm adjusts the p of several tests, in the order given: those that stay at or below some level are wrong,
// any of them, with no more probability than the level. Undefined ones (NaN) are no tests and stay undefined.
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
	return combin.LogGeneralizedBinomial(float64(n), float64(k))
}

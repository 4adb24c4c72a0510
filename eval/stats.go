package eval

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson returns the score interval of a proportion: k successes of n trials
// at a two-sided confidence such as 0.95. It is the interval to show: it is
// never empty, never leaves [0, 1] and covers well for small n. n = 0 gives
// [0, 1]. It panics unless 0 <= k <= n and 0 < confidence < 1.
//
// References: Wilson (1927); Brown, Cai and DasGupta (2001).
func Wilson(k, n int, confidence float64) (lo, hi float64) {
	checkProportion(k, n, confidence)
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

// ClopperPearson returns the exact interval of a proportion: k successes of n
// trials at a two-sided confidence, with at most (1-confidence)/2 of error on
// either side. n = 0 gives [0, 1]. It panics as Wilson does.
//
// References: Clopper and Pearson (1934).
func ClopperPearson(k, n int, confidence float64) (lo, hi float64) {
	checkProportion(k, n, confidence)
	side := (1 + confidence) / 2
	return ClopperPearsonLower(k, n, side), ClopperPearsonUpper(k, n, side)
}

// ClopperPearsonUpper returns the exact one-sided upper bound: the largest
// proportion for which k or fewer successes of n still have a probability of
// 1-confidence. It is the bound that a limit such as "at most 2 % break" is
// held against. n = 0 gives 1.
func ClopperPearsonUpper(k, n int, confidence float64) float64 {
	checkProportion(k, n, confidence)
	if k == n {
		return 1
	}
	return distuv.Beta{Alpha: float64(k) + 1, Beta: float64(n - k)}.Quantile(confidence)
}

// ClopperPearsonLower returns the exact one-sided lower bound. n = 0 gives 0.
func ClopperPearsonLower(k, n int, confidence float64) float64 {
	checkProportion(k, n, confidence)
	if k == 0 {
		return 0
	}
	return distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.Quantile(1 - confidence)
}

func checkProportion(k, n int, confidence float64) {
	if k < 0 || n < k {
		panic("eval: a proportion needs 0 <= k <= n")
	}
	if !(confidence > 0 && confidence < 1) {
		panic("eval: a confidence lies between 0 and 1")
	}
}

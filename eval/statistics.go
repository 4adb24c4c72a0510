package eval

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// Float is a number that may be undefined (NaN): the mean of no numbers, the
// margin of a promise that does not exist. JSON knows no NaN and no infinity;
// both become null there.
type Float float64

// Defined reports whether x is a finite number.
func (x Float) Defined() bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// MarshalJSON writes a number, or null when x is not Defined.
func (x Float) MarshalJSON() ([]byte, error) {
	if !x.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// UnmarshalJSON reads what MarshalJSON wrote; null becomes NaN.
func (x *Float) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*x = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(x))
}

func undefined() Float { return Float(math.NaN()) }

// Rate is a proportion with the counts it is made of and its Wilson interval.
// A rate of nothing (Den 0) has an undefined Value and the interval [0, 1].
type Rate struct {
	Value Float `json:"value"`
	Num   int   `json:"num"`
	Den   int   `json:"den"`
	Lo    Float `json:"lo"`
	Hi    Float `json:"hi"`
}

// NewRate makes the rate num/den with an interval of the confidence.
func NewRate(num, den int, confidence float64) Rate {
	lo, hi := Wilson(num, den, confidence)
	r := Rate{Value: undefined(), Num: num, Den: den, Lo: Float(lo), Hi: Float(hi)}
	if den > 0 {
		r.Value = Float(float64(num) / float64(den))
	}
	return r
}

func sum(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
}

// Median returns the middle value, the mean of the two middle ones when there
// is an even number of them, NaN when there is none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	h := len(s) / 2
	if len(s)%2 == 1 {
		return s[h]
	}
	return (s[h-1] + s[h]) / 2
}

// Quantile returns the smallest x of xs such that at least a share q of xs is
// <= x (the nearest rank), NaN when xs is empty.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	// The slack keeps a product such as 0.99*100 that rounding has put above 99 at rank 99.
	rank := int(math.Ceil(q*float64(len(s)) - 1e-9))
	return s[min(max(rank, 1), len(s))-1]
}

// Estimate is a number computed from N people, with an interval at the two-sided confidence of Settings in which
// the population's lies. An end that these people cannot tell is infinite (null in JSON); Value is undefined
// when N is 0.
type Estimate struct {
	Value Float `json:"value"`
	N     int   `json:"n"`
	Lo    Float `json:"lo"`
	Hi    Float `json:"hi"`
}

func unknown() Estimate {
	return Estimate{Value: undefined(), Lo: Float(math.Inf(-1)), Hi: Float(math.Inf(1))}
}

// meanOf estimates a mean: Student's interval, which needs two people. It is as good as the mean of so many
// people is normal: of numbers with a heavy tail it covers less than it says (see TestStudentCoverage).
//
// References: Student (1908).
func meanOf(xs []float64, confidence float64) Estimate {
	e := unknown()
	n := len(xs)
	if n == 0 {
		return e
	}
	m := sum(xs) / float64(n)
	e.Value, e.N = Float(m), n
	if n > 1 && e.Value.Defined() {
		var squares float64
		for _, x := range xs {
			squares += (x - m) * (x - m)
		}
		e.around(math.Sqrt(squares/float64(n-1)/float64(n)), confidence)
	}
	return e
}

// around puts Student's interval with a standard error around the value.
func (e *Estimate) around(se, confidence float64) {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.N - 1)}.Quantile((1 + confidence) / 2)
	e.Lo, e.Hi = e.Value-Float(t*se), e.Value+Float(t*se)
}

// rmsOf estimates a root mean square: the root of the interval of the mean square.
func rmsOf(xs []float64, confidence float64) Estimate {
	squares := make([]float64, len(xs))
	for i, x := range xs {
		squares[i] = x * x
	}
	e := meanOf(squares, confidence)
	root := func(x Float) Float { return Float(math.Sqrt(max(0, float64(x)))) }
	if e.N > 0 {
		e.Value, e.Lo, e.Hi = root(e.Value), root(e.Lo), root(e.Hi)
	}
	return e
}

// ratioOf estimates sum(b)/sum(a) - 1 of pairs: Student's interval by the delta method. It
// is undefined when a sums to nothing.
//
// References: Cochran (1977), Sampling Techniques, section 6.4.
func ratioOf(a, b []float64, confidence float64) Estimate {
	e := unknown()
	total := sum(a)
	if e.N = len(a); !(total > 0) {
		return e
	}
	r := sum(b) / total
	e.Value = Float(r - 1)
	if n := float64(e.N); e.N > 1 {
		var squares float64
		for i := range a {
			d := b[i] - r*a[i]
			squares += d * d
		}
		e.around(math.Sqrt(squares*n/(n-1))/total, confidence)
	}
	return e
}

// quantileOf estimates a quantile by the nearest rank, a median (q = 0.5) by Median: the interval lies
// between two order statistics and holds whatever the distribution. The largest number (q = 1) has no upper
// end.
//
// References: Conover (1999), Practical Nonparametric Statistics, section 3.2.
func quantileOf(xs []float64, q, confidence float64) Estimate {
	e := unknown()
	n := len(xs)
	if n == 0 {
		return e
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	if e.N = n; math.IsNaN(s[0]) {
		return e
	}
	e.Value = Float(Quantile(s, q))
	if q == 0.5 {
		e.Value = Float(Median(s))
	}
	if q == 1 {
		e.Lo = e.Value
		return e
	}
	lo, hi := orderRanks(n, q, (1-confidence)/2)
	if lo >= 1 {
		e.Lo = Float(s[lo-1])
	}
	if hi <= n {
		e.Hi = Float(s[hi-1])
	}
	return e
}

// orderRanks returns the ranks (1 to n, 0 and n+1 where there is none) of the order statistics that the
// q-quantile of the population lies below and above with probability of at most side each: of n numbers, k
// below the quantile are binomial.
func orderRanks(n int, q, side float64) (lo, hi int) {
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

// dropOf estimates the difference (b-c)/n of two shares of the same n people, b and c being those who count
// in the first alone and in the second alone. The interval is that of two exact ones, so it is wider than
// need be.
func dropOf(b, c, n int, confidence float64) Estimate {
	e := unknown()
	if e.N = n; n == 0 {
		return e
	}
	e.Value = Float(float64(b-c) / float64(n))
	each := (3 + confidence) / 4 // four bounds, of which two make an end
	e.Lo = Float(ClopperPearsonLower(b, n, each) - ClopperPearsonUpper(c, n, each))
	e.Hi = Float(ClopperPearsonUpper(b, n, each) - ClopperPearsonLower(c, n, each))
	return e
}

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

// ClopperPearsonUpper returns the exact one-sided upper bound of a proportion, k successes of n trials: the largest
// proportion for which k or fewer successes of n still have a probability of
// 1-confidence. A limit such as "at most 2 % break" is compared with it. n = 0 gives 1. It panics as Wilson does.
//
// References: Clopper and Pearson (1934).
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

// FisherExact returns the two-sided p of Fisher's exact test: of two groups, a of a+b count in the one and c
// of c+d in the other. It sums the probabilities of all tables with the same sums of rows and columns that
// are no more probable than this one. It is 1 when there is nothing to tell apart, and panics when a count is
// negative.
//
// References: Fisher (1935), The Design of Experiments, chapter II; Agresti (2013), Categorical Data
// Analysis, section 3.5.
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

// McNemarExact returns the two-sided p of the exact McNemar test: of people who are judged twice, b count the
// first time alone and c the second time alone; by chance, either is equally probable. Who counts both times
// or neither says nothing. It is 1 when b = c, and panics when a count is negative.
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

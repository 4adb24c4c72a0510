package eval

import (
	"encoding/json"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/statistics"
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
	lo, hi := statistics.Wilson(num, den, confidence)
	r := Rate{Value: undefined(), Num: num, Den: den, Lo: Float(lo), Hi: Float(hi)}
	if den > 0 {
		r.Value = Float(float64(num) / float64(den))
	}
	return r
}

// Tally is a share of things that were all counted. Nothing was sampled, so it has no interval; that of
// nothing is 0.
type Tally struct {
	Value Float `json:"value"`
	Num   int   `json:"num"`
	Den   int   `json:"den"`
}

func newTally(num, den int) Tally {
	return Tally{Value: Float(float64(num) / float64(max(den, 1))), Num: num, Den: den}
}

func sum(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
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
	e.Value = Float(statistics.Quantile(s, q))
	if q == 0.5 {
		e.Value = Float(statistics.Median(s))
	}
	if q == 1 {
		e.Lo = e.Value
		return e
	}
	lo, hi := statistics.OrderRanks(n, q, (1-confidence)/2)
	if lo >= 1 {
		e.Lo = Float(s[lo-1])
	}
	if hi <= n {
		e.Hi = Float(s[hi-1])
	}
	return e
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
	e.Lo = Float(statistics.ClopperPearsonLower(b, n, each) - statistics.ClopperPearsonUpper(c, n, each))
	e.Hi = Float(statistics.ClopperPearsonUpper(b, n, each) - statistics.ClopperPearsonLower(c, n, each))
	return e
}

// meanOfShares estimates the mean of two shares k/n of different people. Undefined when one of them has nobody.
//
// References: Zou and Donner (2008), Construction of Confidence Limits about Effect Measures (MOVER).
func meanOfShares(k, n [2]int, confidence float64) Estimate {
	e := unknown()
	if e.N = n[0] + n[1]; n[0] == 0 || n[1] == 0 {
		return e
	}
	var value, below, above float64
	for i := range n {
		x, side := float64(k[i])/float64(n[i]), (1+confidence)/2
		value += x / 2
		below += math.Pow(x-statistics.ClopperPearsonLower(k[i], n[i], side), 2)
		above += math.Pow(statistics.ClopperPearsonUpper(k[i], n[i], side)-x, 2)
	}
	e.Value, e.Lo, e.Hi = Float(value), Float(value-math.Sqrt(below)/2), Float(value+math.Sqrt(above)/2)
	return e
}

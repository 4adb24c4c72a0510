package eval

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/extsort"
	"cfq/internal/statistics"
)

// numberLists are numbers that may be more than fit in memory. The first error stays.
type numberLists struct {
	spilled *extsort.Lists
	n       []int // by list
	err     error
}

func newLists(l limits) *numberLists { return &numberLists{spilled: extsort.New(0, l.bytes)} }

type limits struct {
	// of all records, of those divided by person, or of all lists of numbers: more go to a temporary file. There are four
	// such places at a time.
	bytes   int
	records int // of a part, unless one person has more
}

func (l *limits) part() int { return max(1, l.records/8) }

func usualLimits() limits { return limits{bytes: extsort.Limit / 2, records: 4096} }

type numberList struct {
	*numberLists
	at int
}

func (l *numberLists) list() numberList {
	l.n = append(l.n, 0)
	return numberList{l, l.spilled.Grow()}
}

func (x numberList) add(v float64) {
	if x.err == nil {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v+0)) // no -0, which sorts as 0 does
		x.err = x.spilled.Append(x.at, b[:])
		x.n[x.at]++
	}
}

func (x numberList) len() int { return x.n[x.at] }

// ranked are numbers in ascending order, undefined ones first. They are in memory, so few lists are ranked at a time.
type ranked []float64

func (x numberList) ranked() ranked {
	list := make([]float64, x.len())
	if err := binary.Read(x.spilled.Reader(x.at), binary.LittleEndian, list); err != nil {
		x.err = cmp.Or(x.err, fmt.Errorf("eval: temporary file: %w", err))
	}
	return rank(list)
}

func rank(list []float64) ranked {
	slices.Sort(list)
	return list
}

func (r ranked) sizes() ranked {
	list := slices.Clone(r)
	for i, x := range list {
		list[i] = math.Abs(x)
	}
	return rank(list)
}

// quantile estimates a quantile by the nearest rank, a median (q = 0.5) as the mean of the two in the middle: the
// interval lies between two order statistics and holds whatever the distribution. The largest number (q = 1) has no
// upper end.
//
// References: Conover (1999), Practical Nonparametric Statistics, section 3.2.
func (r ranked) quantile(q, confidence float64) Value {
	e := unknown()
	n := len(r)
	if n == 0 {
		return e
	}
	if e.N = n; math.IsNaN(r[0]) {
		return e
	}
	e.Value = Float(r[statistics.Rank(n, q)-1])
	if q == 0.5 {
		e.Value = Float((r[(n-1)/2] + r[n/2]) / 2)
	}
	if q == 1 {
		e.Lo = e.Value
		return e
	}
	lo, hi := statistics.OrderRanks(n, q, (1-confidence)/2)
	if lo >= 1 {
		e.Lo = Float(r[lo-1])
	}
	if hi <= n {
		e.Hi = Float(r[hi-1])
	}
	return e
}

type moments struct {
	n            int
	sum, squares statistics.Sum
}

func (m *moments) add(x float64) {
	m.n++
	m.sum.Add(x)
	m.squares.AddProduct(x, x)
}

// mean estimates a mean: Student's interval, which needs two people. It is as good as the mean of so many
// people is normal: of numbers with a heavy tail it covers less than it says (see TestStudentCoverage).
//
// References: Student (1908).
func (m *moments) mean(confidence float64) Value {
	e := unknown()
	if m.n == 0 {
		return e
	}
	n := float64(m.n)
	e.Value, e.N = Float(m.value()), m.n
	if v := m.variance(); m.n > 1 && !math.IsNaN(v) {
		e.around(math.Sqrt(v/n), confidence)
	}
	return e
}

func (m *moments) value() float64 { return m.sum.Value() / float64(m.n) }

// variance is that of a sample of two or more; NaN when it is not finite.
func (m *moments) variance() float64 {
	sum, squares := m.sum.Exact(), m.squares.Exact()
	if sum == nil || squares == nil {
		return math.NaN()
	}
	// The sum of squared deviations is that of squares less the squared sum by n.
	n := float64(m.n)
	square := new(big.Float).Quo(new(big.Float).Mul(sum, sum), big.NewFloat(n))
	deviations, _ := square.Sub(squares, square).Float64()
	return max(0, deviations) / (n - 1)
}

func (e *Estimate) around(se, confidence float64) {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.N - 1)}.Quantile((1 + confidence) / 2)
	e.Lo, e.Hi = e.Value-Float(t*se), e.Value+Float(t*se)
}

func (m *moments) rootMean(confidence float64) Value {
	e := m.mean(confidence)
	root := func(x Float) Float { return Float(math.Sqrt(max(0, float64(x)))) }
	if e.N > 0 {
		e.Value, e.Lo, e.Hi = root(e.Value), root(e.Lo), root(e.Hi)
	}
	return e
}

type pairMoments struct {
	n          int
	a, b       statistics.Sum
	aa, ab, bb statistics.Sum
}

func (m *pairMoments) add(a, b float64) {
	m.n++
	m.a.Add(a)
	m.b.Add(b)
	m.aa.AddProduct(a, a)
	m.ab.AddProduct(a, b)
	m.bb.AddProduct(b, b)
}

// ratio estimates sum(b)/sum(a) of pairs: Student's interval by the delta method. It is undefined when a sums to
// nothing.
//
// References: Cochran (1977), Sampling Techniques, section 6.4.
func (m *pairMoments) ratio(confidence float64) Value {
	e := unknown()
	total := m.a.Value()
	if e.N = m.n; !(total > 0) {
		return e
	}
	r := m.b.Value() / total
	aa, ab, bb := m.aa.Exact(), m.ab.Exact(), m.bb.Exact()
	if e.Value = Float(r); m.n < 2 || !e.Value.Defined() || aa == nil || ab == nil || bb == nil {
		return e
	}
	// The sum of (b - r a)^2.
	x := big.NewFloat(r)
	squares := new(big.Float).Mul(x, aa)
	squares.Sub(squares, new(big.Float).Mul(big.NewFloat(2), ab))
	squares.Add(squares.Mul(squares, x), bb)
	deviations, _ := squares.Float64()
	n := float64(m.n)
	e.around(math.Sqrt(max(0, deviations)*n/(n-1))/total, confidence)
	return e
}

package eval

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"sort"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/extsort"
	"cfq/internal/statistics"
)

// lists are numbers that may be more than fit in memory. The first error stays.
type lists struct {
	spilled *extsort.Lists
	n       []int // by list
	exact   int   // see limits.numbers
	failing sync.Mutex
	err     error
}

// ranking is how many parts of a result are computed at a time, each with two lists in memory at most.
const ranking = 2

// fail keeps an error: the lists may be read by several.
func (l *lists) fail(err error) {
	l.failing.Lock()
	defer l.failing.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func newLists(l limits) *lists { return &lists{spilled: extsort.New(0, l.bytes), exact: l.numbers} }

// limits are how much is in memory at a time.
type limits struct {
	// of all records, of those divided by person, or of all lists of numbers: more go to a temporary file. There are four
	// such places at a time.
	bytes   int
	records int // of a part, unless one person has more
	// of one list: of more, order statistics are those of the numbers rounded to 17 significant bits, by less than a
	// part in 100,000, so that there are few different ones. Neither their order nor where they were made counts.
	numbers int
}

// part is how many records are read while as many are looked at, unless those of a person must come together.
func (l *limits) part() int { return max(1, l.records/8) }

func usualLimits() limits { return limits{bytes: extsort.Limit / 2, records: 4096, numbers: 1 << 22} }

// numbers are one of the lists.
type numbers struct {
	*lists
	at int
}

func (l *lists) list() numbers {
	l.n = append(l.n, 0)
	return numbers{l, l.spilled.Grow()}
}

func (x numbers) add(v float64) {
	if x.err == nil {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v+0)) // no -0, which sorts as 0 does
		x.err = x.spilled.Append(x.at, b[:])
		x.n[x.at]++
	}
}

func (x numbers) len() int { return x.n[x.at] }

// ranked are numbers in ascending order.
type ranked struct {
	x    []float64 // ascending
	upTo []int     // how many of the numbers are x[i] or come before; nil when every x[i] is one number
}

// ranked reads the list, see limits.
func (x numbers) ranked() ranked {
	in := bufio.NewReaderSize(x.spilled.Reader(x.at), int(min(1<<16, x.spilled.Size(x.at))))
	b := make([]byte, 8)
	next := func() (float64, bool) {
		if _, err := io.ReadFull(in, b); err != nil {
			if !errors.Is(err, io.EOF) {
				x.fail(fmt.Errorf("eval: temporary file: %w", err))
			}
			return 0, false
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	}
	return rank(x.len(), x.exact, next)
}

// rank puts n numbers in order.
func rank(n, exact int, next func() (float64, bool)) ranked {
	if n > exact {
		return rankRounded(next)
	}
	list := make([]float64, 0, n)
	for v, ok := next(); ok; v, ok = next() {
		list = append(list, v)
	}
	slices.Sort(list)
	return ranked{x: list}
}

// rankRounded counts numbers that are equal when they are rounded.
func rankRounded(next func() (float64, bool)) ranked {
	o := occurrences{times: map[float64]int{}}
	for v, ok := next(); ok; v, ok = next() {
		o.add(statistics.Rounded(v), 1)
	}
	return o.ranked()
}

// occurrences are how often each number occurs.
type occurrences struct {
	times     map[float64]int
	undefined int // NaN
}

func (o *occurrences) add(x float64, n int) {
	if math.IsNaN(x) {
		o.undefined += n
	} else {
		o.times[x] += n
	}
}

func (o *occurrences) ranked() ranked {
	r, n := ranked{}, o.undefined
	if n > 0 {
		r.x, r.upTo = append(r.x, math.NaN()), append(r.upTo, n)
	}
	r.x = slices.AppendSeq(r.x, maps.Keys(o.times))
	slices.Sort(r.x) // NaN comes first
	for _, v := range r.x[len(r.upTo):] {
		n += o.times[v]
		r.upTo = append(r.upTo, n)
	}
	return r
}

// ranks makes ranked numbers of those of a slice.
func ranks(x []float64) ranked {
	i := 0
	return rank(len(x), len(x), func() (float64, bool) {
		if i++; i > len(x) {
			return 0, false
		}
		return x[i-1], true
	})
}

// union has the numbers of all, rounded when they are more than exact.
func union(all []ranked, exact int) ranked {
	n := 0
	for i := range all {
		n += all[i].len()
	}
	list, o := make([]float64, 0, min(n, exact)), occurrences{times: map[float64]int{}}
	for i := range all {
		for x, k := range all[i].runs() {
			if n > exact {
				o.add(statistics.Rounded(x), k)
			} else {
				list = append(list, slices.Repeat([]float64{x}, k)...)
			}
		}
	}
	if n > exact {
		return o.ranked()
	}
	slices.Sort(list)
	return ranked{x: list}
}

// sizes are the absolute values.
func (r ranked) sizes() ranked {
	if r.upTo == nil {
		abs := make([]float64, 0, len(r.x))
		begin := 0 // of those above 0
		for ; begin < len(r.x) && !(r.x[begin] > 0); begin++ {
			if math.IsNaN(r.x[begin]) { // which come first
				abs = append(abs, r.x[begin])
			}
		}
		below, above := r.x[len(abs):begin], r.x[begin:]
		for len(below)+len(above) > 0 {
			if n := len(below); n > 0 && (len(above) == 0 || -below[n-1] < above[0]) {
				abs, below = append(abs, math.Abs(below[n-1])), below[:n-1]
			} else {
				abs, above = append(abs, above[0]), above[1:]
			}
		}
		return ranked{x: abs}
	}
	o := occurrences{times: map[float64]int{}}
	for x, n := range r.runs() {
		o.add(math.Abs(x), n)
	}
	return o.ranked()
}

func (r ranked) len() int {
	if r.upTo == nil {
		return len(r.x)
	}
	if len(r.upTo) == 0 {
		return 0
	}
	return r.upTo[len(r.upTo)-1]
}

// at is the number of a rank, from 1.
func (r ranked) at(rank int) float64 {
	if r.upTo == nil {
		return r.x[rank-1]
	}
	return r.x[sort.SearchInts(r.upTo, rank)]
}

// times is how often x[i] occurs.
func (r ranked) times(i int) int {
	switch {
	case r.upTo == nil:
		return 1
	case i == 0:
		return r.upTo[0]
	}
	return r.upTo[i] - r.upTo[i-1]
}

// runs are the numbers, ascending, with how often each occurs; equal ones may follow each other.
func (r ranked) runs() iter.Seq2[float64, int] {
	return func(yield func(float64, int) bool) {
		for i, x := range r.x {
			if !yield(x, r.times(i)) {
				return
			}
		}
	}
}

// quantile estimates a quantile by the nearest rank, a median (q = 0.5) as the mean of the two in the middle: the
// interval lies between two order statistics and holds whatever the distribution. The largest number (q = 1) has no
// upper end.
//
// References: Conover (1999), Practical Nonparametric Statistics, section 3.2.
func (r ranked) quantile(q, confidence float64) Estimate {
	e := unknown()
	n := r.len()
	if n == 0 {
		return e
	}
	if e.N = n; math.IsNaN(r.at(1)) {
		return e
	}
	e.Value = Float(r.at(statistics.Rank(n, q)))
	if q == 0.5 {
		e.Value = Float((r.at((n+1)/2) + r.at(n/2+1)) / 2)
	}
	if q == 1 {
		e.Lo = e.Value
		return e
	}
	lo, hi := statistics.OrderRanks(n, q, (1-confidence)/2)
	if lo >= 1 {
		e.Lo = Float(r.at(lo))
	}
	if hi <= n {
		e.Hi = Float(r.at(hi))
	}
	return e
}

// moments are the exact sums that a mean and its interval are made of.
type moments struct {
	n            int
	sum, squares statistics.Sum
}

func (m *moments) add(x float64) {
	m.n++
	m.sum.Add(x)
	m.squares.AddProduct(x, x)
}

// addTimes adds a number several times.
func (m *moments) addTimes(x float64, n int) {
	m.n += n
	m.sum.AddProduct(x, float64(n))
	square := x * x
	m.squares.AddProduct(square, float64(n))
	m.squares.AddProduct(math.FMA(x, x, -square), float64(n))
}

// mean estimates a mean: Student's interval, which needs two people. It is as good as the mean of so many
// people is normal: of numbers with a heavy tail it covers less than it says (see TestStudentCoverage).
//
// References: Student (1908).
func (m *moments) mean(confidence float64) Estimate {
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

// value is the mean of some numbers.
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

// around puts Student's interval with a standard error around the value.
func (e *Estimate) around(se, confidence float64) {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.N - 1)}.Quantile((1 + confidence) / 2)
	e.Lo, e.Hi = e.Value-Float(t*se), e.Value+Float(t*se)
}

// rootMean is the root of the mean and of its interval: that of squares is a root mean square.
func (m *moments) rootMean(confidence float64) Estimate {
	e := m.mean(confidence)
	root := func(x Float) Float { return Float(math.Sqrt(max(0, float64(x)))) }
	if e.N > 0 {
		e.Value, e.Lo, e.Hi = root(e.Value), root(e.Lo), root(e.Hi)
	}
	return e
}

// pairMoments are the exact sums that a ratio of sums and its interval are made of.
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
func (m *pairMoments) ratio(confidence float64) Estimate {
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

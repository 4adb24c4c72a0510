package eval

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval/metrics"
	"cfq/internal/extsort"
	"cfq/internal/statistics"
)

type sample struct {
	// of is what a person adds, at the at-th required margin or -1 for metrics that have none: x to a sum, and `of` to
	// what the sum is divided by, 1 for means and shares. counts is false for those who do not count.
	of    func(p *personRecords, at int) (x, of float64, counts bool)
	steps int // of AtMargin.Steps, from 1; 0 for none
}

type keeps int

const (
	keepsSums      keeps = 1 << iota // exact sums and squares
	keepsPairs                       // exact sums of x and of what it is divided by
	keepsList                        // all numbers
	keepsByOutcome                   // counts and all numbers by outcome, which `of` is
)

type statistic struct {
	keeps keeps
	of    func(a *accumulator, confidence float64) Value
	// weighted is the same of people who count as often as weights say, for comparisons; nil where none is made.
	weighted func(p contributions) weighted
}

func share() statistic {
	return statistic{weighted: contributions.ratio, of: func(a *accumulator, confidence float64) Value {
		return NewRate(a.above, a.n, confidence).AsValue()
	}}
}

func mean() statistic {
	return statistic{keepsSums, func(a *accumulator, c float64) Value { return a.sums.mean(c) }, contributions.ratio}
}

func rootMean() statistic {
	return statistic{keepsSums, func(a *accumulator, c float64) Value { return a.sums.rootMean(c) }, contributions.root}
}

func ratioOfSums() statistic {
	return statistic{keepsPairs, func(a *accumulator, c float64) Value { return a.pairs.ratio(c) }, contributions.ratio}
}

func quantile(q float64) statistic {
	s := statistic{keepsList, func(a *accumulator, c float64) Value { return a.ranked().quantile(q, c) }, nil}
	if q == 0.5 {
		s.weighted = contributions.median
	}
	return s
}

// sizeQuantile is that of the absolute values.
func sizeQuantile(q float64) statistic {
	return statistic{keepsList, func(a *accumulator, c float64) Value { return a.ranked().sizes().quantile(q, c) }, nil}
}

// differenceOfShares is the share of people with x > 0 less that of those with x < 0.
func differenceOfShares() statistic {
	return statistic{of: func(a *accumulator, c float64) Value { return dropOf(a.above, a.below, a.n, c) }}
}

// balancedShare is the mean of the shares of people with x = 1 among those of either outcome.
func balancedShare() statistic {
	return statistic{keeps: keepsByOutcome, of: func(a *accumulator, c float64) Value {
		bad, good := &a.byOutcome[0], &a.byOutcome[1]
		return meanOfShares([2]int{bad.above, good.above}, [2]int{bad.n, good.n}, c)
	}}
}

// belowBaseRate is by how much the share of people with x = 1 is below that of the more frequent outcome, if it is and
// chance alone does not make it so (McNemar's exact test).
func belowBaseRate() statistic {
	return statistic{keeps: keepsByOutcome, of: func(a *accumulator, c float64) Value {
		if a.n == 0 {
			return noValue(metrics.Exact)
		}
		often, rare := &a.byOutcome[0], &a.byOutcome[1]
		if rare.n > often.n {
			often, rare = rare, often
		}
		worse, better := often.n-often.above, rare.above
		if statistics.ClopperPearsonLower(worse, worse+better, (1+c)/2) <= 0.5 {
			worse = better
		}
		return exactValue(float64(worse-better) / float64(a.n))
	}}
}

// areaUnderCurve is the probability that x is larger for a person with the favourable outcome.
func areaUnderCurve() statistic {
	return statistic{keeps: keepsByOutcome, of: func(a *accumulator, c float64) Value {
		return aucOf(a.byOutcome[1].list.ranked(), a.byOutcome[0].list.ranked(), c)
	}}
}

func counted(of func(a *accumulator) int) statistic {
	return statistic{of: func(a *accumulator, _ float64) Value {
		return Value{Estimate: Estimate{N: of(a)}, Kind: metrics.Count}
	}}
}

func countOf() statistic    { return counted(func(a *accumulator) int { return a.n }) }
func countAbove() statistic { return counted(func(a *accumulator) int { return a.above }) }

func extreme(of func(a *accumulator) float64) statistic {
	return statistic{of: func(a *accumulator, _ float64) Value {
		if a.n == 0 {
			return noValue(metrics.Exact)
		}
		return exactValue(of(a))
	}}
}

func smallest() statistic { return extreme(func(a *accumulator) float64 { return a.least }) }
func largest() statistic  { return extreme(func(a *accumulator) float64 { return a.most }) }

type accumulator struct {
	n, above, below int // people; those with x > 0, and x < 0
	least, most     float64
	sums            *moments
	pairs           *pairMoments
	list            numberList
	byOutcome       []accumulator

	sorted ranked // the list, while the statistics are computed
}

func newAccumulator(k keeps, l *numberLists) *accumulator {
	a := &accumulator{least: math.Inf(1), most: math.Inf(-1)}
	if k&keepsSums > 0 {
		a.sums = &moments{}
	}
	if k&keepsPairs > 0 {
		a.pairs = &pairMoments{}
	}
	if k&keepsList > 0 {
		a.list = l.list()
	}
	if k&keepsByOutcome > 0 {
		a.byOutcome = []accumulator{*newAccumulator(keepsList, l), *newAccumulator(keepsList, l)}
	}
	return a
}

func (a *accumulator) add(x, of float64) {
	a.n++
	a.above += count(x > 0)
	a.below += count(x < 0)
	a.least, a.most = min(a.least, x+0), max(a.most, x+0)
	if a.sums != nil {
		a.sums.add(x)
	}
	if a.pairs != nil {
		a.pairs.add(of, x)
	}
	if a.list.numberLists != nil {
		a.list.add(x)
	}
	if a.byOutcome != nil {
		a.byOutcome[int(of)].add(x, 1)
	}
}

func (a *accumulator) ranked() ranked {
	if a.sorted == nil {
		a.sorted = a.list.ranked()
	}
	return a.sorted
}

// accumulated is a sample of some people, with the metrics that are computed from it.
type accumulated struct {
	*sample
	*accumulator
	metrics []*computed
}

type accumulators []accumulated

// newAccumulators makes those of the metrics that have a value for each required margin, or of the others.
func newAccumulators(margins bool, l *numberLists) (all accumulators) {
	for _, m := range computedMetrics() {
		if m.sample == nil || m.PerMargin() != margins {
			continue
		}
		at := all.index(m.sample)
		if at < 0 {
			at, all = len(all), append(all, accumulated{sample: m.sample})
		}
		all[at].metrics = append(all[at].metrics, m)
	}
	for i := range all {
		var k keeps
		for _, m := range all[i].metrics {
			k |= m.statistic.keeps
		}
		all[i].accumulator = newAccumulator(k, l)
	}
	return all
}

func (x accumulators) index(s *sample) int {
	return slices.IndexFunc(x, func(a accumulated) bool { return a.sample == s })
}

func (x accumulators) add(p *personRecords, at int) {
	for i := range x {
		if v, of, counts := x[i].sample.of(p, at); counts {
			x[i].add(v, of)
		}
	}
}

// values are those of all metrics. Numbers that were not asked for are left out.
func (x accumulators) values(confidence float64) (Values, [2][]spreadStep) {
	values, known := Values{}, map[metrics.Requirement]bool{}
	var steps [2][]spreadStep
	for _, a := range x {
		for _, m := range a.metrics {
			v := m.statistic.of(a.accumulator, confidence)
			values[m.ID] = v
			known[m.Requires] = known[m.Requires] || v.N > 0
		}
		if n := a.sample.steps; n > 0 {
			steps[n-1] = a.ranked().steps() //nolint:gosec // n is 1 or 2
		}
		a.sorted = nil // there may be many
	}
	for _, a := range x {
		for _, m := range a.metrics {
			if m.Requires.Optional() && !known[m.Requires] {
				delete(values, m.ID)
			}
		}
	}
	return values, steps
}

// maxSteps is how many steps of a distribution are kept: more cannot be told apart on a page.
const maxSteps = 240

func (r ranked) steps() (list []spreadStep) {
	n := len(r)
	for at, stride := 1, max(1, n/maxSteps); at <= n; at += stride {
		list = append(list, spreadStep{r[at-1], at})
	}
	return list
}

// weighted computes a statistic where each person counts as often as weights, by position among those evaluated, say;
// NaN where it is undefined.
type weighted func(weights []float64) float64

type contribution struct {
	who   int // position among the people evaluated
	at    int // of the required margins, where a person adds something at each
	x, of float64
}

type contributions []contribution

func (p contributions) ratio() weighted {
	return func(weights []float64) float64 {
		var x, of float64
		for i := range p {
			w := weights[p[i].who]
			x += w * p[i].x
			of += w * p[i].of
		}
		return x / of
	}
}

func (p contributions) root() weighted {
	ratio := p.ratio()
	return func(weights []float64) float64 { return math.Sqrt(ratio(weights)) }
}

func (p contributions) median() weighted {
	p = slices.SortedStableFunc(slices.Values(p), func(a, b contribution) int { return cmp.Compare(a.x, b.x) })
	return func(weights []float64) float64 {
		var n float64
		for i := range p {
			n += weights[p[i].who]
		}
		var seen, lower float64
		for i := range p {
			w := weights[p[i].who]
			before := seen
			seen += w
			if rank := math.Floor((n + 1) / 2); before < rank && seen >= rank {
				lower = p[i].x
			}
			if seen >= math.Floor(n/2)+1 {
				return (lower + p[i].x) / 2
			}
		}
		return math.NaN()
	}
}

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

package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/task"
)

// limitTest is one limit on a metric; of a check, at a margin, unless it is one that a finding shows.
type limitTest struct {
	*metrics.Metric

	limit  limit
	check  *Check
	margin float64
}

func (s *limitTest) finding() Finding {
	f := Finding{
		Check: s.check.name(), Metric: s.ID, Severity: cmp.Or(s.check.Severity, Blocks), Verdict: Inconclusive,
		Limit: s.limit.String(), Bounded: unbounded(),
	}
	if s.PerMargin() {
		margin := s.margin
		f.Margin = &margin
	}
	return f
}

// set puts the value of the metric into a finding.
func (s *limitTest) set(f *Finding, v eval.Value) {
	if f.Value, f.N = v.Value, v.N; s.counts() {
		f.Num = &v.Num
	}
}

func (s *limitTest) inconclusive(f Finding, format string, a ...any) Finding {
	f.Verdict, f.Remark = Inconclusive, fmt.Sprintf(format, a...)
	f.Why = s.Name + ": " + f.Remark
	return f
}

// pValue is the probability of a value so far beyond the limit when the true value is at the limit; 1 when it is
// unknown. For an estimate it is that of a normal distribution with the same interval.
func (s *limitTest) pValue(v eval.Value, c float64) float64 {
	if s.Kind == metrics.Share {
		return s.limit.pValue(v.Num, v.N)
	}
	from, to := s.limit.allowed()
	end, beyond, times := float64(v.Value-v.Lo), float64(v.Value)-to, 1.0
	if below := from - float64(v.Value); below > beyond {
		end, beyond = float64(v.Hi-v.Value), below
	}
	if s.limit.side == within {
		times = 2
	}
	switch {
	case !(end >= 0 && beyond > 0):
		return 1
	case end == 0:
		return 0
	}
	return times * distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile((1+c)/2)*beyond/end)
}

func (s *limitTest) incomparable(now, before *eval.Settings) string {
	ofPeople := s.PerMargin() || s.Requires == metrics.Mirrored || s.ID == "tau01"
	switch curve := s.ID == "tau01" || s.ID == "rtau01"; {
	case curve && !slices.Equal(now.Margins, before.Margins): // it is interpolated between the required margins
		return fmt.Sprintf("the required margins are %v, not %v: evaluate both at the same margins", before.Margins,
			now.Margins)
	case ofPeople && now.Issued != before.Issued:
		kind := map[bool]string{true: "issued", false: "computed"}
		return fmt.Sprintf("the promises are %s, not %s", kind[before.Issued], kind[now.Issued])
	case s.Requires == metrics.Transfer && now.Factor != before.Factor:
		return fmt.Sprintf("the factor is %g, not %g", before.Factor, now.Factor)
	case s.Requires == metrics.Perturbation && now.Radius != before.Radius:
		return fmt.Sprintf("the radius is %g, not %g", before.Radius, now.Radius)
	}
	return ""
}

// needBounds is the number of people from which a quantile has the bounds that its limit asks for; 0 of other metrics,
// and where the value has them.
func (s *limitTest) needBounds(v eval.Value, c float64) int {
	q := 50
	if _, err := fmt.Sscanf(s.ID[max(0, len(s.ID)-3):], "p%d", &q); err != nil && !strings.HasSuffix(s.ID, "median") {
		return 0
	}
	need := 0.0
	unbounded := func(limit float64, end eval.Float, percent int) {
		if !math.IsInf(limit, 0) && math.IsInf(float64(end), 0) {
			need = max(need, math.Log((1-c)/2)/math.Log(float64(percent)/100))
		}
	}
	from, to := s.limit.allowed()
	unbounded(to, v.Hi, q)
	unbounded(from, v.Lo, 100-q)
	return int(math.Ceil(need))
}

// Shown is a finding's numbers for readers: in the unit of the metric, which is per cent for shares and ratios, and
// percentage points for differences of them. A number that does not exist is "".
type Shown struct {
	Value  string
	Bounds string // "exact" when nothing was sampled
	Limit  string
}

// Shown returns the numbers of f as readers see them. Bounds are rounded away from the value, with enough digits to
// differ from the limit.
func (f *Finding) Shown() Shown {
	s, ok := f.test()
	if !ok {
		return Shown{Limit: f.Limit}
	}
	out := Shown{Limit: s.limit.side.text().finding + s.limit.side.text().op + " " + s.limitText()}
	if !f.Value.Defined() {
		return out
	}
	if out.Value = s.show(float64(f.Value)); s.limit.side == increase || s.limit.side == gap {
		out.Value = s.difference(float64(f.Value))
	}
	lower, upper := s.bound(float64(f.Lower), false), s.bound(float64(f.Upper), true)
	switch lo, hi := f.Lower.Defined(), f.Upper.Defined(); {
	case f.Exact():
		out.Bounds = "exact"
	case lo && hi:
		out.Bounds = strings.TrimSuffix(lower, s.unit()) + " to " + upper
	case lo:
		out.Bounds = ">= " + lower
	case hi:
		out.Bounds = "<= " + upper
	}
	return out
}

// Exact says that the value is known for certain, as the size of a file is: it has no bounds.
func (f *Finding) Exact() bool { return f.Value.Defined() && f.Lower == f.Value && f.Upper == f.Value }

// Allowed returns the values within the limit, of which one end may be infinite; false when it has none.
func (f *Finding) Allowed() (from, to float64, ok bool) {
	s, ok := f.test()
	if ok {
		from, to = s.limit.allowed()
	}
	return from, to, ok
}

func (f *Finding) test() (s *limitTest, ok bool) {
	m, ok := metrics.By(f.Metric)
	s = &limitTest{Metric: &m}
	for side := atMost; ok && side <= gap; side++ {
		t := side.text()
		number, found := strings.CutPrefix(f.Limit, t.finding+t.op+" ")
		if x, err := strconv.ParseFloat(number, 64); found && err == nil {
			s.limit = limit{side, x}
			return s, true
		}
	}
	return s, false
}

func (s *limitTest) outcome(f *Finding, confidence float64) string {
	sure, limit := " with confidence "+percent(confidence), s.limitText()
	lower, upper := float64(f.Lower), float64(f.Upper)
	known := f.Lower.Defined() && f.Upper.Defined()
	const unbounded = "too few people for a bound"
	switch {
	case s.Kind == metrics.Exact && f.Verdict == Pass:
		return "within the limit of " + limit
	case s.Kind == metrics.Exact:
		return "outside the limit of " + limit
	case s.limit.side == within && !known && f.Verdict == Inconclusive:
		return unbounded
	case s.limit.side == within:
		place := map[Verdict]string{Pass: "within", Fail: "outside", Inconclusive: "partly outside"}[f.Verdict]
		return fmt.Sprintf("between %s and %s%s, %s the limits of ±%s", s.bound(lower, false), s.bound(upper, true), sure,
			place, limit)
	}
	// What passes must do so with its worse bound, and what fails with its better one.
	up := (s.limit.side == atLeast) == (f.Verdict == Fail)
	text, end := "at least ", f.Lower
	if up {
		text, end = "at most ", f.Upper
	}
	place := "above"
	switch {
	case f.Verdict == Inconclusive && !end.Defined():
		return unbounded
	case f.Verdict == Pass:
		place = "within"
	case s.limit.side == atLeast:
		place = "below"
	}
	return text + s.bound(float64(end), up) + sure + ", " + place + " the limit of " + limit
}

func (s *limitTest) amount(v eval.Value) string {
	switch {
	case s.counts() && v.Num == 0:
		return fmt.Sprintf("none of %d", v.N)
	case s.counts():
		return fmt.Sprintf("%d of %d (%s)", v.Num, v.N, s.show(float64(v.Value)))
	case s.Kind == metrics.Exact:
		return s.show(float64(v.Value))
	}
	return fmt.Sprintf("%s (%s)", s.show(float64(v.Value)), counted(v.N, s.Metric))
}

// counts reports whether the metric is a share with counts, of people or of what was counted in full.
func (s *limitTest) counts() bool { return s.Unit == "share" && s.Kind != metrics.Estimate }

func (s *limitTest) show(x float64) string {
	switch {
	case s.counts() || s.Unit == "ratio":
		return percent(x)
	case s.Kind == metrics.Exact && s.Requires != metrics.Batches:
		return task.Decimal(task.Rounded(x, 12)) + s.valueUnit()
	}
	return task.Decimal(task.Rounded(x*s.scale(), 3)) + s.valueUnit()
}

// bound writes a bound, rounded to its safe side and with enough digits to differ from the limit.
func (s *limitTest) bound(x float64, up bool) string {
	scale, limit := s.scale(), task.Rounded(s.limit.x*s.scale(), 12)
	for digits := 2; digits < 15; digits++ {
		r := outward(x*scale, digits, up)
		if digits >= digitsFor(x*scale) && (math.Abs(r) != math.Abs(limit) || math.Abs(x) == s.limit.x) {
			return task.Decimal(r) + s.unit()
		}
	}
	return task.Decimal(x*scale) + s.unit()
}

func outward(x float64, digits int, up bool) float64 {
	r := task.Rounded(x, digits)
	noise := 1e-9 * math.Abs(x) // of binary arithmetic on decimal numbers
	step := math.Pow10(int(math.Floor(math.Log10(math.Abs(x)))) + 1 - digits)
	switch {
	case x == 0 || math.IsInf(x, 0):
	case up && r < x-noise:
		r = task.Rounded(r+step, digits)
	case !up && r > x+noise:
		r = task.Rounded(r-step, digits)
	}
	return r
}

// digitsFor is how many significant digits show a number to a tenth: two to four.
func digitsFor(x float64) int {
	switch x = math.Abs(x); {
	case x < 10:
		return 2
	case x < 100:
		return 3
	}
	return 4
}

func (s *limitTest) limitText() string { return s.rounded(s.limit.x, 12) }

func (s *limitTest) difference(x float64) string { return s.rounded(x, 3) }

func (s *limitTest) rounded(x float64, digits int) string {
	return task.Decimal(task.Rounded(s.scale()*x, digits)) + s.unit()
}

func (s *limitTest) unit() string {
	if difference := s.limit.side == increase || s.limit.side == gap; difference && s.scale() == 100 {
		return " pp"
	}
	return s.valueUnit()
}

func (s *limitTest) valueUnit() string {
	switch {
	case s.Unit == "cosine", s.Unit == "Jaccard index", s.Unit == "number":
		return ""
	case s.Unit == "share" && !s.counts() && s.Better != metrics.Higher: // a difference of shares
		return " pp"
	case s.scale() == 100:
		return " %"
	}
	return " " + s.Unit
}

func (s *limitTest) scale() float64 {
	if s.Unit == "share" || s.Unit == "ratio" {
		return 100
	}
	return 1
}

func percent(x float64) string {
	digits := 2
	if math.Abs(x) >= 0.1 {
		digits = 3
	}
	if x > 0.99 && x < 1 { // 99.9 % must not read 100 %
		digits = 2 - int(math.Floor(math.Log10(1-x)))
	}
	return task.Decimal(task.Rounded(100*x, digits)) + " %"
}

type limit struct {
	side limitSide
	x    float64
}

type limitSide int

const (
	atMost   limitSide = iota // the metric, from above
	atLeast                   // the metric, from below
	within                    // its absolute value, from above
	increase                  // how much it is above that of the earlier result, from above
	gap                       // the largest difference of two groups, from above
)

type sideText struct {
	key         string // in a gate file
	open, close string // around the metric in the text of a check
	op          string
	finding     string // in front of op in a Finding
}

func (s limitSide) text() sideText {
	return [...]sideText{
		atMost:   {"max", "", "", "<=", ""},
		atLeast:  {"min", "", "", ">=", ""},
		within:   {"abs_max", "|", "|", "<=", "|value| "},
		increase: {"max_increase", "increase(", ")", "<=", "increase "},
		gap:      {"max_gap", "gap(", ")", "<=", "gap "},
	}[s]
}

// String is the limit without what it bounds, as "<= 0.02".
func (l limit) String() string {
	t := l.side.text()
	return t.finding + t.op + " " + task.Decimal(l.x)
}

func (l limit) problem(m *metrics.Metric) string {
	lowest, highest := valuesOf(m)
	switch {
	case math.IsNaN(l.x) || math.IsInf(l.x, 0):
		return fmt.Sprintf("invalid limit %v: want a finite number", l.x)
	case m.Kind == metrics.Share && l.side == within:
		return m.ID + " is a share and never negative: use max"
	case m.Unit == "share" && l.x > 1 && l.x <= 100:
		return fmt.Sprintf("invalid limit %v for %s: want a share from 0 to 1; for %v %% write %s", l.x, m.ID, l.x,
			task.Decimal(task.Rounded(l.x/100, 15)))
	case m.Unit == "share" && !(l.x >= lowest && l.x <= 1):
		return fmt.Sprintf("invalid limit %v for %s: want a number from %v to 1", l.x, m.ID, lowest)
	case (l.side == within || l.side == gap) && l.x < 0:
		return fmt.Sprintf("invalid limit %v: %s bounds a number that is never negative", l.x, l.side.text().key)
	case slices.ContainsFunc((&Gate{}).dataChecks(), func(s dataCheck) bool { return s.metric == m.ID }):
		return "" // a limit that cannot fail takes the data check away
	case l.side == atLeast && l.x <= lowest:
		return fmt.Sprintf("the limit %v cannot fail: %s is always %v or more", l.x, m.ID, lowest)
	case l.side == within && l.x >= max(-lowest, highest), l.side == atMost && l.x >= highest:
		return fmt.Sprintf("the limit %v cannot fail: %s is always %v or less", l.x, m.ID, highest)
	case (l.side == increase || l.side == gap) && l.x >= highest-lowest:
		return fmt.Sprintf("the limit %v cannot fail: two values of %s differ by %v at most", l.x, m.ID, highest-lowest)
	}
	return ""
}

func valuesOf(m *metrics.Metric) (lowest, highest float64) {
	lowest, highest = math.Inf(-1), math.Inf(1)
	switch kind := m.Kind; {
	case kind == metrics.Share, m.Unit == "Jaccard index", m.Unit == "share" && m.Better == metrics.Higher:
		return 0, 1
	case m.Unit == "share", m.Unit == "cosine": // a difference of two shares
		return -1, 1
	case m.Unit == "ratio": // costs are positive
		lowest = -1
	case kind == metrics.Exact:
		lowest = 0
	}
	if m.Better == metrics.Lower {
		lowest = max(lowest, 0)
	}
	return lowest, highest
}

// allowed is the range of values within the limit, of which one end may be infinite.
func (l limit) allowed() (from, to float64) {
	switch l.side {
	case atLeast:
		return l.x, math.Inf(1)
	case within:
		return -math.Abs(l.x), math.Abs(l.x)
	}
	return math.Inf(-1), l.x
}

// verdict compares a number that lies between lo and hi with the limit. An unknown end (NaN) decides nothing.
func (l limit) verdict(lo, hi float64) Verdict {
	switch from, to := l.allowed(); {
	case (math.IsInf(from, -1) || lo >= from) && (math.IsInf(to, 1) || hi <= to):
		return Pass
	case lo > to || hi < from:
		return Fail
	}
	return Inconclusive
}

// maxNeed is up to how many people the binomial distribution is used; above, the normal distribution.
const maxNeed = 1 << 20

// need returns the smallest number of people above n with which a share of k/n would pass at the confidence; 0 when
// none would.
func (l limit) need(k, n int, confidence float64) int {
	bound := l.x
	if l.side == atLeast { // the mirror image: the share of the others is at most 1 - limit
		k, bound = n-k, 1-l.x
	}
	switch {
	case bound <= 0 || n > 0 && float64(k) >= bound*float64(n)-1e-9:
		return 0
	case k == 0:
		return people(math.Ceil(math.Log(1-confidence)/math.Log1p(-bound) - 1e-9))
	}
	return needOf(float64(k)/float64(n), n, bound, 1-confidence)
}

// needAbout returns roughly how many people an inconclusive estimate needs: its interval narrows with the root of their
// number. 0 when the value itself is beyond the limit, or an end is not known.
func (l limit) needAbout(v eval.Value, lo, hi float64) int {
	x, times := float64(v.Value), 0.0
	reach := func(width, room float64) {
		if room > 0 && width >= 0 {
			times = math.Max(times, width/room)
		} else {
			times = math.Inf(1)
		}
	}
	from, to := l.allowed()
	if !math.IsInf(to, 1) {
		reach(hi-x, to-x)
	}
	if !math.IsInf(from, -1) {
		reach(x-lo, x-from)
	}
	n := float64(v.N) * times * times
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(v.N+1, people(outward(n, 2, true)))
}

func people(n float64) int {
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(1, int(n))
}

// needOf returns the smallest number of people above n for which round(share*number) has an upper bound within the
// limit.
func needOf(share float64, n int, limit, alpha float64) int {
	passes := func(k float64, m int) bool { return m > n && tail(k, m, limit) <= alpha }
	// Rounding to whole people makes the edge ragged, but takes away no more than half a person.
	least := sort.Search(maxNeed, func(m int) bool { return passes(share*float64(m)-0.5, m) })
	for m := least; m < maxNeed; m++ {
		if passes(math.Round(share*float64(m)), m) {
			return m
		}
	}
	z := distuv.UnitNormal.Quantile(1 - alpha)
	return people(task.Rounded(z*z*limit*(1-limit)/(limit-share)/(limit-share), 3))
}

// tail is the binomial probability of k or fewer of n at probability p, also between whole k.
func tail(k float64, n int, p float64) float64 {
	if k >= float64(n) {
		return 1
	}
	return distuv.Beta{Alpha: float64(n) - k, Beta: k + 1}.CDF(1 - p)
}

// pValue is the p-value of a count beyond the limit when the share is at the limit: the probability of k or more of n
// for "at most", of k or fewer for "at least".
func (l limit) pValue(k, n int) float64 {
	if l.side == atLeast {
		k, l.x = n-k, 1-l.x
	}
	if k <= 0 {
		return 1
	}
	return distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.CDF(l.x)
}

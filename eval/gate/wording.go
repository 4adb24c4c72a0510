package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/task"
)

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

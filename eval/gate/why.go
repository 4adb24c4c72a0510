package gate

import (
	"fmt"
	"math"
	"strconv"

	"cfq/eval"
)

// why is the sentence of a finding that has bounds.
func (j *judge) why(s *subject, f *Finding, v eval.Value) string {
	text := s.Name + ": " + s.amount(v)
	if s.Kind() == eval.KindShare && f.Verdict == Inconclusive && f.Need > 0 && s.none(v) {
		return fmt.Sprintf("%s; %d would show %s", text, f.Need, s.show(s.limit.x))
	}
	text += "; " + j.outcome(s, f)
	switch {
	case f.Verdict != Inconclusive:
	case s.Kind() == eval.KindShare:
		text += needed(f.Need)
	case f.Need > 0:
		text += fmt.Sprintf("; about %d people would show it, if it stays", f.Need)
	}
	return text
}

func needed(need int) string {
	if need == 0 {
		return "; with this share no number of people would show it"
	}
	return fmt.Sprintf("; %d people with this share would show it", need)
}

// none says that nobody speaks against the limit.
func (s *subject) none(v eval.Value) bool {
	return s.limit.side == atMost && v.Num == 0 || s.limit.side == atLeast && v.Num == v.N
}

// outcome says what the bounds make of the limit. The bound that decides is the one that it tells.
func (j *judge) outcome(s *subject, f *Finding) string {
	sure := " with confidence " + percent(j.Confidence)
	lower, upper := float64(f.Lower), float64(f.Upper)
	unknown := func(x float64) bool { return math.IsInf(x, 0) || math.IsNaN(x) }
	limit := s.limitText()
	const silent = "how far it may lie beyond the limit cannot be told from so few"
	switch {
	case s.Kind() == eval.KindExact && f.Verdict == Pass:
		return "within the limit of " + limit
	case s.Kind() == eval.KindExact:
		return "above or below the limit of " + limit
	case s.limit.side == within && (unknown(lower) || unknown(upper)) && f.Verdict == Inconclusive:
		return silent
	case s.limit.side == within:
		place := map[Verdict]string{Pass: "within", Fail: "outside", Inconclusive: "partly outside"}[f.Verdict]
		return fmt.Sprintf("between %s and %s%s, %s the limits of ±%s", s.apart(lower, false), s.apart(upper, true), sure, place, limit)
	case s.limit.side == atLeast && f.Verdict == Fail:
		return "at most " + s.apart(upper, true) + sure + ", below the limit of " + limit
	case f.Verdict == Fail:
		return "at least " + s.apart(lower, false) + sure + ", above the limit of " + limit
	case s.limit.side == atLeast && f.Verdict == Pass:
		return "at least " + s.apart(lower, false) + sure + ", within the limit of " + limit
	case f.Verdict == Pass:
		return "at most " + s.apart(upper, true) + sure + ", within the limit of " + limit
	case s.limit.side == atLeast && unknown(lower), s.limit.side != atLeast && unknown(upper):
		return silent
	case s.limit.side == atLeast:
		return "at least " + s.apart(lower, false) + sure + ", below the limit of " + limit
	}
	return "at most " + s.apart(upper, true) + sure + ", above the limit of " + limit
}

// amount is a value with what it is made of.
func (s *subject) amount(v eval.Value) string {
	switch {
	case s.Kind() == eval.KindShare && v.Num == 0:
		return fmt.Sprintf("none of %d", v.N)
	case s.Kind() == eval.KindShare:
		return fmt.Sprintf("%d of %d (%s)", v.Num, v.N, s.show(float64(v.Value)))
	case s.Kind() == eval.KindExact:
		return s.show(float64(v.Value))
	}
	return fmt.Sprintf("%s (%s)", s.show(float64(v.Value)), counted(v.N, s.Metric))
}

// show writes a number of the metric with its unit, to few digits; all of them when it is exact.
func (s *subject) show(x float64) string {
	switch s.Kind() {
	case eval.KindShare:
		return percent(x)
	case eval.KindExact:
		return number(rounded(x, 12)) + s.unit()
	}
	return number(rounded(x*s.scale(), 4)) + s.unit()
}

// apart writes a bound, rounded to its safe side, so that it does not look like the limit unless it is the limit.
func (s *subject) apart(x float64, up bool) string {
	scale, limit := s.scale(), rounded(s.limit.x*s.scale(), 12)
	for digits := 2; digits < 15; digits++ {
		r := outward(x*scale, digits, up)
		if digits >= digitsFor(x*scale) && (math.Abs(r) != math.Abs(limit) || math.Abs(x) == s.limit.x) {
			return number(r) + s.unit()
		}
	}
	return number(x*scale) + s.unit()
}

// outward rounds to so many digits, up or down.
func outward(x float64, digits int, up bool) float64 {
	r := rounded(x, digits)
	noise := 1e-9 * math.Abs(x) // of binary arithmetic on decimal numbers
	step := math.Pow10(int(math.Floor(math.Log10(math.Abs(x)))) + 1 - digits)
	switch {
	case x == 0 || math.IsInf(x, 0):
	case up && r < x-noise:
		r = rounded(r+step, digits)
	case !up && r > x+noise:
		r = rounded(r-step, digits)
	}
	return r
}

// digitsFor is how many digits show a number to a tenth: two to four.
func digitsFor(x float64) int {
	switch x = math.Abs(x); {
	case x < 10:
		return 2
	case x < 100:
		return 3
	}
	return 4
}

// limitText is the limit with its unit.
func (s *subject) limitText() string { return number(rounded(s.scale()*s.limit.x, 12)) + s.unit() }

// difference writes a difference of two values.
func (s *subject) difference(x float64) string { return number(rounded(s.scale()*x, 3)) + s.unit() }

// unit is that of what the limit bounds: percentage points for differences of shares.
func (s *subject) unit() string {
	switch s.Unit {
	case "ratio", "cosine", "Jaccard index":
		return ""
	case "share":
		if s.Kind() == eval.KindShare && s.limit.side != increase && s.limit.side != gap {
			return " %"
		}
		return " points"
	}
	return " " + s.Unit
}

func (s *subject) scale() float64 {
	if s.Unit == "share" {
		return 100
	}
	return 1
}

// percent writes a share.
func percent(x float64) string {
	digits := 2
	if math.Abs(x) >= 0.1 {
		digits = 3
	}
	if x > 0.99 && x < 1 { // 99.9 % must not read 100 %
		digits = 2 - int(math.Floor(math.Log10(1-x)))
	}
	return number(rounded(100*x, digits)) + " %"
}

// rounded rounds to so many significant digits.
func rounded(x float64, digits int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	return r
}

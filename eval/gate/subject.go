package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/task"
)

// subject is a limit on a metric, and what is written about it.
type subject struct {
	*eval.Metric

	check      *Check
	limit      limit
	margin     float64
	confidence float64 // of the gate
}

// finding is the finding before anything is measured.
func (s *subject) finding() Finding {
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

// inconclusive returns a finding with the reason why there is no verdict.
func (s *subject) inconclusive(f Finding, format string, a ...any) Finding {
	f.Verdict, f.Remark = Inconclusive, fmt.Sprintf(format, a...)
	f.Why = s.Name + ": " + f.Remark
	return f
}

// pValue is the probability of a value so far beyond the limit when the true value is at the limit; 1 when it is
// unknown. For an estimate it is that of a normal distribution with the same interval.
func (s *subject) pValue(v eval.Value, c float64) float64 {
	if s.Kind() == eval.KindShare {
		return s.limit.pValue(v.Num, v.N)
	}
	end, beyond := float64(v.Value-v.Lo), float64(v.Value)-s.limit.x
	times := 1.0
	switch s.limit.side {
	case atLeast:
		end, beyond = float64(v.Hi-v.Value), s.limit.x-float64(v.Value)
	case within:
		if times = 2; v.Value < 0 {
			end, beyond = float64(v.Hi-v.Value), -s.limit.x-float64(v.Value)
		}
	}
	switch {
	case !(end >= 0 && beyond > 0):
		return 1
	case end == 0:
		return 0
	}
	return times * distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile((1+c)/2)*beyond/end)
}

// incomparable returns why the metric of two results cannot be compared: it was measured in different ways.
func (s *subject) incomparable(now, before *eval.Settings) string {
	ofPeople := s.PerMargin() || s.Requires == eval.RequiresMirrored || s.ID == "tau01"
	near := s.Requires == eval.RequiresProofs || s.Requires == eval.RequiresPerturbation
	switch curve := s.ID == "tau01" || s.ID == "rtau01"; {
	case curve && !slices.Equal(now.Margins, before.Margins): // it is interpolated between the required margins
		return fmt.Sprintf("the required margins are %v, not %v: evaluate both at the same margins", before.Margins,
			now.Margins)
	case ofPeople && now.Issued != before.Issued:
		kind := map[bool]string{true: "issued", false: "computed"}
		return fmt.Sprintf("the promises are %s, not %s", kind[before.Issued], kind[now.Issued])
	case near && now.Radius != before.Radius:
		return fmt.Sprintf("the radius is %g, not %g", before.Radius, now.Radius)
	}
	return ""
}

// needed remarks how many people would be enough for an inconclusive finding.
func (s *subject) needed(f *Finding) {
	switch {
	case f.Verdict != Inconclusive:
	case s.Kind() == eval.KindShare && f.Need == 0:
		f.remark("with this share no number of people is enough")
	case s.Kind() == eval.KindShare:
		f.remark("%d people are needed if the share stays", f.Need)
	case f.Need > 0:
		f.remark("about %d people are needed if the value stays", f.Need)
	}
}

// outcome compares the bound that decides with the limit.
func (s *subject) outcome(f *Finding) string {
	sure, limit := " with confidence "+percent(s.confidence), s.limitText()
	lower, upper := float64(f.Lower), float64(f.Upper)
	known := f.Lower.Defined() && f.Upper.Defined()
	const unbounded = "too few people for a bound"
	switch {
	case s.Kind() == eval.KindExact && f.Verdict == Pass:
		return "within the limit of " + limit
	case s.Kind() == eval.KindExact:
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

// amount is a value with its counts.
func (s *subject) amount(v eval.Value) string {
	switch {
	case s.counts() && v.Num == 0:
		return fmt.Sprintf("none of %d", v.N)
	case s.counts():
		return fmt.Sprintf("%d of %d (%s)", v.Num, v.N, s.show(float64(v.Value)))
	case s.Kind() == eval.KindExact:
		return s.show(float64(v.Value))
	}
	return fmt.Sprintf("%s (%s)", s.show(float64(v.Value)), counted(v.N, s.Metric))
}

// counts reports whether the metric is a share with counts, of people or of what was counted in full.
func (s *subject) counts() bool { return s.Unit == "share" && s.Kind() != eval.KindEstimate }

// show writes a number of the metric with its unit, rounded unless it is exact.
func (s *subject) show(x float64) string {
	switch {
	case s.counts() || s.Unit == "ratio":
		return percent(x)
	case s.Kind() == eval.KindExact && s.Requires != eval.RequiresBatches:
		return task.Decimal(task.Rounded(x, 12)) + s.valueUnit()
	}
	return task.Decimal(task.Rounded(x*s.scale(), 3)) + s.valueUnit()
}

// bound writes a bound, rounded to its safe side and with enough digits to differ from the limit.
func (s *subject) bound(x float64, up bool) string {
	scale, limit := s.scale(), task.Rounded(s.limit.x*s.scale(), 12)
	for digits := 2; digits < 15; digits++ {
		r := outward(x*scale, digits, up)
		if digits >= digitsFor(x*scale) && (math.Abs(r) != math.Abs(limit) || math.Abs(x) == s.limit.x) {
			return task.Decimal(r) + s.unit()
		}
	}
	return task.Decimal(x*scale) + s.unit()
}

// outward rounds to significant digits, up or down.
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

// limitText is the limit with its unit.
func (s *subject) limitText() string {
	return task.Decimal(task.Rounded(s.scale()*s.limit.x, 12)) + s.unit()
}

// difference writes a difference of two values.
func (s *subject) difference(x float64) string {
	return task.Decimal(task.Rounded(s.scale()*x, 3)) + s.unit()
}

// unit is the unit of what the limit bounds: percentage points for differences of shares.
func (s *subject) unit() string {
	if difference := s.limit.side == increase || s.limit.side == gap; difference && s.scale() == 100 {
		return " pp"
	}
	return s.valueUnit()
}

// valueUnit is the unit of the metric.
func (s *subject) valueUnit() string {
	switch {
	case s.Unit == "cosine", s.Unit == "Jaccard index", s.Unit == "number":
		return ""
	case s.Unit == "share" && !s.counts() && s.Better != eval.Higher: // a difference of shares
		return " pp"
	case s.scale() == 100:
		return " %"
	}
	return " " + s.Unit
}

func (s *subject) scale() float64 {
	if s.Unit == "share" || s.Unit == "ratio" {
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
	return task.Decimal(task.Rounded(100*x, digits)) + " %"
}

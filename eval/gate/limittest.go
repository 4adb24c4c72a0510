package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
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

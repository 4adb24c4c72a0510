package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
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
	s, ok := f.subject()
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
	s, ok := f.subject()
	switch x := math.Abs(s.limit.x); {
	case !ok:
		return 0, 0, false
	case s.limit.side == atLeast:
		return s.limit.x, math.Inf(1), true
	case s.limit.side == within:
		return -x, x, true
	}
	return math.Inf(-1), s.limit.x, true
}

// subject is the metric and the limit that f is about; false when it is about something else.
func (f *Finding) subject() (s *subject, ok bool) {
	m, ok := eval.MetricBy(f.Metric)
	s = &subject{Metric: &m, check: &Check{Metric: f.Metric}}
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

// advise says what to do about the findings that decide the verdict; sampled says that not all people were judged.
func (r *Report) advise(sampled bool) {
	var order []string
	of := map[string][]string{}
	target := 1.0 // the lowest limit on VD and RVD
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.OK() || f.Verdict != r.Verdict {
			continue
		}
		advice, name := f.advice(), f.Name()
		if of[advice] == nil {
			order = append(order, advice)
		}
		if advice == moreBits {
			target = min(target, f.target())
		}
		if advice == morePeople && f.Need > 0 {
			name = fmt.Sprintf("%d for %s", f.Need, name)
		}
		of[advice] = append(of[advice], name)
	}
	for _, advice := range order {
		names := message.List(slices.Compact(of[advice]), 6)
		if advice == morePeople && sampled {
			advice = "Judge all refused people, without --sample, or bring more people that the model was not judged on"
		}
		if advice == moreBits && target < 1 {
			advice = "Quantize again with --target-vd " + task.Decimal(target) + ", or with a larger --budget"
		}
		r.Next = append(r.Next, advice+": "+names+".")
	}
}

// What is to be done about findings on the model, and about those with too few people.
const (
	moreBits   = "Quantize again with a larger --budget or another --method"
	morePeople = "Bring more people that the model was not judged on"
)

// target is the share of broken promises that a search for a model can aim at; 1 when f is about something else.
func (f *Finding) target() float64 {
	s, ok := f.subject()
	if ok && (f.Metric == "vd" || f.Metric == "rvd") && s.limit.side == atMost && s.limit.x > 0 {
		return s.limit.x
	}
	return 1
}

// advice is what to do about a finding that keeps the gate from passing.
func (f *Finding) advice() string {
	capital := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	for _, x := range (&Gate{}).standing() { // they are about the data and the original, and no other model helps
		if x.metric == f.Metric && f.Verdict == Inconclusive {
			return capital(x.advice)
		}
	}
	m, _ := eval.MetricBy(f.Metric)
	from, to, ok := f.Allowed()
	within := ok && float64(f.Value) >= from && float64(f.Value) <= to
	switch {
	case f.Verdict == Inconclusive && (f.Need > 0 || within && !f.Exact()):
		return morePeople
	case f.Remark != "" && (f.Exact() || !f.Lower.Defined() && !f.Upper.Defined()):
		return capital(f.Remark)
	case m.Requires == eval.RequiresDecoder:
		return "Give the task a smaller latent.pixels, or train the decoder for longer; no quantized model changes it"
	case m.Requires == eval.RequiresFootprint:
		return "Quantize again with a smaller --budget"
	case m.Requires == eval.RequiresTiming:
		return "Measure again on the machine that serves: a smaller model is not always faster"
	}
	return moreBits
}

// Name is the check with the group that f is about.
func (f *Finding) Name() string {
	name := f.Check
	if name == "" {
		name = f.Metric
	}
	if group := " [" + f.Group + "]"; f.Group != "" && !strings.HasSuffix(name, group) {
		name += group
	}
	return name
}

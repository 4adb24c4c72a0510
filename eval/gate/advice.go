package gate

import (
	"fmt"
	"slices"
	"strings"

	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/task"
)

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
		s, ok := f.test()
		if ok && advice == moreBits && (f.Metric == "vd" || f.Metric == "rvd") && s.limit.side == atMost && s.limit.x > 0 {
			target = min(target, s.limit.x)
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

func (f *Finding) advice() string {
	capital := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	for _, x := range (&Gate{}).dataChecks() { // they are about the data and the original, and no other model helps
		if x.metric == f.Metric && f.Verdict == Inconclusive {
			return capital(x.advice)
		}
	}
	m, _ := metrics.By(f.Metric)
	from, to, ok := f.Allowed()
	within := ok && float64(f.Value) >= from && float64(f.Value) <= to
	switch {
	case f.Verdict == Inconclusive && (f.Need > 0 || within && !f.Exact()):
		return morePeople
	case strings.HasPrefix(f.Remark, noProof):
		return "Leave the check out, or judge a model that has a proof (docs/verdicts.md, Transfer certificates)"
	case m.Requires == metrics.Transfer && f.Margin != nil && *f.Margin == 0 && f.Value.Defined():
		return "Check it at a larger margin, as in transfer@0.1: at 0, changes end on the decision boundary"
	case f.Remark != "" && (f.Exact() || !f.Lower.Defined() && !f.Upper.Defined()):
		return capital(f.Remark)
	case m.Requires == metrics.Decoder:
		return "Give the task a smaller latent.pixels, or train the decoder for longer; no quantized model changes it"
	case m.Requires == metrics.Footprint:
		return "Quantize again with a smaller --budget"
	case m.Requires == metrics.Timing:
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

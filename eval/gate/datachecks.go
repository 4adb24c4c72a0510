package gate

import (
	"slices"

	"cfq/eval/metrics"
	"cfq/internal/statistics"
)

// dataCheck is a check that every gate has unless it has one of its own on the metric. It is about the data and the
// promises in hand, so shares of them are compared as they are, without bounds, unless the limit is one on what models
// do. Unless the limit is kept the other numbers say too little, and the verdict is INCONCLUSIVE.
type dataCheck struct {
	metric string
	side   limitSide
	limit  float64
	shown  bool   // also when it passes
	advice string // besides another limit
}

// approvedBroken is of few people when promises are made with a margin: of those whom the original just approves.
const approvedBroken = "issued.approved"

func (g *Gate) dataChecks() []dataCheck {
	d := g.withDefaults()
	const promises = "find out why"
	vd, unlabelled := []float64{}, *d.MaxUnreadable // limits
	for _, c := range d.Checks {
		if c.Metric == "vd" && c.Max != nil && c.Severity != Warns {
			vd = append(vd, *c.Max)
		}
	}
	if len(vd) == 0 {
		vd = []float64{0}
	}
	if d.NoLabels {
		unlabelled = 1
	}
	return []dataCheck{
		{"issued.unjudgeable", atMost, 0, true, promises},
		{"issued.invalid", atMost, 0, true, promises},
		{"issued.infeasible", atMost, 0, true, promises},
		{approvedBroken, atMost, slices.Min(vd), true, promises},
		{"issued.needless", atMost, 0, true, "leave them out"},
		{"unreadable_rows", atMost, *d.MaxUnreadable, false, "mend the data"},
		{"unlabelled_rows", atMost, unlabelled, false, "add the outcomes, accept with --no-labels that there are none"},
		{"unlike_rows", atMost, 0.05, false, "check the units and formats of the data"},
		{"below_base_rate", atMost, 0, false, "check the data and the encoding of the task"},
		{"balanced_accuracy", atLeast, 0.5, false, "check data.label, data.favourable and target of the task"},
	}
}

func (j *judge) dataChecks() (all []Finding) {
	for _, x := range j.Gate.dataChecks() {
		if j.limits(x.metric) {
			continue
		}
		m, _ := metrics.By(x.metric)
		l := limit{x.side, x.limit}
		c := &Check{Metric: x.metric}
		c.put(l)
		s := &limitTest{&m, l, c, 0}
		f := s.finding()
		v, missing := measured(&m, 0, j.r)
		if missing != "" {
			if j.r != nil && j.r.Metric(&m, 0).N > 0 {
				c.Severity = Warns
				all = append(all, s.inconclusive(f, "%s; %s, or allow it with --check '%s'", missing, x.advice, c))
			}
			continue // or else there are no promises, rows or outcomes that could be doubtful
		}
		s.set(&f, v)
		f.Lower, f.Upper = v.Lo, v.Hi
		f.Why = m.Name + ": " + s.amount(v)
		hi := float64(v.Hi)
		if x.metric == approvedBroken {
			hi = statistics.ClopperPearsonLower(v.Num, v.N, j.Confidence)
		}
		if f.Verdict = l.verdict(float64(v.Lo), hi); f.Verdict != Pass {
			allowed := v.Hi
			if f.Verdict = Inconclusive; x.side == atLeast {
				allowed = v.Lo
				f.Why += "; " + s.outcome(&f, j.Confidence)
			}
			c.put(limit{x.side, outward(float64(allowed), 2, x.side == atMost)})
			f.remark("%s, or allow it with --check '%s'", x.advice, c)
		} else if !x.shown {
			continue
		} else if hi < float64(v.Hi) && float64(v.Hi) > x.limit {
			f.remark("not significantly beyond the limit")
		}
		all = append(all, f)
	}
	return all
}

// EncodingCheck is the name of the finding that people may be encoded otherwise than the model was trained.
const EncodingCheck = "encoding"

// judgeEncoding lets no gate pass that rests on an encoding which may be another, unless it accepts that.
func (r *Report) judgeEncoding(g *Gate, state string) {
	switch {
	case state == "" || state == "verified":
		return
	case state == "unverified" && g.UnverifiedEncoding:
		r.Accepted = "an unverified encoding"
		return
	}
	f := Finding{
		Check: EncodingCheck, Metric: EncodingCheck, Severity: Blocks, Verdict: Inconclusive, Limit: "verified",
		Bounded: unbounded(), Why: "the encoding is " + state,
	}
	advice := "verify it by --scores FILE (scores that the training code gives rows of --data), " +
		"`cfq task check --scores`, " +
		"target.accuracy in the task, or a model of raw columns, or accept it with --unverified-encoding"
	if state != "unverified" {
		advice = "correct the encoding of the task, or its target.accuracy"
	}
	f.remark("%s", advice)
	r.Findings = append(r.Findings, f)
}

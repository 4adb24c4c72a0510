package gate

import (
	_ "embed" // the notes
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/task"
)

// Verdict is the outcome of a check, and of all of them.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "PASS"         // the bound on the safe side of the limit
	Fail         Verdict = "FAIL"         // the other bound beyond the limit
	Inconclusive Verdict = "INCONCLUSIVE" // too few people, or nothing was measured

	Running Verdict = "RUNNING" // of a look that has no verdict yet
)

// Report is the outcome of a gate.
type Report struct {
	Verdict    Verdict   `json:"verdict"`
	Confidence float64   `json:"confidence"`
	Findings   []Finding `json:"findings"` // in the order of the checks, their limits and their groups
	// Next says what to do about the findings that keep the gate from passing, most urgent first.
	Next  []string `json:"next,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Accepted is what the gate accepts although nothing verifies it, "" when there is nothing of the kind.
	Accepted string `json:"accepted,omitempty"`
	Release
}

// Finding is the outcome of one limit of a check, for one group if the check is by groups.
type Finding struct {
	Check    string   `json:"check"`
	Metric   string   `json:"metric"`
	Margin   *float64 `json:"margin,omitempty"`
	Group    string   `json:"group,omitempty"`
	Severity Severity `json:"severity"`
	Verdict  Verdict  `json:"verdict"`
	Limit    string   `json:"limit"` // "<= 0.02", ">= 0.9", "|value| <= 0.1", "increase <= 0.01", "gap <= 0.05"
	Bounded
	// Need is for inconclusive findings the number of people with which a share would pass if it stays the same; for an
	// estimate a rough number. 0 means that no number would, or that it is not known.
	Need int `json:"need,omitempty"`
	// People is the rule of who counts that decided, see eval.Result.Alternatives; "" when every person counts.
	People string `json:"people,omitempty"`
	Why    string `json:"why"` // one sentence
	// Remark is the part of Why that value, bounds and limit do not tell; "" when they tell all.
	Remark string `json:"remark,omitempty"`
}

// Bounded is a value with its bounds.
type Bounded struct {
	Value eval.Float `json:"value"`         // of the metric, its increase or its gap
	Num   *int       `json:"num,omitempty"` // of a share: Num of N
	N     int        `json:"n"`
	// Lower and Upper are bounds of Value, one-sided each, at Report.Confidence or more; undefined where there are none.
	Lower eval.Float `json:"lower"`
	Upper eval.Float `json:"upper"`
}

// OK reports whether the finding lets the gate pass: it passes or only warns.
func (f *Finding) OK() bool { return f.Verdict == Pass || f.Severity == Warns }

func (f *Finding) remark(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	f.Why += "; " + text
	if f.Remark != "" {
		text = f.Remark + "; " + text
	}
	f.Remark = text
}

//go:embed notes.txt
var noteTexts string

//nolint:gochecknoglobals // constant
var noteTemplates = sync.OnceValue(func() *message.Templates {
	return message.NewTemplates(noteTexts, template.FuncMap{"percent": percent})
})

// gateNotes are what the notes are about.
type gateNotes struct {
	*Report
	Gate               Gate         // with its defaults
	Result             *eval.Result // nil for none
	Added, Unknown     []string     // reverse checks, and why others are not added
	Limited, Approvals bool         // a check limits one direction, or approvals
	Warnings           int          // findings that only warn
	Open, Undecided    bool         // looks are not planned; more people would decide
	After, Together    float64      // confidence of a look after this one, and of all that are planned
}

func (r *Report) note(g *Gate, of *eval.Result) {
	d := g.withDefaults()
	x := gateNotes{
		Report: r, Gate: d, Result: of, Open: d.Looks == OpenLooks, After: task.Rounded(d.next(), 12),
		Together: 1 - (1-d.Confidence)*float64(d.Looks),
	}
	judged := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		judged[f.Check] = true
		if f.Severity == Warns {
			x.Warnings++
		}
		x.Undecided = x.Undecided || f.Need > 0
	}
	for i := range g.Checks {
		c := &g.Checks[i]
		x.Limited, x.Approvals = x.Limited || c.reverse() != nil, x.Approvals || c.limitsApprovals()
		switch {
		case c.Reverse == "":
		case judged[c.name()]:
			x.Added = append(x.Added, c.name())
		default:
			x.Unknown = append(x.Unknown, fmt.Sprintf("%s is not added: the quantized model's own recourse is not known for "+
				"anybody (%s)", c.name(), metrics.Must(c.Metric).Name))
		}
	}
	r.Notes = append(r.Notes, noteTemplates().Lines("notes", x)...)
}

func (r *Report) stricter(o *eval.Scenario, others []Finding) {
	rank := map[Verdict]int{Inconclusive: 1, Fail: 2}
	for i := range r.Findings {
		f := &r.Findings[i]
		k := slices.IndexFunc(others, func(g Finding) bool {
			return g.Check == f.Check && g.Limit == f.Limit && g.Group == f.Group
		})
		if k < 0 && f.Group != "" && f.Verdict == Pass { // it has nobody by that rule
			f.Verdict, f.People = Inconclusive, o.Name
			f.remark("nobody of the group is left (%s)", o.Name)
		}
		if k >= 0 && rank[others[k].Verdict] > rank[f.Verdict] {
			*f = others[k]
			f.People = o.Name
			f.remark("counted: %s", o.Name)
		}
	}
}

func (r *Report) conclude() {
	if r.Verdict = Pass; len(r.Findings) == 0 {
		r.Verdict = Inconclusive
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.OK() && r.Verdict != Fail {
			r.Verdict = f.Verdict
		}
	}
}

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

package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
)

// problem is a mistake in a gate: at a key of an entry of a list, or of the gate itself when list is "".
type problem struct {
	list string
	at   int
	key  string // "" = the entry itself
	text string
}

// The lists of a gate file.
const (
	checkList  = "checks"
	waiverList = "waivers"
)

// Check says what makes no sense in the gate: all of it. A gate without checks does not.
func (g *Gate) Check() error {
	var errs []error
	for _, p := range g.problems() {
		where := "gate"
		switch p.list {
		case checkList:
			where = fmt.Sprintf("check %d (%s)", p.at+1, message.Quote(g.Checks[p.at].name()))
		case waiverList:
			where = fmt.Sprintf("waiver %d (%s)", p.at+1, message.Quote(g.Waivers[p.at].Check))
		}
		if p.key != "" {
			where += ", " + p.key
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p.text))
	}
	return errors.Join(errs...)
}

func (g *Gate) problems() []problem {
	var ps []problem
	add := func(list string, at int, key, format string, a ...any) {
		ps = append(ps, problem{list, at, key, fmt.Sprintf(format, a...)})
	}
	d := g.withDefaults()
	if !(d.Confidence >= 0.5 && d.Confidence < 1) {
		add("", 0, "confidence", "a confidence of %v: it must be 0.5 or more and below 1", d.Confidence)
	}
	if !(d.Margin > 0) || math.IsInf(d.Margin, 1) {
		add("", 0, "margin", "a margin of %v: it must be above 0, since at the boundary half of all promises break whatever is done; a check that means it has a margin of its own", d.Margin)
	}
	if d.MinPeople < 1 {
		add("", 0, "min_people", "%d people: it must be 1 or more", d.MinPeople)
	}
	if len(g.Checks) == 0 {
		add("", 0, checkList, "there are no checks: a gate without any would let everything pass")
	}
	seen := map[string]bool{}
	for i := range g.Checks {
		c := &g.Checks[i]
		for _, p := range c.problems() {
			ps = append(ps, problem{checkList, i, p.key, p.text})
		}
		if seen[c.name()] {
			key := "name"
			if c.Name == "" {
				key = ""
			}
			add(checkList, i, key, "a check named %s is listed above; give one of them another name", message.Quote(c.name()))
		}
		seen[c.name()] = true
	}
	for i := range g.Waivers {
		w := &g.Waivers[i]
		if w.Check == "" {
			add(waiverList, i, "check", "a waiver needs a check, by its name")
		} else if !slices.ContainsFunc(g.Checks, func(c Check) bool { return w.about(&c) }) {
			add(waiverList, i, "check", "there is no check %s%s", message.Quote(w.Check), message.DidYouMean(w.Check, g.names()))
		}
		if w.Until.IsZero() {
			add(waiverList, i, "until", "a waiver needs until, its last day, as 2026-12-31")
		}
		if strings.TrimSpace(w.Reason) == "" {
			add(waiverList, i, "reason", "a waiver needs a reason")
		}
	}
	return ps
}

func (g *Gate) names() []string {
	names := make([]string, len(g.Checks))
	for i := range g.Checks {
		names[i] = g.Checks[i].name()
	}
	return names
}

// otherMetric is the clause to put behind a message about an unknown metric. It may be known by its key in reports, or by some of its words.
func otherMetric(id string) string {
	id = strings.ToLower(id)
	for _, known := range metricIDs() {
		if id != "" && (strings.HasSuffix(id, "."+known) || strings.HasSuffix(known, "."+id) || strings.HasPrefix(known, id+".")) {
			return message.DidYouMean(known, []string{known})
		}
	}
	return message.DidYouMean(id, metricIDs())
}

// problems says what makes no sense in the check by itself.
func (c *Check) problems() []problem {
	var ps []problem
	add := func(key, format string, a ...any) {
		ps = append(ps, problem{key: key, text: fmt.Sprintf(format, a...)})
	}
	if c.Severity != "" && c.Severity != Blocks && c.Severity != Warns {
		add("severity", "%s is no severity%s", message.Quote(string(c.Severity)), message.DidYouMean(string(c.Severity), severities()))
	}
	if c.Margin != nil && (!(*c.Margin >= 0) || math.IsInf(*c.Margin, 1)) {
		add("margin", "a margin of %v: it must be a number, 0 or more", *c.Margin)
	}
	if len(c.limits()) == 0 {
		add("", "a check needs a limit: max, min, abs_max, max_increase, or max_gap with by")
	}
	m, ok := eval.MetricBy(c.Metric)
	switch {
	case c.Metric == "":
		add("metric", "a check needs a metric, such as vd")
		return ps
	case !ok:
		add("metric", "there is no metric %s%s", message.Quote(c.Metric), otherMetric(c.Metric))
		return ps
	case c.Margin != nil && !m.PerMargin():
		add("margin", "%s has no required margin", c.Metric)
	}
	for _, l := range c.limits() {
		if text := l.problem(&m); text != "" {
			add(l.key(), "%s", text)
		}
	}
	switch {
	case c.Max != nil && c.Min != nil:
		if *c.Max < *c.Min {
			add("min", "nothing is at least %v and at most %v", *c.Min, *c.Max)
		}
	case c.Min != nil && m.Better == eval.Lower:
		add("min", "less of %s is better: a least value alone lets the worst pass; max bounds it", c.Metric)
	case c.Max != nil && m.Better == eval.Higher:
		add("max", "more of %s is better: a largest value alone lets the worst pass; min bounds it", c.Metric)
	}
	if c.MaxIncrease != nil && m.Better == eval.Higher {
		add("max_increase", "more of %s is better: an increase is no harm", c.Metric)
	}
	return append(ps, c.groupProblems(&m)...)
}

// groupProblems says what makes no sense in a check by groups.
func (c *Check) groupProblems(m *eval.Metric) []problem {
	var ps []problem
	add := func(key, format string, a ...any) {
		ps = append(ps, problem{key: key, text: fmt.Sprintf(format, a...)})
	}
	if c.By == "" {
		if c.MaxGap != nil {
			add("max_gap", "max_gap is about groups: it needs by, such as sex")
		}
		return ps
	}
	if slices.Contains(strings.Split(grouping(c.By), "*"), "") {
		add("by", "%s is no grouping; write it as sex, or sex*race for both at once", message.Quote(c.By))
	}
	if p := m.Requires; p == eval.RequiresFootprint || p == eval.RequiresTiming {
		add("by", "%s is the same for all people: it has no groups", c.Metric)
	}
	if c.MaxIncrease != nil {
		add("max_increase", "max_increase is about all people; give it a check of its own, without by")
	}
	return ps
}

func severities() []string { return []string{string(Blocks), string(Warns)} }

// metricIDs lists what a check can be about.
func metricIDs() []string {
	all := eval.Metrics()
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID()
	}
	return ids
}

// grouping is the name of a grouping without blanks around its attributes.
func grouping(by string) string {
	parts := strings.Split(by, "*")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, "*")
}

package gate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval/metrics"
	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

// Severity is what a check that does not pass means for the gate.
type Severity string

// The severities.
const (
	Blocks Severity = "error"   // the gate does not pass
	Warns  Severity = "warning" // it is reported
)

// Check is limits on one metric: at least one of Max, Min, AbsMax, MaxIncrease and MaxGap is set.
type Check struct {
	Name     string   // "" = its text without the severity, see String
	Metric   string   // metrics.Metric.ID, such as "vd"
	Margin   *float64 // required logit margin, nil = Gate.Margin
	Severity Severity // "" = Blocks
	// Max and Min bound the metric; AbsMax its absolute value.
	Max, Min, AbsMax *float64
	// MaxIncrease bounds how much the metric may be above that of the earlier result.
	MaxIncrease *float64
	// By is a grouping ("sex", "sex*race"): Max, Min and AbsMax hold for each of its groups, MaxGap bounds the largest
	// difference between two of them.
	By     string
	MaxGap *float64
	// Reverse is the name of the check that this one was added for, see [Gate.Reverse].
	Reverse string
}

// ParseCheck reads a check from one line of text:
//
//	METRIC[@MARGIN][[BY]] (<=|>=) LIMIT [:warning]
//
// as vd<=0.02, vd<=2%, frr@0.25>=0.9 or vd[sex*race]<=0.05:warning. |METRIC...| bounds the absolute value,
// increase(METRIC...) the increase over an earlier result and gap(METRIC...[BY]) the largest difference of two groups.
func ParseCheck(text string) (Check, error) {
	var c Check
	fail := func(err error) (Check, error) { return Check{}, fmt.Errorf("check %s: %w", message.Quote(text), err) }
	at := max(strings.LastIndex(text, "<="), strings.LastIndex(text, ">="))
	if at < 0 {
		if i := strings.IndexAny(text, "<>="); i >= 0 {
			return fail(fmt.Errorf("unsupported operator %s: use <= or >=", message.Quote(text[i:i+1])))
		}
		return fail(errors.New("missing limit: write it as vd<=0.02"))
	}
	left, op, right := strings.TrimSpace(text[:at]), text[at:at+2], text[at+2:]
	var s limitSide
	c.Metric, s = unwrap(left)
	switch {
	case s == atMost && op == ">=":
		s = atLeast
	case op == ">=":
		return fail(fmt.Errorf("unsupported operator %s for %s: use <=", message.Quote(op), s.text().key))
	}
	x, severity, marked := strings.Cut(right, ":")
	if marked {
		if c.Severity = Severity(strings.TrimSpace(severity)); c.Severity == "" {
			return fail(errors.New("missing severity after the colon: write :warning, or no colon"))
		}
	}
	if c.Severity == Blocks {
		c.Severity = ""
	}
	if err := c.parseSubject(); err != nil {
		return fail(err)
	}
	var err error
	v, isPercent := percentage(x)
	if isPercent {
		err = percentProblem(c.Metric, x)
	} else {
		v, err = parseNumber("limit", x)
	}
	if err != nil {
		return fail(err)
	}
	c.put(limit{s, v})
	for _, p := range c.problems(0) {
		err = errors.Join(err, errors.New(p.text))
	}
	if err != nil {
		return fail(err)
	}
	return c, nil
}

func unwrap(text string) (inner string, s limitSide) {
	for _, s := range []limitSide{within, increase, gap} {
		t := s.text()
		if x, ok := strings.CutPrefix(text, t.open); ok {
			if x, ok = strings.CutSuffix(x, t.close); ok {
				return strings.TrimSpace(x), s
			}
		}
	}
	return text, atMost
}

// parseSubject splits METRIC@MARGIN[BY], which is in Metric.
func (c *Check) parseSubject() error {
	var by, margin string
	var grouped, at bool
	if c.Metric, by, grouped = strings.Cut(c.Metric, "["); grouped {
		inner, closed := strings.CutSuffix(by, "]")
		if !closed {
			return fmt.Errorf("missing ] in %s", message.Quote(c.Metric+"["+by))
		}
		if c.By = grouping(inner); c.By == "" {
			return errors.New("empty brackets: write an attribute such as [sex]")
		}
	}
	if c.Metric, margin, at = strings.Cut(c.Metric, "@"); at {
		v, err := parseNumber("margin", margin)
		if err != nil {
			return err
		}
		c.Margin = &v
	}
	c.Metric = strings.TrimSpace(c.Metric)
	return nil
}

func parseNumber(what, text string) (float64, error) {
	s := strings.TrimSpace(text)
	x, ok := config.Decimal(s)
	if !ok {
		return 0, fmt.Errorf("invalid %s %s: want a number", what, message.Quote(s))
	}
	return x, nil
}

func percentage(text string) (float64, bool) {
	share, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	if !ok {
		return 0, false
	}
	return config.Decimal(strings.TrimSpace(share) + "e-2")
}

func percentProblem(metric, text string) error {
	if m, ok := metrics.By(metric); ok && m.Unit != "share" && m.Unit != "ratio" {
		return fmt.Errorf("invalid limit %s for %s: want a number of unit %q", message.Quote(strings.TrimSpace(text)), metric,
			m.Unit)
	}
	return nil
}

// String is the check as ParseCheck reads it, without the name. A check with several limits, which ParseCheck cannot
// read, is the list of its parts.
func (c *Check) String() string {
	if c.Severity == Warns {
		return c.text() + ":" + string(Warns)
	}
	return c.text()
}

func (c *Check) text() string {
	subject := c.Metric
	if c.Margin != nil {
		subject += "@" + task.Decimal(*c.Margin)
	}
	if by := grouping(c.By); by != "" {
		subject += "[" + by + "]"
	}
	parts := lists.Map(c.limits(), func(l limit) string {
		t := l.side.text()
		return t.open + subject + t.close + t.op + task.Decimal(l.x)
	})
	return cmp.Or(strings.Join(parts, ", "), subject)
}

func (c *Check) name() string { return cmp.Or(c.Name, c.text()) }

func (c *Check) bounds() bool { return c.Max != nil || c.Min != nil || c.AbsMax != nil }

// margin is the required margin at which the check evaluates its metric. A promise that was issued was made with a
// margin of its own, however small: unless the check names a margin, all of them are judged.
func (c *Check) margin(g *Gate, m *metrics.Metric, issued bool) float64 {
	switch {
	case c.Margin != nil:
		return *c.Margin
	case issued && m.Requires != metrics.Mirrored && m.Requires != metrics.Noise:
		return 0
	}
	return g.Margin
}

func (c *Check) limits() []limit {
	var all []limit
	for s, x := range c.fields() {
		if *x != nil {
			all = append(all, limit{limitSide(s), **x})
		}
	}
	return all
}

func (c *Check) put(l limit) { *c.fields()[l.side] = &l.x }

func (c *Check) fields() [gap + 1]**float64 {
	return [...]**float64{&c.Max, &c.Min, &c.AbsMax, &c.MaxIncrease, &c.MaxGap}
}

func (c *Check) problems(at int) (all mistakes) {
	if !slices.Contains([]Severity{"", Blocks, Warns}, c.Severity) {
		all.add(at, "severity", "invalid severity %s: want error or warning", message.Quote(string(c.Severity)))
	}
	if c.Margin != nil && (!(*c.Margin >= 0) || math.IsInf(*c.Margin, 1)) {
		all.add(at, "margin", "invalid margin %v: want a number, 0 or more", *c.Margin)
	}
	if len(c.limits()) == 0 {
		all.add(at, "", "missing limit: set max, min, abs_max, max_increase, or max_gap with by")
	}
	m, ok := metrics.By(c.Metric)
	switch {
	case c.Metric == "":
		all.add(at, "metric", "missing metric: want one such as vd")
		return all
	case !ok:
		all.add(at, "metric", "unknown metric %s%s", message.Quote(c.Metric), otherMetric(c.Metric))
		return all
	case m.Instead != "":
		all.add(at, "metric", "%s has no bound that holds whatever its distribution: use %s (docs/verdicts.md, Bounds)",
			c.Metric, m.Instead)
	case c.Margin != nil && !m.PerMargin():
		all.add(at, "margin", "%s has no required margin", c.Metric)
	}
	for _, l := range c.limits() {
		if text := l.problem(&m); text != "" {
			all.add(at, l.side.text().key, "%s", text)
		}
	}
	switch {
	case c.Max != nil && c.Min != nil:
		if *c.Max < *c.Min {
			all.add(at, "min", "min %v is above max %v", *c.Min, *c.Max)
		}
	case c.Min != nil && m.Better == metrics.Lower:
		all.add(at, "min", "lower is better for %s: use max", c.Metric)
	case c.Max != nil && m.Better == metrics.Higher:
		all.add(at, "max", "higher is better for %s: use min", c.Metric)
	}
	if c.MaxIncrease != nil && m.Better == metrics.Higher {
		all.add(at, "max_increase", "higher is better for %s: an increase is no regression", c.Metric)
	}
	switch needs := m.Requires; {
	case c.By == "" && c.MaxGap != nil:
		all.add(at, "max_gap", "max_gap compares groups: set by, for example by: sex")
	case c.By == "":
	case slices.Contains(strings.Split(grouping(c.By), "*"), ""):
		all.add(at, "by", "invalid grouping %s: write sex, or sex*race for both at once", message.Quote(c.By))
	case needs == metrics.File || needs >= metrics.Timing:
		all.add(at, "by", "%s does not depend on people: it has no groups", c.Metric)
	}
	if c.By != "" && c.MaxIncrease != nil {
		all.add(at, "max_increase", "max_increase is about all people: use a separate check without by")
	}
	return all
}

// otherMetric suggests a metric for an unknown one, which may be its key in reports or a part of its ID.
func otherMetric(id string) string {
	id = strings.ToLower(id)
	for _, m := range metrics.All() {
		known := m.ID
		if id != "" && (strings.HasSuffix(id, "."+known) || strings.HasSuffix(known, "."+id) || strings.HasPrefix(known,
			id+".")) {
			known = cmp.Or(m.Instead, known)
			return message.DidYouMean(known, []string{known})
		}
	}
	return message.DidYouMean(id, metricIDs())
}

func metricIDs() []string {
	all := lists.Filter(metrics.All(), func(m metrics.Metric) bool { return m.Instead == "" })
	return lists.Map(all, func(m metrics.Metric) string { return m.ID })
}

func grouping(by string) string {
	return strings.Join(lists.Map(strings.Split(by, "*"), strings.TrimSpace), "*")
}

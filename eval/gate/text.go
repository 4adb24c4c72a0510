package gate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cfq/internal/message"
)

// ParseCheck reads a check from one line of text:
//
//	METRIC[@MARGIN][[BY]] (<=|>=) LIMIT [:warning]
//
// as vd<=0.02, frr@0.25>=0.9 or vd[sex*race]<=0.05:warning. |METRIC...| bounds the absolute value, increase(METRIC...) the
// increase over an earlier result and gap(METRIC...[BY]) the largest difference of two groups.
func ParseCheck(text string) (Check, error) {
	var c Check
	fail := func(err error) (Check, error) { return Check{}, fmt.Errorf("check %s: %w", message.Quote(text), err) }
	at := max(strings.LastIndex(text, "<="), strings.LastIndex(text, ">="))
	if at < 0 {
		if i := strings.IndexAny(text, "<>="); i >= 0 {
			return fail(fmt.Errorf("%s is no comparison here; use <= or >=", message.Quote(text[i:i+1])))
		}
		return fail(errors.New("it needs a limit, as in vd<=0.02"))
	}
	left, op, right := strings.TrimSpace(text[:at]), text[at:at+2], text[at+2:]
	var s side
	c.Metric, s = unwrap(left)
	switch {
	case s == atMost && op == ">=":
		s = atLeast
	case op == ">=":
		return fail(fmt.Errorf("%s is bounded from above only: use <=", s.text().key))
	}
	x, severity, marked := strings.Cut(right, ":")
	if marked {
		if c.Severity = Severity(strings.TrimSpace(severity)); c.Severity == "" {
			return fail(errors.New("nothing stands behind the colon; write :warning or nothing"))
		}
	}
	if c.Severity == Blocks {
		c.Severity = ""
	}
	v, err := parseNumber("limit", x)
	if err != nil {
		return fail(err)
	}
	c.put(limit{s, v})
	if err := c.parseSubject(); err != nil {
		return fail(err)
	}
	for _, p := range c.problems() {
		err = errors.Join(err, errors.New(p.text))
	}
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// unwrap takes |x|, increase(x) and gap(x) apart.
func unwrap(text string) (inner string, s side) {
	for _, s := range []side{within, increase, gap} {
		t := s.text()
		if x, ok := strings.CutPrefix(text, t.open); ok {
			if x, ok = strings.CutSuffix(x, t.close); ok {
				return strings.TrimSpace(x), s
			}
		}
	}
	return text, atMost
}

// parseSubject takes METRIC@MARGIN[BY], which stands in Metric, apart.
func (c *Check) parseSubject() error {
	var by, margin string
	var grouped, at bool
	if c.Metric, by, grouped = strings.Cut(c.Metric, "["); grouped {
		inner, closed := strings.CutSuffix(by, "]")
		if !closed {
			return fmt.Errorf("the bracket in front of %s is not closed", message.Quote(by))
		}
		if c.By = grouping(inner); c.By == "" {
			return errors.New("nothing stands in the brackets; write an attribute such as [sex]")
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

// parseNumber reads a finite decimal number.
func parseNumber(what, text string) (float64, error) {
	s := strings.TrimSpace(text)
	if share, ok := strings.CutSuffix(s, "%"); ok {
		if x, err := decimal(strings.TrimSpace(share) + "e-2"); err == nil {
			return 0, fmt.Errorf("the %s %s must be a number: write %s", what, message.Quote(s), number(x))
		}
	}
	x, err := decimal(s)
	if err != nil {
		return 0, fmt.Errorf("the %s %s is not a number", what, message.Quote(s))
	}
	return x, nil
}

// decimal reads a finite number such as 40, -1.5 or 1e+05: no infinities, no hexadecimals, no digit separators.
func decimal(s string) (float64, error) {
	if strings.Trim(s, "0123456789.-+eE") != "" || s == "" {
		return 0, errors.New("not a decimal number")
	}
	return strconv.ParseFloat(s, 64)
}

// String is the check as ParseCheck reads it. A check with several limits, which no such text has, is the list of its parts. Name is left out.
func (c *Check) String() string {
	if c.Severity == Warns {
		return c.text() + ":" + string(Warns)
	}
	return c.text()
}

func (c *Check) text() string {
	subject := c.Metric
	if c.Margin != nil {
		subject += "@" + number(*c.Margin)
	}
	if by := grouping(c.By); by != "" {
		subject += "[" + by + "]"
	}
	var parts []string
	for _, l := range c.limits() {
		t := l.side.text()
		parts = append(parts, t.open+subject+t.close+t.op+number(l.x))
	}
	if parts == nil {
		return subject
	}
	return strings.Join(parts, ", ")
}

func (c *Check) name() string {
	if c.Name != "" {
		return c.Name
	}
	return c.text()
}

package gate

import (
	"fmt"
	"math"
	"strconv"

	"cfq/eval"
)

// limit is one of the limits of a check.
type limit struct {
	side side
	x    float64
}

// side is what a limit bounds.
type side int

const (
	atMost   side = iota
	atLeast       // the metric
	within        // its absolute value, from above
	increase      // how much it is above that of the earlier result, from above
	gap           // the largest difference of two groups, from above
)

// sideText is how a side is written.
type sideText struct {
	key         string // in a gate file
	open, close string // around the metric in the text of a check
	op          string
	finding     string // in front of op in a Finding
}

func (s side) text() sideText {
	return [...]sideText{
		atMost:   {"max", "", "", "<=", ""},
		atLeast:  {"min", "", "", ">=", ""},
		within:   {"abs_max", "|", "|", "<=", "|value| "},
		increase: {"max_increase", "increase(", ")", "<=", "increase "},
		gap:      {"max_gap", "gap(", ")", "<=", "gap "},
	}[s]
}

func (l limit) key() string { return l.side.text().key }

// String is the limit without what it bounds, as "<= 0.02".
func (l limit) String() string {
	t := l.side.text()
	return t.finding + t.op + " " + number(l.x)
}

// number writes a number exactly, and as people do where that is short.
func number(x float64) string {
	if a := math.Abs(x); a >= 1e15 || a != 0 && a < 1e-6 {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x+0, 'f', -1, 64) // +0 turns -0 into 0
}

// limits lists those that are set, in the order of side.
func (c *Check) limits() []limit {
	var all []limit
	for s, x := range []*float64{c.Max, c.Min, c.AbsMax, c.MaxIncrease, c.MaxGap} {
		if x != nil {
			all = append(all, limit{side(s), *x})
		}
	}
	return all
}

// put sets the limit.
func (c *Check) put(l limit) {
	*[]**float64{&c.Max, &c.Min, &c.AbsMax, &c.MaxIncrease, &c.MaxGap}[l.side] = &l.x
}

// problem says why the limit makes no sense for the metric, "" when it does.
func (l limit) problem(m *eval.Metric) string {
	k, least := m.Kind(), 0.0
	if k != eval.KindShare {
		least = -1 // a difference of two shares
	}
	switch {
	case math.IsNaN(l.x) || math.IsInf(l.x, 0):
		return fmt.Sprintf("a limit of %v: it must be a finite number", l.x)
	case k == eval.KindShare && l.side == within:
		return m.ID() + " is a share, which is never below 0: use max"
	case m.Unit == "share" && l.x > 1 && l.x <= 100:
		return fmt.Sprintf("a limit of %v for %s: a share lies between 0 and 1; for %v %% write %s", l.x, m.ID(), l.x, number(rounded(l.x/100, 15)))
	case m.Unit == "share" && !(l.x >= least && l.x <= 1):
		return fmt.Sprintf("a limit of %v for %s: it must lie between %v and 1", l.x, m.ID(), least)
	case (l.side == within || l.side == gap) && l.x < 0:
		return fmt.Sprintf("a limit of %v: %s bounds what is never below 0", l.x, l.key())
	}
	return ""
}

// verdict holds a number that lies between lo and hi against the limit. An end that is not known decides nothing.
func (l limit) verdict(lo, hi float64) Verdict {
	switch {
	case l.side == atLeast && lo >= l.x,
		l.side == within && lo >= -l.x && hi <= l.x,
		l.side != atLeast && l.side != within && hi <= l.x:
		return Pass
	case l.side == atLeast && hi < l.x,
		l.side == within && (lo > l.x || hi < -l.x),
		l.side != atLeast && l.side != within && lo > l.x:
		return Fail
	}
	return Inconclusive
}

package gate

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/task"
)

type limit struct {
	side limitSide
	x    float64
}

type limitSide int

const (
	atMost   limitSide = iota // the metric, from above
	atLeast                   // the metric, from below
	within                    // its absolute value, from above
	increase                  // how much it is above that of the earlier result, from above
	gap                       // the largest difference of two groups, from above
)

type sideText struct {
	key         string // in a gate file
	open, close string // around the metric in the text of a check
	op          string
	finding     string // in front of op in a Finding
}

func (s limitSide) text() sideText {
	return [...]sideText{
		atMost:   {"max", "", "", "<=", ""},
		atLeast:  {"min", "", "", ">=", ""},
		within:   {"abs_max", "|", "|", "<=", "|value| "},
		increase: {"max_increase", "increase(", ")", "<=", "increase "},
		gap:      {"max_gap", "gap(", ")", "<=", "gap "},
	}[s]
}

// String is the limit without what it bounds, as "<= 0.02".
func (l limit) String() string {
	t := l.side.text()
	return t.finding + t.op + " " + task.Decimal(l.x)
}

func (l limit) problem(m *metrics.Metric) string {
	lowest, highest := valuesOf(m)
	switch {
	case math.IsNaN(l.x) || math.IsInf(l.x, 0):
		return fmt.Sprintf("invalid limit %v: want a finite number", l.x)
	case m.Kind == metrics.Share && l.side == within:
		return m.ID + " is a share and never negative: use max"
	case m.Unit == "share" && l.x > 1 && l.x <= 100:
		return fmt.Sprintf("invalid limit %v for %s: want a share from 0 to 1; for %v %% write %s", l.x, m.ID, l.x,
			task.Decimal(task.Rounded(l.x/100, 15)))
	case m.Unit == "share" && !(l.x >= lowest && l.x <= 1):
		return fmt.Sprintf("invalid limit %v for %s: want a number from %v to 1", l.x, m.ID, lowest)
	case (l.side == within || l.side == gap) && l.x < 0:
		return fmt.Sprintf("invalid limit %v: %s bounds a number that is never negative", l.x, l.side.text().key)
	case slices.ContainsFunc((&Gate{}).dataChecks(), func(s dataCheck) bool { return s.metric == m.ID }):
		return "" // a limit that cannot fail takes the data check away
	case l.side == atLeast && l.x <= lowest:
		return fmt.Sprintf("the limit %v cannot fail: %s is always %v or more", l.x, m.ID, lowest)
	case l.side == within && l.x >= max(-lowest, highest), l.side == atMost && l.x >= highest:
		return fmt.Sprintf("the limit %v cannot fail: %s is always %v or less", l.x, m.ID, highest)
	case (l.side == increase || l.side == gap) && l.x >= highest-lowest:
		return fmt.Sprintf("the limit %v cannot fail: two values of %s differ by %v at most", l.x, m.ID, highest-lowest)
	}
	return ""
}

func valuesOf(m *metrics.Metric) (lowest, highest float64) {
	lowest, highest = math.Inf(-1), math.Inf(1)
	switch kind := m.Kind; {
	case kind == metrics.Share, m.Unit == "Jaccard index", m.Unit == "share" && m.Better == metrics.Higher:
		return 0, 1
	case m.Unit == "share", m.Unit == "cosine": // a difference of two shares
		return -1, 1
	case m.Unit == "ratio": // costs are positive
		lowest = -1
	case kind == metrics.Exact:
		lowest = 0
	}
	if m.Better == metrics.Lower {
		lowest = max(lowest, 0)
	}
	return lowest, highest
}

// allowed is the range of values within the limit, of which one end may be infinite.
func (l limit) allowed() (from, to float64) {
	switch l.side {
	case atLeast:
		return l.x, math.Inf(1)
	case within:
		return -math.Abs(l.x), math.Abs(l.x)
	}
	return math.Inf(-1), l.x
}

// verdict compares a number that lies between lo and hi with the limit. An unknown end (NaN) decides nothing.
func (l limit) verdict(lo, hi float64) Verdict {
	switch from, to := l.allowed(); {
	case (math.IsInf(from, -1) || lo >= from) && (math.IsInf(to, 1) || hi <= to):
		return Pass
	case lo > to || hi < from:
		return Fail
	}
	return Inconclusive
}

// maxNeed is up to how many people the binomial distribution is used; above, the normal distribution.
const maxNeed = 1 << 20

// need returns the smallest number of people above n with which a share of k/n would pass at the confidence; 0 when
// none would.
func (l limit) need(k, n int, confidence float64) int {
	bound := l.x
	if l.side == atLeast { // the mirror image: the share of the others is at most 1 - limit
		k, bound = n-k, 1-l.x
	}
	switch {
	case bound <= 0 || n > 0 && float64(k) >= bound*float64(n)-1e-9:
		return 0
	case k == 0:
		return people(math.Ceil(math.Log(1-confidence)/math.Log1p(-bound) - 1e-9))
	}
	return needOf(float64(k)/float64(n), n, bound, 1-confidence)
}

// needAbout returns roughly how many people an inconclusive estimate needs: its interval narrows with the root of their
// number. 0 when the value itself is beyond the limit, or an end is not known.
func (l limit) needAbout(v eval.Value, lo, hi float64) int {
	x, times := float64(v.Value), 0.0
	reach := func(width, room float64) {
		if room > 0 && width >= 0 {
			times = math.Max(times, width/room)
		} else {
			times = math.Inf(1)
		}
	}
	from, to := l.allowed()
	if !math.IsInf(to, 1) {
		reach(hi-x, to-x)
	}
	if !math.IsInf(from, -1) {
		reach(x-lo, x-from)
	}
	n := float64(v.N) * times * times
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(v.N+1, people(outward(n, 2, true)))
}

func people(n float64) int {
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(1, int(n))
}

// needOf returns the smallest number of people above n for which round(share*number) has an upper bound within the
// limit.
func needOf(share float64, n int, limit, alpha float64) int {
	passes := func(k float64, m int) bool { return m > n && tail(k, m, limit) <= alpha }
	// Rounding to whole people makes the edge ragged, but takes away no more than half a person.
	least := sort.Search(maxNeed, func(m int) bool { return passes(share*float64(m)-0.5, m) })
	for m := least; m < maxNeed; m++ {
		if passes(math.Round(share*float64(m)), m) {
			return m
		}
	}
	z := distuv.UnitNormal.Quantile(1 - alpha)
	return people(task.Rounded(z*z*limit*(1-limit)/(limit-share)/(limit-share), 3))
}

// tail is the binomial probability of k or fewer of n at probability p, also between whole k.
func tail(k float64, n int, p float64) float64 {
	if k >= float64(n) {
		return 1
	}
	return distuv.Beta{Alpha: float64(n) - k, Beta: k + 1}.CDF(1 - p)
}

// pValue is the p-value of a count beyond the limit when the share is at the limit: the probability of k or more of n
// for "at most", of k or fewer for "at least".
func (l limit) pValue(k, n int) float64 {
	if l.side == atLeast {
		k, l.x = n-k, 1-l.x
	}
	if k <= 0 {
		return 1
	}
	return distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.CDF(l.x)
}

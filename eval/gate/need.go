package gate

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
)

// maxNeed is how many people are counted one by one: above it, the normal distribution says how many it takes.
const maxNeed = 1 << 20

// need returns the smallest number of people, above n, of whom a share of k of n would show the limit at the confidence;
// 0 when none would.
func (l limit) need(k, n int, confidence float64) int {
	bound := l.x
	if l.side == atLeast { // the mirror image: those who do not count are at most 1 - limit
		k, bound = n-k, 1-l.x
	}
	switch {
	case bound <= 0 || n > 0 && float64(k) >= bound*float64(n)-1e-9:
		return 0
	case k == 0:
		return people(math.Ceil(math.Log(1-confidence)/math.Log1p(-bound) - 1e-9))
	}
	return needOf(float64(k)/float64(n), k, n, bound, 1-confidence)
}

// needAbout returns how many people an estimate that is inconclusive would take, roughly: both ends of its interval come
// nearer with the root of their number. 0 when the value itself is beyond the limit, or an end is not known.
func (l limit) needAbout(v eval.Value, lo, hi float64) int {
	x, times := float64(v.Value), 0.0
	reach := func(width, room float64) {
		if room > 0 && width >= 0 {
			times = math.Max(times, width/room)
		} else {
			times = math.Inf(1)
		}
	}
	if l.side != atLeast {
		reach(hi-x, l.x-x)
	}
	switch l.side {
	case atLeast:
		reach(x-lo, x-l.x)
	case within:
		reach(x-lo, x+l.x)
	}
	n := float64(v.N) * times * times
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(v.N+1, people(outward(n, 2, true)))
}

// people is how many there must be, 0 when it is out of all reason.
func people(n float64) int {
	if !(n < math.MaxInt32) {
		return 0
	}
	return max(1, int(n))
}

// needOf looks for the smallest n for which round(share*n) of n have an upper bound within the limit. For each count there are the n that round
// to it, and the least n for which so many are few enough; the first count at which the two meet is the answer, and above some count they always do.
func needOf(share float64, k, n int, limit, alpha float64) int {
	meets := func(count int) bool {
		last := int(math.Ceil((float64(count) + 0.5) / share)) // the last n that rounds to the count
		for math.Round(share*float64(last)) > float64(count) {
			last--
		}
		return last > n && tail(count, last, limit) <= alpha
	}
	lo, hi := k-1, k
	for !meets(hi) {
		if lo, hi = hi, 2*hi; float64(hi)/share > maxNeed {
			z := distuv.UnitNormal.Quantile(1 - alpha)
			return people(rounded(z*z*limit*(1-limit)/(limit-share)/(limit-share), 3))
		}
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; meets(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	// Rounding to whole people makes the edge ragged.
	best := hi
	for count := hi - 1; count >= k && count > hi-32; count-- {
		if meets(count) {
			best = count
		}
	}
	return max(n+1, int(math.Ceil((float64(best)-0.5)/share)), leastFor(best, limit, alpha))
}

// leastFor returns the smallest n for which k or fewer of n are no more probable than alpha when their share is the limit: from there on the
// exact upper bound of k of n is within it.
func leastFor(k int, limit, alpha float64) int {
	few := func(n int) bool { return tail(k, n, limit) <= alpha }
	lo, hi := k, 2*k+2
	for !few(hi) {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; few(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// tail is the probability of k or fewer of n when each counts with probability p.
func tail(k, n int, p float64) float64 {
	if k >= n {
		return 1
	}
	return distuv.Beta{Alpha: float64(n - k), Beta: float64(k) + 1}.CDF(1 - p)
}

// chance is the probability of counts so far beyond the limit when the share is just at it: of k or more of n for "at most", of k
// or fewer for "at least".
func (l limit) chance(k, n int) float64 {
	if l.side == atLeast {
		k, l.x = n-k, 1-l.x
	}
	if k <= 0 {
		return 1
	}
	return distuv.Beta{Alpha: float64(k), Beta: float64(n-k) + 1}.CDF(l.x)
}

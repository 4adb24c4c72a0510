package eval

import (
	"math"
	"slices"
)

// tauShare is the share of promises that tau01 allows to break.
const tauShare = 0.01

// Tau is the smallest margin to demand of one model's recourse so that at most
// 1 % of the promises break under the other model: the infimum of the t with
// VD <= 1 % at t and at every solved margin above t.
//
// VD is known exactly at the required margins that were solved. Above a
// solved margin s, and below the next one, it is predicted from the points
// solved at s: asked for a margin t > s, a person's point moves on until its
// margin is t, or stays where it is if it has that much already, and the
// difference of the two models is assumed to stay what it was. A promise that
// held at s then still holds, and one that broke at s breaks until t exceeds
// (own margin - other margin) there. The prediction therefore never reaches
// further than from one solved margin to the next, except above the last one;
// Extrapolated says when the answer lies there.
//
// A promise cannot break by halves: with fewer than 100 promises, 1 % of them is none.
type Tau struct {
	Value        Float `json:"value"` // logits; undefined when there are no promises
	Lo           Float `json:"lo"`    // the interval: where the exact bounds of VD, one for each end, meet 1 %
	Hi           Float `json:"hi"`
	N            int   `json:"n"`            // promises at the solved margin it rests on
	From         Float `json:"from"`         // that solved margin
	Extrapolated bool  `json:"extrapolated"` // Value lies above the largest solved margin
}

// allowance says how many of n promises may break.
type allowance func(n int) int

// allowances returns those of tau01 and of the ends of its interval: as many as 1 % is; as many as leave it
// possible, by the exact bound of the share, that 1 % or less break; and as many as exclude that more do (-1: however few there are).
func allowances(confidence float64) (value, lo, hi allowance) {
	side := (1 + confidence) / 2
	value = func(n int) int { return int(math.Floor(tauShare*float64(n) + 1e-9)) }
	lo = func(n int) int {
		return searchLast(n, func(k int) bool { return ClopperPearsonLower(k, n, side) <= tauShare })
	}
	hi = func(n int) int {
		return searchLast(n+1, func(k int) bool { return ClopperPearsonUpper(k-1, n, side) <= tauShare }) - 1
	}
	return value, lo, hi
}

// tau01 takes the promises at each solved margin, ascending.
func tau01(margins []float64, promises [][]Promise, confidence float64) Tau {
	value, lo, hi := allowances(confidence)
	t := tauOf(margins, promises, value)
	t.Lo, t.Hi = Float(math.Inf(-1)), Float(math.Inf(1))
	if t.Value.Defined() {
		t.Lo = tauOf(margins, promises, lo).Value
		if h := tauOf(margins, promises, hi).Value; h.Defined() {
			t.Hi = h
		}
	}
	return t
}

func tauOf(margins []float64, promises [][]Promise, allowed allowance) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	// From the top: as long as a margin is good enough, the answer is no larger.
	for i := len(margins) - 1; i >= 0; i-- {
		n := len(promises[i])
		if n == 0 {
			continue
		}
		may := allowed(n)
		if may < 0 {
			break
		}
		s, need := Float(margins[i]), Float(needed(promises[i], may))
		if need <= 0 { // no more than that break here
			t = Tau{Value: s, N: n, From: s}
			continue
		}
		if !t.Value.Defined() || need < t.Value {
			t = Tau{Value: max(s, need), N: n, From: s}
		}
		break
	}
	t.Extrapolated = float64(t.Value) > margins[len(margins)-1]
	return t
}

// needed returns the margin above which at most so many of the promises are
// predicted to break, 0 when no more than that break as they are.
func needed(promises []Promise, allowed int) float64 {
	if allowed >= len(promises) {
		return 0
	}
	need := make([]float64, len(promises))
	for i, p := range promises {
		if p.Broken() {
			// Never 0, or a promise broken by a hair would count as kept.
			need[i] = max(float64(p.Own-p.Other), math.SmallestNonzeroFloat64)
		}
	}
	slices.Sort(need)
	return need[len(need)-1-allowed]
}

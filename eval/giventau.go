package eval

import (
	"cmp"
	"math"
	"slices"
)

// givenTau is tau01 of given promises. Their points do not move with the required margin: at t, those whose own margin is t or more are promises. So
// VD is known at every t from the lowest evaluated margin on, and nothing is predicted. It is undefined when the promises
// with the largest margins break: no margin is enough then.
//
// The upper end takes it that a smaller share breaks where margins are larger, and so leaves the half of the promises with the largest
// margins, and never less than 736, together: of fewer it could not say that 1 % break or less unless hardly any did.
func givenTau(lowest float64, promises []Promise, confidence float64) Tau {
	g := newGivenOrder(lowest, promises, nil)
	each := ones(len(promises))
	t := g.tau(each, onePercent, 1)
	t.Lo, t.Hi = Float(math.Inf(-1)), Float(math.Inf(1))
	if t.Value.Defined() {
		t.Lo = g.above(each, possibly(confidence))
		together := min(len(promises), max(736, len(promises)/2))
		if h := g.tau(each, surely(confidence), together).Value; h.Defined() {
			t.Hi = max(h, t.Value)
		}
	}
	return t
}

// givenOrder holds given promises, those with the largest margins first.
type givenOrder struct {
	lowest   Float // required margin
	promises []Promise
	who      []int
}

// newGivenOrder takes promises and whose they are, nil for 0, 1, 2 ...
func newGivenOrder(lowest float64, promises []Promise, who []int) givenOrder {
	order := make([]int, len(promises))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(promises[j].Own, promises[i].Own) })
	g := givenOrder{lowest: Float(lowest), promises: make([]Promise, len(promises)), who: order}
	for k, i := range order {
		g.promises[k] = promises[i]
	}
	if who != nil {
		g.who = make([]int, len(order))
		for k, i := range order {
			g.who[k] = who[i]
		}
	}
	return g
}

// last says that the k-th promise is the last one with its margin: those with equal margins are all there or none.
func (g *givenOrder) last(k int) bool {
	return k+1 == len(g.promises) || g.promises[k+1].Own != g.promises[k].Own
}

// tau takes the promises with the largest margins first, so many of them together.
func (g *givenOrder) tau(weights []float64, ok tolerance, together int) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	n, broken := 0, 0
	for k := range g.promises {
		w := int(weights[g.who[k]])
		n += w
		broken += w * count(g.promises[k].Broken())
		switch {
		case n < together || !g.last(k):
			continue
		case ok(broken, n):
			t.N = n
			continue
		}
		if t.N > 0 {
			t.Value, t.From = g.promises[k].Own, g.lowest
		}
		return t
	}
	if t.N > 0 {
		t.Value, t.From = g.lowest, g.lowest
	}
	return t
}

// above takes all promises first and leaves those with the smallest margins away, until no more break than are tolerated.
func (g *givenOrder) above(weights []float64, ok tolerance) Float {
	n, broken := 0, 0
	for k := range g.promises {
		w := int(weights[g.who[k]])
		n += w
		broken += w * count(g.promises[k].Broken())
	}
	at := g.lowest
	for k := len(g.promises) - 1; k >= 0; k-- {
		if g.last(k) && (n == 0 || ok(broken, n)) {
			return at
		}
		w := int(weights[g.who[k]])
		n -= w
		broken -= w * count(g.promises[k].Broken())
		at = g.promises[k].Own
	}
	return at
}

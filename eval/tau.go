package eval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
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
	Value Float `json:"value"` // logits; undefined when there are no promises
	// the interval: where the exact bounds of VD, one for each end, meet 1 %; see tauOf and tauAbove
	Lo           Float `json:"lo"`
	Hi           Float `json:"hi"`
	N            int   `json:"n"`            // promises at the solved margin it rests on
	From         Float `json:"from"`         // that solved margin
	Extrapolated bool  `json:"extrapolated"` // Value lies above the largest solved margin
}

// tolerance says whether this many of n promises may break; if so, fewer may.
type tolerance func(broken, n int) bool

// onePercent is tau01's own.
func onePercent(broken, n int) bool { return float64(broken) <= tauShare*float64(n)+1e-9 }

// surely excludes that more than 1 % break: the exact upper bound is 1 % at most. There may be too few
// promises for any to be tolerated, or none even.
func surely(confidence float64) tolerance {
	return func(broken, n int) bool {
		return distuv.Binomial{N: float64(n), P: tauShare}.CDF(float64(broken)) <= (1-confidence)/2
	}
}

// possibly leaves it possible that 1 % break or less: the exact lower bound is 1 % at most.
func possibly(confidence float64) tolerance {
	return func(broken, n int) bool {
		return broken == 0 || distuv.Binomial{N: float64(n), P: tauShare}.Survival(float64(broken-1)) >= (1-confidence)/2
	}
}

// most returns how many of n promises may break, -1 when there are too few to say.
func (ok tolerance) most(n int) int {
	return searchLast(n+1, func(k int) bool { return ok(k-1, n) }) - 1
}

// solvedAt holds the promises at one solved margin.
type solvedAt struct {
	margin float64
	made   []int     // whose they are
	need   []float64 // of those that break, the margin above which they would hold, descending
	broken []int     // whose these are
}

// newSolvedAt takes the promises at a solved margin and whose they are, nil for 0, 1, 2 ...
func newSolvedAt(margin float64, promises []Promise, who []int) solvedAt {
	s := solvedAt{margin: margin, made: who}
	if who == nil {
		s.made = make([]int, len(promises))
		for i := range s.made {
			s.made[i] = i
		}
	}
	var at []int
	for i := range promises {
		if promises[i].Broken() {
			at = append(at, i)
		}
	}
	need := func(i int) float64 {
		// Never 0, or a promise broken by a hair would count as kept.
		return max(float64(promises[i].Own-promises[i].Other), math.SmallestNonzeroFloat64)
	}
	slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(need(j), need(i)) })
	for _, i := range at {
		s.need, s.broken = append(s.need, need(i)), append(s.broken, s.made[i])
	}
	return s
}

// count returns the number of promises when each person's count as often as weights say.
func (s *solvedAt) count(weights []float64) int {
	var n float64
	for _, i := range s.made {
		n += weights[i]
	}
	return int(n)
}

// needed returns the margin above which at most `allowed` promises are predicted to break, 0 when no
// more than that break as they are.
func (s *solvedAt) needed(allowed int, weights []float64) float64 {
	var n float64
	for k, i := range s.broken {
		if n += weights[i]; int(n) > allowed {
			return s.need[k]
		}
	}
	return 0
}

// tau01 takes the promises at each solved margin, ascending.
func tau01(margins []float64, promises [][]Promise, confidence float64) Tau {
	stages := make([]solvedAt, len(margins))
	most := 0
	for i := range stages {
		stages[i] = newSolvedAt(margins[i], promises[i], nil)
		most = max(most, len(promises[i]))
	}
	each := ones(most)
	t := tauOf(stages, each, onePercent)
	t.Lo, t.Hi = Float(math.Inf(-1)), Float(math.Inf(1))
	if t.Value.Defined() {
		t.Lo = tauAbove(stages, each, possibly(confidence))
		if h := tauOf(stages, each, surely(confidence)).Value; h.Defined() {
			t.Hi = h
		}
	}
	return t
}

// tauOf goes from the top: as long as a margin is good enough, the answer is no larger. With surely it is an
// upper bound: to be too small, it must have found good the margins just below the true value, which are not,
// and of those that is one test.
func tauOf(stages []solvedAt, weights []float64, ok tolerance) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	for i := len(stages) - 1; i >= 0; i-- {
		n := stages[i].count(weights)
		if n == 0 {
			continue
		}
		may := ok.most(n)
		if may < 0 {
			break
		}
		s, need := Float(stages[i].margin), Float(stages[i].needed(may, weights))
		if need <= 0 { // no more than that break here
			t = Tau{Value: s, N: n, From: s}
			continue
		}
		if !t.Value.Defined() || need < t.Value {
			t = Tau{Value: max(s, need), N: n, From: s}
		}
		break
	}
	t.Extrapolated = float64(t.Value) > stages[len(stages)-1].margin
	return t
}

// tauAbove goes from the bottom, to the first margin that is good enough. With possibly it is a lower bound:
// to be too large, it must have found the true value not good enough, which is one test too. (From the top, a
// margin far above that is found bad by chance would do.)
func tauAbove(stages []solvedAt, weights []float64, ok tolerance) Float {
	least := undefined()
	for i := range stages {
		s := Float(stages[i].margin)
		n := stages[i].count(weights)
		if n == 0 {
			continue
		}
		if least.Defined() && least < s {
			return least
		}
		need := Float(stages[i].needed(ok.most(n), weights))
		if need <= 0 {
			return s
		}
		least = max(s, need)
	}
	return least
}

func ones(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// issuedTau is tau01 of given promises. Their points do not move with the required margin: at t, those whose
// own margin is t or more are promises. So VD is known at every t from the lowest evaluated margin on, and
// nothing is predicted. It is undefined when the promises with the largest margins break: no margin is enough
// then.
//
// The upper end takes it that a smaller share breaks where margins are larger, and so leaves the half of the
// promises with the largest margins, and never less than 736, together: of fewer it could not say that 1 %
// break or less unless hardly any did.
func issuedTau(lowest float64, promises []Promise, confidence float64) Tau {
	g := newIssuedOrder(lowest, promises, nil)
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

// issuedOrder holds given promises, those with the largest margins first.
type issuedOrder struct {
	lowest   Float // required margin
	promises []Promise
	who      []int
}

// newIssuedOrder takes promises and whose they are, nil for 0, 1, 2 ...
func newIssuedOrder(lowest float64, promises []Promise, who []int) issuedOrder {
	order := make([]int, len(promises))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(promises[j].Own, promises[i].Own) })
	g := issuedOrder{lowest: Float(lowest), promises: make([]Promise, len(promises)), who: order}
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
func (g *issuedOrder) last(k int) bool {
	return k+1 == len(g.promises) || g.promises[k+1].Own != g.promises[k].Own
}

// tau takes the promises with the largest margins first, at least `together` of them at once.
func (g *issuedOrder) tau(weights []float64, ok tolerance, together int) Tau {
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

// above takes all promises first and leaves those with the smallest margins away, until no more break than
// are tolerated.
func (g *issuedOrder) above(weights []float64, ok tolerance) Float {
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

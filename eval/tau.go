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

// allowed says whether this many of n promises may break; if so, fewer may.
type allowed func(broken, n int) bool

// onePercent is tau01's own.
func onePercent(broken, n int) bool { return float64(broken) <= tauShare*float64(n)+1e-9 }

// upperWithin requires that the exact upper bound of the share that breaks is 1 % at most. There may be too few
// promises for any to break, or for a verdict.
func upperWithin(confidence float64) allowed {
	return func(broken, n int) bool {
		return distuv.Binomial{N: float64(n), P: tauShare}.CDF(float64(broken)) <= (1-confidence)/2
	}
}

// lowerWithin requires that the exact lower bound of the share that breaks is 1 % at most.
func lowerWithin(confidence float64) allowed {
	return func(broken, n int) bool {
		return broken == 0 || distuv.Binomial{N: float64(n), P: tauShare}.Survival(float64(broken-1)) >= (1-confidence)/2
	}
}

// most returns how many of n promises may break, -1 when there are too few to say.
func (ok allowed) most(n int) int {
	return searchLast(n+1, func(k int) bool { return ok(k-1, n) }) - 1
}

// solvedAt holds the promises at one solved margin.
type solvedAt struct {
	margin Float
	made   []int     // whose they are
	need   []float64 // of those that break, the margin above which they would hold, descending
	broken []int     // whose these are
}

// newSolvedAt takes the promises at a solved margin and whose they are.
func newSolvedAt(margin float64, promises []Promise, who []int) solvedAt {
	s := solvedAt{margin: Float(margin), made: who}
	need := func(i int) float64 {
		// Never 0, or a promise broken by a hair would count as kept.
		return max(float64(promises[i].Own-promises[i].Other), math.SmallestNonzeroFloat64)
	}
	for _, i := range sortedBy(len(promises), need) {
		if promises[i].Broken() {
			s.need, s.broken = append(s.need, need(i)), append(s.broken, who[i])
		}
	}
	return s
}

// sortedBy returns the numbers below n, those with the largest keys first.
func sortedBy(n int, key func(i int) float64) []int {
	order := upTo(n)
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(key(j), key(i)) })
	return order
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// needed returns the number of promises when each person's count as often as weights say, and the margin above which
// no more are predicted to break than are tolerated: 0 when no more break as they are, NaN when they are too few.
func (s *solvedAt) needed(weights []float64, ok allowed) (n int, need Float) {
	for _, i := range s.made {
		n += int(weights[i])
	}
	allowed := ok.most(n)
	if allowed < 0 {
		return n, undefined()
	}
	for k, i := range s.broken {
		if allowed -= int(weights[i]); allowed < 0 {
			return n, Float(s.need[k])
		}
	}
	return n, 0
}

// tau01 takes the promises at each solved margin, ascending.
func tau01(margins []float64, promises [][]Promise, confidence float64) Tau {
	stages := make([]solvedAt, len(margins))
	most := 0
	for i := range stages {
		stages[i] = newSolvedAt(margins[i], promises[i], upTo(len(promises[i])))
		most = max(most, len(promises[i]))
	}
	each := ones(most)
	return tauOf(stages, each, onePercent).between(
		func() Float { return tauAbove(stages, each, lowerWithin(confidence)) },
		func() Float { return tauOf(stages, each, upperWithin(confidence)).Value })
}

// between adds the interval, of which an upper end may be undefined. Without a value there is none.
func (t Tau) between(lo, hi func() Float) Tau {
	t.Lo, t.Hi = Float(math.Inf(-1)), Float(math.Inf(1))
	if t.Value.Defined() {
		t.Lo = lo()
		if h := hi(); h.Defined() {
			t.Hi = h
		}
	}
	return t
}

// tauOf goes from the top: as long as a margin is good enough, the answer is no larger. With upperWithin it is an
// upper bound: to be too small, it must have found good the margins just below the true value, which are not,
// and of those that is one test.
func tauOf(stages []solvedAt, weights []float64, ok allowed) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	for _, s := range slices.Backward(stages) {
		n, need := s.needed(weights, ok)
		if n == 0 {
			continue
		}
		if need == 0 || need > 0 && !(need >= t.Value) { // fewer break here, or at a margin below the next one
			t = Tau{Value: max(s.margin, need), N: n, From: s.margin}
		}
		if need != 0 {
			break
		}
	}
	t.Extrapolated = t.Value > stages[len(stages)-1].margin
	return t
}

// tauAbove goes from the bottom, to the first margin that is good enough. With lowerWithin it is a lower bound:
// to be too large, it must have found the true value not good enough, which is one test too. (From the top, a
// margin far above that is found bad by chance would do.)
func tauAbove(stages []solvedAt, weights []float64, ok allowed) Float {
	least := undefined()
	for _, s := range stages {
		switch n, need := s.needed(weights, ok); {
		case n == 0:
			continue
		case least < s.margin:
			return least
		case need == 0:
			return s.margin
		default:
			least = max(s.margin, need)
		}
	}
	return least
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// issuedTau is tau01 of given promises. Their points do not move with the required margin: at t, those whose
// own margin is t or more are promises. So VD is known at every t from the lowest evaluated margin on, and
// nothing is predicted. It is undefined when the promises with the largest margins break: no margin is enough
// then.
//
// The upper end takes it that a smaller share breaks where margins are larger, and so leaves the half of the
// promises with the largest margins, and never less than 736, together: of fewer it could not say that 1 %
// break or less unless hardly any did.
func issuedTau(lowest float64, promises []Promise, confidence float64) Tau {
	g := newIssuedOrder(lowest, promises, upTo(len(promises)))
	each := ones(len(promises))
	t := g.tau(each, onePercent, 1)
	return t.between(
		func() Float { return g.above(each, lowerWithin(confidence)) },
		func() Float {
			together := min(len(promises), max(736, len(promises)/2))
			return max(g.tau(each, upperWithin(confidence), together).Value, t.Value)
		})
}

// issuedOrder holds given promises, those with the largest margins first.
type issuedOrder struct {
	lowest   Float // required margin
	promises []Promise
	who      []int
}

// newIssuedOrder takes promises and whose they are.
func newIssuedOrder(lowest float64, promises []Promise, who []int) issuedOrder {
	g := issuedOrder{lowest: Float(lowest)}
	for _, i := range sortedBy(len(promises), func(i int) float64 { return float64(promises[i].Own) }) {
		g.promises, g.who = append(g.promises, promises[i]), append(g.who, who[i])
	}
	return g
}

// reach is what the promises with an own margin or a larger one are: n, of which some are broken.
type reach struct {
	own       Float
	n, broken int
}

// reaches lists them by falling margin: promises with equal margins are all there or none.
func (g *issuedOrder) reaches(weights []float64) []reach {
	var all []reach
	var r reach
	for k := range g.promises {
		w := int(weights[g.who[k]])
		r.n += w
		r.broken += w * count(g.promises[k].Broken())
		if r.own = g.promises[k].Own; k+1 == len(g.promises) || g.promises[k+1].Own != r.own {
			all = append(all, r)
		}
	}
	return all
}

// tau takes the promises with the largest margins first, at least `together` of them at once.
func (g *issuedOrder) tau(weights []float64, ok allowed, together int) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	end := g.lowest
	for _, r := range g.reaches(weights) {
		if r.n < together {
			continue
		}
		if !ok(r.broken, r.n) {
			end = r.own
			break
		}
		t.N = r.n
	}
	if t.N > 0 {
		t.Value, t.From = end, g.lowest
	}
	return t
}

// above takes all promises first and leaves those with the smallest margins away, until no more break than
// are tolerated.
func (g *issuedOrder) above(weights []float64, ok allowed) Float {
	at := g.lowest
	for _, r := range slices.Backward(g.reaches(weights)) {
		if r.n == 0 || ok(r.broken, r.n) {
			return at
		}
		at = r.own
	}
	return at
}

package eval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/lists"
)

const tauShare = 0.01

// Tau is the smallest margin to demand of one model's recourse so that at most 1 % of the promises break under the
// other model: the infimum of the t with VD <= 1 % at t and at every solved margin above t.
//
// VD is known exactly at the required margins that were solved. Above a solved margin s, and below the next one, it is
// predicted from the points solved at s: asked for a margin t > s, a person's point moves on until its margin is t, or
// stays where it is if it has that much already, and the difference of the two models is assumed to stay what it was. A
// promise that held at s then still holds, and one that broke at s breaks until t exceeds (own margin - other margin)
// there. The prediction therefore never reaches further than from one solved margin to the next, except above the last
// one; Extrapolated says when the answer lies there.
//
// Issued promises do not move: at t, those with an own margin of t or more are promises. So VD is known at every t from
// the lowest evaluated margin on, and nothing is predicted. It is undefined when the promises with the largest margins
// break: no margin is enough then.
//
// A promise cannot break by halves: with fewer than 100 promises, 1 % of them is none.
type Tau struct {
	Value Float `json:"value"` // logits; undefined when there are no promises
	// the interval: where the exact bounds of VD, one for each end, meet 1 %; see curve.tau
	Lo           Float `json:"lo"`
	Hi           Float `json:"hi"`
	N            int   `json:"n"`            // promises at the solved margin it rests on
	From         Float `json:"from"`         // that solved margin
	Extrapolated bool  `json:"extrapolated"` // Value lies above the largest solved margin
	// Value is the smallest solved margin, above 0: a smaller one may do, and was not measured.
	AtMost bool `json:"at_most,omitempty"`
}

func (t Tau) value() Value {
	return Estimate{Value: t.Value, N: t.N, Lo: t.Lo, Hi: t.Hi}.AsValue()
}

// allowed says whether this many of n promises may break; if so, fewer may.
type allowed func(broken, n int) bool

func onePercent(broken, n int) bool { return float64(broken) <= tauShare*float64(n)+1e-9 }

// upperWithin requires that the exact upper bound of the share that breaks is 1 % at most. There may be too few
// promises for any to break, or for a verdict.
func upperWithin(confidence float64) allowed {
	return func(broken, n int) bool {
		return distuv.Binomial{N: float64(n), P: tauShare}.CDF(float64(broken)) <= (1-confidence)/2
	}
}

func lowerWithin(confidence float64) allowed {
	return func(broken, n int) bool {
		return broken == 0 || distuv.Binomial{N: float64(n), P: tauShare}.Survival(float64(broken-1)) >= (1-confidence)/2
	}
}

type vdCurve []vdStep

type vdStep struct {
	margin    Float
	solved    Float // the solved margin that it is known from
	n, broken int   // promises
}

// add appends a step. Steps from its margin on, which an earlier solved margin predicted, end there.
func (c vdCurve) add(s vdStep) vdCurve {
	for len(c) > 0 && c[len(c)-1].margin >= s.margin {
		c = c[:len(c)-1]
	}
	return append(c, s)
}

// needed is the margin above which a broken promise would hold, when it is asked for at a required margin: above that
// at least, or one broken by a hair would count as kept there.
func needed(p *Promise, required float64) float64 {
	return max(float64(p.Own-p.Other), math.Nextafter(required, math.Inf(1)))
}

// promiseCount is how many promises have a margin, see promiseMargin, and how many of these break.
type promiseCount struct {
	margin    float64
	n, broken int
}

// tauMargins are the required margins at which promises are counted: those solved, or the lowest one for issued
// promises, which do not move.
func (s *Settings) tauMargins(quant bool) (margins []float64, issued bool) {
	if issued = s.Issued && !quant; issued {
		return s.Margins[:min(1, len(s.Margins))], true
	}
	return s.Margins, false
}

// promiseMargin is the margin up to which a promise counts: an issued one as a promise, another one as broken.
func promiseMargin(p *Promise, required float64, issued bool) float64 {
	if issued {
		return float64(p.Own)
	}
	return needed(p, required)
}

// curveOf takes the promises at each of tauMargins, ascending. Those that hold and were not issued may have any margin.
func curveOf(margins []float64, promises [][]promiseCount, issued bool) (c vdCurve) {
	for i, t := range margins {
		s := vdStep{margin: Float(t), solved: Float(t)}
		for _, p := range promises[i] {
			s.n, s.broken = s.n+p.n, s.broken+p.broken
		}
		if s.n == 0 {
			continue
		}
		c = c.add(s)
		for _, p := range promises[i] {
			if !issued && p.broken == 0 {
				continue
			}
			if s.margin, s.broken = Float(max(p.margin, t)), s.broken-p.broken; issued {
				s.n -= p.n
			}
			c = c.add(s) // with no issued promises at last
		}
	}
	return c
}

// fromTop goes down as long as VD is good enough, past steps of fewer promises than least. With upperWithin it is an
// upper bound: to be too small, it must have found good the margins just below the true value, which are not, and of
// those that is one test.
func (c vdCurve) fromTop(ok allowed, least int) Tau {
	t := Tau{Value: undefined(), From: undefined()}
	for _, s := range slices.Backward(c) {
		switch {
		case s.n < least:
			continue
		case !ok(s.broken, s.n):
			return t
		}
		t = Tau{Value: s.margin, N: s.n, From: s.solved}
	}
	return t
}

// fromBottom goes up to the first margin that is good enough. With lowerWithin it is a lower bound: to be too large,
// it must have found the true value not good enough, which is one test too. (From the top, a margin far above that is
// found bad by chance would do.)
func (c vdCurve) fromBottom(ok allowed) Float {
	for _, s := range c {
		if ok(s.broken, s.n) {
			return s.margin
		}
	}
	return undefined()
}

// tau is tau01 with its interval, of which an upper end may be unknown. Without a value there is none. The upper end
// does not look at fewer than least promises.
func (c vdCurve) tau(confidence float64, least int) Tau {
	t := c.fromTop(onePercent, 1)
	t.Lo, t.Hi = Float(math.Inf(-1)), Float(math.Inf(1))
	if t.Value.Defined() {
		t.AtMost = t.Value > 0 && t.Value == c[0].margin
		t.Lo = c.fromBottom(lowerWithin(confidence))
		if hi := c.fromTop(upperWithin(confidence), least).Value; hi.Defined() {
			t.Hi = max(hi, t.Value)
		}
	}
	return t
}

// tauPromises are what a person adds to the curve at each of tauMargins, by the worst record: x is the promiseMargin of
// a promise that counts up to there, and `of` what it lacks under the other model, 0 when it holds.
func tauPromises(who int, of []*Record, s *Settings, quant bool) (all contributions) {
	margins, issued := s.tauMargins(quant)
	for at, t := range margins {
		p, c := worstPromise(of, at, s, quant), contribution{who: who, at: at}
		if p == nil {
			continue
		}
		if p.Broken() {
			c.of = float64(p.Own - p.Other)
		}
		if p.Broken() || issued {
			c.x = promiseMargin(p, t, issued)
		}
		all = append(all, c)
	}
	return all
}

// tau is tau01 of tauPromises.
func (p contributions) tau(margins []float64, issued bool) weighted {
	slices.SortStableFunc(p, func(a, b contribution) int { return cmp.Compare(a.x, b.x) })
	most := len(p)/max(1, len(margins)) + 1
	return func(weights []float64) float64 {
		counts := lists.Make(len(margins), func(int) []promiseCount { return make([]promiseCount, 0, most) })
		for _, c := range p {
			w := int(weights[c.who])
			counts[c.at] = append(counts[c.at], promiseCount{c.x, w, w * count(c.of > 0)})
		}
		return float64(curveOf(margins, counts, issued).fromTop(onePercent, 1).Value)
	}
}

type promiseSums struct {
	issued       bool
	n            int
	held, broken numberList // their promiseMargin, of those that hold when they were issued
}

func (x *promiseSums) add(p *Promise, required float64) {
	x.n++
	if p.Broken() {
		x.broken.add(promiseMargin(p, required, x.issued))
	} else if x.issued {
		x.held.add(float64(p.Own))
	}
}

func (x *promiseSums) counts() []promiseCount {
	list := []promiseCount{{n: x.n - x.held.len() - x.broken.len()}}
	for _, margin := range x.held.ranked() {
		list = append(list, promiseCount{margin, 1, 0})
	}
	for _, margin := range x.broken.ranked() {
		list = append(list, promiseCount{margin, 1, 1})
	}
	slices.SortFunc(list[1:], func(a, b promiseCount) int { return cmp.Compare(a.margin, b.margin) })
	return list
}

// tau01 is that of f's promises or of g's.
//
// The upper end of issued promises takes it that a smaller share breaks where margins are larger, and so leaves the
// half of the promises with the largest margins, and never less than 736, together: of fewer it could not say that 1 %
// break or less unless hardly any did.
func (y *resultAccumulator) tau01(model int) Tau {
	margins, issued := y.s.tauMargins(model == ofQuant)
	counts, least := make([][]promiseCount, len(margins)), 1
	for i := range counts {
		counts[i] = y.promises[model][i].counts()
		if n := y.promises[model][i].n; issued {
			least = min(n, max(736, n/2))
		}
	}
	t := curveOf(margins, counts, issued).tau(y.s.Confidence, least)
	t.Extrapolated = !issued && float64(t.Value) > margins[len(margins)-1]
	return t
}

package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
)

// given makes random promises to half of the people: some overshoot, some fall short, some change what may not change.
func given(n int, x []float32, seed uint64) []recourse.Action {
	rng := rand.New(rand.NewPCG(seed, 3))
	actions := make([]recourse.Action, n)
	for i := range actions {
		a := &actions[i]
		a.Status, a.Delta, a.Point = recourse.NoneFound, make([]float32, 3), slices.Clone(x[3*i:3*i+3])
		if rng.IntN(2) == 0 {
			continue
		}
		a.Status, a.Cost = recourse.Found, rng.Float64()
		a.Point[0] += float32(rng.NormFloat64() + 1.5)
		if rng.IntN(10) == 0 {
			a.Point[2]++ // c is immutable
		}
		for j := range a.Delta {
			a.Delta[j] = a.Point[j] - x[3*i+j]
		}
	}
	return actions
}

func TestGivenPromisesAgainstTheirCounts(t *testing.T) {
	t.Parallel()
	people := crowd(250, 11)
	g := original
	g.b -= 0.4
	actions := given(people.N, people.X, 5)
	margins := []float64{0, 0.25, 1}
	b := &Batch{People: people, Set: threeInputs(t), Promises: actions}
	r := compareBatch(t, original, g, b, Options{Margins: margins, Solver: recourse.SolveOptions{Workers: 1}})

	var points []float32
	for i := range actions {
		points = append(points, actions[i].Point...)
	}
	before, _ := original.Margins(t.Context(), people.X)
	f, _ := original.Margins(t.Context(), points)
	q, _ := g.Margins(t.Context(), points)
	want := Issued{}
	var refused, approved, invalid, infeasible int
	made, broken := make([]int, 3), make([]int, 3)
	var others Tally // promises to people who are approved as they are
	var needless int
	for i := range actions {
		refused += count(before[i] <= 0)
		if actions[i].Status != recourse.Found {
			continue
		}
		approved += count(before[i] > 0)
		want.Promises++
		invalid += count(f[i] <= 0)
		infeasible += count(actions[i].Delta[2] != 0)
		if before[i] > 0 {
			needless += count(f[i] <= before[i])
			others.Den += count(f[i] > 0)
			others.Num += count(f[i] > 0 && q[i] <= 0)
			continue
		}
		for k, m := range margins {
			if f[i] > 0 && f[i] >= float32(m) {
				made[k]++
				broken[k] += count(q[i] <= 0)
			}
		}
	}
	want.Unjudgeable = NewTally(0, want.Promises)
	want.Invalid, want.Infeasible = NewTally(invalid, want.Promises), NewTally(infeasible, want.Promises)
	want.Approved, want.Needless = NewTally(others.Num, others.Den), NewTally(needless, want.Promises)
	if invalid == 0 || infeasible == 0 || approved == 0 || broken[0] == 0 || others.Num == 0 || needless == 0 {
		t.Fatalf("nothing to see: %+v", want)
	}
	must.Same(t, &want, r.Issued)
	for k := range margins {
		a := r.Margins[k]
		vd, frr := a.Rate("vd"), a.Rate("frr")
		if vd.Num != broken[k] || vd.Den != made[k] || frr.Num != made[k] || frr.Den != refused ||
			a.Of("margin_error.n").N != made[k] || a.Rate("rvd").Den == 0 {
			t.Errorf("margin %v: VD %+v, FRR %+v; want %d of %d of %d", margins[k], vd, frr, broken[k], made[k], refused)
		}
	}
	text := strings.Join(r.Warnings, "\n")
	if !strings.Contains(text, "the task does not allow") || !strings.Contains(text, "the original itself breaks") {
		t.Errorf("warnings: %s", text)
	}
	// A sample leaves the others' promises uncounted, and says so.
	s := compareBatch(t, original, g, b, Options{Margins: margins, Sample: 50, Seed: 3})
	if n := s.Margins[0].Rate("frr").Den; s.Issued.Promises+s.Issued.Unsampled != want.Promises || n != 50 {
		t.Errorf("%+v", s.Issued)
	}
}

func TestGivenTau(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		promises := make([]Promise, rapid.IntRange(0, 250).Draw(rt, "n"))
		rare := rapid.IntRange(1, 120).Draw(rt, "rare")
		var own []float64
		for i := range promises {
			p := &promises[i]
			p.Status, p.Own, p.Other = recourse.Found, Float(rapid.IntRange(1, 60).Draw(rt, "own")), 1
			if rapid.IntRange(0, rare).Draw(rt, "broken") == 0 {
				p.Other = -1
			}
			own = append(own, float64(p.Own))
		}
		good := func(from float64) bool { // no promise of that margin or more may be missing from what is counted
			for _, s := range append(own, from) {
				n, broken := 0, 0
				for _, p := range promises {
					if s >= from && float64(p.Own) >= s {
						n++
						broken += count(p.Other <= 0)
					}
				}
				if broken > int(math.Floor(tauShare*float64(n)+1e-9)) {
					return false
				}
			}
			return true
		}
		got := issuedTau(0, promises, 0.95)
		slices.Sort(own)
		want := math.NaN()
		switch n := len(own); {
		case n == 0 || !good(own[n-1]):
		case good(0):
			want = 0
		default:
			for _, s := range own { // just above s
				if good(s + 0.5) {
					want = s
					break
				}
			}
		}
		if float64(got.Value) != want && !(math.IsNaN(want) && !got.Value.Defined()) {
			rt.Errorf("tau %v, want %v", got.Value, want)
		}
	})
}

func TestGivenErrors(t *testing.T) {
	t.Parallel()
	people := crowd(20, 1)
	_, err := Compare(t.Context(), original, original, &Batch{
		People: people, Set: threeInputs(t), Promises: make([]recourse.Action, 3),
	}, Options{})
	must.Fail(t, err, "3 promises for 20 people")
	generous := original
	generous.b = 100
	b := &Batch{People: people, Set: threeInputs(t), Promises: given(20, people.X, 1)}
	r := compareBatch(t, generous, original, b, Options{})
	if r.Issued == nil || r.Issued.Promises == 0 || r.Margins[0].Rate("vd").Den != 0 || r.Issued.Approved.Den == 0 {
		t.Errorf("%+v", r.Issued)
	}
}

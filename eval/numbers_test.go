package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"cfq/internal/statistics"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyNumbers are small and large ones, some of them equal, some equal when they are rounded.
func anyNumbers(least, most int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Float64Range(-5, 5), rapid.SampledFrom([]float64{0, 1, 1 + 1e-9, 1 - 1e-9, -1, 0.1, -0.1, 1e-12, 3e30}),
		rapid.Map(rapid.IntRange(-9, 9), func(i int) float64 { return float64(i) / 4 }),
	), least, most)
}

func each(x []float64, f func(v float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

// counted are the numbers as a list of very many has them.
func counted(x []float64) ranked {
	i := 0
	return rankRounded(func() (float64, bool) {
		if i++; i > len(x) {
			return 0, false
		}
		return x[i-1], true
	})
}

func TestRoundedKeepsSignificantBits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Float64Range(-1e300, 1e300), rapid.Float64Range(-1e-300, 1e-300)).Draw(t, "v")
		got := statistics.Rounded(v)
		if math.Abs(v) > 1e-307 && math.Abs(got-v) > math.Abs(v)*math.Pow(2, -17) {
			t.Errorf("%v is %v", v, got)
		}
		if statistics.Rounded(got) != got || math.Signbit(got) != math.Signbit(v) || statistics.Rounded(-v) != -got {
			t.Errorf("%v is %v, and that %v; %v is %v", v, got, statistics.Rounded(got), -v, statistics.Rounded(-v))
		}
		if w := rapid.Float64().Draw(t, "w"); v <= w && !(got <= statistics.Rounded(w)) {
			t.Errorf("%v <= %v, but rounded %v and %v", v, w, got, statistics.Rounded(w))
		}
	})
	if !math.IsNaN(statistics.Rounded(math.NaN())) || !math.IsInf(statistics.Rounded(math.Inf(-1)), -1) {
		t.Error("what is not finite is rounded")
	}
}

// A list with weights is that of the rounded numbers, each by itself, in everything that is asked of one.
func TestWeightedNumbers(t *testing.T) {
	t.Parallel()
	same := func(t *rapid.T, what string, got, want ranked) {
		if got.len() != want.len() {
			t.Fatalf("%s: %d numbers, want %d", what, got.len(), want.len())
		}
		for rank := 1; rank <= want.len(); rank++ {
			if got.at(rank) != want.at(rank) {
				t.Fatalf("%s: number %d is %v, want %v", what, rank, got.at(rank), want.at(rank))
			}
		}
		var runs []float64
		for x, n := range got.runs() {
			runs = append(runs, slices.Repeat([]float64{x}, n)...)
		}
		if !slices.Equal(runs, want.x) {
			t.Fatalf("%s: runs %v, want %v", what, runs, want.x)
		}
		for _, q := range []float64{0.05, 0.5, 0.95, 1} {
			if d := gocmp.Diff(want.quantile(q, 0.9), got.quantile(q, 0.9), sameFloat); d != "" {
				t.Fatalf("%s: quantile %v: %s", what, q, d)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := anyNumbers(0, 60).Draw(rt, "a"), anyNumbers(0, 60).Draw(rt, "b")
		ra, rb := each(a, statistics.Rounded), each(b, statistics.Rounded)
		same(rt, "list", counted(a), ranks(ra))
		same(rt, "sizes", counted(a).sizes(), ranks(each(ra, math.Abs)))
		with := append(slices.Clone(a), math.NaN(), math.Inf(-1), math.NaN())
		sizes, sorted := ranks(with).sizes(), ranks(each(with, math.Abs))
		if !slices.EqualFunc(sizes.x, sorted.x, func(x, y float64) bool { return cmp.Compare(x, y) == 0 }) {
			rt.Errorf("sizes of %v: %v", with, sizes.x)
		}
		both := slices.Concat(a, b)
		same(rt, "union beyond the limit", union([]ranked{counted(a), counted(b)}, 0),
			ranks(each(both, statistics.Rounded)))
		same(rt, "union of two kinds", union([]ranked{counted(a), ranks(b)}, 0), ranks(each(both, statistics.Rounded)))
		same(rt, "union within the limit", union([]ranked{ranks(a), ranks(b)}, 1000), ranks(both))

		auc, want := aucOf(counted(a), counted(b), 0.9), aucOf(ranks(ra), ranks(rb), 0.9)
		for what, x := range map[string][2]Float{
			"AUC": {auc.Value, want.Value}, "lower end": {auc.Lo, want.Lo}, "upper end": {auc.Hi, want.Hi},
		} {
			if math.Abs(float64(x[0]-x[1])) > 1e-12 || x[0].Defined() != x[1].Defined() {
				rt.Errorf("%s: %v, want %v", what, x[0], x[1])
			}
		}

		// A list in a file, of more numbers than are in memory, is that.
		l := newLists(limits{bytes: 100, numbers: 10})
		other, list := l.list(), l.list()
		for i, v := range a {
			list.add(v)
			other.add(float64(i))
		}
		if want := counted(a); len(a) > 10 {
			same(rt, "list in a file", list.ranked(), ranks(ra))
			if list.ranked().upTo == nil || len(want.x) != len(list.ranked().x) {
				rt.Error("the limit is not kept")
			}
		} else {
			same(rt, "list in a file", list.ranked(), ranks(a))
		}
		if l.err != nil || l.spilled.Close() != nil {
			rt.Error(l.err)
		}
	})
}

// Undefined numbers count, and stand first; 0 and -0 are one number.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	x := []float64{1, math.NaN(), math.Copysign(0, -1), 2, math.NaN(), 0, math.Inf(1)}
	for _, exact := range []int{100, 3} {
		l := newLists(limits{bytes: 1 << 20, numbers: exact})
		list := l.list()
		for _, v := range x {
			list.add(v)
		}
		r := list.ranked()
		if r.len() != 7 || !math.IsNaN(r.at(1)) || !math.IsNaN(r.at(2)) || r.at(3) != 0 || math.Signbit(r.at(3)) ||
			math.Signbit(r.at(4)) || r.at(6) != 2 || !math.IsInf(r.at(7), 1) || r.quantile(0.95, 0.9).Value.Defined() {
			t.Errorf("limit %d: %v of %v", exact, r.x, r.upTo)
		}
		if s := union([]ranked{r, r.sizes()}, exact); s.len() != 14 || !math.IsNaN(s.at(4)) || s.at(5) != 0 {
			t.Errorf("limit %d: %v of %v", exact, s.x, s.upTo)
		}
	}
}

// Numbers that 17 bits hold give the same tau01 with weights.
func TestTauOfWeightedNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &Settings{Margins: []float64{0.1, 0.25}, Confidence: 0.95}
		many, few := newScope(s, newLists(usualLimits())), newScope(s, newLists(limits{bytes: 500, numbers: 2}))
		quarter := rapid.Map(rapid.IntRange(-20, 20), func(i int) Float { return Float(i) / 4 })
		rare := rapid.IntRange(0, 60).Draw(t, "rare")
		for range rapid.IntRange(0, 250).Draw(t, "promises") {
			p := Promise{Status: 1, Own: max(0.25, quarter.Draw(t, "own")), Other: 1}
			if rapid.IntRange(0, rare).Draw(t, "broken") == 0 {
				p.Other = min(0, quarter.Draw(t, "other"))
			}
			for _, y := range []*scope{many, few} {
				for at, t := range s.Margins {
					y.breaks[ofFull][at].add(&p, t)
				}
				y.issued.own.add(float64(p.Own))
				if p.Broken() {
					y.issued.broken.add(float64(p.Own))
				}
			}
		}
		if d := gocmp.Diff(many.tau01(ofFull), few.tau01(ofFull), sameFloat); d != "" {
			t.Errorf("solved: %s", d)
		}
		if d := gocmp.Diff(many.issued.tau(0.1, 0.95), few.issued.tau(0.1, 0.95), sameFloat); d != "" {
			t.Errorf("issued: %s", d)
		}
	})
}

// A need that was rounded to the required margin, or below it, is no promise kept there.
func TestRoundedNeedsAreAboveTheMargin(t *testing.T) {
	t.Parallel()
	for _, margin := range []float64{0.1, 0.25, 0.3, 0.7} {
		y := newScope(&Settings{Margins: []float64{margin}, Confidence: 0.95}, newLists(limits{bytes: 500, numbers: 2}))
		for i := range 1000 {
			y.breaks[ofFull][0].add(&Promise{Status: 1, Own: Float(margin), Other: Float(i - 10)}, margin)
			y.issued.own.add(margin)
			if i <= 10 {
				y.issued.broken.add(margin)
			}
		}
		tau := y.tau01(ofFull)
		if !(float64(tau.Value) > margin) || !tau.Extrapolated {
			t.Errorf("margin %v: %+v", margin, tau)
		}
		if tau := y.issued.tau(margin, 0.95); tau.Value.Defined() { // all have the same margin, and too many break
			t.Errorf("issued, margin %v: %+v", margin, tau)
		}
	}
}

// Means and ratios of sums are those of the formulas, in two passes over the numbers.
func TestMomentsByTheFormulas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.SampledFrom([]float64{0, 0, 1e6}).Draw(t, "offset")
		xs := rapid.SliceOfN(rapid.Float64Range(-100, 100), 0, 100).Draw(t, "xs")
		for i := range xs {
			xs[i] += offset
		}
		got, n := meanOf(xs, 0.9), float64(len(xs))
		if len(xs) == 0 {
			if got.N != 0 || got.Value.Defined() {
				t.Errorf("of nothing: %+v", got)
			}
			return
		}
		mean := sum(xs) / n
		squares := sum(each(xs, func(x float64) float64 { return (x - mean) * (x - mean) }))
		wide := unknown()
		wide.Value, wide.N = Float(mean), len(xs)
		if len(xs) > 1 {
			wide.around(math.Sqrt(squares/(n-1)/n), 0.9)
		}
		compareEstimates(t, "mean", got, wide, 1e-9*max(1, offset))

		a := each(xs, func(x float64) float64 { return math.Abs(x) + 0.5 })
		b := make([]float64, len(a))
		for i := range b {
			b[i] = a[i] * rapid.Float64Range(0, 3).Draw(t, "factor")
		}
		r := sum(b) / sum(a)
		wide.Value, wide.Lo, wide.Hi = Float(r-1), Float(math.Inf(-1)), Float(math.Inf(1))
		if len(a) > 1 {
			var squares float64
			for i := range a {
				squares += (b[i] - r*a[i]) * (b[i] - r*a[i])
			}
			wide.around(math.Sqrt(n*squares/(n-1))/sum(a), 0.9)
		}
		compareEstimates(t, "ratio", ratioOf(a, b, 0.9), wide, 1e-9)

		// Any order gives the same bits, and so does each number several times.
		slices.Reverse(xs)
		var times moments
		for _, x := range xs {
			times.addTimes(x, 3)
		}
		if again := meanOf(xs, 0.9); again != got && got.Lo.Defined() {
			t.Errorf("%+v, in the other order %+v", got, again)
		}
		if thrice := meanOf(slices.Concat(xs, xs, xs), 0.9); thrice != times.mean(0.9) {
			t.Errorf("%+v, and by weights %+v", thrice, times.mean(0.9))
		}
	})
	if e := ratioOf([]float64{0, 0}, []float64{1, 2}, 0.9); e.Value.Defined() || e.N != 2 {
		t.Errorf("a ratio to nothing: %+v", e)
	}
	if e := meanOf([]float64{1, math.Inf(1)}, 0.9); e.Value.Defined() || e.Lo.Defined() {
		t.Errorf("a mean with infinity: %+v", e)
	}
}

func compareEstimates(t *rapid.T, what string, got, want Estimate, tolerance float64) {
	if got.N != want.N {
		t.Errorf("%s: of %d, want %d", what, got.N, want.N)
	}
	for i, x := range [][2]Float{{got.Value, want.Value}, {got.Lo, want.Lo}, {got.Hi, want.Hi}} {
		if x[0].Defined() != x[1].Defined() || math.Abs(float64(x[0]-x[1])) > tolerance {
			t.Errorf("%s, number %d: %v, want %v", what, i, x[0], x[1])
		}
	}
}

// The items with the lowest priorities are kept, and all that have the last of them, whatever the order.
func TestLowest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, once := rapid.IntRange(0, 20).Draw(t, "most"), rapid.Bool().Draw(t, "once")
		values := uint64(rapid.IntRange(1, 400).Draw(t, "values")) // few make ties
		l := lowest[int]{most: most, once: once}
		var want []prioritized[int]
		for i := range rapid.IntRange(0, 400).Draw(t, "items") {
			p := rapid.Uint64Range(0, values).Draw(t, "priority")
			if l.add(p, i); !once || !slices.ContainsFunc(want, func(x prioritized[int]) bool { return x.priority == p }) {
				want = append(want, prioritized[int]{p, i})
			}
		}
		slices.SortStableFunc(want, func(a, b prioritized[int]) int { return cmp.Compare(a.priority, b.priority) })
		all := len(want) < most || most == 0
		if most < len(want) {
			end := most
			for end > 0 && end < len(want) && want[end].priority == want[end-1].priority {
				end++
			}
			want = want[:end]
		}
		var items []int
		for _, x := range want {
			items = append(items, x.item)
		}
		if got := l.kept(); !slices.Equal(got, items) {
			t.Errorf("%v, want %v", got, items)
		}
		switch below := l.below(); {
		case all != (below == nil):
			t.Errorf("below %v of %d items, at most %d", below, len(want), most)
		case below != nil && *below != want[len(want)-1].priority:
			t.Errorf("below %d, want %d", *below, want[len(want)-1].priority)
		}
	})
	// Very many ties are looked through a few times only.
	l := lowest[int]{most: 10}
	for i := range 300_000 {
		l.add(7, i)
	}
	if n := len(l.kept()); n != 300_000 {
		t.Errorf("%d items", n)
	}
}

// A sample is of the inputs alone: neither -0 nor the order of rows makes a difference, and a seed does.
func TestPriority(t *testing.T) {
	t.Parallel()
	minus := float32(math.Copysign(0, -1))
	if priority(1, []float32{0, 1}) != priority(1, []float32{minus, 1}) {
		t.Error("-0 is another person than 0")
	}
	long := make([]float32, 200)
	seen := map[uint64]bool{}
	for i := range long {
		long[i]++
		seen[priority(1, long)] = true
	}
	if len(seen) != len(long) || priority(1, long) == priority(2, long) {
		t.Errorf("%d priorities of %d rows", len(seen), len(long))
	}
}

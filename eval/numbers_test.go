package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func each(x []float64, f func(v float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

func TestRankedNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		odd := []float64{math.NaN(), math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), 1, -1}
		x := rapid.SliceOf(rapid.OneOf(rapid.Float64(), rapid.SampledFrom(odd))).Draw(rt, "numbers")
		l := newLists(limits{bytes: 100})
		other, list := l.list(), l.list()
		for i, v := range x {
			list.add(v)
			other.add(float64(i))
		}
		sizes := make([]float64, len(x))
		for i := range x {
			x[i] += 0
			sizes[i] = math.Abs(x[i])
		}
		slices.Sort(x)
		slices.Sort(sizes)
		same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
		got := list.ranked()
		if !slices.EqualFunc(got, x, same) || !slices.EqualFunc(got.sizes(), sizes, same) {
			rt.Errorf("%v, sizes %v; want %v", got, got.sizes(), x)
		}
		if len(x) > 0 && math.IsNaN(x[0]) && got.quantile(0.95, 0.9).Value.Defined() {
			rt.Error("a quantile of undefined numbers is defined")
		}
		if l.err != nil || l.spilled.Close() != nil {
			rt.Error(l.err)
		}
	})
}

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

		// Any order gives the same bits.
		slices.Reverse(xs)
		if again := meanOf(xs, 0.9); again != got && got.Lo.Defined() {
			t.Errorf("%+v, in the other order %+v", got, again)
		}
	})
	if e := ratioOf([]float64{0, 0}, []float64{1, 2}, 0.9); e.Value.Defined() || e.N != 2 {
		t.Errorf("a ratio to nothing: %+v", e)
	}
	if e := meanOf([]float64{1, math.Inf(1)}, 0.9); e.Value.Defined() || e.Lo.Defined() {
		t.Errorf("a mean with infinity: %+v", e)
	}
}

func compareEstimates(t *rapid.T, what string, got, want Value, tolerance float64) {
	must.Same(must.In(t, what), want.N, got.N)
	for i, x := range [][2]Float{{got.Value, want.Value}, {got.Lo, want.Lo}, {got.Hi, want.Hi}} {
		if x[0].Defined() != x[1].Defined() || math.Abs(float64(x[0]-x[1])) > tolerance {
			t.Errorf("%s, number %d: %v, want %v", what, i, x[0], x[1])
		}
	}
}

func TestLowest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, once := rapid.IntRange(0, 20).Draw(t, "most"), rapid.Bool().Draw(t, "once")
		values := uint64(rapid.IntRange(1, 400).Draw(t, "values")) // few make ties
		l := bottomK[int]{most: most, once: once}
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
	l := bottomK[int]{most: 10}
	for i := range 300_000 {
		l.add(7, i)
	}
	must.Same(t, 300_000, len(l.kept()))
}

func TestPriority(t *testing.T) {
	t.Parallel()
	minus := float32(math.Copysign(0, -1))
	must.Same(t, priority(1, []float32{minus, 1}), priority(1, []float32{0, 1}))
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

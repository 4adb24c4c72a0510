package recourse

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestJitter(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: age, kind: numeric, actionable: false}
- {name: income, kind: numeric, mean: 30000, std: 20000, direction: increase, max_increase: 10} # no matter here
- {name: years, kind: numeric, mean: 10, std: 2.5, step: 1, bounds: [1, 16]}
- {name: grade, kind: ordinal, mean: 3, std: 1, values: [1, 2, 5]}
- {name: degree, kind: onehot, values: [none, some, high], actionable: false}
- {name: sex, kind: binary, one: f}
links: [{from: years, to: degree, map: {1: none, 8: some, 13: high}}]
sparsity: {max_features: 1}
`)
	years, grade, stuck := &tk.Features[2], &tk.Features[3], tk.Features[2].Action
	stuck.Actionable = false
	tight := must.Get(compile(t, tk).Override([]task.Override{{Row: 7, Feature: 2, With: stuck}}))(t)
	tight = must.Get(tight.Tighten(0, 0.01))(t)
	const n, size = 4000, 0.5
	dim := tight.Dim()
	var x []float32
	for i := range n {
		x = append(x, float32(i)/7, float32(i%10)/10, years.ToInput(float64(4+i%9)), grade.ToInput(2), 0, 1, 0, 1)
	}
	y := tight.Jitter(x, size, 3)
	if !slices.Equal(y, tight.Jitter(x, size, 3)) || slices.Equal(y, tight.Jitter(x, size, 4)) {
		t.Error("the seed, and nothing else, makes the noise")
	}
	var sum, squares float64
	levels := map[float64]int{}
	for i := range n {
		from, to := row(x, i, dim), row(y, i, dim)
		if to[0] != from[0] || to[7] != from[7] {
			t.Fatalf("row %d: an input that is no number to act on goes from %v to %v", i, from, to)
		}
		d := float64(to[1] - from[1])
		sum += d
		squares += d * d
		v := years.FromInput(to[2])
		if to[2] != years.ToInput(math.Round(v)) || v < 1-1e-6 || v > 16+1e-6 {
			t.Fatalf("row %d: years become %v", i, v)
		}
		if i == 7 && to[2] != from[2] {
			t.Error("who cannot change their years has others")
		}
		want := []float32{0, 1, 0}
		switch { // the degree follows the years, if they change
		case to[2] == from[2]:
		case v > 12.5:
			want = []float32{0, 0, 1}
		case v < 7.5:
			want = []float32{1, 0, 0}
		}
		must.Same(must.In(t, i, v), want, to[4:7])
		levels[math.Round(grade.FromInput(to[3])*1e5)/1e5]++
	}
	mean, std := sum/n, math.Sqrt(squares/n)
	if math.Abs(mean) > 4*size/math.Sqrt(n) || math.Abs(std-size) > 4*size/math.Sqrt(2*n) {
		t.Errorf("the noise has mean %v and standard deviation %v, want 0 and %v", mean, std, size)
	}
	// From 2, 1 is nearer from -0.5 on, and 5 from 1.5 on: one and three standard deviations of the noise.
	for level, share := range map[float64]float64{1: 0.1587, 5: 0.00135, 2: 0.84} {
		got := float64(levels[level]) / n
		must.Near(must.In(t, level, levels), share, got, 4*math.Sqrt(share*(1-share)/n))
	}
}

// A person beyond a bound is not moved to it, but no further either.
func TestJitterBeyondBounds(t *testing.T) {
	t.Parallel()
	a := compile(t, numbers(1))
	stayed := 0
	for _, v := range a.Jitter(slices.Repeat([]float32{3}, 200), 0.5, 1) {
		if v > 3 {
			t.Fatalf("from 3, beyond the bound 2, to %v", v)
		}
		if v == 3 {
			stayed++
		}
	}
	if stayed < 60 || stayed > 140 {
		t.Errorf("%d of 200 stayed", stayed)
	}
}

// Whatever the task, who results could have been reached from the person by changes within bounds and on steps or
// values.
func TestJitterStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, rapid.Bool().Draw(t, "round"))
		a := compile(t, tk)
		x := drawPerson(t, tk)
		y := a.Jitter(x, rapid.Float64Range(0.01, 5).Draw(t, "size"), rapid.Uint64().Draw(t, "seed"))
		free := *tk
		free.Features, free.MaxFeatures = slices.Clone(tk.Features), 0
		inf := math.Inf(1)
		for i := range free.Features {
			f := &free.Features[i]
			f.Direction, f.MaxIncrease, f.MaxDecrease, f.MaxChange = "any", inf, inf, inf
			if f.Number() == nil {
				f.Actionable = false
			}
		}
		b := compile(t, &free)
		d := make([]float32, len(x))
		constraint.Difference(d, x, y)
		must.Do(must.In(t, y), b.Check(x, d))
	})
}

// A number that follows another one stays within its own bounds.
func TestJitterMovesDependents(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: hours, kind: numeric}
- {name: income, kind: numeric, actionable: false, bounds: [-1, 1]}
links: [{from: hours, to: income, scale: 2}]
`))
	clipped := 0
	for i, y := 0, a.Jitter(make([]float32, 400), 1, 6); i < len(y); i += 2 {
		want := min(max(2*y[i], -1), 1)
		must.Near(t, want, y[i+1], 1e-6)
		if y[i+1] == 1 || y[i+1] == -1 {
			clipped++
		}
	}
	if clipped < 80 || clipped > 160 { // beyond half a standard deviation: 62 %
		t.Errorf("%d of 200 are clipped", clipped)
	}
}

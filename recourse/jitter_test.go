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
	age := feature("age", "numeric")
	age.Actionable = false
	income := feature("income", "numeric")
	income.Number().Mean, income.Number().Std, income.Direction, income.MaxIncrease = 30000, 20000, task.Increase,
		10 // how far actions go is no matter
	years := feature("years", "numeric")
	years.Number().Mean, years.Number().Std, years.Step, years.Bounds = 10, 2.5, 1, [2]float64{1, 16}
	grade := feature("grade", "ordinal")
	number := grade.Number()
	number.Mean, number.Std, number.Values, number.Levels = 3, 1, []string{"1", "2", "5"}, []float64{1, 2, 5}
	degree := oneHot("degree", "none", "some", "high")
	degree.Actionable = false
	sex := feature("sex", "binary")
	bit(&sex).One = "f"
	tk := taskOf(1, age, income, years, grade, degree, sex)
	tk.Links = []task.Link{{From: "years", To: "degree", Map: []task.Pair{
		{From: "1", To: "none"},
		{From: "8", To: "some"},
		{From: "13", To: "high"},
	}}}
	stuck := tk.Features[2]
	stuck.Actionable = false
	tight, err := compile(t, tk).Override([]task.Override{{Row: 7, Feature: 2, With: stuck.Action}})
	if err == nil {
		tight, err = tight.Tighten(0, 0.01)
	}
	must.Do(t, err)
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
		if !slices.Equal(to[4:7], want) {
			t.Fatalf("row %d: with %v years the degree is %v", i, v, to[4:7])
		}
		levels[math.Round(grade.FromInput(to[3])*1e5)/1e5]++
	}
	mean, std := sum/n, math.Sqrt(squares/n)
	if math.Abs(mean) > 4*size/math.Sqrt(n) || math.Abs(std-size) > 4*size/math.Sqrt(2*n) {
		t.Errorf("the noise has mean %v and standard deviation %v, want 0 and %v", mean, std, size)
	}
	// From 2, 1 is nearer from -0.5 on, and 5 from 1.5 on: one and three standard deviations of the noise.
	for level, share := range map[float64]float64{1: 0.1587, 5: 0.00135, 2: 0.84} {
		got := float64(levels[level]) / n
		if math.Abs(got-share) > 4*math.Sqrt(share*(1-share)/n) {
			t.Errorf("grade %v has a share of %v, want %v: %v", level, got, share, levels)
		}
	}
}

func TestJitterBeyondBounds(t *testing.T) {
	t.Parallel()
	a0 := feature("a", "numeric")
	a0.Bounds = [2]float64{-1, 1}
	a := compile(t, taskOf(0, a0))
	x := make([]float32, 200)
	for i := range x {
		x[i] = 3
	}
	stayed := 0
	for _, v := range a.Jitter(x, 0.5, 1) {
		if v > 3 {
			t.Fatalf("from 3, beyond the bound 1, to %v", v)
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
		a := must.Get(constraint.Compile(tk))(t)
		x := drawPerson(t, tk)
		y := a.Jitter(x, rapid.Float64Range(0.01, 5).Draw(t, "size"), rapid.Uint64().Draw(t, "seed"))
		free := *tk
		free.Features, free.Sparsity.MaxFeatures = slices.Clone(tk.Features), 0
		inf := math.Inf(1)
		for i := range free.Features {
			f := &free.Features[i]
			f.Direction, f.MaxIncrease, f.MaxDecrease, f.MaxChange = task.Any, inf, inf, inf
			if f.Number() == nil {
				f.Actionable = false
			}
		}
		b := must.Get(constraint.Compile(&free))(t)
		d := make([]float32, len(x))
		constraint.Difference(d, x, y)
		if err := b.Check(x, d); err != nil {
			t.Fatalf("%v becomes %v: %v", x, y, err)
		}
	})
}

func TestJitterMovesDependents(t *testing.T) {
	t.Parallel()
	hours, income := feature("hours", "numeric"), feature("income", "numeric")
	income.Actionable, income.Bounds = false, [2]float64{-1, 1}
	tk := taskOf(0, hours, income)
	tk.Links = []task.Link{{From: "hours", To: "income", Scale: 2}}
	a := compile(t, tk)
	clipped := 0
	for i, y := 0, a.Jitter(make([]float32, 400), 1, 6); i < len(y); i += 2 {
		want := min(max(2*y[i], -1), 1)
		if math.Abs(float64(y[i+1]-want)) > 1e-6 {
			t.Fatalf("hours %v, income %v", y[i], y[i+1])
		}
		if y[i+1] == 1 || y[i+1] == -1 {
			clipped++
		}
	}
	if clipped < 80 || clipped > 160 { // beyond half a standard deviation: 62 %
		t.Errorf("%d of 200 are clipped", clipped)
	}
}

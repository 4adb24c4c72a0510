package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestTightenedIsSubset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, rapid.Bool().Draw(t, "round"))
		for i := range tk.Features {
			if f := &tk.Features[i]; f.Encoding.Kind() == "onehot" && rapid.Bool().Draw(t, "ordered") {
				hot(f).Ordered, f.MaxIncrease, f.MaxDecrease = true, float64(rapid.IntRange(0, 4).Draw(t, "up")),
					float64(rapid.IntRange(0, 4).Draw(t, "down"))
			}
		}
		wide := must.Get(constraint.Compile(tk))(t)
		scale := rapid.Float64Range(0.05, 1).Draw(t, "scale")
		k := rapid.IntRange(0, wide.Limit()).Draw(t, "k")
		tight := must.Get(wide.Tighten(k, scale))(t)
		x := drawPerson(t, tk)
		d := drawDelta(t, wide.Dim(), false)
		tight.Project(x, d)
		if err := tight.Check(x, d); err != nil {
			t.Fatalf("%v: projected to %v: %v", x, d, err)
		}
		if err := wide.Check(x, d); err != nil {
			t.Fatalf("%v: %v is feasible in the tightened set (k %d, scale %v) but not in the original: %v", x, d, k, scale, err)
		}
		wider := must.Get(wide.Tighten(0, 1+scale))(t)
		e := drawDelta(t, wide.Dim(), false)
		wide.Project(x, e)
		if err := wider.Check(x, e); err != nil {
			t.Fatalf("%v: %v is feasible, but not when features may go %v times as far: %v", x, e, 1+scale, err)
		}
	})
}

func TestTightenDistances(t *testing.T) {
	t.Parallel()
	hours := feature("hours", "numeric") // from 40: down to 20, up by 8 at most
	hours.Number().Mean, hours.Number().Std, hours.Bounds, hours.MaxIncrease = 30, 10, [2]float64{20, 60}, 8
	years := feature("years", "numeric") // from 3, whole years, 0 to 10, up only
	years.Step, years.Bounds, years.Direction = 1, [2]float64{0, 10}, task.Increase
	free := feature("free", "numeric")
	grade := feature("grade", "ordinal") // from 2 of 1 to 7
	grade.Number().Values = []string{"1", "2", "3", "4", "5", "6", "7"}
	grade.Number().Levels = []float64{1, 2, 3, 4, 5, 6, 7}
	ladder := feature("ladder", "thermometer") // from 1 of 0 to 5
	ladder.Encoding.(*task.Thermometer).Thresholds, ladder.Width = []float64{1, 2, 3, 4, 5}, 5
	school := oneHot("school", "a", "b", "c", "d") // from a, two places at most
	hot(&school).Ordered, school.MaxIncrease = true, 2
	colour := oneHot("colour", "red", "green", "blue")
	tk := taskOf(0, hours, years, free, grade, ladder, school, colour)
	x := []float32{1, 3, 0, 2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}
	base := compile(t, tk)
	for _, c := range []struct {
		scale                float64
		hours, years, grades [2]float64 // least and largest new raw value
		ladder, school       int        // highest
	}{
		{1, [2]float64{20, 48}, [2]float64{3, 10}, [2]float64{1, 7}, 5, 2},
		{0.5, [2]float64{30, 44}, [2]float64{3, 6}, [2]float64{2, 4}, 3, 1}, // 3.5 years and 2.5 grades are rounded down
		{0.1, [2]float64{38, 40.8}, [2]float64{3, 3}, [2]float64{2, 2}, 0, 0},
		{1.5, [2]float64{10, 52}, [2]float64{3, 13}, [2]float64{1, 7}, 5, 3},
	} {
		a := must.Get(base.Tighten(0, c.scale))(t)
		reach := func(first int, f *task.Feature, sign float32) float64 {
			d := make([]float32, a.Dim())
			d[first] = 1000 * sign
			a.Project(x, d)
			return f.FromInput(x[first] + d[first])
		}
		for what, v := range map[string]struct{ got, want float64 }{
			"hours down": {reach(0, &hours, -1), c.hours[0]}, "hours up": {reach(0, &hours, 1), c.hours[1]},
			"years down": {reach(1, &years, -1), c.years[0]}, "years up": {reach(1, &years, 1), c.years[1]},
			"grade down": {reach(3, &grade, -1), c.grades[0]}, "grade up": {reach(3, &grade, 1), c.grades[1]},
			"free up": {reach(2, &free, 1), 1000},
		} {
			if math.Abs(v.got-v.want) > 1e-4 {
				t.Errorf("scale %v: %s leads to %v, want %v", c.scale, what, v.got, v.want)
			}
		}
		options := func(a *constraint.Set, feature int) (n, highest int) {
			u := a.Free()[feature]
			for _, o := range u.Options(x) {
				n, highest = n+1, max(highest, o)
			}
			return n, highest
		}
		_, l := options(a, 4)
		_, s := options(a, 5)
		if l != c.ladder || s != c.school {
			t.Errorf("scale %v: the ladder goes to %d and school to %d, want %d and %d", c.scale, l, s, c.ladder, c.school)
		}
		if n, _ := options(a, 6); n != 2 {
			t.Errorf("scale %v: red may become %d colours", c.scale, n)
		}
		if n, _ := options(base, 5); n != 2 {
			t.Error("the original set has changed")
		}
	}
}

func TestTightenNothing(t *testing.T) {
	t.Parallel()
	tk := taskOf(2, feature("a", "numeric"), feature("b", "numeric"), feature("c", "numeric"))
	a := compile(t, tk)
	for _, k := range []int{0, 2} {
		if b, err := a.Tighten(k, 1); err != nil || b != a {
			t.Errorf("k %d: %v, another set: %t", k, err, b != a)
		}
	}
	if a.Budget() != 2 {
		t.Errorf("budget %d", a.Budget())
	}
	for _, bad := range []struct {
		k     int
		scale float64
	}{{-1, 1}, {0, 0}, {0, -1}, {0, math.NaN()}, {0, math.Inf(1)}} {
		if _, err := a.Tighten(bad.k, bad.scale); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestTightenOverrides(t *testing.T) {
	t.Parallel()
	hours, income := feature("hours", "numeric"), feature("income", "numeric")
	hours.MaxIncrease = 10
	tk := taskOf(2, hours, income)
	stuck, capped := hours, hours
	stuck.Actionable, stuck.Width = false, 1
	capped.MaxIncrease = 4
	a := must.Get(compile(t, tk).Override([]task.Override{
		{Row: 1, Feature: 0, With: stuck.Action},
		{Row: 2, Feature: 0, With: capped.Action},
	}))(t)
	b := must.Get(a.Tighten(1, 0.5))(t)
	x := []float32{0, 0}
	for row, want := range []float32{5, 0, 2} {
		d := []float32{9, 0}
		b.Person(row).Project(x, d)
		if d[0] != want {
			t.Errorf("row %d may go up by %v, want %v", row, d[0], want)
		}
		if err := b.Person(row).Check(x, []float32{1, 1}); err == nil {
			t.Errorf("row %d may change two features", row)
		}
	}
	d := []float32{9, 0}
	if b.Select([]int{2}).Person(0).Project(x, d); d[0] != 2 {
		t.Errorf("a selection lets row 2 go up by %v", d[0])
	}
}

func TestFRRIsMonotone(t *testing.T) {
	t.Parallel()
	a0, b0, c0 := feature("a", "numeric"), feature("b", "numeric"), feature("c", "ordinal")
	a0.Step, a0.Bounds = 1, [2]float64{-3, 4}
	b0.Step, b0.MaxChange = 1, 3
	c0.Number().Values, c0.Number().Levels = []string{"0", "1", "2", "3"}, []float64{0, 1, 2, 3}
	base := compile(t, taskOf(2, a0, b0, c0))
	m := &affine{w: []float64{1, 0.8, 1.5}, b: -6}
	const n = 16
	rng := rand.New(rand.NewPCG(8, 8))
	var x []float32
	for range n {
		x = append(x, float32(rng.IntN(7)-3), float32(rng.IntN(7)-3), float32(rng.IntN(4)))
	}
	helped := func(k int, scale float64) int {
		a := must.Get(base.Tighten(k, scale))(t)
		acts, _, err := Exact(context.Background(), m, a, x, ExactOptions{Margin: 0.05})
		must.Do(t, err)
		count := 0
		for i := range acts {
			person := row(x, i, 3)
			found := tryAll(t, m, a, person)
			if (acts[i].Status == Found || acts[i].Status == AlreadyFavourable) != found {
				t.Errorf("k %d, scale %v, %v: %s, by trying all: %t", k, scale, person, acts[i].Status, found)
			}
			if found {
				count++
			}
		}
		return count
	}
	var seen []int
	for _, k := range []int{1, 2, 3} {
		last := -1
		for _, scale := range []float64{0.25, 0.5, 1, 1.5, 2} {
			h := helped(k, scale)
			if h < last {
				t.Errorf("k %d: %d are helped at scale %v, %d at a smaller one", k, h, scale, last)
			}
			last = h
			seen = append(seen, h)
		}
	}
	for i := range 10 {
		if seen[i] > seen[i+5] {
			t.Errorf("%v: fewer are helped when more features may change", seen)
		}
	}
	if slices.Min(seen) == slices.Max(seen) {
		t.Errorf("%v: nothing was tested", seen)
	}
}

// tryAll says whether one of all whole changes, up to 14, 6 and 3, is feasible and reaches the margin. All margins
// are tenths, so that none lies at the required one.
func tryAll(t *testing.T, m Model, a *constraint.Set, x []float32) bool {
	t.Helper()
	for i := range 29 {
		for j := range 13 {
			for k := range 7 {
				d := []float32{float32(i - 14), float32(j - 6), float32(k - 3)}
				if sum := x[0] + d[0] + 0.8*(x[1]+d[1]) + 1.5*(x[2]+d[2]) - 6; sum >= 0.05 && a.Check(x, d) == nil {
					return true
				}
			}
		}
	}
	return false
}

func TestTightenSolved(t *testing.T) {
	t.Parallel()
	hours, gain := feature("hours", "numeric"), feature("gain", "numeric")
	hours.Number().Mean, hours.Number().Std, hours.Bounds = 40.437, 12.347, [2]float64{1, 99}
	gain.Number().Mean, gain.Number().Std, gain.MaxIncrease = 1077.6488, 7385.1787, 2500.5
	tk := taskOf(0, hours, gain)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, scale := range []float64{0.03, 0.5, 1.5, 10, 1000} {
		a := must.Get(compile(t, tk).Tighten(0, scale))(t)
		found := 0
		for range 60 {
			m := &affine{w: []float64{rng.NormFloat64(), rng.NormFloat64()}, b: -2 * scale * rng.Float64()}
			x := []float32{hours.ToInput(float64(rng.IntN(99))), gain.ToInput(float64(rng.IntN(9999)))}
			acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{Margin: 0.05}))(t)
			checkActions(t, m, a, x, acts, 0.05)
			if acts[0].Status == Found {
				found++
			}
		}
		if found < 10 {
			t.Errorf("scale %v: %d actions", scale, found)
		}
	}
}

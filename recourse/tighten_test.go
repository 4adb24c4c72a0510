package recourse

import (
	"math"
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
		wide := compile(t, tk)
		scale := rapid.Float64Range(0.05, 1).Draw(t, "scale")
		k := rapid.IntRange(0, wide.Limit()).Draw(t, "k")
		tight := must.Get(wide.Tighten(k, scale))(t)
		x := drawPerson(t, tk)
		d := drawDelta(t, wide.Dim(), false)
		d = holdProjection(t, tight, tight.Project, x, d)
		must.Do(must.In(t, k, scale), wide.Check(x, d))
		wider := must.Get(wide.Tighten(0, 1+scale))(t)
		e := drawDelta(t, wide.Dim(), false)
		wide.Project(x, e)
		if err := wider.Check(x, e); err != nil {
			t.Fatalf("%v: %v is feasible, but not when features may go %v times as far: %v", x, e, 1+scale, err)
		}
	})
}

// The distances of one person, worked out by hand from the task in raw units.
func TestTightenDistances(t *testing.T) {
	t.Parallel()
	tk := parsed(`features: # of who has 40 hours, 3 years, grade 2, is on 1 of the ladder, in school a and red
- {name: hours, kind: numeric, mean: 30, std: 10, bounds: [20, 60], max_increase: 8}
- {name: years, kind: numeric, step: 1, bounds: [0, 10], direction: increase}
- {name: free, kind: numeric}
- {name: grade, kind: ordinal, values: [1, 2, 3, 4, 5, 6, 7]}
- {name: ladder, kind: thermometer, thresholds: [1, 2, 3, 4, 5]}
- {name: school, kind: onehot, values: [a, b, c, d], ordered: true, max_increase: 2}
- {name: colour, kind: onehot, values: [red, green, blue]}
`)
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
		reach := func(first int, sign float32) float64 {
			d := make([]float32, a.Dim())
			d[first] = 1000 * sign
			a.Project(x, d)
			return tk.Features[first].FromInput(x[first] + d[first])
		}
		for what, v := range map[string]struct{ got, want float64 }{
			"hours down": {reach(0, -1), c.hours[0]}, "hours up": {reach(0, 1), c.hours[1]},
			"years down": {reach(1, -1), c.years[0]}, "years up": {reach(1, 1), c.years[1]},
			"grade down": {reach(3, -1), c.grades[0]}, "grade up": {reach(3, 1), c.grades[1]},
			"free up": {reach(2, 1), 1000},
		} {
			must.Near(must.In(t, c.scale, what), v.want, v.got, 1e-4)
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
		must.Same(t, a, must.Get(a.Tighten(k, 1))(t))
	}
	must.Same(t, 2, a.Budget())
	for _, bad := range []struct {
		k     int
		scale float64
	}{{-1, 1}, {0, 0}, {0, -1}, {0, math.NaN()}, {0, math.Inf(1)}} {
		must.Fail(t, must.Err(a.Tighten(bad.k, bad.scale)), "")
	}
}

// Single people's constraints are tightened too, from where they are.
func TestTightenOverrides(t *testing.T) {
	t.Parallel()
	tk := parsed(`features: [{name: hours, kind: numeric, max_increase: 10}, {name: income, kind: numeric}]`)
	stuck, capped := tk.Features[0].Action, tk.Features[0].Action
	stuck.Actionable, capped.MaxIncrease = false, 4
	a := must.Get(compile(t, tk).Override([]task.Override{{Row: 1, With: stuck}, {Row: 2, With: capped}}))(t)
	b := must.Get(a.Tighten(1, 0.5))(t)
	x := []float32{0, 0}
	for row, want := range []float32{5, 0, 2} {
		d := []float32{9, 0}
		b.Person(row).Project(x, d)
		must.Same(must.In(t, row), want, d[0])
		must.Fail(t, b.Person(row).Check(x, []float32{1, 1}), "")
	}
	d := []float32{9, 0}
	if b.Select([]int{2}).Person(0).Project(x, d); d[0] != 2 {
		t.Errorf("a selection lets row 2 go up by %v", d[0])
	}
}

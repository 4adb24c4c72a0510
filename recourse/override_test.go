package recourse

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

// everySolver returns the actions of Solve, and each person's changes by the solver's name, at margin 0.1.
func everySolver(t *testing.T, m *affine, a *constraint.Set, x []float32) ([]Action, []map[string][]float32) {
	t.Helper()
	acts := solved(t, m, a, x, 0.1)
	taught := must.Get(Teacher(t.Context(), m, a, x, TeacherOptions{}))(t)
	first := must.Get(FirstValid(t.Context(), m, a, x, SolveOptions{}))(t)
	exact, _ := proved(t, m, a, x, ExactOptions{Margin: 0.1})
	changes := make([]map[string][]float32, len(acts))
	for i := range acts {
		changes[i] = map[string][]float32{
			"solver": acts[i].Delta, "teacher": row(taught, i, a.Dim()), "first valid": first[i].Delta, "exact": exact[i].Delta,
		}
		for what, d := range changes[i] {
			must.Do(must.In(t, what), a.Person(i).Check(row(x, i, a.Dim()), d))
		}
	}
	return acts, changes
}

// Who has no record keeps none, and nobody loses one, in every solver.
func TestMissingNumbersStay(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: months, kind: ordinal, mean: 4, std: 5, bounds: [0, 8], step: 1, missing: [-9, -8]}
- {name: income, kind: numeric}
`)
	a, months := compile(t, tk), tk.Features[0].Number()
	m := &affine{w: []float64{-3, 1}, b: -1.5} // fewer months are the cheaper way, down to -9
	var x []float32
	for v := -9; v <= 8; v++ {
		x = append(x, months.ToInput(float64(v)), 0)
	}
	acts, changes := everySolver(t, m, a, x)
	for i := range acts {
		from := months.Raw(x[2*i])
		for what, d := range changes[i] {
			if to := months.Raw(x[2*i] + d[0]); from < -7 && to != from || from >= 0 && to < 0 {
				t.Errorf("%s: from %v to %v", what, from, to)
			}
		}
	}
	if err := a.Check(row(x, 12, 2), []float32{months.ToInput(-9) - x[24], 0}); err == nil ||
		!strings.Contains(err.Error(), `feature "months": missing: no action leads from or to -9`) {
		t.Errorf("to -9: %v", err)
	}
}

// No action leads to a job that is not known, nor from one unless transitions do, in every solver.
func TestMissingValuesStay(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: job, kind: onehot, values: ["?", clerk, driver], missing: ["?"]}
- {name: income, kind: numeric}
`)
	m := &affine{w: []float64{5, 0, 1, 1}, b: -2} // "?" is the cheapest way
	x := []float32{1, 0, 0, -10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}
	for leaves, from := range map[bool]string{
		false: `feature "job": missing: no action leads from or to ?`,
		true:  "transitions: ? may not become clerk",
	} {
		if leaves {
			tk.Features[0].Transitions = map[string][]string{"?": {"driver"}, "clerk": {"driver"}}
		} else {
			tk.Features[0].Transitions = nil
		}
		a := compile(t, tk)
		acts, changes := everySolver(t, m, a, x)
		for i, act := range acts {
			for what, d := range changes[i] {
				if d[0] != 0 && !(leaves && i == 0) {
					t.Errorf("%s: person %d, leaves %v: %v", what, i, leaves, d)
				}
			}
			must.Same(must.In(t, i), Found, act.Status)
		}
		for want, c := range map[string][2][]float32{
			`: missing: no action leads from or to ?, which means "not known"`: {x[4:8], {1, -1, 0, 0}},
			from: {x[:4], {-1, 1, 0, 0}},
		} {
			must.Fail(must.In(t, leaves), a.Check(c[0], c[1]), want)
		}
	}
}

// What means "not known" is no place of an order, and no link leads from or to it.
func TestMissingValuesElsewhere(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: grade, kind: onehot, values: [low, "?", mid, high], ordered: true, max_change: 1, missing: ["?"]}
`))
	for to, want := range map[int]bool{1: false, 2: true, 3: false} {
		d := []float32{-1, 0, 0, 0}
		d[to] = 1
		if err := a.Check([]float32{1, 0, 0, 0}, d); (err == nil) != want {
			t.Errorf("from low to value %d: %v", to, err)
		}
	}
	a = compile(t, parsed(`features:
- {name: job, kind: onehot, values: [w, x, z]}
- {name: home, kind: onehot, values: [own, rent, "?"], missing: ["?"], actionable: false}
links: [{from: job, to: home, map: {x: own, z: rent}}]
`))
	for to, want := range map[int]bool{4: true, 5: false} { // what home is
		x, d := make([]float32, 6), []float32{-1, 1, 0, 1, 0, 0}
		x[0], x[to], d[to] = 1, 1, -1
		if err := a.Check(x, d); (err == nil) != want {
			t.Errorf("home is value %d: %v", to-3, err)
		}
	}
}

// What holds for single people holds for them alone, in every solver, wherever their rows stand.
func TestOverride(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: hours, kind: numeric, mean: 40, std: 10}
- {name: income, kind: numeric, mean: 30, std: 10}
`)
	stuck, capped, bad := tk.Features[0].Action, tk.Features[0].Action, tk.Features[0].Action
	stuck.Actionable, capped.MaxIncrease, bad.Weight = false, 2, 0
	base := compile(t, tk)
	a := must.Get(base.Override([]task.Override{{Row: 1, With: stuck}, {Row: 600, With: capped}}))(t)
	m := &affine{w: []float64{2, 1}, b: -1} // hours are the cheaper way
	acts, changes := everySolver(t, m, a, make([]float32, 700*2))
	for i, act := range acts {
		must.Same(must.In(t, i), Found, act.Status)
		for what, d := range changes[i] {
			switch {
			case i == 1 && (d[0] != 0 || d[1] == 0), i == 600 && (d[0] == 0 || d[0] > 0.2+1e-6), i != 1 && i != 600 &&
				d[0] <= 0.2:
				t.Errorf("%s, row %d: action %v", what, i, d)
			}
		}
	}
	rows := []int{600, 5, 1}
	for i, act := range solved(t, m, a.Select(rows), make([]float32, 6), 0.1) {
		must.Same(t, acts[rows[i]], act)
	}
	if a.Select(rows) == a || base.Select(rows) != base {
		t.Error("only overrides make a selection differ")
	}
	must.Fail(t, must.Err(base.Override([]task.Override{{Row: 3, With: bad}})), `row 3: feature "hours": cost weight 0`)
}

// A promise holds as it is written, at any scale and where it ends on a limit: the new values have few digits, and
// reading them makes the very point that was judged.
func TestPublish(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: hours, kind: numeric, mean: 40.437, std: 12.347, bounds: [1, 99]}
- {name: years, kind: numeric, mean: 10.08, std: 2.573, step: 1}
- {name: gain, kind: numeric, mean: 1077.6488, std: 7385.1787, max_increase: 2500.5}
`)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, scale := range []float64{0.03, 0.5, 1, 1.5, 10, 1000} {
		a := must.Get(compile(t, tk).Tighten(0, scale))(t)
		found := 0
		for range 60 {
			m := drawLinear(rng, 3, 1, -2*scale*rng.Float64())
			x := inputs(tk, float64(rng.IntN(80)), float64(rng.IntN(16)), float64(rng.IntN(9999)))
			act := solved(t, m, a, x, 0.05)[0]
			if act.Status == Found {
				found++
			}
			for _, c := range a.Changes(x, act.Point) {
				i := slices.IndexFunc(tk.Features, func(f task.Feature) bool { return f.Name == c.Feature })
				in := make([]float32, 1)
				if err := tk.Features[i].Encode(c.To, in); err != nil || in[0] != act.Point[i] {
					t.Errorf("%s %s -> %s leads to %v, judged was %v (%v)", c.Feature, c.From, c.To, in[0], act.Point[i], err)
				}
				if len(c.To) > 9 && scale == 1 {
					t.Errorf("%s %s -> %s: too many digits", c.Feature, c.From, c.To)
				}
			}
		}
		if found < 10 {
			t.Errorf("scale %v: %d actions", scale, found)
		}
	}
}

package recourse

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func everySolver(t *testing.T, m *affine, a *constraint.Set, x []float32) ([]Action, []map[string][]float32) {
	t.Helper()
	acts := must.Get(Solve(t.Context(), m, a, x, SolveOptions{Margin: 0.1}))(t)
	taught := must.Get(Teacher(t.Context(), m, a, x, TeacherOptions{}))(t)
	exact, _, err := Exact(t.Context(), m, a, x, ExactOptions{Margin: 0.1})
	must.Do(t, err)
	changes := make([]map[string][]float32, len(acts))
	for i := range acts {
		changes[i] = map[string][]float32{
			"solver": acts[i].Delta, "teacher": row(taught, i, a.Dim()), "exact": exact[i].Delta,
		}
	}
	return acts, changes
}

func TestMissingNumbersStay(t *testing.T) {
	t.Parallel()
	months := feature("months", "ordinal")
	months.Number().Mean, months.Number().Std, months.Bounds, months.Step = 4, 5, [2]float64{0, 8}, 1
	months.Number().Missing = []float64{-9, -8}
	income := feature("income", "numeric")
	tk := taskOf(0, months, income)
	a := compile(t, tk)
	m := &affine{w: []float64{-3, 1}, b: -1.5} // fewer months are the cheaper way, down to -9
	var x []float32
	for v := -9; v <= 8; v++ {
		x = append(x, tk.Features[0].ToInput(float64(v)), 0)
	}
	acts, changes := everySolver(t, m, a, x)
	for i := range acts {
		from := tk.Features[0].Number().Raw(x[2*i])
		for what, d := range changes[i] {
			to := tk.Features[0].Number().Raw(x[2*i] + d[0])
			if from < -7 && to != from || from >= 0 && to < 0 || a.Check(row(x, i, 2), d) != nil {
				t.Errorf("%s: from %v to %v", what, from, to)
			}
		}
	}
	if err := a.Check(row(x, 12, 2), []float32{tk.Features[0].ToInput(-9) - x[24], 0}); err == nil ||
		!strings.Contains(err.Error(), `feature "months": missing: no action leads from or to -9`) {
		t.Errorf("to -9: %v", err)
	}
}

func TestMissingValuesStay(t *testing.T) {
	t.Parallel()
	job := oneHot("job", "?", "clerk", "driver")
	hot(&job).MissingValues = []string{"?"}
	income := feature("income", "numeric")
	m := &affine{w: []float64{5, 0, 1, 1}, b: -2} // "?" is the cheapest way
	x := []float32{1, 0, 0, -10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}
	for _, leaves := range []bool{false, true} {
		if leaves {
			job.Transitions = map[string][]string{"?": {"driver"}, "clerk": {"driver"}}
		}
		a := compile(t, taskOf(0, job, income))
		acts, changes := everySolver(t, m, a, x)
		for i, act := range acts {
			for what, d := range changes[i] {
				if d[0] != 0 && !(leaves && i == 0) || a.Check(row(x, i, 4), d) != nil {
					t.Errorf("%s: person %d, leaves %v: %v", what, i, leaves, d)
				}
			}
			if act.Status != Found {
				t.Errorf("person %d: %v", i, act.Status)
			}
		}
		for what, c := range map[string]struct {
			x, d []float32
			want string
		}{
			"to ?": {x[4:8], []float32{1, -1, 0, 0}, `: missing: no action leads from or to ?, which means "not known"`},
			"from ?": {x[:4], []float32{-1, 1, 0, 0}, map[bool]string{
				false: `feature "job": missing: no action leads from or to ?`, true: "transitions: ? may not become clerk",
			}[leaves]},
		} {
			if err := a.Check(c.x, c.d); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, leaves %v: %v", what, leaves, err)
			}
		}
	}
}

func TestMissingValuesElsewhere(t *testing.T) {
	t.Parallel()
	grade := oneHot("grade", "low", "?", "mid", "high")
	hot(&grade).Ordered, grade.MaxChange, hot(&grade).MissingValues = true, 1, []string{"?"}
	a := compile(t, taskOf(0, grade))
	for to, want := range map[int]bool{1: false, 2: true, 3: false} {
		d := []float32{-1, 0, 0, 0}
		d[to] = 1
		if err := a.Check([]float32{1, 0, 0, 0}, d); (err == nil) != want {
			t.Errorf("from low to %s: %v", hot(&grade).Values[to], err)
		}
	}
	job, home := oneHot("job", "w", "x", "z"), oneHot("home", "own", "rent", "?")
	hot(&home).MissingValues, home.Actionable = []string{"?"}, false
	tk := taskOf(0, job, home)
	tk.Links = []task.Link{{From: "job", To: "home", Map: []task.Pair{{From: "x", To: "own"}, {From: "z", To: "rent"}}}}
	a = compile(t, tk)
	for to, want := range map[int]bool{4: true, 5: false} { // what home is
		x, d := make([]float32, 6), []float32{-1, 1, 0, 1, 0, 0}
		x[0], x[to], d[to] = 1, 1, -1
		if err := a.Check(x, d); (err == nil) != want {
			t.Errorf("home is %s: %v", hot(&home).Values[to-3], err)
		}
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	hours := feature("hours", "numeric")
	hours.Number().Mean, hours.Number().Std = 40, 10
	income := feature("income", "numeric")
	income.Number().Mean, income.Number().Std = 30, 10
	tk := taskOf(0, hours, income)
	stuck, capped := tk.Features[0], tk.Features[0]
	stuck.Actionable = false
	capped.MaxIncrease = 2
	base := compile(t, tk)
	a := must.Get(base.Override([]task.Override{
		{Row: 1, Feature: 0, With: stuck.Action}, {Row: 600, Feature: 0, With: capped.Action},
	}))(t)
	m := &affine{w: []float64{2, 1}, b: -1} // hours are the cheaper way
	const n = 700
	x := make([]float32, n*2)
	acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{Margin: 0.1}))(t)
	deltas := must.Get(Teacher(context.Background(), m, a, x, TeacherOptions{}))(t)
	for i, act := range acts {
		if act.Status != Found {
			t.Fatalf("row %d: %s", i, act.Status)
		}
		for what, d := range map[string][]float32{"solver": act.Delta, "teacher": row(deltas, i, 2)} {
			if err := a.Person(i).Check(row(x, i, 2), d); err != nil {
				t.Errorf("%s, row %d: %v", what, i, err)
			}
			switch {
			case i == 1 && (d[0] != 0 || d[1] == 0), i == 600 && (d[0] == 0 || d[0] > 0.2+1e-6), i != 1 && i != 600 &&
				d[0] <= 0.2:
				t.Errorf("%s, row %d: action %v", what, i, d)
			}
		}
	}
	firsts := must.Get(FirstValid(context.Background(), m, a, x, FirstValidOptions{}))(t)
	for i, act := range firsts {
		if err := a.Person(i).Check(row(x, i, 2), act.Delta); err != nil || act.Status != Found {
			t.Errorf("first valid, row %d: %s, %v", i, act.Status, err)
		}
	}
	rows := []int{600, 5, 1}
	some := must.Get(Solve(context.Background(), m, a.Select(rows), make([]float32, 6), SolveOptions{Margin: 0.1}))(t)
	for i, r := range rows {
		if d := cmp.Diff(acts[r], some[i]); d != "" {
			t.Errorf("row %d selected as %d: %s", r, i, d)
		}
	}
	if a.Select(rows) == a || base.Select(rows) != base {
		t.Error("only overrides make a selection differ")
	}
	bad := tk.Features[0]
	bad.MaxChange = -1
	if _, err := base.Override([]task.Override{{Row: 3, Feature: 0, With: bad.Action}}); err == nil {
		t.Error("an impossible override is taken")
	}
}

// A promise holds as it is written: the new values have few digits, and reading them makes the very point that was
// judged.
func TestPublish(t *testing.T) {
	t.Parallel()
	hours := feature("hours", "numeric")
	hours.Number().Mean, hours.Number().Std, hours.Bounds = 40.437, 12.347, [2]float64{1, 99}
	years := feature("years", "numeric")
	years.Number().Mean, years.Number().Std, years.Step = 10.08, 2.573, 1
	gain := feature("gain", "numeric")
	gain.Number().Mean, gain.Number().Std, gain.MaxIncrease = 1077.6488, 7385.1787, 2500.5
	tk := taskOf(0, hours, years, gain)
	a := compile(t, tk)
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		m := &affine{w: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, b: -2 * rng.Float64()}
		raw := []float64{float64(rng.IntN(80)), float64(rng.IntN(16)), float64(rng.IntN(9999))}
		x := make([]float32, 3)
		for i := range tk.Features {
			x[i] = tk.Features[i].ToInput(raw[i])
		}
		acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{Margin: 0.05}))(t)
		checkActions(t, m, a, x, acts, 0.05)
		for _, c := range a.Changes(x, acts[0].Point) {
			i := slices.IndexFunc(tk.Features, func(f task.Feature) bool { return f.Name == c.Feature })
			f := &tk.Features[i]
			in := make([]float32, 1)
			if err := f.Encode(c.To, in); err != nil || in[0] != acts[0].Point[i] {
				t.Errorf("%s %s -> %s leads to %v, judged was %v (%v)", c.Feature, c.From, c.To, in[0], acts[0].Point[i], err)
			}
			if len(c.To) > 9 {
				t.Errorf("%s %s -> %s: too many digits", c.Feature, c.From, c.To)
			}
		}
	}
}

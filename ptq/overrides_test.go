package ptq

import (
	"slices"
	"strings"
	"testing"

	"cfq/calib"
	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/task"
)

func set(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, own ...task.Override) *calib.Set {
	t.Helper()
	r := mustRecipe("cf-ptq-calib", "allocate.rule=uniform")
	return calibrated(t, m, tk, people, r, Run{Overrides: own}).fitSet
}

func point(s *calib.Set, i int) []float32 {
	at := slices.Index(s.Source, i)
	if at < 0 {
		return nil
	}
	return s.Points()[at*s.Dim : (at+1)*s.Dim]
}

// Teacher points keep to what each person can change, whatever order the people are in; those of others stay as
// they were.
func TestTeacherKeepsToOverrides(t *testing.T) {
	t.Parallel()
	m, tk, all := loans(t, "train.csv")
	var rows []int
	for row := 199; row >= 0; row-- {
		rows = append(rows, row)
	}
	people := all.Subset(rows)
	income := slices.IndexFunc(tk.Features, func(f task.Feature) bool { return f.Name == "income" })
	f := &tk.Features[income]
	before := set(t, m, tk, people)
	raise := func(s *calib.Set, i int) float64 {
		p := point(s, i)
		if p == nil {
			return 0
		}
		return float64(p[f.Offset]-people.X[i*people.Dim+f.Offset]) * f.Number().Std
	}
	var raised []int // positions of people that the teacher gives a raise of 1000 and more
	for i := range people.N {
		if raise(before, i) >= 999 {
			raised = append(raised, i)
		}
	}
	if len(raised) < 3 {
		t.Fatalf("%d people with a raise", len(raised))
	}
	none, some := *f, *f
	none.Actionable = false
	some.MaxIncrease = 500
	own := []task.Override{
		{Row: people.Rows[raised[0]], Feature: income, With: none.Action},
		{Row: people.Rows[raised[1]], Feature: income, With: some.Action},
		{Row: 1_000_000, Feature: income, With: none.Action},
	}
	after := set(t, m, tk, people, own...)
	must.Same(t, 0, raise(after, raised[0]))
	if r := raise(after, raised[1]); r < 0 || r > 500.01 {
		t.Errorf("a raise of %v, 500 is the most", r)
	}
	for i := range people.N {
		if i != raised[0] && i != raised[1] && !slices.Equal(point(before, i), point(after, i)) {
			t.Errorf("person %d has another point", i)
		}
	}
	people.Rows = people.Rows[1:]
	_, err := Quantize(t.Context(), loaded(t, m), tk, people, mustRecipe("cf-ptq-calib"), Run{Overrides: own})
	must.Fail(t, err, "overrides are by rows")
}

func TestWhyNoRecourse(t *testing.T) {
	t.Parallel()
	m, tk, all := loans(t, "test.csv")
	people := all.Subset([]int{0, 2}) // both approved
	var unchanged []recourse.Action
	for i := range people.N {
		x := people.X[i*people.Dim : (i+1)*people.Dim]
		unchanged = append(unchanged, recourse.Action{Status: recourse.Found, Point: x, Delta: make([]float32, people.Dim)})
	}
	for want, promises := range map[string][]recourse.Action{
		"no row is refused and has recourse: ":         nil,
		"no row has a promise that changes anything: ": unchanged,
	} {
		q := calibrated(t, m, tk, people, mustRecipe(CFPTQ, "allocate.rule=uniform"), Run{Promises: promises})
		if !slices.ContainsFunc(q.warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("warnings %q, want %q", q.warnings, want)
		}
	}
}

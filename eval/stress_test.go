package eval

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestParseStress(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"noise:0.5", "mix:grade=a=b:c:0", "mix:income=>50K, more:1", "outcome:0.8", "sparsity:2", "bounds:0.5",
		"bounds:1.5, sparsity:8", "shifts", "tightness",
	} {
		got, err := ParseStress(" " + spec)
		must.Do(t, err)
		must.Same(t, spec, got.Spec)
	}
	for spec, want := range map[string]string{
		"":                       "one of: noise:S",
		"nois:0.5":               `did you mean "noise"?`,
		"earthquake":             "mix:FEATURE=VALUE:SHARE",
		"noise":                  "noise:0.25",
		"noise:0":                "above 0",
		"noise:NaN":              "above 0",
		"noise:Inf":              "above 0",
		"mix:sex:0.5":            "mix:sex=Female:0.5",
		"mix:sex=Female":         "mix:sex=Female:0.5",
		"mix:=Female:0.5":        "mix:sex=Female:0.5",
		"mix:sex=Female:1.5":     "from 0 to 1",
		"mix:sex=Female:half":    "from 0 to 1",
		"outcome:80":             "from 0 to 1",
		"sparsity:0":             "1 or more",
		"sparsity:2.5":           "whole number",
		"bounds:-1":              "above 0",
		"bounds:1,bounds:2":      "twice",
		"sparsity:2,noise:1":     "only sparsity:K and bounds:G",
		"sparsity:2,bounds:0.5,": "only sparsity:K and bounds:G",
		"shifts:2":               "takes no number",
	} {
		_, err := ParseStress(spec)
		must.Fail(t, err, want)
	}
}

func FuzzParseStress(f *testing.F) {
	for _, s := range []string{"noise:0.5", "mix:a=b:0.5", "sparsity:2,bounds:0.5", "shifts", "::=,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseStress(spec)
		if err != nil {
			return
		}
		if again, err := ParseStress(s.Spec); err != nil || again.Spec != s.Spec {
			t.Errorf("%q: %q, and once more %q, %v", spec, s.Spec, again.Spec, err)
		}
	})
}

func TestCompositionIsLargest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.IntRange(0, 25).Draw(t, "a"), rapid.IntRange(0, 25).Draw(t, "b")
		share := rapid.OneOf(rapid.SampledFrom([]float64{0, 0.5, 1, 1. / 3}), rapid.Float64Range(0, 1)).Draw(t, "share")
		most := 0
		for i := range a + 1 {
			for j := range b + 1 {
				if i == int(math.Round(share*float64(i+j))) {
					most = max(most, i+j)
				}
			}
		}
		i, j := composition(a, b, share)
		if i < 0 || i > a || j < 0 || j > b || i+j != most || math.Abs(float64(i)-share*float64(i+j)) > 0.5 {
			t.Fatalf("of %d and %d, share %v: %d and %d, at most %d can be drawn", a, b, share, i, j, most)
		}
	})
}

func stressed(n int) *task.People {
	people := crowd(n, 31)
	s := task.Subgroup{Feature: "kind", Values: []string{"few", "many"}}
	for i := range n {
		code := int32(1)
		switch {
		case i%5 == 0:
			code = 0
		case i%10 == 1:
			code = -1
		}
		s.Codes = append(s.Codes, code)
	}
	people.Subgroups = []task.Subgroup{s}
	return people
}

func stress(t *testing.T, set *constraint.Set, people *task.People, o Options, specs ...string) (*Result, []Scenario) {
	t.Helper()
	g := original
	g.w = []float64{0.95, 0.6, 0.2}
	o.Solver.Restarts = -1 // of linear models the discrete choices alone find the cheapest
	var list []Stress
	for _, spec := range specs {
		s := must.Get(ParseStress(spec))(t)
		list = append(list, s)
	}
	b := &Batch{People: people, Set: set}
	base := compareBatch(t, original, g, b, o)
	r := *base
	must.Do(t, r.Stress(t.Context(), original, g, b, list, o))
	base.Warnings = r.Warnings
	return base, r.Scenarios
}

func TestMix(t *testing.T) {
	t.Parallel()
	people := stressed(500) // 100 are few
	kind := people.Subgroups[0]
	base, out := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}}, "mix:kind=few:0.4",
		"mix:kind=few:0.5", "mix:kind=many:0.1", "outcome:0.9", "mix:kind=few:0.4")
	must.Same(t, 4, len(out))
	all := listed(t, base)
	var drawn [][]int
	// of 252, 101 would be nearest to 0.4; 350 are many, and 150 are not
	for i, want := range []struct{ n, in int }{{251, 100}, {200, 100}, {167, 17}} {
		r := out[i].Result
		rows, in, code := []int{}, 0, int32(0)
		if i == 2 {
			code = 1
		}
		for _, x := range listed(t, r) {
			rows = append(rows, x.Row)
			in += count(kind.Codes[x.Row] == code)
		}
		if len(rows) != want.n || in != want.in || !slices.IsSorted(rows) ||
			len(slices.Compact(slices.Clone(rows))) != want.n {
			t.Errorf("%s: %d of %d people are of the group, want %d of %d", out[i].Name, in, len(rows), want.in, want.n)
		}
		var records []Record
		for _, row := range rows {
			records = append(records, all[row])
		}
		must.Same(t, asJSON(t, summarize(t, records, base.Settings, DataFile{})), asJSON(t, r))
		drawn = append(drawn, rows)
	}
	must.Same(t, "people with kind=few are 39.8 % in place of 20 %: 251 of 500 are drawn", out[0].About)
	for _, row := range drawn[1] {
		if !slices.Contains(drawn[0], row) {
			t.Fatal("a smaller draw of the same people is no part of the larger one")
		}
	}
	var zero, one, unknown int
	for _, l := range people.Labels {
		zero, one, unknown = zero+count(l == 0), one+count(l == 1), unknown+count(l < 0)
	}
	r := out[3].Result
	if p := r.Population; p.Labelled != p.Read || math.Abs(float64(zero)-0.9*float64(p.Read)) > 0.5 ||
		!strings.Contains(out[3].About, "have no known outcome") {
		t.Errorf("%d people, %d with a known outcome; there are %d, %d and %d: %s", p.Read, p.Labelled, zero, one, unknown,
			out[3].About)
	}
	_, other := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}, Seed: 9}, "mix:kind=few:0.4")
	if slices.Equal(evaluatedRows(t, other[0].Result), evaluatedRows(t, out[0].Result)) {
		t.Error("another seed draws the same people")
	}
}

// The margin of f is a sum of two numbers with noise and one without: the standard deviation of its change is
// known, and who is who stays.
func TestNoise(t *testing.T) {
	t.Parallel()
	people := stressed(1500)
	base, out := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}, Sample: 50}, "noise:0.5")
	r := out[0].Result
	var squares float64
	before := listed(t, base)
	for i, x := range listed(t, r) {
		was := before[i]
		if x.Label != was.Label || x.Line != was.Line || x.Row != was.Row {
			t.Fatalf("%+v was %+v", x, was)
		}
		squares += float64(x.Full-was.Full) * float64(x.Full-was.Full)
	}
	want := 0.5 * math.Sqrt(1+0.25)
	near(t, "standard deviation", math.Sqrt(squares/1500), want, 4*want/math.Sqrt(3000))
	if r.Population.Evaluated != 50 || slices.Equal(evaluatedRows(t, r), evaluatedRows(t, base)) {
		t.Errorf("%d people are evaluated, drawn from those who are refused as they are then", r.Population.Evaluated)
	}
	for _, x := range listed(t, r) {
		if x.Evaluated && x.Full > 0 {
			t.Errorf("%+v", x)
		}
	}
	blind := original // sees only what cannot change
	blind.w = []float64{0, 0, 1}
	o := Options{Margins: []float64{0}, Sample: 1}
	same := compare(t, blind, blind, people, o)
	s, _ := ParseStress("noise:2")
	must.Do(t, same.Stress(t.Context(), blind, blind, &Batch{People: people, Set: threeInputs(t)}, []Stress{s}, o))
	quiet := listed(t, same)
	for i, x := range listed(t, same.Scenarios[0].Result) {
		must.Same(t, quiet[i].Full, x.Full)
	}
}

// a raises the margin by 1 and b by half for each unit, and both may go one unit: whom the constraints leave
// recourse is known.
func TestTightness(t *testing.T) {
	t.Parallel()
	people := stressed(100)
	set := within(t, 1)
	base, out := stress(t, set, people, Options{Margins: []float64{0.1}}, "bounds:0.5", "sparsity:1",
		"sparsity:1,bounds:0.5", "bounds:2", "tightness")
	margins, _ := original.Margins(t.Context(), people.X)
	most := map[string]float64{
		"bounds:0.5": 0.75, "sparsity:1": 1, "sparsity:1,bounds:0.5": 0.5, "bounds:2": 3, "bounds:1": 1.5,
		"sparsity:4,bounds:1.5": 2.25,
	}
	var names []string
	for _, s := range out {
		names = append(names, s.Name)
		helped, refused := 0, 0
		for _, m := range margins {
			if m <= 0 {
				refused++
				helped += count(float64(m) > 0.1-most[s.Name])
			}
		}
		// the last ulps of the reach
		if frr := s.Result.Margins[0].Rate("frr"); frr.Den != refused || frr.Num < helped-2 || frr.Num > helped {
			t.Errorf("%s: FRR %d/%d, want %d/%d", s.Name, frr.Num, frr.Den, helped, refused)
		}
		if strings.Contains(strings.Join(s.Result.Warnings, ""), "not feasible") {
			t.Errorf("%s: %q", s.Name, s.Result.Warnings)
		}
		if s.About == "" || s.Result.Records.Len() != people.N {
			t.Errorf("%s: about %q, %d records", s.Name, s.About, s.Result.Records.Len())
		}
	}
	// The preset's restrictive regime is here already.
	must.Same(t, []string{
		"bounds:0.5", "sparsity:1", "sparsity:1,bounds:0.5", "bounds:2", "bounds:1",
		"sparsity:4,bounds:1.5",
	}, names)
	base.Groups, base.Footprint = []Grouping{{}}, &Footprint{}
	if m := out[4].Result; m.Groups != nil || asJSON(t, m) == asJSON(t, base) {
		t.Error("the moderate regime has what only the result as a whole has")
	}
	base.Groups, base.Footprint = nil, nil
	must.Same(t, asJSON(t, base), asJSON(t, out[4].Result))
}

func TestShifts(t *testing.T) {
	t.Parallel()
	people := stressed(500)
	_, out := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}}, "shifts")
	var names []string
	for _, s := range out {
		names = append(names, s.Name)
	}
	var zero, one int
	for _, l := range people.Labels {
		zero, one = zero+count(l == 0), one+count(l == 1)
	}
	if len(names) != 3 || names[0] != "noise:0.25" || names[1] != "mix:kind=few:0.3333" ||
		!strings.HasPrefix(names[2], "outcome:0.6") {
		t.Errorf("%q", names)
	}
	// Everybody of the doubled group, and half of the others.
	if n := out[1].Result.Population.Read; n < 299 || n > 301 {
		t.Errorf("%d people are drawn where 100 count twice and 400 once", n)
	}
	p, favourable := out[2].Result.Population, 0
	for _, x := range listed(t, out[2].Result) {
		favourable += count(x.Label == 1)
	}
	if p.Read-favourable != zero || favourable < one/2-1 || favourable > one/2+1 {
		t.Errorf("%d people, of whom %d have the favourable outcome, are drawn of %d and %d", p.Read, favourable, zero+one,
			one)
	}
	_, again := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}}, names[1:]...)
	for i := range again {
		must.Same(t, asJSON(t, out[i+1].Result), asJSON(t, again[i].Result))
	}
	people.Labels = nil
	people.Subgroups[0].Values[0], people.Subgroups[0].Codes = "all", make([]int32, 500)
	base, out := stress(t, threeInputs(t), people, Options{Margins: []float64{0.1}}, "shifts")
	joined := strings.Join(base.Warnings, "\n")
	if len(out) != 1 || !strings.Contains(joined, "no group of kind has 30 promises or more and people outside it") ||
		!strings.Contains(joined, "no outcome is known") {
		t.Errorf("%d scenarios, warnings %q", len(out), joined)
	}
}

func TestStressErrors(t *testing.T) {
	t.Parallel()
	people := stressed(100)
	people.Subgroups[0].Values = append(people.Subgroups[0].Values, "nobody")
	bare := *people
	bare.Labels, bare.Subgroups = nil, nil
	o := Options{Margins: []float64{0.1}}
	promises := make([]recourse.Action, people.N)
	base := compare(t, original, original, people, o)
	for _, c := range []struct {
		spec     string
		people   *task.People
		promises []recourse.Action
		want     string
	}{
		{"mix:kin=few:0.5", people, nil, `mix:kin=few:0.5: there are no subgroups "kin"; did you mean "kind"?`},
		{"mix:kind=fe:0.5", people, nil, `"fe" is no value of kind; did you mean "few"?`},
		{"mix:kind=nobody:0.5", people, nil, "no person in the data has kind=nobody"},
		{"mix:kind=few:0.5", &bare, nil, "the task declares no subgroups"},
		{"outcome:0.5", &bare, nil, "no outcome is known"},
		{"noise:1", people, promises, "the promises are given"},
		{"tightness", people, promises, "the promises are given"},
	} {
		s, err := ParseStress(c.spec)
		must.Do(t, err)
		b := &Batch{People: c.people, Set: threeInputs(t), Promises: c.promises}
		err = base.Stress(t.Context(), original, original, b, []Stress{s}, o)
		must.Fail(t, err, c.want)
	}
	base.Records = nil
	s, _ := ParseStress("outcome:0.5")
	b := &Batch{People: people, Set: threeInputs(t)}
	must.Fail(t, base.Stress(t.Context(), original, original, b, []Stress{s}, o), "")
	base = compare(t, original, original, people, o)
	must.Fail(t, base.Stress(t.Context(), original, original, b, []Stress{{}}, o), "")
}

func TestMixOfNamesWithSigns(t *testing.T) {
	t.Parallel()
	people := &task.People{N: 3, Subgroups: []task.Subgroup{
		{Feature: "sex", Values: []string{"Male", "Female"}, Codes: []int32{0, 0, 1}},
		{Feature: "sex=Male", Values: []string{"0", "1"}, Codes: []int32{1, 1, 0}},
	}}
	for spec, want := range map[string]int{"mix:sex=Male=1:0.5": 2, "mix:sex=Male=0:0.5": 1, "mix:sex=Female:0.5": 1} {
		s := must.Get(ParseStress(spec))(t)
		if in, _, err := s.divide(people); err != nil || len(in) != want {
			t.Errorf("%s: %d people, want %d: %v", spec, len(in), want, err)
		}
	}
}

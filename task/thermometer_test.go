package task

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
)

func TestThermometerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &Thermometer{}
		f := Feature{Name: "f", Encoding: e}
		levels := rapid.IntRange(2, 6).Draw(t, "levels")
		f.Width = levels - 1
		var raw string
		want := make([]float32, f.Width)
		if rapid.Bool().Draw(t, "values") {
			e.Values = rapid.SliceOfNDistinct(rapid.StringN(1, 4, -1), levels, levels, rapid.ID).Draw(t, "names")
			i := rapid.IntRange(0, levels-1).Draw(t, "level")
			raw = e.Values[i]
			for j := range i {
				want[j] = 1
			}
		} else {
			e.Thresholds = rapid.SliceOfNDistinct(rapid.Float64Range(-1e6, 1e6), f.Width, f.Width, rapid.ID).Draw(t,
				"thresholds")
			slices.Sort(e.Thresholds)
			v := rapid.OneOf(rapid.Float64Range(-2e6, 2e6), rapid.SampledFrom(e.Thresholds)).Draw(t, "value")
			raw = strconv.FormatFloat(v, 'g', -1, 64)
			for j, threshold := range e.Thresholds {
				if v >= threshold {
					want[j] = 1
				}
			}
		}
		x, back := make([]float32, f.Width), make([]float32, f.Width)
		if err := f.Encode(raw, x); err != nil || !slices.Equal(x, want) {
			t.Fatalf("%q is %v (%v), want %v", raw, x, err, want)
		}
		text, err := f.Decode(x)
		if err != nil || f.check(x) != nil {
			t.Fatal(err, f.check(x))
		}
		if err := f.Encode(text, back); err != nil || !slices.Equal(back, x) {
			t.Fatalf("%q is %v, decoded %q, which is %v (%v)", raw, x, text, back, err)
		}
		if e.Values != nil && text != raw {
			t.Fatalf("%q came back as %q", raw, text)
		}
	})
}

func TestReadThermometers(t *testing.T) {
	task := parse(t, `version: 1
data: {missing: "?"}
features:
  - {name: grade, kind: thermometer, values: [D, C, "1"], subgroup: true}
  - {name: savings, kind: thermometer, thresholds: [1000, 2.5e3], subgroup: true}`)
	p := read(t, task, "savings,grade\n999.9,D\n1000,1.0\n1e4,C\n<1000,C\n<2500,C\n500,B\n,C\n10,?\nmuch,D\n",
		ReadOptions{})
	must.Same(t, []float32{0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0}, p.X)
	want := []Problem{
		{Line: 6, Column: "savings", Reason: `"<2500" is neither a number nor "<1000"`},
		{Line: 7, Column: "grade", Reason: `"B" is not a known value; one of: D, C, 1`},
		{Line: 8, Column: "savings", Reason: missingValue().Error()},
		{Line: 9, Column: "grade", Reason: missingValue().Error()},
		{Line: 10, Column: "savings", Reason: `"much" is neither a number nor "<1000"`},
	}
	must.Same(t, want, p.Problems)
	groups := []Subgroup{
		{Feature: "grade", Values: []string{"D", "C", "1"}, Codes: []int32{0, 2, 1, 1}},
		{Feature: "savings", Values: []string{"<1000", "1000", "2500"}, Codes: []int32{0, 1, 2, 0}},
	}
	must.Same(t, groups, p.Subgroups)
	encoded := read(t, task, "savings>=1000,grade>=1,grade>=C,savings>=2500\n1,0,1,0\n0,1,0,0\n1,0,0.5,0\n0,0,0,1\n",
		ReadOptions{})
	if d := cmp.Diff([]float32{1, 0, 1, 0}, encoded.X); d != "" || encoded.Failed != 3 {
		t.Error(d, encoded.Problems)
	}
	for _, prob := range encoded.Problems {
		must.Has(t, prob.Reason, "ones followed by zeros")
	}
	for _, bad := range [][]float32{{0, 1}, {0.5, 0}, {1, 2}} {
		must.Fail(t, must.Err(task.Features[0].Decode(bad)), "")
	}
}

package task

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"

	"cfq/internal/must"
)

const small = `version: 1
data: {label: income, favourable: high, missing: "?"}
features:
  - {name: age, kind: numeric, mean: 40, std: 10, bounds: [18, 90], step: 1, direction: increase, max_increase: 20}
  - {name: color, kind: onehot, values: [red, blue], shares: [0.25, 0.7], transitions: {red: [blue]}, subgroup: true}
  - {name: member, kind: binary, one: "yes", zero: "no", shares: 0.5, subgroup: true}
`

func TestParseResolvesDefaults(t *testing.T) {
	got := must.Get(Parse("small.yaml", []byte(small)))(t)
	age := Feature{Name: "age", Column: "age", Encoding: &Standardized{Mean: 40, Std: 10}, Action: Free(), Width: 1}
	age.Bounds, age.Step, age.Direction, age.MaxIncrease = [2]float64{18, 90}, 1, "increase", 20
	color := Feature{
		Name: "color", Column: "color", Action: Free(), Subgroup: true, Offset: 1, Width: 2,
		Encoding: &OneHot{Values: []string{"red", "blue"}, Coding: Coding{Shares: []float64{0.25, 0.7}}},
	}
	color.Transitions = map[string][]string{"red": {"blue"}}
	member := Feature{
		Name: "member", Column: "member", Action: Free(), Subgroup: true, Offset: 3, Width: 1,
		Encoding: &Binary{One: "yes", Zero: "no", Coding: Coding{Shares: []float64{0.5}}},
	}
	want := &Task{
		Version:  1,
		Data:     Data{Label: "income", Favourable: "high", Missing: []string{"?"}, Delimiter: ','},
		Target:   Target{Class: "favourable", Index: 1},
		Features: []Feature{age, color, member},
		Cost:     Cost{Norm: L1, L1Ratio: 0.5, Weights: "inverse_std", Eps: 1e-3, Switches: "once"},
	}
	must.Same(t, want, got)
	if got.Dim() != 4 || got.InputNames()[2] != "color=blue" {
		t.Errorf("inputs are %v", got.InputNames())
	}
}

func TestParseReportsEveryMistakeWithItsPlace(t *testing.T) {
	const file = `version: 2
data: {label: income, favorable: high, delimiter: ";;", skip: -1}
features:
  - {name: age, kind: numric, mean: 40, std: 10}
  - {name: hours, kind: numeric, mean: .nan, std: 0, bounds: [99, 1], step: 0}
  - {name: color, kind: onehot, values: [red, blue, red], transitions: {red: [bleu]}, shares: [0.9, 0.9]}
  - {name: hours, kind: numeric, max_increase: -1, weight: 0, actionable: maybe}
  - {kind: binary, one: x, direction: up, values: [1]}
  - {name: level, kind: ordinal}
  - {name: degree, kind: ordinal, values: [1, two]}
  - 7
cost: {norm: l3, weights: inverse-std}
sparsity: {max_feature: 5}
spartity: {}
`
	want := []string{
		`t.yaml:1:10: this task file has version 2`,
		`t.yaml:2:23: data has no key "favorable"; did you mean "favourable"?`,
		`t.yaml:2:51: this must be a single character, not ";;"`,
		`t.yaml:2:63: this must be a whole number, 0 or more`,
		`t.yaml:2:15: data.label needs data.favourable`,
		`t.yaml:4:23: "numric" is not known here; did you mean "numeric"?`,
		`t.yaml:5:40: this must be a finite number, not ".nan"`,
		`t.yaml:5:51: this must be above 0`,
		`t.yaml:5:62: no value lies between 99 and 1`,
		`t.yaml:5:77: this must be above 0`,
		`t.yaml:6:41: feature "color": the value "red" is listed twice`,
		`t.yaml:6:72: feature "color": transitions name "bleu", which is not among its values; did you mean "blue"?`,
		`t.yaml:6:95: feature "color": 2 shares for 3 values`,
		`t.yaml:7:12: a feature named "hours" is listed above`,
		`t.yaml:7:48: this must be 0 or more`,
		`t.yaml:7:60: this must be above 0`,
		`t.yaml:7:75: this must be true or false, not "maybe"`,
		`t.yaml:8:5: a feature needs the key "name"`,
		`t.yaml:8:39: "up" is not known here; one of: any, increase, decrease`,
		`t.yaml:8:51: feature "": "values" means nothing for kind binary`,
		`t.yaml:9:5: feature "level": an ordinal feature needs its values, or bounds [lo, hi] and step`,
		`t.yaml:10:43: feature "degree": the values of an ordinal feature are numbers, and "two" is none`,
		`t.yaml:11:5: a feature must be a mapping of keys to values, not "7"`,
		`t.yaml:12:14: "l3" is not known here; did you mean "l1"?`,
		`t.yaml:12:27: "inverse-std" is not known here; did you mean "inverse_std"?`,
		`t.yaml:13:12: sparsity has no key "max_feature"; did you mean "max_features"?`,
		`t.yaml:14:1: the task file has no key "spartity"; did you mean "sparsity"?`,
	}
	_, err := Parse("t.yaml", []byte(file))
	must.Fail(t, err, "")
	got := strings.Split(err.Error(), "\n")
	for _, w := range want {
		at := slices.IndexFunc(got, func(g string) bool { return strings.HasPrefix(g, w) })
		if at < 0 {
			t.Errorf("missing: %s", w)
			continue
		}
		got = slices.Delete(got, at, at+1)
	}
	if len(got) > 0 {
		t.Errorf("unexpected: %q", got)
	}
}

func TestMistakes(t *testing.T) {
	ar, err := txtar.ParseFile(filepath.Join("testdata", "mistakes.txtar"))
	if err != nil || len(ar.Files) < 139 {
		t.Fatalf("%d files, %v", len(ar.Files), err)
	}
	files := slices.Concat(ar.Files, []txtar.File{
		{Name: "nested too deep", Data: bytes.Repeat([]byte("["), 5000)},
		{Name: "not UTF-8", Data: []byte("a: \xff")},
		{Name: "larger than 1 MiB", Data: bytes.Repeat([]byte("#"), 1<<20+1)},
	})
	for _, f := range files {
		_, err := Parse("t", f.Data)
		if must.Fail(t, err, f.Name); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one mistake: %v", err)
		}
	}
}

func TestParseReadsYAMLAndJSONAlike(t *testing.T) {
	want := must.Get(Parse("small.yaml", []byte(small)))(t)
	indented := strings.ReplaceAll(string(want.JSON()), "\n ", "\n\t")
	crlf := strings.ReplaceAll(small, "\n", "\r\n")
	for _, data := range []string{string(want.JSON()), indented, "\xef\xbb\xbf" + small, crlf} {
		got := must.Get(Parse("x", []byte(data)))(t)
		must.Same(t, want, got)
		must.Same(t, want.Hash(), got.Hash())
	}
	other := must.Get(Parse("x", []byte(strings.Replace(small, "max_increase: 20", "max_increase: 21", 1))))(t)
	if other.Hash() == want.Hash() {
		t.Error("different tasks have the same hash")
	}
}

func TestParseTakesTextAsWritten(t *testing.T) {
	task := must.Get(Parse("t", []byte(`version: 1
data: {label: y, favourable: 0, missing: [NA, ~x, 1e5], comment: "#", delimiter: "\t"}
features: [{name: a, kind: onehot, values: [1, 2.50, true, no]}, {name: b, kind: numeric, bounds: [null, 1e5]}]`)))(t)
	must.Same(t, Data{
		Label: "y", Favourable: "0", Missing: []string{"NA", "~x", "1e5"}, Preamble: Preamble{Comment: '#'}, Delimiter: '\t',
	}, task.Data)
	must.Same(t, []string{"1", "2.50", "true", "no"}, task.Features[0].Values())
	must.Same(t, [2]float64{math.Inf(-1), 1e5}, task.Features[1].Bounds, cmpopts.EquateNaNs())
}

package task

import (
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
)

const full = `version: 1
data: {label: outcome, favourable: yes, filter: [{column: age, min: 18}]}
features:
  - {name: age, kind: numeric, mean: 40, std: 10, actionable: false, quantiles: [18, 30, 40, 52, 90]}
  - {name: income, kind: numeric, mean: 30000, std: 20000, bounds: ["5%", 99%],
     quantiles: [0, 10000, 25000, 40000, 200000], mad: 12000}
  - {name: debt, kind: numeric, bounds: [0, 100%], step: 50, direction: decrease, quantiles: [0, 500, 9000], mad: 0}
  - {name: hours-per-week, kind: ordinal, bounds: [0, 80], step: 1, mad: 5, missing: [-1], quantiles: [0, 40, 80]}
  - {name: housing, kind: onehot, values: [rent, own, with family], switch_cost: 2}
  - {name: education, kind: onehot, values: [School, College, Masters],
     ordered: true, direction: increase, max_increase: 1}
  - {name: degree years, kind: numeric, actionable: false}
  - {name: grade, kind: thermometer, values: [D, C, B, A], shares: [0.9, 0.5, 0.1],
     max_change: 2, switch_cost: 1.5, subgroup: true}
  - {name: savings, kind: thermometer, thresholds: [100, 1000, 2500.5], direction: increase}
  - {name: sex, kind: binary, one: Male, actionable: false, mutable: false, subgroup: true}
  - {name: guarantor, kind: binary, one: "yes", zero: "no"}
  - {name: status, kind: onehot, values: [a, b], actionable: false, mutable: true}
links:
  - {from: education, to: degree years, map: {Masters: 16, School: 10, College: 13}}
  - {from: hours-per-week, to: age, scale: 0.01}
  - {from: income, to: age, scale: -1.0e-5}
constraints:
  - debt <= 0.5 * income
  - debt = 2 * (hours-per-week - 2)
  - housing in {rent, with family}
  - grade >= C
  - {if: [guarantor = no, education != Masters], then: debt < 5000}
  - {if: savings >= 1000, then: [housing = own, income > 1000]}
  - {at_most: 2, of: [income, housing, debt]}
cost: {norm: mixed, l1_ratio: 0.25, weights: inverse_mad, switches: encoded}
sparsity: {max_features: 3}
`

func TestEverythingIsRead(t *testing.T) {
	task := parse(t, full)
	f := map[string]*Feature{}
	for i := range task.Features {
		f[task.Features[i].Name] = &task.Features[i]
	}
	// 5 % is a fifth of the way to the second of five quantiles, 99 % 0.96 of the way to the last.
	if got := f["income"].Bounds; math.Abs(got[0]-2000) > 1e-6 || math.Abs(got[1]-(40000+0.96*160000)) > 1e-6 {
		t.Errorf("bounds of income: %v", got)
	}
	must.Same(t, [2]float64{0, 9000}, f["debt"].Bounds)
	mutable := ""
	for i := range task.Features {
		if !task.Features[i].Mutable {
			mutable += task.Features[i].Name
		}
	}
	if mutable != "sex" || !f["age"].Mutable || f["age"].Actionable || !f["status"].Mutable {
		t.Errorf("immutable: %s", mutable)
	}
	must.Same(t, []Link{
		{From: "education", To: "degree years", Map: [][2]string{{"School", "10"}, {"College", "13"}, {"Masters", "16"}}},
		{From: "hours-per-week", To: "age", Scale: 0.01},
		{From: "income", To: "age", Scale: -1e-5},
	}, task.Links)
	const eq = "debt = 2 * (hours-per-week - 2)"
	want := []Rule{
		{Text: "debt <= 0.5 * income", Then: []Inequality{{Text: "debt <= 0.5 * income", Terms: []Term{
			{"income", "", -0.5},
			{"debt", "", 1},
		}}}},
		{Text: eq, Then: []Inequality{
			{Text: eq, Terms: []Term{{"debt", "", 1}, {"hours-per-week", "", -2}}, Bound: -4},
			{Text: eq, Terms: []Term{{"debt", "", -1}, {"hours-per-week", "", 2}}, Bound: 4},
		}},
		{Text: "housing in {rent, with family}", Then: []Inequality{
			{
				Text: "housing in {rent, with family}", Terms: []Term{{"housing", "rent", -1}, {"housing", "with family", -1}},
				Bound: -1,
			},
		}},
		{Text: "grade >= C", Then: []Inequality{{Text: "grade >= C", Terms: []Term{
			{"grade", "C", -1},
			{"grade", "B", -1},
			{"grade", "A", -1},
		}, Bound: -1}}},
		{
			Text: "if guarantor = no and education != Masters then debt < 5000",
			If: []Inequality{
				{Text: "guarantor = no", Terms: []Term{{"guarantor", "no", -1}}, Bound: -1},
				{Text: "education != Masters", Terms: []Term{{"education", "Masters", 1}}},
			},
			Then: []Inequality{{Text: "debt < 5000", Terms: []Term{{"debt", "", 1}}, Bound: 5000, Strict: true}},
		},
		{
			Text: "if savings >= 1000 then housing = own and income > 1000",
			If:   []Inequality{{Text: "savings >= 1000", Terms: []Term{{"savings", "", -1}}, Bound: -1000}},
			Then: []Inequality{
				{Text: "housing = own", Terms: []Term{{"housing", "own", -1}}, Bound: -1},
				{Text: "income > 1000", Terms: []Term{{"income", "", -1}}, Bound: -1000, Strict: true},
			},
		},
		{Text: "at most 2 of income, debt, housing", AtMost: 2, Of: []string{"income", "debt", "housing"}},
	}
	must.Same(t, want, task.Rules)
	must.Same(t, Cost{Norm: Mixed, L1Ratio: 0.25, Weights: "inverse_mad", Eps: 1e-3, Switches: "encoded"}, task.Cost)
	inputs := "age income debt hours-per-week housing=rent housing=own housing=with family education=School " +
		"education=College education=Masters " +
		"degree years grade>=C grade>=B grade>=A savings>=100 savings>=1000 savings>=2500.5 sex guarantor status=a status=b"
	if got := strings.Join(task.InputNames(), " "); got != inputs || task.InputNames()[15] != "savings>=1000" {
		t.Errorf("inputs %s", got)
	}
}

func TestCanonicalFormOfEverything(t *testing.T) {
	task := parse(t, full)
	again := must.Get(Parse("x.json", task.JSON()))(t)
	must.Same(t, task, again)
	for _, c := range [][2]string{ // each is another task
		{"scale: 0.01", "scale: 0.02"},
		{"School: 10", "School: 9"},
		{"debt <= 0.5", "debt <= 0.6"},
		{"debt < 5000", "debt <= 5000"},
		{"at_most: 2", "at_most: 1"},
		{"l1_ratio: 0.25", "l1_ratio: 0.3"},
		{"switches: encoded", "switches: once"},
		{"ordered: true, direction: increase, max_increase: 1", "ordered: false"},
		{"2500.5", "2501"},
		{"switch_cost: 2", "switch_cost: 3"},
		{"mad: 5", "mad: 6"},
		{"[-1]", "[-2]"},
		{"missing: [-1]", "missing: []"},
		{"[0, 40, 80]", "[0, 41, 80]"},
		{"false, mutable: true", "false"},
	} {
		must.Same(t, 1, strings.Count(full, c[0]))
		if parse(t, strings.Replace(full, c[0], c[1], 1)).Hash() == task.Hash() {
			t.Errorf("%q is the same task as %q", c[1], c[0])
		}
	}
}

// older is a task as the format was before it had links, constraints and orders.
const older = "version: 1\nencoded: true\ndata: {comment: \"#\", columns: [a, b, c, d], filter: [{column: d, " +
	"not: x, max: 3}], drop: [d]}\nfeatures:\n" +
	"  - {name: a, kind: ordinal, values: [3, 1], actionable: false, weight: 2}\n  - {name: b, kind: onehot, " +
	"values: [x, <y>], actionable: false}\n" +
	"  - {name: c, kind: ordinal, bounds: [0, 4], step: 0.5, max_change: 1}\ncost: {norm: l2, weights: uniform}\n" +
	"sparsity: {max_features: 2}\n"

// TestHashesOfOldTasksStay holds the hashes of files that use nothing new: recipes in models name them.
func TestHashesOfOldTasksStay(t *testing.T) {
	for file, want := range map[string]string{
		small: "4654c82ee864fcecd3de8ba6180d87a3dbd21f2b73221fcfad7d6f2b5a6f9c00",
		older: "6bc7af8346ffb68424e766d62d217600810b96a5701c126784c32e62b48cc997",
	} {
		must.Same(t, want, parse(t, file).Hash())
	}
}

// encoded is a task of which training did more to the features than their kinds say.
const encoded = `version: 1
features:
  - {name: income, kind: numeric, log: 1, spread: 20000, mean: 10.25, std: 0.75, bounds: [0, null]}
  - {name: debt, kind: numeric, mean: 500, std: 100, clip: [0, 900]}
  - {name: rent, kind: numeric, log: 0, spread: 300, clip: [50, null]}
  - {name: grade, kind: ordinal, values: [1, 2, 4], log: 0, spread: 1, mean: 0.5, std: 0.5}
  - {name: job, kind: onehot, values: [clerk, cook, nurse], inputs: index}
  - {name: home, kind: onehot, values: [rent, own], inputs: drop_first}
  - {name: sex, kind: binary, one: F, zero: M, inputs: [-1, 1]}
  - {name: years, kind: thermometer, thresholds: [2, 5], inputs: onehot}
`

func TestInputsOfTraining(t *testing.T) {
	task := parse(t, encoded)
	if task.Dim() != 12 || task.ModelDim() != 10 || !task.Made() {
		t.Errorf("%d columns, %d inputs", task.Dim(), task.ModelDim())
	}
	again := must.Get(Parse("x.json", task.JSON()))(t)
	must.Same(t, task, again)
	for _, c := range [][2]string{
		{"log: 1", "log: 2"},
		{"spread: 20000", "spread: 2000"},
		{"mean: 10.25", "mean: 10"},
		{"[0, 900]", "[0, 901]"},
		{"inputs: index", "inputs: [[0], [1], [3]]"},
		{"[-1, 1]", "[-1, 2]"},
		{"drop_first", "onehot"},
		{"[2, 5], inputs: onehot", "[2, 5]"},
	} {
		other := parse(t, strings.Replace(encoded, c[0], c[1], 1))
		if other.Hash() == task.Hash() || other.EncodingHash() == task.EncodingHash() {
			t.Errorf("%q is the same task as %q", c[1], c[0])
		}
	}
	must.Same(t, [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, task.Features[7].Category().Made())
	p := read(t, task, "income,debt,rent,grade,job,home,sex,years\n20000,700,60,2,cook,own,F,3\n-1,0,60,2,cook,own,F,3\n"+
		"5,0,0,2,cook,,F,3\n5,0,0,4,,own,F,3\n", ReadOptions{})
	must.Same(t, []float32{1, 2, 0.2, 2, 0, 1, 0, 0, 1, 1, 1, 0}, p.X)
	want := []Problem{
		{Line: 3, Column: "income", Reason: "-1 has no logarithm (log: 1)"},
		{Line: 4, Column: "home", Reason: missingValue().Error()},
		{Line: 5, Column: "job", Reason: missingValue().Error()},
	}
	must.Same(t, want, p.Problems)
}

package draft

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/task"
)

// found lists the findings of a task file with the people of twenty that say one of the given things.
func found(t *testing.T, text string, about ...string) []string {
	t.Helper()
	var have []string
	for _, f := range check(t, head+text, twenty(), nil).Findings {
		for _, part := range about {
			if strings.Contains(f.Text, part) {
				have = append(have, fmt.Sprintf("%s: %s: %s", f.Level, f.About, f.Text))
				break
			}
		}
	}
	return have
}

// same fails unless the texts are those wanted.
func same(t *testing.T, have, want []string) {
	t.Helper()
	if strings.Join(have, "\n") != strings.Join(want, "\n") {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheckFindsChangesThatCannotBe(t *testing.T) {
	const number = "features:\n  - {name: income, kind: numeric, mean: 10500, std: 5766, "
	for _, c := range []struct{ name, text, want string }{
		{"small enough", number + "step: 1000, max_change: 1000}", ""},
		{"no step", number + "max_change: 1}", ""},
		{
			"a tenth of a step", number + "step: 1000, max_change: 100}",
			"problem: income: it is actionable, but no action can change it: its largest changes are less than the step 1000",
		},
		{
			"both ways", number + "step: 1000, max_increase: 100, max_decrease: 0}",
			"problem: income: it is actionable, but no action can change it: its largest changes are less than the step 1000",
		},
		{
			"the only way", number + "step: 1000, direction: increase, max_increase: 100}",
			"problem: income: it is actionable, but no action can change it: its largest changes are less than the step 1000",
		},
		{"the other way", number + "step: 1000, direction: increase, max_decrease: 100}", ""},
		{
			"one way", number + "step: 1000, max_increase: 100}",
			"warning: income: no action can increase it: max_increase 100 is less than the step 1000",
		},
		{
			"the other of two", number + "step: 1000, max_decrease: 100}",
			"warning: income: no action can decrease it: max_decrease 100 is less than the step 1000",
		},
		{
			"not at all", number + "max_change: 0}",
			"problem: income: it is actionable, but no action can change it: its largest changes are less than any change",
		},
		{"no decrease", number + "max_decrease: 0}", ""},
		{"nobody's action", number + "step: 1000, max_change: 100, actionable: false}", ""},
		{
			"values", "features:\n  - {name: grade, kind: ordinal, values: [1, 2, 3, 4], mean: 2.5, std: 1.1, max_change: 0.5}",
			"problem: grade: it is actionable, but no action can change it: its largest changes are less than the " +
				"distance of any two of its values",
		},
		{
			"places", "features:\n  - {name: grade, kind: thermometer, values: [1, 2, 3, 4], max_increase: 0.5, " +
				"direction: increase}",
			"problem: grade: it is actionable, but no action can change it: its largest changes are less than one place",
		},
		{"a place", "features:\n  - {name: grade, kind: onehot, values: [1, 2, 3, 4], ordered: true, max_change: 1}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			same(t, found(t, c.text+"\n", "no action can"), want)
		})
	}
}

func TestCheckFindsDeadLinks(t *testing.T) {
	features := func(income, debt string) string {
		return "features:\n  - {name: income, kind: numeric, mean: 10500, std: 5766.28" + income + "}\n  - {name: " +
			"debt, kind: numeric, mean: 1050, std: 576.63, actionable: false" + debt + "}\n" +
			"  - {name: score, kind: numeric, mean: 10, std: 6, actionable: false}\n  - {name: grade, kind: numeric, " +
			"mean: 2.5, std: 1.1}\n"
	}
	const chain = "links: [{from: income, to: debt, scale: 0.1}, {from: debt, to: score, scale: 0.01}]\n"
	of := func(from, to string) string {
		return fmt.Sprintf(
			"warning: link %s -> %s: no action changes %s, neither by itself nor through another link: this one moves nothing",
			from,
			to,
			from,
		)
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"alive", features("", "") + chain, nil},
		{"a source that stays", features(", actionable: false", "") + chain, []string{of("income", "debt"), of("debt",
			"score")}},
		{"a source with too small a change", features(", step: 100, max_change: 1", "") + chain, []string{of("income",
			"debt"), of("debt", "score")}},
		{"a source that only moves down", features(", step: 100, max_increase: 1", "") + chain, nil},
		{"the second alone", features("", "") + "links: [{from: debt, to: score, scale: 0.01}]\n", []string{of("debt",
			"score")}},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, found(t, c.text, "moves nothing"), c.want) })
	}
}

func TestCheckFindsConflicts(t *testing.T) {
	const features = "features:\n  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [0, 50000]}\n  " +
		"- {name: debt, kind: numeric, mean: 1050, std: 576, bounds: [0, 9000]}\n" +
		"  - {name: home, kind: onehot, values: [rent, own]}\n  - {name: grade, kind: ordinal, values: [1, 2, 3, 4], " +
		"mean: 2.5, std: 1.1}\n" +
		"  - {name: score, kind: numeric, mean: 10, std: 6, bounds: [0, 5], actionable: false}\n  - {name: same, " +
		"kind: thermometer, thresholds: [4, 5, 8]}\n"
	for _, c := range []struct {
		rules string
		want  []string // about and text
	}{
		{"income <= 5000, income >= 5000", nil},
		{
			"income <= 5000, income > 5000",
			[]string{`problem: constraint "income > 5000": no value of income within its bounds fulfils it together with ` +
				`"income <= 5000"`},
		},
		{
			"2 * income >= 30000, income < 12000",
			[]string{`problem: constraint "income < 12000": no value of income within its bounds fulfils it together ` +
				`with "2 * income >= 30000"`},
		},
		{"income > 50000", []string{`problem: constraint "income > 50000": no value of income within its bounds fulfils it`}},
		{"income >= 50000", nil},
		{"score >= 6", nil}, // never changes, so its bounds mean nothing
		{
			"score >= 6, score <= 5",
			[]string{`problem: constraint "score <= 5": no value of score within its bounds fulfils it together with ` +
				`"score >= 6"`},
		},
		{
			"grade > 2, grade < 3",
			[]string{`problem: constraint "grade < 3": no value of grade within its bounds fulfils it together with ` +
				`"grade > 2"`},
		},
		{"grade > 2, grade < 3.5", nil},
		{
			"same > 5, same < 8",
			[]string{`problem: constraint "same < 8": no value of same within its bounds fulfils it together with "same > 5"`},
		},
		{"same < 4", nil},
		{"debt >= income + 9000", nil},
		{
			"debt > income + 9000",
			[]string{`problem: constraint "debt > income + 9000": no values of income, debt within what bounds and other ` +
				`constraints leave of each fulfil it`},
		},
		{"income >= 20000, debt >= 0.5 * income", []string{
			`problem: constraint "debt >= 0.5 * income": no values of income, debt within what bounds and other ` +
				`constraints leave of each fulfil it`,
		}},
		{"debt >= 0.5 * income, income >= 20000", []string{
			`problem: constraint "debt >= 0.5 * income": no values of income, debt within what bounds and other ` +
				`constraints leave of each fulfil it`,
		}},
		{"2 * debt - income >= 100, income > 2 * debt - 100", []string{
			`problem: constraint "income > 2 * debt - 100": no values of income, debt within what bounds and other ` +
				`constraints leave of each fulfil it together with "2 * debt - income >= 100"`,
		}},
		{
			"home = rent, home != rent",
			[]string{`problem: constraint "home != rent": no value of home fulfils it together with "home = rent"`},
		},
		{"'home in {rent, own}', home != rent", nil},
		{"{if: home = own, then: [income < 100, income > 200]}", []string{
			`warning: constraint "if home = own then income < 100 and income > 200": what follows its condition is ` +
				`impossible, so no action may bring the condition about: no value of income within its bounds fulfils it`,
		}},
		{"income >= 20000, {if: home = own, then: income < 15000}", []string{
			`warning: constraint "if home = own then income < 15000": what follows its condition is impossible, so no ` +
				`action may bring the condition about: ` +
				`no value of income within its bounds fulfils it together with "income >= 20000"`,
		}},
		{"{if: home = own, then: income < 15000}, {if: home = rent, then: income > 15000}", nil},
		{"{if: home = own, then: home = rent}", nil},
	} {
		t.Run(c.rules, func(t *testing.T) {
			same(t, found(t, features+"constraints: ["+c.rules+"]\n", "no value of", "no values of"), c.want)
		})
	}
}

// A conflict is one: where the grid has a point that fulfils all constraints none is reported. Constraints over a
// single feature that nothing fulfils are always reported.
func TestConflictsAgainstGrid(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		half := func(name string, lo, hi int) float64 { return float64(rapid.IntRange(lo, hi).Draw(r, name)) / 2 }
		tk := &task.Task{}
		for _, name := range []string{"a", "b"} {
			lo := half("lo", 0, 6)
			f := task.Feature{Name: name, Kind: task.Numeric, Mutable: true, Bounds: [2]float64{lo, lo + half("width", 0, 6)}}
			if rapid.Bool().Draw(r, "levels") {
				f.Kind, f.Levels = task.Ordinal, []float64{f.Bounds[0], f.Bounds[1]}
			}
			tk.Features = append(tk.Features, f)
		}
		single := rapid.Bool().Draw(r, "single")
		for range rapid.IntRange(1, 4).Draw(r, "rules") {
			q := task.Inequality{Bound: half("bound", -10, 20), Strict: rapid.Bool().Draw(r, "strict")}
			for i, name := range []string{"a", "b"} {
				coef := float64(rapid.SampledFrom([]int{-2, -1, 1, 2}).Draw(r, "coef"))
				if i == 0 || !single && rapid.Bool().Draw(r, "both") {
					q.Terms = append(q.Terms, task.Term{Feature: name, Coef: coef})
				}
			}
			tk.Rules = append(tk.Rules, task.Rule{Then: []task.Inequality{q}})
		}
		c := &checker{t: tk, r: &Report{}}
		c.conflicts()
		possible := false
		for _, a := range grid(&tk.Features[0]) {
			for _, b := range grid(&tk.Features[1]) {
				all := true
				for i := range tk.Rules {
					all = all && allHold(tk.Rules[i].Then, func(name string) string {
						return task.Decimal(map[string]float64{
							"a": a,
							"b": b,
						}[name])
					})
				}
				possible = possible || all
			}
		}
		if possible && len(c.r.Findings) > 0 || single && !possible && len(c.r.Findings) == 0 {
			r.Fatalf("possible: %v, findings %+v", possible, c.r.Findings)
		}
	})
}

// grid returns the feature's values, an eighth apart when there are infinitely many: bounds and halved right sides of
// the test are quarters.
func grid(f *task.Feature) (all []float64) {
	if f.Levels != nil {
		return f.Levels
	}
	for v := f.Bounds[0]; v <= f.Bounds[1]; v += 0.125 {
		all = append(all, v)
	}
	return all
}

package draft

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cfq/task"
)

// twenty people: income 1000 to 20000, debt a tenth of it, home rent or own, grade 1 to 4, score with decimals.
func twenty() string {
	var b strings.Builder
	b.WriteString("income,debt,home,grade,score,same,label\n")
	for i := range 20 {
		fmt.Fprintf(&b, "%d,%d,%s,%d,%d.%02d,5,%s\n", 1000*(i+1), 100*(i+1), []string{"rent", "own", "?", "rent"}[i%4], 1+i%4,
			i, (i*37)%100, []string{"bad", "good"}[i/10])
	}
	return b.String()
}

const head = "version: 1\ndata: {label: label, favourable: good, missing: \"?\"}\n"

// check holds a task file against data.
func check(t *testing.T, text, data string, m Model) *Report {
	t.Helper()
	tk := parse(t, text)
	p, err := task.Read(t.Context(), write(t, "data.csv", data), tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), tk, Questions([]byte(text)), p, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckFinds(t *testing.T) {
	const (
		income = "  - {name: income, kind: numeric, mean: 10500, std: 5766.28}\n"
		debt   = "  - {name: debt, kind: numeric, mean: 1050, std: 576.63}\n"
		home   = "  - {name: home, kind: onehot, values: [rent, own], shares: [0.5, 0.25]}\n"
	)
	for _, c := range []struct {
		name, features, rest string
		want                 []string // "level: about: part of the text"
	}{
		{"nothing", income + debt + home, "", nil},
		{"a constraint that holds", income + debt, "constraints: [debt <= 0.5 * income]\n", nil},
		{
			"a constraint that nobody fulfils", income + debt, "constraints: [income <= debt]\n",
			[]string{"problem: constraint \"income <= debt\": no row"},
		},
		{
			"a constraint that many break", income + debt, "constraints: [income <= 15000]\n",
			[]string{"warning: constraint \"income <= 15000\": 25.0 % of the rows"},
		},
		{
			"a condition that never holds", income + debt + home, "constraints: [{if: income > 90000, then: home = own}]\n",
			[]string{"warning: constraint \"if income > 90000 then home = own\": its condition holds for no row"},
		},
		{"a rule for some", income + debt + home, "constraints: [{if: home = own, then: income >= 2000}]\n", nil},
		{
			"a rule that those break", income + debt + home, "constraints: [{if: home = own, then: income < 2000}]\n",
			[]string{"problem: constraint \"if home = own then income < 2000\": no row"},
		},
		{
			"a limit that limits nothing", income + "  - {name: debt, kind: numeric, mean: 1050, std: 576.63, " +
				"actionable: false}\n", "constraints: [{at_most: 1, of: [income, debt]}]\n",
			[]string{"warning: constraint \"at most 1 of income, debt\": it limits nothing"},
		},
		{
			"bounds in other units", "  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [0, 20]}\n", "",
			[]string{"problem: income: no row lies within the bounds [0, 20]"},
		},
		{
			"narrow bounds", "  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [3000, 19000]}\n", "",
			[]string{"warning: income: 15.0 % of the rows lie outside of the bounds [3000, 19000]: 2 below, 1 above"},
		},
		{
			"a step that is none", "  - {name: score, kind: numeric, mean: 10, std: 6, step: 1}\n", "",
			[]string{"warning: score: at most 5.0 % of the rows lie on one grid of step 1"},
		},
		{
			"a step beside the origin",
			"  - {name: income, kind: numeric, mean: 10500, std: 5766, step: 1000, bounds: [500, 20500]}\n", "", nil,
		},
		{
			"grades that nobody has", "  - {name: grade, kind: ordinal, bounds: [0.5, 4.5], step: 1, mean: 2.5, std: 1.1}\n", "",
			[]string{"problem: grade: no row has one of the grades"},
		},
		{
			"a grade too many", "  - {name: grade, kind: ordinal, values: [1, 2, 3, 4, 5], mean: 2.5, std: 1.1}\n", "",
			[]string{"warning: grade: no row has the value 5"},
		},
		{
			"a mean of other data", "  - {name: income, kind: numeric, mean: 20500, std: 5766}\n", "",
			[]string{"warning: income: mean is 20500 in the task and 10500 in the data, 1.7 of its standard deviations apart"},
		},
		{
			"a std of other data", "  - {name: income, kind: numeric, mean: 10500, std: 57}\n", "",
			[]string{"warning: income: std is 57 in the task and 5766.28 in the data"},
		},
		{"no mean and std", "  - {name: income, kind: numeric}\n", "", []string{"warning: income: without mean and std"}},
		{
			"a constant", income + "  - {name: same, kind: numeric, mean: 5, std: 1}\n", "",
			[]string{"warning: same: all rows have the value 5"},
		},
		{
			"a value that nobody has", "  - {name: home, kind: onehot, values: [rent, own, castle], shares: [0.5, 0.25, 0]}\n",
			"",
			[]string{
				"warning: home: the share of \"castle\" is 0, so that its weight is 1/eps", "warning: home: no row has the " +
					"value castle",
			},
		},
		{"shares of other data", "  - {name: home, kind: onehot, values: [rent, own], shares: [0.25, 0.5]}\n", "", []string{
			"warning: home: the share of \"rent\" is 0.25 in the task and 0.5 in the data", "warning: home: the share of " +
				"\"own\" is 0.5 in the task and 0.25 in the data",
		}},
		{
			"transitions for nobody",
			"  - {name: home, kind: onehot, values: [rent, own, castle], transitions: {castle: [rent]}, shares: [0.5, " +
				"0.25, 0.01]}\n", "",
			[]string{"problem: home: transitions let no row"},
		},
		{
			"nothing to do", strings.ReplaceAll(income, "}", ", actionable: false}"), "",
			[]string{"problem: features: no feature is actionable"},
		},
		{
			"sparsity", income + debt, "sparsity: {max_features: 3}\n",
			[]string{"warning: sparsity: max_features is 3, and 2 features can change"},
		},
		{
			"mutable by nothing", income + strings.ReplaceAll(debt, "}", ", actionable: false, mutable: true}"), "",
			[]string{"warning: debt: it may change as a side effect"},
		},
		{
			"links that the data bear out", income + strings.ReplaceAll(debt, "}", ", actionable: false}"),
			"links: [{from: income, to: debt, scale: 0.1}]\n", nil,
		},
		{
			"a link the wrong way", income + strings.ReplaceAll(debt, "}", ", actionable: false}"),
			"links: [{from: income, to: debt, scale: -0.1}]\n",
			[]string{"warning: link income -> debt: an increase moves it the other way than in the data, where their " +
				"correlation is 1"},
		},
		{
			"a map that the data contradict", home + "  - {name: grade, kind: ordinal, values: [1, 2, 3, 4], mean: 2.5, " +
				"std: 1.1, actionable: false}\n",
			"links: [{from: home, to: grade, map: {rent: 1, own: 2}}]\n",
			[]string{"warning: link home -> grade: 33.3 % of the rows"},
		},
		{
			"a map that nobody bears out", home + "  - {name: grade, kind: ordinal, values: [1, 2, 3, 4], mean: 2.5, " +
				"std: 1.1, actionable: false}\n",
			"links: [{from: home, to: grade, map: {rent: 3, own: 3}}]\n",
			[]string{"problem: link home -> grade: no row"},
		},
		{
			"a map over a number", income + "  - {name: grade, kind: ordinal, values: [1, 2, 3, 4], mean: 2.5, std: 1.1, " +
				"actionable: false}\n",
			"links: [{from: income, to: grade, map: {99000: 4}}]\n",
			[]string{"problem: link income -> grade: no row has a value of income"},
		},
		{
			"rows that cannot be read", income + "  - {name: home, kind: binary, one: own, zero: rent, shares: 0.25}\n", "",
			[]string{"warning: column home: 5 rows cannot be read, at line 4: the value is missing"},
		},
		{
			"rows that mostly cannot", income + "  - {name: grade, kind: ordinal, values: [1], mean: 1, std: 1.1}\n", "",
			[]string{"problem: column grade: 15 rows cannot be read", "warning: grade: all rows have the value 1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, head+"features:\n"+c.features+c.rest, twenty(), nil)
			var have []string
			for _, f := range r.Findings {
				have = append(have, fmt.Sprintf("%s: %s: %s", f.Level, f.About, f.Text))
			}
			if len(have) != len(c.want) {
				t.Fatalf("findings:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(c.want, "\n"))
			}
			for i, want := range c.want {
				if !strings.HasPrefix(have[i], want) {
					t.Errorf("finding %q, want %q", have[i], want)
				}
			}
			problems := 0
			for _, w := range c.want {
				if strings.HasPrefix(w, "problem") {
					problems++
				}
			}
			if r.Problems() != problems {
				t.Errorf("%d problems, want %d", r.Problems(), problems)
			}
		})
	}
}

func TestCheckCounts(t *testing.T) {
	r := check(
		t,
		head+"features:\n  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [3000, 19000], step: "+
			"2000}\n  - {name: home, kind: onehot, values: [rent, own]}\n"+
			"constraints: [income <= 15000, {if: home = own, then: income > 10000}]\n",
		twenty(),
		nil,
	)
	a, b := r.Features[0], r.Features[1]
	if a.Below != 2 || a.Above != 1 || a.Off != 10 || *a.Mean != 10500 || *a.Std != 5766.2813 {
		t.Errorf("%+v", a)
	}
	if b.Missing != 5 || !slices.Equal(b.Shares, []float64{0.5, 0.25}) {
		t.Errorf("%+v", b)
	}
	// Own are 2000, 6000, 10000, 14000 and 18000.
	want := []RuleCount{{"income <= 15000", 20, 5}, {"if home = own then income > 10000", 5, 3}}
	if !slices.Equal(r.Rules, want) || r.Rows != 20 || r.Read != 20 {
		t.Errorf("%+v", r)
	}
}

func TestCheckAsksTheModel(t *testing.T) {
	const text = head + "features: [{name: income, kind: numeric, mean: 10500, std: 5766}]\n"
	for _, c := range []struct {
		name, text string
		m          Model
		want       string // "" for no problem
	}{
		{"right", text, &linear{[]float64{9}, 0}, ""},
		{"wrong class", text, &linear{[]float64{-9}, 0}, "model: it decides 0.0 % of 20 rows as labelled"},
		{
			"no such class", strings.Replace(text, "features", "target: {index: 2}\nfeatures", 1), &linear{[]float64{9}, 0},
			"target.index: the model has no class 2",
		},
		{"no better than the majority", text, &linear{[]float64{0}, 1}, ""},
		{"an open question", text + "# QUESTION: why?\n", &linear{[]float64{9}, 0}, "question on line 4: why?"},
		{"inputs", text, &linear{[]float64{1, 1}, 1}, "model: the model has 2 inputs"},
	} {
		r := check(t, c.text, twenty(), c.m)
		switch {
		case c.want == "" && (r.Problems() > 0 || r.Score.Accuracy < 0.5 || r.Score.Majority != 0.5 ||
			r.Encoding != "unverified"):
			t.Errorf("%s: %+v, %+v", c.name, r.Findings, r.Score)
		case c.want != "" && (r.Problems() != 1 || !strings.HasPrefix(r.Findings[0].About+": "+r.Findings[0].Text, c.want)):
			t.Errorf("%s: %+v, want %q", c.name, r.Findings, c.want)
		}
	}
	// Without outcomes a model cannot be judged, and Check says that.
	r := check(t, strings.Replace(text, "label: label", "label: lable", 1), twenty(), &linear{[]float64{-9}, 0})
	if at := slices.IndexFunc(r.Findings, func(f Finding) bool {
		return f.About == "model" &&
			f.Level == Warning
	}); at < 0 || r.Score != nil {
		t.Errorf("%+v", r)
	}
	tk := parse(t, text)
	p, err := task.Read(t.Context(), write(t, "data.csv", twenty()), tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, tk, nil, p, failing{}); err == nil {
		t.Error("a model that fails is no finding")
	}
}

type failing struct{}

func (failing) Dim() int { return 1 }

func (failing) Logits(ctx context.Context, _ []float32) ([]float32, int, error) {
	return nil, 0, ctx.Err()
}

// Slack against sums by hand.
func TestRoom(t *testing.T) {
	values := map[string]string{"debt": "300", "income": "1000.5", "home": "rent", "n": "2.0", "gone": ""}
	value := func(name string) string { return values[name] }
	for _, c := range []struct {
		q     task.Inequality
		slack float64
		holds bool
	}{
		{task.Inequality{Terms: []task.Term{{Feature: "debt", Coef: 1}, {Feature: "income", Coef: -0.5}}}, 200.25, true},
		{task.Inequality{Terms: []task.Term{{Feature: "home", Value: "rent", Coef: 1}}, Bound: 1}, 0, true},
		{task.Inequality{Terms: []task.Term{{Feature: "home", Value: "rent", Coef: 1}}, Bound: 1, Strict: true}, 0, false},
		{task.Inequality{Terms: []task.Term{{Feature: "home", Value: "own", Coef: -1}}, Bound: -1}, -1, false},
		{task.Inequality{Terms: []task.Term{{Feature: "n", Value: "2", Coef: 3}}, Bound: 2}, -1, false},
		{task.Inequality{Terms: []task.Term{{Feature: "gone", Value: "x", Coef: 1}}}, 0, true},
	} {
		if got := room(&c.q, value); got != c.slack || holds(&c.q, value) != c.holds {
			t.Errorf("%+v: %v, %v; want %v, %v", c.q, got, holds(&c.q, value), c.slack, c.holds)
		}
	}
	missing := task.Inequality{Terms: []task.Term{{Feature: "gone", Coef: 1}}}
	if holds(&missing, value) || !(room(&missing, value) != room(&missing, value)) {
		t.Error("a missing number fulfils nothing")
	}
}

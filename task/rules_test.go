package task

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ruleFeatures have names and values that are easily misread.
const ruleFeatures = `version: 1
features:
  - {name: hours, kind: numeric}
  - {name: hours-per-week, kind: numeric}
  - {name: per, kind: numeric}
  - {name: capital gain, kind: numeric}
  - {name: a.b, kind: ordinal, bounds: [0, 9], step: 1}
  - {name: "2", kind: numeric}
  - {name: 2nd, kind: numeric}
  - {name: "-x", kind: numeric}
  - {name: "it's", kind: numeric}
  - {name: in, kind: numeric}
  - {name: größe, kind: numeric}
  - {name: color, kind: onehot, values: [red, red-ish, "dark, red", "<5", and]}
  - {name: school, kind: onehot, ordered: true, values: [low, mid, high]}
  - {name: band, kind: thermometer, values: [D, C, B]}
  - {name: steps, kind: thermometer, thresholds: [10, 20]}
  - {name: sex, kind: binary, one: m}
  - {name: member, kind: binary, one: "1", zero: "0"}
`

func TestConditions(t *testing.T) {
	g := newGrammar(parse(t, ruleFeatures))
	num := func(bound float64, strict bool, terms ...Term) Inequality {
		return Inequality{Terms: terms, Bound: bound, Strict: strict}
	}
	tenth := 0.1 // not a constant: the sum is that of float64
	n := func(feature string, coef float64) Term { return Term{Feature: feature, Coef: coef} }
	v := func(feature, value string, coef float64) Term { return Term{feature, value, coef} }
	for text, want := range map[string][]Inequality{
		"hours <= 3":                  {num(3, false, n("hours", 1))},
		"hours-per-week - 2 < 7":      {num(9, true, n("hours-per-week", 1))},
		"hours-per <= 0":              {num(0, false, n("hours", 1), n("per", -1))},
		"hours - per-week_<=1":        nil,
		"3>=hours":                    {num(3, false, n("hours", 1))},
		"hours > 2*(per + 1) - per/4": {num(-2, true, n("hours", -1), n("per", 1.75))},
		"- ( hours - - per ) == .5e1": {num(5, false, n("hours", -1), n("per", -1)), num(-5, false, n("hours", 1),
			n("per", 1))},
		"capital gain<=1e3":                    {num(1000, false, n("capital gain", 1))},
		"a.b <= 5":                             {num(5, false, n("a.b", 1))},
		"`2` <= 2":                             {num(2, false, n("2", 1))},
		"2nd <= 2":                             {num(2, false, n("2nd", 1))},
		"'-x' -x <= 2":                         nil,
		`"-x" <= 2`:                            {num(2, false, n("-x", 1))},
		`it's <= 2`:                            {num(2, false, n("it's", 1))},
		"in <= 2":                              {num(2, false, n("in", 1))},
		"größe*2 <= 2":                         {num(2, false, n("größe", 2))},
		"hours\n\t<=\n 3":                      {num(3, false, n("hours", 1))},
		"0.1*hours + 0.2*hours <= 0.3 + 0*per": {num(0.3, false, n("hours", tenth+2*tenth))},
		"steps >= 10":                          {num(-10, false, n("steps", -1))},
		"color = red":                          {num(-1, false, v("color", "red", -1))},
		"color == red-ish":                     {num(-1, false, v("color", "red-ish", -1))},
		"color = dark, red":                    {num(-1, false, v("color", "dark, red", -1))},
		"color != and":                         {num(0, false, v("color", "and", 1))},
		"color = <5":                           {num(-1, false, v("color", "<5", -1))},
		"color in {and, 'dark, red',red}": {num(-1, false, v("color", "red", -1), v("color", "dark, red", -1), v("color",
			"and", -1))},
		"`color` in{'red-ish', \"dark, red\"}": {num(-1, false, v("color", "red-ish", -1), v("color", "dark, red", -1))},
		"school >= mid":                        {num(-1, false, v("school", "mid", -1), v("school", "high", -1))},
		"school < mid":                         {num(-1, false, v("school", "low", -1))},
		"school <= mid":                        {num(-1, false, v("school", "low", -1), v("school", "mid", -1))},
		"band > D":                             {num(-1, false, v("band", "C", -1), v("band", "B", -1))},
		"sex = m":                              {num(-1, false, v("sex", "m", -1))},
		"sex != m":                             {num(0, false, v("sex", "m", 1))},
		"member = 1.0":                         {num(-1, false, v("member", "1", -1))},
		"member = 0":                           {num(-1, false, v("member", "0", -1))},
	} {
		got, err := g.parse(text)
		if want == nil {
			if err == nil {
				t.Errorf("%s: %v, want a mistake", text, got)
			}
			continue
		}
		for i := range got {
			if got[i].Text != text {
				t.Errorf("%s: text %q", text, got[i].Text)
			}
			got[i].Text = ""
		}
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, d)
		}
	}
}

func TestMistakesInConditions(t *testing.T) {
	g := newGrammar(parse(t, ruleFeatures))
	for text, want := range map[string]string{
		"":              "it is empty",
		"  ":            "it is empty",
		"hours":         "a comparison (<=, <, >=, >, =) is missing before the end",
		"hours <=":      "a feature or a number is missing before the end",
		"hours <= <= 3": `a feature or a number is missing before "<= 3"`,
		"hours <= 3 <= 5": `"<= 5" is left over; a constraint is one comparison, write others as entries ` +
			`of their own`,
		"hours <= 3 and per <= 2": `"and per <= 2" is left over; a constraint is one comparison, write others as ` +
			`entries of their own`,
		"hour <= 3": `there is no feature "hour"; did you mean "hours"?`,
		"hours <= income": `there is no feature "income"; one of: hours, hours-per-week, per, capital ` +
			`gain, a.b, 2, 2nd, -x, it's, in, größe, color, school, band, steps, sex, member`,
		"'hour' <= 3":              `there is no feature "hour"; did you mean "hours"?`,
		"'hours <= 3":              `the quote before "hours <= 3" is never closed`,
		"hours <= 5k":              `"5k" is not a number; write it as 1200.5, and a product as 2 * income`,
		"hours <= 1.2.3":           `".3" is left over`,
		"hours <= 1,000":           `",000" is left over`,
		"hours <= .":               `"." is not a number`,
		"hours <= 2 per":           `"per" is left over`,
		"hours * per <= 2":         `"hours * per" multiplies two features; one side of * must be a number`,
		"2 / hours <= 2":           `"/ hours" divides by a feature; only numbers may stand behind /`,
		"hours / 0 <= 2":           `"/ 0" divides by 0`,
		"(hours <= 2":              `a closing parenthesis is missing before "<= 2"`,
		"hours) <= 2":              `a comparison (<=, <, >=, >, =) is missing before ") <= 2"`,
		"hours <= hours":           "it says nothing about any feature",
		"1 <= 2":                   "it says nothing about any feature",
		"hours <= 1e308 * 100":     "a number in it is too large",
		"1e308 * 100 * hours <= 1": "a number in it is too large",
		"hours <= 1e999":           `"1e999" is not a number`,
		"hours != 3": `"!=" is for categories; numbers other than one are two ranges, and an action ` +
			`set needs one: write < or >`,
		"hours in {1, 2}":           "in is for categories; compare numbers with <=, <, >=, > or =",
		"hours => 3":                `a feature or a number is missing before "> 3"`,
		"color":                     `"color" is a category: compare it with =, != or in {...}, not with the end`,
		"color + 1 <= 2":            `"color" is a category: compare it with =, != or in {...}, not with "+ 1 <= 2"`,
		"hours <= color":            `"color" is onehot and no number; compare it alone, from the left, with =, != or in`,
		"color = reddish":           `"reddish" is no value of "color"; did you mean "red-ish"?`,
		"color = ":                  `"" is no value of "color"; one of: red, red-ish, "dark, red", <5, and`,
		"color = red and hours < 3": `"red and hours < 3" is no value of "color"; one of: red`,
		"color >= red": `the values of "color" have no order, so >= means nothing; set ordered: true ` +
			`on a one-hot feature whose values do, or use =, != or in`,
		"color in red": `the values behind in stand in braces, as color in {red, red-ish and 3 more}, ` +
			`not "red"`,
		"color in {}":                  `"" is no value of "color"`,
		"color in {red, red}":          `the value "red" stands in the braces twice`,
		"color in {red":                `a comma or '}' is missing before the end`,
		"color in {red] ":              `"red]" is no value of "color"; did you mean "red"?`,
		"color in {red} x":             `"x" is left over`,
		"color not red":                `"color" is a category: compare it with =, != or in {...}, not with "not red"`,
		"school < low":                 `no value of "school" is < "low"`,
		"band > B":                     `no value of "band" is > "B"`,
		"member >= 1":                  `the values of "member" have no order`,
		"sex = f":                      `"sex" is known by its value "m" only; write sex != m for the others`,
		strings.Repeat("(", 200) + "1": "it is nested too deep",
		strings.Repeat("-", 200) + "1": "it is nested too deep",
		strings.Repeat("hours+", 2000): "it is longer than 10000 characters",
		"\x00 <= 1":                    `a feature or a number is missing before "\x00 <= 1"`,
		"hours <= 3 # per week":        `"# per week" is left over`,
		"hours-per-weak <= 3":          `there is no feature "weak"; one of: `,
		"hours.min <= 3":               `there is no feature "hours.min"`,
		"color = red-i":                `"red-i" is no value of "color"; did you mean "red"?`,
		"capital gains <= 3":           `there is no feature "capital"`,
	} {
		got, err := g.parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestMistakesInConstraints(t *testing.T) {
	const features = "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}, {name: c, kind: " +
		"numeric}]\nconstraints:\n"
	const forms = `4:5: a constraint is a text such as "debt <= 0.5 * income", {if: ..., then: ...}, {then: ..., ` +
		`must: true} or `
	for _, c := range []struct{ rules, want string }{
		{"  - a <= d", `4:5: constraint "a <= d": there is no feature "d"; one of: a, b, c`},
		{"  - a <= 1\n  - b >= 2 <= 3", `5:5: constraint "b >= 2 <= 3": "<= 3" is left over`},
		{"  - {if: a > 1, then: [b < 2, b ~ 3]}", `4:31: constraint "b ~ 3": a comparison`},
		{"  - {if: a > 1}", forms},
		{"  - {then: a > 1}", forms},
		{"  - {at_most: 1, of: [a, b], must: true}", forms},
		{
			"  - a <= 3\n  - b <= 1\n  - {then: a - b >= 4.5, must: true}\n  - b > 0",
			`4:3: the constraints "a <= 3" and "a - b >= 4.5" and "b > 0" contradict each other`,
		},
		{"  - a + b < 3\n  - a + b >= 3", `"a + b < 3" and "a + b >= 3" contradict each other`},
		{"  - {if: [], then: b < 2}", `4:5: if and then need a condition each`},
		{"  - {at_most: 1}", forms},
		{"  - {at_most: 1, of: [a, b], then: a < 1}", forms},
		{"  - {}", `4:5: a constraint is a text such as "debt <= 0.5 * income"`},
		{
			"  - {at_most: 0, of: [a, b]}",
			`4:15: this must be a whole number, 1 or more`,
		},
		{"  - {at_most: 2, of: [a, b]}", `4:15: at_most 2 of 2 features is no limit`},
		{"  - {at_most: 1, of: [a, d]}", `4:26: there is no feature "d"; one of: a, b, c`},
		{"  - {at_most: 1, of: [a, b, a]}", `4:29: "a" is listed twice`},
		{"  - {at_most: 1, of: a}", `4:22: of must be a list, not "a"`},
		{"  - {at_most: 1.5, of: [a, b]}", `4:15: this must be a whole number, 1 or more`},
		{"  - {when: a < 1}", `a constraint has no key "when"; did you mean "then"?`},
		{"  - a <= 1\n  - a <= 1", `5:5: the constraint "a <= 1" is given twice; keep one`},
		{"  - {if: [a < 1, a < 1], then: b < 1}", `4:18: the condition "a < 1" is given twice; keep one`},
		{"  - [a < 1, b < 2]", `4:5: each constraint is an entry of its own, not a list of them`},
		{"  a < 1", `constraints must be a list, not "a < 1"`},
	} {
		wantMistake(t, features+c.rules+"\n", c.want)
	}
	// What is wrong with the features is not reported once more for each constraint.
	wantMistake(
		t,
		"version: 1\nfeatures: [{name: a, kind: numerik}]\nconstraints: [a < b, a > 1]\nlinks: [{from: x, to: a, "+
			"scale: 1}]\n",
		`"numerik" is not known here`,
	)
}

// tree is an arithmetic expression with its text and a direct evaluation.
type tree struct {
	text   string
	value  func(x []float64) float64
	linear bool // has a feature in it
}

var treeNames = []string{"hours", "hours-per-week", "capital gain", "`2`", "'-x'"}

func drawTree(t *rapid.T, depth int) tree {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		kind %= 2
	}
	blank := rapid.SampledFrom([]string{"", " "}).Draw(t, "blank")
	switch kind {
	case 0:
		c := float64(rapid.IntRange(0, 40).Draw(t, "c")) / 4
		return tree{blank + fmt.Sprint(c), func([]float64) float64 { return c }, false}
	case 1:
		i := rapid.IntRange(0, len(treeNames)-1).Draw(t, "feature")
		return tree{blank + treeNames[i] + blank, func(x []float64) float64 { return x[i] }, true}
	case 2:
		a := drawTree(t, depth-1)
		return tree{"-(" + a.text + ")", func(x []float64) float64 { return -a.value(x) }, a.linear}
	}
	a, b := drawTree(t, depth-1), drawTree(t, depth-1)
	switch {
	case kind == 3 && !(a.linear && b.linear):
		return tree{
			"(" + a.text + ")*(" + b.text + ")", func(x []float64) float64 { return a.value(x) * b.value(x) },
			a.linear || b.linear,
		}
	case kind == 4 && !b.linear && b.value(nil) != 0:
		return tree{
			"(" + a.text + ") / (" + b.text + ")", func(x []float64) float64 { return a.value(x) / b.value(x) },
			a.linear,
		}
	case kind == 5:
		return tree{a.text + "- (" + b.text + ")", func(x []float64) float64 { return a.value(x) - b.value(x) }, a.linear ||
			b.linear}
	}
	return tree{a.text + " +" + b.text, func(x []float64) float64 { return a.value(x) + b.value(x) }, a.linear || b.linear}
}

// An inequality evaluates as the expressions it was written as.
func TestConditionsEvaluateAsWritten(t *testing.T) {
	task := parse(t, ruleFeatures)
	g := newGrammar(task)
	columns := map[string]int{"hours": 0, "hours-per-week": 1, "capital gain": 2, "2": 3, "-x": 4}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTree(t, 4), drawTree(t, 4)
		op := rapid.SampledFrom([]string{"<=", "<", ">=", ">", "=", "=="}).Draw(t, "op")
		text := a.text + op + b.text
		read, err := g.parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "says nothing") {
				return
			}
			t.Fatalf("%s: %v", text, err)
		}
		x := rapid.SliceOfN(rapid.Float64Range(-100, 100), 5, 5).Draw(t, "x")
		left, right := a.value(x), b.value(x)
		size := 1 + math.Abs(left) + math.Abs(right)
		want := map[string][]float64{
			"<=": {left - right}, "<": {left - right}, ">=": {right - left}, ">": {right - left},
			"=": {left - right, right - left}, "==": {left - right, right - left},
		}[op]
		for i, q := range read {
			sum := -q.Bound
			for _, term := range q.Terms {
				sum += term.Coef * x[columns[term.Feature]]
			}
			if q.Strict != (op == "<" || op == ">") || math.Abs(sum-want[i]) > 1e-7*size*1000 {
				t.Fatalf("%s at %v: sum - bound is %v, strict %v; want %v", text, x, sum, q.Strict, want[i])
			}
		}
		if len(read) != len(want) {
			t.Fatalf("%s: %d inequalities", text, len(read))
		}
	})
}

// FuzzCondition: any text gives inequalities over features that there are, or a message; never a panic.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{
		"hours-per-week - 2 <= 0.5 * (per + `2`) / 3", "color in {red, 'dark, red'}", "school >= mid",
		"sex != m", "band in {D, C}", "'",
	} {
		f.Add(s)
	}
	task, err := Parse("rules.yaml", []byte(ruleFeatures))
	if err != nil {
		f.Fatal(err)
	}
	g := newGrammar(task)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := g.parse(text)
		if (err == nil) == (len(read) == 0) {
			t.Fatalf("%q: %d inequalities, %v", text, len(read), err)
		}
		for _, q := range read {
			if q.Text != text || len(q.Terms) == 0 || math.IsNaN(q.Bound) || math.IsInf(q.Bound, 0) {
				t.Fatalf("%q: %+v", text, q)
			}
			for _, term := range q.Terms {
				i := slices.Index(featureNames(task.Features), term.Feature)
				if i < 0 || term.Coef == 0 || math.IsNaN(term.Coef) || math.IsInf(term.Coef, 0) {
					t.Fatalf("%q: term %+v", text, term)
				}
				x := make([]float32, task.Features[i].Width)
				if (term.Value == "") != task.Features[i].Encoding.hasNumber() || term.Value != "" && task.Features[i].Encode(term.Value,
					x) != nil {
					t.Fatalf("%q: term %+v", text, term)
				}
			}
		}
	})
}

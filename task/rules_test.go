package task

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

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
	g := newConditionParser(parse(t, ruleFeatures))
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
			must.Fail(must.In(t, text, got), err, "")
			continue
		}
		for i := range got {
			must.Same(t, text, got[i].Text)
			got[i].Text = ""
		}
		must.Do(must.In(t, text), err)
		must.Same(must.In(t, text), want, got)
	}
}

// TestMistakesInConditions reads testdata/conditions.txt: on each line a condition, a tab, and what is wrong with it.
func TestMistakesInConditions(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("testdata", "conditions.txt")))(t)
	g := newConditionParser(parse(t, ruleFeatures))
	const deep, long = "it is nested too deep", "it is longer than 10000 characters"
	lines := append(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"),
		strings.Repeat("(", 200)+"1\t"+deep, strings.Repeat("-", 200)+"1\t"+deep, strings.Repeat("hours+", 2000)+"\t"+long,
		"\x00 <= 1\t"+`a feature or a number is missing before "\x00 <= 1"`)
	for _, line := range lines {
		text, want, _ := strings.Cut(line, "\t")
		must.Fail(t, must.Err(g.parse(text)), want)
	}
	if len(lines) < 55 {
		t.Errorf("%d conditions", len(lines))
	}
}

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

func TestConditionsEvaluateAsWritten(t *testing.T) {
	task := parse(t, ruleFeatures)
	g := newConditionParser(task)
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
		must.Same(must.In(t, text), len(want), len(read))
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
	task := must.Get(Parse("rules.yaml", []byte(ruleFeatures)))(f)
	g := newConditionParser(task)
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
				f := &task.Features[i]
				if (term.Value == "") != f.Encoding.hasNumber() || term.Value != "" && f.Encode(term.Value, x) != nil {
					t.Fatalf("%q: term %+v", text, term)
				}
			}
		}
	})
}

func TestRequire(t *testing.T) {
	const file = "version: 1\nfeatures: [{name: n, kind: numeric}, {name: job, kind: onehot, values: [a, b]}," +
		" {name: home, kind: onehot, values: [x, y]}]"
	for taken, want := range map[string]string{"": "the model refuses that", "b": `takes it for "b": so say with impute`} {
		k := parse(t, file)
		k.Require(1, nil, true, taken)
		p := read(t, k, "n,job,home\n1,a,x\n2,,y\n3,b,\n", ReadOptions{})
		if p.N != 2 || len(p.Problems) != 1 || p.Problems[0].Line != 3 || p.Problems[0].Column != "job" ||
			!strings.Contains(p.Problems[0].Reason, want) {
			t.Errorf("%d people, problems %v", p.N, p.Problems)
		}
	}
	k := parse(t, strings.Replace(file, "[a, b]}", "[a, b], impute: b}", 1))
	k.Require(1, nil, true, "b")
	must.Same(t, 2, read(t, k, "n,job,home\n1,a,x\n2,,y\n", ReadOptions{}).N)
	// Codes that a model looks up are inputs of their own.
	k = parse(t, "version: 1\nfeatures: [{name: n, kind: numeric}, {name: job, kind: onehot, values: [a, b], "+
		"inputs: [[2], [1]]}, {name: home, kind: binary, one: x}, {name: car, kind: onehot, values: [p, q], inputs: index}]")
	k.Require(0, nil, true, "")
	k.Require(1, []string{"0", "1", "2"}, false, "")
	k.Require(4, []string{"0", "1"}, false, "")
	k.Require(6, []string{"1", "2"}, false, "") // which has no code 0
	must.Same(t, [][]float64{{0, 0, 1}, {0, 1, 0}}, k.Features[1].Category().Made())
	must.Same(t, [][]float64{{1, 0}, {0, 1}}, k.Features[2].Category().Made())
	must.Same(t, [][]float64{{0}, {1}}, k.Features[3].Category().Made())
	must.Same(t, 7, k.ModelDim())
}

func TestLargeIntegers(t *testing.T) {
	values := []string{"9007199254740992", "9007199254740994", "7"}
	for raw, want := range map[string]int{
		"9007199254740993": -1, "9007199254740994": 1, "+9007199254740992": 0, "7.0": 2, "07": 2,
	} {
		must.Same(t, want, Find(values, raw))
	}
}

func TestMapsOfLinks(t *testing.T) {
	const features = `version: 1
features:
  - {name: school, kind: onehot, values: [None, "1"]}
  - {name: years, kind: numeric, actionable: false}
  - {name: grade, kind: ordinal, values: [1, 2.5, 4], actionable: false}
  - {name: age, kind: numeric}
  - {name: band, kind: thermometer, thresholds: [10, 20], actionable: false}
  - {name: sex, kind: binary, one: m, zero: f, actionable: false, mutable: false}
  - {name: rent, kind: binary, one: "yes", zero: "no", actionable: false}
links:
`
	task := parse(t, features+"  - {from: band, to: rent, map: {20: yes, '<10': no}}\n"+
		"  - {from: age, to: grade, map: {30: 2.5, 9: 1, 100: 4}}\n  - {from: school, to: years, map: {1.0: 3}}\n")
	must.Same(t, [][2]string{{"<10", "no"}, {"20", "yes"}}, task.Links[0].Map)
	must.Same(t, [][2]string{{"9", "1"}, {"30", "2.5"}, {"100", "4"}}, task.Links[1].Map)
	must.Same(t, [][2]string{{"1", "3"}}, task.Links[2].Map)
}

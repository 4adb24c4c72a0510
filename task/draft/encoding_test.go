package draft

import (
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

const people = `{"dataset": "people", "target": "favourable = 0", "features": [
	{"name": "age", "column": "age", "kind": "numeric", "mean": 40.25, "std": 12.125},
	{"name": "home=rent", "column": "home", "kind": "onehot", "value": "rent"},
	{"name": "home=own", "column": "home", "kind": "onehot", "value": "own"},
	{"name": "home=flat", "column": "home", "kind": "onehot", "value": "flat"},
	{"name": "sex", "column": "sex", "kind": "binary", "one": "f"}]}`

func encoding(t testing.TB, text string) *Encoding {
	t.Helper()
	return must.Get(parseEncoding([]byte(text)))(t)
}

func TestDeclaredEncoding(t *testing.T) {
	const data = "sex,home,zip,age,label\nm,rent,1,30,yes\nf,own,2,41,no\nm,?,3,52,yes\nf,flat,4,60,no\n"
	for name, text := range map[string]string{
		"an entry for each input": people,
		"one entry for a column": `{"target": "favourable=0", "features": [
			{"column": "age", "kind": "numeric", "mean": 40.25, "std": 12.125},
			{"column": "home", "kind": "onehot", "values": ["rent", "own", "flat"]},
				{"column": "sex", "kind": "binary", "one": "f", "zero": "m"}]}`,
	} {
		p := draft(t, open(t, data), Options{Label: "label", Favourable: "yes", Encoding: encoding(t, text)})
		if len(p.Questions) > 0 || p.Task.Target.Index != 0 || !slices.Equal(p.Task.Data.Drop, []string{"zip"}) {
			t.Errorf("%s: %+v\n%s", name, p.Questions, p.Text)
		}
		got, err := task.Read(t.Context(), write(t, "data.csv", data), p.Task, task.ReadOptions{})
		if err != nil || got.Failed > 0 {
			t.Fatalf("%s: %v, %+v", name, err, got)
		}
		age := func(v float64) float32 { return float32((v - 40.25) / 12.125) }
		want := []float32{age(30), 1, 0, 0, 0, age(41), 0, 1, 0, 1, age(52), 0, 0, 0, 0, age(60), 0, 0, 1, 1}
		if !slices.Equal(got.X, want) || !slices.Equal(got.Labels, []int8{1, 0, 1, 0}) {
			t.Errorf("%s: inputs %v, want %v; labels %v", name, got.X, want, got.Labels)
		}
	}
	for _, c := range []struct{ data, encoding, question string }{
		{strings.ReplaceAll(data, "flat", "tent"), people, "does not list tent"},
		{
			"sex,label\nM,yes\nF,no\n",
			`{"target": "favourable = 1", "features": [{"column": "sex", "kind": "binary", "one": "Female"}]}`,
			`"Female" is 1, but the values are`,
		},
	} {
		o := Options{Label: "label", Favourable: "yes", Encoding: encoding(t, c.encoding)}
		p := draft(t, open(t, c.data), o)
		if len(p.Questions) != 1 || !strings.Contains(p.Questions[0].Text, c.question) {
			t.Errorf("%+v", p.Questions)
		}
	}
}

func TestMistakesInEncodings(t *testing.T) {
	for _, c := range []struct{ features, want string }{
		{``, `the list "features" is empty`},
		{`{"column": "a"}`, `features[0] "": invalid kind "": want numeric, binary, onehot or thermometer`},
		{`{"kind": "numeric"}`, `the key "column" is missing`},
		{`{"column": "a", "kind": "numeric", "mean": 1}`, "mean and std belong together"},
		{`{"column": "a", "kind": "numeric", "mean": 1, "std": 0}`, "std must be above 0"},
		{`{"column": "a", "kind": "numeric", "men": 1}`, `unknown key "men"; did you mean "mean"?`},
		{`{"column": "a", "kind": "binary"}`, `needs the key "one"`},
		{`{"column": "a", "kind": "onehot"}`, `needs "value"`},
		{`{"column": "a", "kind": "onehot", "value": "x"}, {"column": "b", "kind": "numeric"}, {"column": "a", ` +
			`"kind": "onehot", "value": "y"}`, `column "a" occurs twice`},
		{`{"column": "a", "kind": "numeric", "clip": [600]}`, "this must be a pair [lo, hi]"},
		{`{"column": "a", "kind": "numeric", "clip": [2, 1]}`, "clip is a pair [lo, hi]"},
		{`{"column": "a", "kind": "numeric", "inputs": "index"}`, `"inputs" means nothing for kind numeric`},
		{`{"column": "a", "kind": "binary", "one": "x", "inputs": "onehot"}`, `a binary input has no "inputs"`},
		{`{"column": "a", "kind": "onehot", "values": ["x"], "inputs": "idx"}`, `inputs is index, drop_first`},
		{`{"column": "a", "kind": "onehot", "values": ["x"], "log": 1}`, `"log" means nothing for kind onehot`},
		{`{"column": "a", "kind": "thermometer", "thresholds": [2, 1]}`, "thresholds ascend"},
		{`{"column": "a", "kind": "thermometer", "thresholds": [1], "clip": [1, 2]}`, `"clip" means nothing`},
	} {
		_, err := parseEncoding([]byte(`{"features": [` + c.features + `]}`))
		must.Fail(t, err, c.want)
	}
	for text, want := range map[string]string{
		"[]": "byte", `{"features": []} {}`: "text follows",
		`{"target": "good = 1", "features": [{"column": "a", "kind": "numeric"}]}`: `invalid target "good = 1"`,
	} {
		_, err := parseEncoding([]byte(text))
		must.Fail(t, err, want)
	}
	for text, want := range map[string]string{
		`{"column": "zip", "kind": "numeric"}`:                `there is no column "zip"`,
		`{"column": "label", "kind": "binary", "one": "yes"}`: "is the outcome",
		`{"column": "home", "kind": "numeric"}`:               "has texts there: rent, own",
	} {
		_, err := fromTable(open(t, "home,label\nrent,yes\nown,no\n"), Options{
			Label:    "label",
			Encoding: encoding(t, `{"features": [`+text+`]}`),
		})
		must.Fail(must.In(t, text), err, want)
	}
}

func TestOpenClip(t *testing.T) {
	t.Parallel()
	in := encoding(t, `{"features": [{"column": "a", "kind": "numeric", "clip": [null, 3]}]}`).inputs[0]
	if got := in.Number().Clip; !math.IsInf(got[0], -1) || got[1] != 3 {
		t.Errorf("%v", got)
	}
}

func TestImputedNumbers(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	o := Options{
		Label: "label", Favourable: "good", inputs: 4, imputed: []float64{nan, nan, 0.5, 1250},
		Encoding: encoding(t, `{"features": [
			{"column": "housing", "kind": "onehot", "values": ["own", "rent"], "impute": "rent"},
			{"column": "Age", "kind": "numeric", "mean": 30, "std": 10},
			{"column": "income", "kind": "numeric"}]}`),
	}
	d := draft(t, open(t, applicants), o)
	for i, want := range []string{"rent", "35", "1250"} {
		if f := &d.Task.Features[i]; f.Impute != want {
			t.Errorf("%s: impute %q, want %q", f.Name, f.Impute, want)
		}
	}
	o.imputed = o.imputed[:3] // of another model
	if d = draft(t, open(t, applicants), o); d.Task.Features[1].Impute != "" {
		t.Errorf("%s", d.Text)
	}
}

func TestClearGain(t *testing.T) {
	rows := func(right, wrong int) []float64 {
		return append(slices.Repeat([]float64{1}, right), make([]float64, wrong)...)
	}
	for _, c := range []struct {
		before, after []float64
		want          bool
	}{
		{rows(35, 5), rows(36, 4), false},         // one of 40 people
		{rows(1700, 300), rows(1730, 270), false}, // 1.5 points of 2,000
		{rows(1200, 800), rows(1700, 300), true},
		{rows(25, 15), rows(36, 4), true},
		{rows(36, 4), rows(25, 15), false},
	} {
		if got := clearGain(c.before, c.after); (got > 0) != c.want {
			t.Errorf("%d rows: a gain of %g, want one %t", len(c.before), got, c.want)
		}
	}
}

// Any bytes are an encoding, or refused.
func FuzzEncoding(f *testing.F) {
	f.Add([]byte(people))
	f.Add([]byte(`{"features": [{"column": "a", "kind": "numeric"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := parseEncoding(text); err == nil && len(e.inputs) == 0 {
			t.Error("an encoding without inputs")
		}
	})
}

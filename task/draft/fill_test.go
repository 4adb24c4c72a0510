package draft

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/task"
)

// gapped is a data file whose statistics are easy: age 10, 20, ... 100; home rent 60 %; two of ten smoke.
func gapped() string {
	var b strings.Builder
	b.WriteString("age,home,smokes,label\n")
	for i := range 10 {
		fmt.Fprintf(&b, "%d,%s,%s,%s\n", 10*(i+1), []string{"rent", "own"}[i/6], []string{"yes", "no"}[min(1, i/2)],
			[]string{"good", "bad"}[i%2])
	}
	return b.String()
}

func fill(t testing.TB, text string) *Draft {
	t.Helper()
	path := write(t, "data.csv", gapped())
	return must.Get(Fill(t.Context(), "task.yaml", []byte(text), path, task.ReadOptions{}, nil))(t)
}

func TestFillWritesWhereThingsAreMissing(t *testing.T) {
	const quantiles = "[10, 10, 10, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 70, 70, 80, 80, 90, 90, 100, 100]"
	for _, c := range []struct{ name, have, want string }{
		{
			"one line",
			"version: 1\nfeatures:\n  - {name: age, kind: numeric, weight: 2} # why\n",
			"version: 1\nfeatures:\n  - {name: age, kind: numeric, weight: 2, bounds: [10, 100], mad: 20, quantiles: " +
				quantiles + "} # why\n",
		},
		{
			"lines",
			"version: 1\nfeatures:\n- name: age\n  # numbers\n  kind: 'numeric'   # of years\n\n  # not all of it\n  " +
				"actionable: false\n",
			"version: 1\nfeatures:\n- name: age\n  # numbers\n  kind: 'numeric' # of years\n\n  # not all of it\n  " +
				"actionable: false\n  mad: 20\n  quantiles: " + quantiles + "\n",
		},
		{
			"what is there stays",
			"version: 1\nfeatures:\n  - kind: numeric\n    name: age\n    bounds: [null, null]\n    mad: 3\n    mean: 1\n" +
				"    std: 2\n    quantiles: [1, 2]\n  - kind: onehot\n    name: home\n    values: [rent, own]\n  - {kind: " +
				"binary, name: smokes, one: yes}",
			"version: 1\nfeatures:\n  - kind: numeric\n    name: age\n    bounds: [null, null]\n    mad: 3\n    mean: 1\n" +
				"    std: 2\n    quantiles: [1, 2]\n  - kind: onehot\n    name: home\n    values: [rent, own]\n    shares: " +
				"[0.6, 0.4]\n  - {kind: binary, name: smokes, one: yes, shares: 0.2}\n",
		},
		{
			"JSON",
			`{"version": 1, "features": [` + "\t" + `{"name": "age", "kind": "numeric", "bounds": [0, 200], "quantiles": ` +
				`[1, 2]}]}`,
			`{"version": 1, "features": [{"name": "age", "kind": "numeric", "bounds": [0, 200], "quantiles": [1, 2], ` +
				`"mad": 20}]}` + "\n",
		},
		{
			"percentiles of what is missing",
			"version: 1\nfeatures:\n  - name: age\n    kind: numeric\n    bounds: [5%, \"95%\"]\n  - " +
				"{name: home, kind: onehot, values: [rent, own]}\n",
			"version: 1\nfeatures:\n  - name: age\n    kind: numeric\n    bounds: [5%, \"95%\"]\n    quantiles: " + quantiles +
				"\n    mad: 20\n  - {name: home, kind: onehot, values: [rent, own], shares: [0.6, 0.4]}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fill(t, c.have)
			must.Same(t, c.want, string(p.Text))
			if again := fill(t, c.want); string(again.Text) != c.want {
				t.Errorf("filling in twice is not filling in once:\n%s", cmp.Diff(c.want, string(again.Text)))
			}
		})
	}
}

func TestFillLeavesAllElse(t *testing.T) {
	data := write(t, "data.csv", gapped())
	rapid.Check(t, func(rt *rapid.T) {
		text := drawFile(rt)
		before := must.Get(task.Parse("task.yaml", []byte(text)))(rt)
		p := must.Get(Fill(t.Context(), "task.yaml", []byte(text), data, task.ReadOptions{}, nil))(rt)
		if have, want := comments(p.Text), comments([]byte(strings.TrimPrefix(text, "\xef\xbb\xbf"))); have != want {
			rt.Fatalf("comments %q, want %q", have, want)
		}
		for i := range before.Features {
			a, b := before.Features[i], p.Task.Features[i]
			lacks := false
			switch e := b.Encoding.(type) {
			case *task.Standardized:
				lacks = e.MAD == 0 || e.Quantiles == nil
				a.Number().MAD, a.Number().Quantiles, a.Bounds = e.MAD, e.Quantiles, b.Bounds
			case *task.Binary:
				lacks, a.Encoding = e.Shares == nil, e
			case *task.OneHot:
				was, _ := a.Encoding.(*task.OneHot)
				lacks, was.Shares = e.Shares == nil, e.Shares
			}
			if lacks {
				rt.Fatalf("%s lacks something:\n%s", b.Name, p.Text)
			}
			must.Same(rt, a, b)
		}
		must.Same(rt, before.Data, p.Task.Data)
	})
}

func drawFile(t *rapid.T) string {
	end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
	comment := func() string {
		return rapid.SampledFrom([]string{"", "", " # ", " # kind: numeric", " # ä: {[", "   #"}).Draw(t, "comment")
	}
	own := func(indent string) string {
		return rapid.SampledFrom([]string{"", "", indent + "# ein Wörtchen" + end, end}).Draw(t, "line")
	}
	quote := func(s string) string {
		return rapid.SampledFrom([]string{s, `"` + s + `"`, "'" + s + "'"}).Draw(t, "quotes")
	}
	var b strings.Builder
	starts := []string{"", "\xef\xbb\xbf", "\xef\xbb\xbf# größer" + end, "---" + end}
	b.WriteString(rapid.SampledFrom(starts).Draw(t, "start"))
	b.WriteString("version: 1" + comment() + end + own("") + "data: {label: label, favourable: good}" + end +
		"features:" + comment() + end)
	features := [][]string{
		{"name: " + quote("age"), "kind: " + quote("numeric"), "step: 10", "weight: 2"},
		{"name: 'hömé'", "column: home", "kind: " + quote("onehot"), "values: [rent, own]"},
		{"name: smokes", "kind: binary", "one: \"yes\"", "actionable: false"},
	}
	if rapid.Bool().Draw(t, "scaled") {
		features[0] = append(features[0], "mean: 1", "std: 3")
	}
	base := rapid.SampledFrom([]string{"", "  ", "    "}).Draw(t, "indent")
	for _, keys := range features {
		keys = rapid.Permutation(keys).Draw(t, "keys")
		if rapid.Bool().Draw(t, "flow") {
			sep := rapid.SampledFrom([]string{", ", "," + end + base + "   ", " ,  "}).Draw(t, "separator")
			b.WriteString(own(base) + base + "- {" + strings.Join(keys, sep) + "}" + comment() + end)
			continue
		}
		lead := base + "- "
		for _, k := range keys {
			b.WriteString(lead + k + comment() + end)
			lead = base + "  "
			b.WriteString(own(lead))
		}
	}
	if rapid.Bool().Draw(t, "more") {
		b.WriteString(own("") + "sparsity: {max_features: 2}" + comment())
	}
	return b.String()
}

func TestFillRefuses(t *testing.T) {
	data := write(t, "data.csv", gapped())
	for _, c := range []struct{ text, want string }{
		{"version: 1\nencoded: true\nfeatures: [{name: age, kind: numeric}]\n", "encoded: true"},
		{"version: 1\nfeatures: [{name: agee, kind: numeric}]\n", `did you mean "age"`},
		{"version: 1\nfeatures: [{name: age, kind: numeri}]\n", "numeric"},
		{"version: 1\nfeatures: [{name: age, kind: numeric, bounds: [1%, 200%]}]\n", "percentile"},
		{"not a task", "mapping"},
	} {
		_, err := Fill(t.Context(), "task.yaml", []byte(c.text), data, task.ReadOptions{}, nil)
		must.Fail(t, err, c.want)
	}
}

func TestFillTakesTheDeclaredScale(t *testing.T) {
	e := encoding(t, `{"features": [{"column": "age", "kind": "numeric", "mean": 50.5, "std": 20}]}`)
	const text = "version: 1\nfeatures: [{name: years, column: age, kind: numeric}]\n"
	p, err := Fill(t.Context(), "task.yaml", []byte(text), write(t, "data.csv", gapped()), task.ReadOptions{}, e)
	if err != nil || p.Task.Features[0].Number().Mean != 50.5 || p.Task.Features[0].Number().Std != 20 {
		t.Errorf("%v\n%s", err, p.Text)
	}
}

func TestFillGivesBackWhatWasTakenAway(t *testing.T) {
	loans := filepath.Join("..", "..", "testdata", "loans")
	byHand := must.Get(task.Load(filepath.Join(loans, "task.yaml")))(t)
	bare := regexp.MustCompile(`"shares": (\[[^]]*\]|[0-9.]+),`).ReplaceAll(byHand.JSON(), nil)
	p := must.Get(Fill(t.Context(), "task.json", bare, filepath.Join(loans, "train.csv"), task.ReadOptions{}, nil))(t)
	for i := range byHand.Features {
		want, have := shares(&byHand.Features[i]), shares(&p.Task.Features[i])
		if want != nil && !slices.EqualFunc(*have, *want, func(a, b float64) bool { return math.Abs(a-b) < 1e-5 }) {
			t.Errorf("%s: shares %v, want %v", byHand.Features[i].Name, *have, *want)
		}
	}
}

func shares(f *task.Feature) *[]float64 {
	switch e := f.Encoding.(type) {
	case *task.Binary:
		return &e.Shares
	case *task.OneHot:
		return &e.Shares
	}
	return nil
}

// Any bytes are read or refused, and a draft made of them is a task file.
func FuzzFromData(f *testing.F) {
	f.Add([]byte("a,b,label\n1,x,good\n2,y,bad\n3,x,good\n"))
	f.Add([]byte("# c\n\"a;\";b\n1;?\n2; z\n"))
	f.Add([]byte("|x\n 1, 2\n 3, 4\n"))
	f.Add([]byte("h_a,h_b,d\n0,1,y\n1,0,n\n1,0,y\n0,1,n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readFrom(t.Context(), bytes.NewReader(data), nil, task.ReadOptions{})
		if err != nil {
			return
		}
		if _, err := fromTable(table, Options{File: "data.csv"}); err != nil && strings.Contains(err.Error(),
			"mistake of this program") {
			t.Fatal(err)
		}
	})
}

// Any task file that package task reads can be filled in, or is refused; what is filled in is still a task file with
// the same comments.
func FuzzFill(f *testing.F) {
	for _, text := range []string{
		"version: 1\nfeatures:\n  - {name: age, kind: numeric}\n",
		"version: 1\nfeatures:\n- name: home\n  kind: onehot\n  values: [rent, own]\n",
		`{"version": 1, "features": [{"kind": "binary", "name": "smokes", "one": "yes"}]}`,
		"version: 1\r\n# c\r\nfeatures:\r\n- name: age\r\n  # d\r\n  kind: numeric\r\n",
		"version: 1\nfeatures:\n  - ? kind\n    : numeric\n    name: age\n",
	} {
		f.Add([]byte(text))
	}
	data := write(f, "data.csv", gapped())
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Fill(t.Context(), "task.yaml", text, data, task.ReadOptions{}, nil)
		if err != nil {
			return
		}
		must.Same(t, comments(text), comments(p.Text))
	})
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

package task

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cfq/internal/config"
	"cfq/internal/must"
)

type section struct {
	title string
	keys  []key
}

func sections() []section {
	t := &Task{}
	d := newDecoder("", t)
	features, _ := d.featureKeys(t, &Feature{})
	all := []section{
		{"The task file", d.taskKeys(t)},
		{"`data`", d.dataKeys(&t.Data)},
		{"A condition of `data.filter`", d.filterKeys(&Condition{})},
		{"`target`", d.targetKeys(&t.Target)},
		{"A feature of `features`", features},
		{"A link of `links`", d.linkKeys(&Link{})},
		{"A constraint of `constraints`", d.ruleKeys(&Rule{})},
		{"`cost`", d.costKeys(&t.Cost)},
		{"`sparsity`", d.sparsityKeys(t)},
		{"`latent`", d.latentKeys(t, &Latent{})},
	}
	for _, s := range all {
		object(s.title, s.keys)()
	}
	return all
}

func kindsOf(key string) []string {
	var names []string
	for _, e := range encodings() {
		t := &Task{}
		own, _ := newDecoder("", t).featureKeys(t, &Feature{Encoding: e})
		if slices.ContainsFunc(own, func(k config.Key) bool { return k.Name == key }) {
			names = append(names, e.Kind())
		}
	}
	if len(names) == len(kinds()) {
		return []string{"all"}
	}
	return names
}

func blocks(kind string) (out []string) {
	for i, s := range strings.Split(reference, "```") {
		if text, ok := strings.CutPrefix(s, kind+"\n"); ok && i%2 == 1 {
			out = append(out, text)
		}
	}
	return out
}

func TestMarkdownHasEveryKey(t *testing.T) {
	rows := 0
	for _, s := range sections() {
		for _, r := range s.keys {
			rows++
			row := "\n| `" + r.Name + "` | " + r.Doc + " | " + r.Fallback + " |"
			if r.Fallback == required {
				row = strings.Replace(row, required+" |", "**required** |", 1)
			}
			if strings.HasPrefix(s.title, "A feature") {
				row += " " + strings.Join(kindsOf(r.Name), ", ") + " |"
			}
			if len(r.Doc) < 15 || r.Fallback == "" || !strings.Contains(reference, row+"\n") {
				t.Errorf("%s: the page lacks %q", s.title, row)
			}
		}
	}
	must.Same(t, rows, strings.Count(reference, "\n| `"))
	must.Has(t, reference, "`"+strings.Join(overrideColumns(), "`, `")+"`")
}

func TestMarkdownTellsTheDefaults(t *testing.T) {
	features := map[string]string{
		"numeric": "name: a, kind: numeric", "ordinal": "name: a, kind: ordinal, values: [1, 2]",
		"binary": "name: a, kind: binary, one: x", "onehot": "name: a, kind: onehot, values: [x, y]",
		"image": "name: a, kind: image, shape: [1, 2, 2]",
	}
	context := map[string]string{"l1_ratio": ", norm: mixed"}            // what a key needs beside it
	partner := map[string]string{"mean": ", std: 1", "std": ", mean: 0"} // these two are given together
	files := func(title, entry string) (with, without string) {
		const plain = "version: 1\nfeatures: [{name: a, kind: numeric}]\n"
		switch {
		case title == "The task file":
			return plain + entry, plain
		case strings.Contains(title, "feature"):
			key, _, _ := strings.Cut(entry, ":")
			kind := "onehot"
			if names := kindsOf(key); names[0] != "all" {
				kind = names[0]
			}
			bare := "version: 1\nfeatures: [{" + features[kind]
			return bare + ", " + entry + partner[key] + "}]", bare + "}]"
		default:
			key, _, _ := strings.Cut(entry, ":")
			if c := context[key]; c != "" {
				plain := plain + strings.Trim(title, "`") + ": {"
				return plain + entry + c + "}", plain + c[2:] + "}"
			}
			return plain + fmt.Sprintf("%s: {%s}", strings.Trim(title, "`"), entry), plain
		}
	}
	literal, tried := regexp.MustCompile("^`(.+)`$"), 0
	for _, s := range sections() {
		for _, r := range s.keys {
			value := literal.FindStringSubmatch(r.Fallback)
			if value == nil {
				continue
			}
			tried++
			with, without := files(s.title, r.Name+": "+value[1])
			got, err := Parse("with", []byte(with))
			if err != nil {
				t.Errorf("%s: %v\n%s", s.title, err, with)
				continue
			}
			want := must.Get(Parse("without", []byte(without)))(t)
			must.Same(must.In(t, s.title, value[1], r.Name), want, got)
		}
	}
	if tried < 20 {
		t.Errorf("%d literal defaults tried", tried)
	}
}

func TestMarkdownExample(t *testing.T) {
	task := must.Get(Parse("example.yaml", []byte(blocks("yaml")[0])))(t)
	csv, said := blocks("text")[0], blocks("text")[1]
	p := must.Get(ReadFrom(context.Background(), strings.NewReader(csv), task, ReadOptions{}))(t)
	var got []string
	for i := range p.N {
		var words []string
		for _, v := range p.X[i*p.Dim : (i+1)*p.Dim] {
			words = append(words, fmt.Sprint(v))
		}
		got = append(got, strings.Join(append(words, []string{"refused", "approved"}[p.Labels[i]]), " "))
	}
	for _, prob := range p.Problems {
		got = append(got, fmt.Sprintf("line %d, column %s: %s", prob.Line, prob.Column, prob.Reason))
	}
	var want []string
	for line := range strings.Lines(said) {
		want = append(want, strings.Join(strings.Fields(line), " "))
	}
	must.Same(t, want, got)
}

func TestMarkdownConstraints(t *testing.T) {
	const features = `version: 1
features:
  - {name: debt, kind: numeric}
  - {name: income, kind: numeric}
  - {name: savings, kind: numeric}
  - {name: amount, kind: numeric}
  - {name: months, kind: numeric}
  - {name: housing, kind: onehot, values: [rent, own, family]}
  - {name: education, kind: thermometer, values: [School, Bachelors, Masters]}
  - {name: employment, kind: onehot, values: [unemployed, salaried]}
`
	block := blocks("yaml")[1]
	if task := parse(t, features+block); len(task.Rules) != strings.Count(block, "\n  - ") || len(task.Rules) < 6 {
		t.Errorf("%d constraints of\n%s", len(task.Rules), block)
	}
	table := blocks("text")[2]
	got, err := loadOverrides(t, parse(t, blocks("yaml")[0]), table)
	if err != nil || len(got) != 3 || got[0].With.MaxIncrease != 2000 || got[1].With.Bounds[1] != 12000 ||
		got[2].With.Actionable {
		t.Errorf("%+v, %v", got, err)
	}
}

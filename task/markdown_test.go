package task

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdownHasEveryKey(t *testing.T) {
	page := Markdown()
	for _, s := range sections() {
		if !strings.Contains(page, "\n## "+s.title+"\n") || len(s.rules) == 0 {
			t.Errorf("no section %q, or no keys in it", s.title)
		}
		for _, r := range s.rules {
			if len(r.doc) < 15 || r.fallback == "" {
				t.Errorf("%s: key %q: doc %q, fallback %q", s.title, r.key, r.doc, r.fallback)
			}
			if !strings.Contains(page, "| `"+r.key+"` | "+r.doc+" |") {
				t.Errorf("%s: the page has no row of key %q", s.title, r.key)
			}
			if strings.Count(r.doc+r.fallback, "`")%2 != 0 || strings.ContainsAny(r.doc+r.fallback, "|\n~") {
				t.Errorf("%s: key %q breaks the table", s.title, r.key)
			}
		}
	}
	if strings.Contains(page, "~") {
		t.Error("a ~ is left on the page")
	}
}

// TestMarkdownTellsTheDefaults writes every literal default of the page into a task file: it must mean the same as leaving the key out.
func TestMarkdownTellsTheDefaults(t *testing.T) {
	features := map[Kind]string{
		Numeric: "name: a, kind: numeric", Ordinal: "name: a, kind: ordinal, values: [1, 2]",
		Binary: "name: a, kind: binary, one: x", OneHot: "name: a, kind: onehot, values: [x, y]",
	}
	partner := map[string]string{"mean": ", std: 1", "std": ", mean: 0"} // these two are given together
	files := func(title, entry string) (with, without string) {
		const plain = "version: 1\nfeatures: [{name: a, kind: numeric}]\n"
		switch {
		case title == "The task file":
			return plain + entry, plain
		case strings.Contains(title, "feature"):
			key, _, _ := strings.Cut(entry, ":")
			kind := OneHot
			if names := kindsOf(key); names[0] != "all" {
				kind = Kind(names[0])
			}
			bare := "version: 1\nfeatures: [{" + features[kind]
			return bare + ", " + entry + partner[key] + "}]", bare + "}]"
		default:
			return plain + fmt.Sprintf("%s: {%s}", strings.Trim(title, "`"), entry), plain
		}
	}
	literal, tried := regexp.MustCompile("^`(.+)`$"), 0
	for _, s := range sections() {
		for _, r := range s.rules {
			value := literal.FindStringSubmatch(r.fallback)
			if value == nil {
				continue
			}
			tried++
			with, without := files(s.title, r.key+": "+value[1])
			got, err := Parse("with", []byte(with))
			if err != nil {
				t.Errorf("%s: %v\n%s", s.title, err, with)
				continue
			}
			want, err := Parse("without", []byte(without))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %q is not the default of %q:\n%s", s.title, value[1], r.key, d)
			}
		}
	}
	if tried < 17 {
		t.Errorf("%d literal defaults tried", tried)
	}
}

func TestMarkdownKinds(t *testing.T) {
	want := map[string][]string{
		"name": {"all"}, "weight": {"all"}, "actionable": {"all"}, "mean": {"numeric", "ordinal"},
		"values": {"ordinal", "onehot"}, "direction": {"numeric", "ordinal", "binary"}, "transitions": {"onehot"},
	}
	for key, kinds := range want {
		if got := kindsOf(key); !slices.Equal(got, kinds) {
			t.Errorf("%s: %v, want %v", key, got, kinds)
		}
	}
}

// TestMarkdownExample reads the data file of the page with the task file of the page, and compares with what the page says comes out.
func TestMarkdownExample(t *testing.T) {
	task, err := Parse("example.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(exampleData, "~~~")
	csv, said := strings.TrimPrefix(blocks[1], "text\n"), strings.TrimPrefix(blocks[3], "text\n")
	p, err := ReadFrom(context.Background(), strings.NewReader(csv), task, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDemoTaskLoads(t *testing.T) {
	task, err := Load(filepath.Join("..", "testdata", "loans", "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Read(context.Background(), filepath.Join("..", "testdata", "loans", "test.csv"), task, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.N == 0 || p.Failed > 0 {
		t.Errorf("%d people, %d rows that cannot be read", p.N, p.Failed)
	}
}

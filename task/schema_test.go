package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// keepForSchema holds the files that the decoder accepts and refuses against testdata/schema.txtar, from which
// internal/tools/command takes them to hold them against the JSON Schema. Set UPDATE=1 to write it anew.
func keepForSchema(t *testing.T, good, bad []string) {
	t.Helper()
	ar := &txtar.Archive{}
	for _, part := range []struct {
		name  string
		files []string
	}{{"good", good}, {"bad", bad}} {
		for i, f := range part.files {
			f = strings.TrimSuffix(f, "\n") + "\n"
			ar.Files = append(ar.Files, txtar.File{Name: fmt.Sprintf("%s %d", part.name, i+1), Data: []byte(f)})
		}
	}
	path := filepath.Join("testdata", "schema.txtar")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, txtar.Format(ar)) {
		t.Errorf("%s is not as this test says; UPDATE=1 writes it (%v)", path, err)
	}
}

// Mistakes of form are mistakes to the decoder and to the schema.
func TestForm(t *testing.T) {
	var good []string
	for _, file := range []string{full, small, blocks("yaml")[0], ruleFeatures, string(parse(t, full).JSON())} {
		parse(t, file)
		good = append(good, file)
	}
	feature := func(keys string) string { return "version: 1\nfeatures: [{" + keys + "}]\n" }
	const plain = "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}]\n"
	bad := []string{
		"features: [{name: a, kind: numeric}]",
		"version: 1",
		"version: 2\nfeatures: [{name: a, kind: numeric}]",
		"version: 1\nfeatures: []",
		"[1]",
		plain + "spartity: {}",
		plain + "encoded: 1",
		plain + "data: {delimiter: ';;'}",
		plain + "data: {skip: -1}",
		plain + "data: {filter: [{min: 1}]}",
		plain + "target: {class: unfavourable}",
		plain + "target: {margin: -1}",
		plain + "sparsity: {max_features: 1.5}",
		plain + "cost: {norm: l3}",
		plain + "cost: {norm: mixed, l1_ratio: 2}",
		plain + "cost: {eps: 0}",
		plain + "cost: {switches: twice}",
		feature(
			"name: a",
		),
		feature("kind: numeric"),
		feature("name: a, kind: number"),
		feature("name: a, kind: numeric, std: 0, mean: 0"),
		feature(
			"name: a, kind: numeric, bounds: [1]",
		),
		feature("name: a, kind: numeric, bounds: [1, 2, 3]"),
		feature("name: a, kind: numeric, bounds: [low, 2]"),
		feature(
			"name: a, kind: numeric, direction: up",
		),
		feature("name: a, kind: numeric, actionable: maybe"),
		feature("name: a, kind: numeric, weight: 0"),
		feature(
			"name: a, kind: numeric, max_change: -1",
		),
		feature("name: a, kind: numeric, step: 0"),
		feature("name: a, kind: numeric, quantiles: 3"),
		feature(
			"name: a, kind: onehot, values: [x], shares: [2]",
		),
		feature("name: a, kind: onehot, values: [x], transitions: [x]"),
		feature(
			"name: a, kind: numeric, step_direction: 2",
		),
		feature("name: a, kind: numeric, step_lb: 2"),
		feature("name: a, kind: numeric, immutable: true"),
		plain + "links: [{from: a}]",
		plain + "links: [{from: a, to: b, by: 2}]",
		plain + "links: {from: a, to: b, scale: 2}",
		plain + "links: [{from: a, to: b, map: [1]}]",
		plain + "constraints: a < 1",
		plain + "constraints: [3]",
		plain + "constraints: [{if: a < 1}]",
		plain + "constraints: [{at_most: 0, of: [a, b]}]",
		plain + "constraints: [{at_most: 1, of: a}]",
		plain + "constraints: [{if: a < 1, then: b < 1, at_most: 2}]",
		plain + "immutables: [a]",
	}
	for _, file := range bad {
		if _, err := Parse("t", []byte(file)); err == nil {
			t.Errorf("the decoder accepts\n%s", file)
		}
	}
	keepForSchema(t, good, bad)
}

// TestSchemaHasEveryKey: each mapping of the reference page is in the schema, with descriptions free of Markdown.
func TestSchemaHasEveryKey(t *testing.T) {
	var walk func(where string, s map[string]any) int
	walk = func(where string, s map[string]any) int {
		n := 0
		for name, v := range s {
			m, ok := v.(map[string]any)
			if !ok {
				if list, ok := v.([]any); ok {
					for _, e := range list {
						if m, ok := e.(map[string]any); ok {
							n += walk(where, m)
						}
					}
				}
				continue
			}
			if name == "properties" {
				n += len(m)
				for key, p := range m {
					doc, _ := p.(map[string]any)["description"].(string)
					if len(doc) < 10 || bytes.ContainsAny([]byte(doc), "`|") {
						t.Errorf("%s: %s has the description %q", where, key, doc)
					}
				}
			}
			n += walk(where+"/"+name, m)
		}
		return n
	}
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, sec := range sections() {
		if want += len(sec.keys); strings.HasPrefix(sec.title, "A feature") {
			want += len(sec.keys) // of latent, too
		}
	}
	if got := walk("", s); got != want {
		t.Errorf("the schema has %d keys, the page %d", got, want)
	}
}

// TestLimitsOfNumbersAreChecked: a number beyond what the schema says is a mistake to the decoder, too, whose checks
// stand elsewhere.
func TestLimitsOfNumbersAreChecked(t *testing.T) {
	needs := map[string]string{
		"ordinal":     ", values: [1, 2]",
		"binary":      ", one: x",
		"onehot":      ", values: [x, y], ordered: true",
		"thermometer": ", values: [x, y]",
	}
	t0 := &Task{}
	d, tried := newDecoder("", t0), 0
	try := func(k key, file func(bad string) string) {
		form := k.Value.Form()
		var bad []string
		for word, beyond := range map[string]float64{"minimum": -1, "exclusiveMinimum": 0, "maximum": 1} {
			if limit, ok := form[word].(int); ok {
				bad = append(bad, fmt.Sprint(float64(limit)+beyond))
			}
		}
		for _, v := range bad {
			tried++
			if _, err := Parse(
				"t",
				[]byte(file(v)),
			); err == nil ||
				!strings.Contains(err.Error(), k.Name) && !strings.Contains(err.Error(), "this must be") {
				t.Errorf("%s: %s is taken, or something else is wrong: %v", k.Name, v, err)
			}
		}
	}
	for _, e := range encodings() {
		own, _, _ := d.featureKeys(t0, &Feature{Encoding: e})
		for _, k := range own {
			try(k, func(bad string) string {
				rest := needs[e.Kind()]
				if k.Name == "std" {
					rest += ", mean: 0"
				}
				return fmt.Sprintf("version: 1\nfeatures: [{name: a, kind: %s%s, %s: %s}]\n", e.Kind(), rest, k.Name, bad)
			})
		}
	}
	for name, keys := range map[string][]key{
		"target": d.targetKeys(&Target{}), "cost": d.costKeys(&Cost{}),
		"sparsity": d.sparsityKeys(&Sparsity{}), "data": d.dataKeys(&Data{}),
	} {
		for _, k := range keys {
			try(k, func(bad string) string {
				more := ""
				if k.Name == "l1_ratio" {
					more = ", norm: mixed"
				}
				return fmt.Sprintf("version: 1\nfeatures: [{name: a, kind: numeric}]\n%s: {%s: %s%s}\n", name, k.Name, bad, more)
			})
		}
	}
	if tried < 30 {
		t.Errorf("only %d numbers were tried", tried)
	}
}

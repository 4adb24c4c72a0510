package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator is the JSON Schema of task files, in the hands of a validator that owes nothing to this project.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("task.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("task.schema.json") // also holds the schema against the draft it names
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate holds a YAML or JSON file against the schema.
func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaAcceptsTaskFiles(t *testing.T) {
	s := validator(t)
	files, err := filepath.Glob(filepath.Join("..", "examples", "tasks", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d task files, %v", len(files), err)
	}
	for _, f := range append(files, filepath.Join("..", "testdata", "loans", "task.yaml")) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, data); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for name, file := range map[string]string{
		"full": full, "small": small, "example": example, "rules": ruleFeatures, "canonical": string(parse(t, full).JSON()),
	} {
		parse(t, file)
		if err := validate(t, s, []byte(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaRefusesWhatTheDecoderRefuses: mistakes of form are mistakes to both.
func TestSchemaRefusesWhatTheDecoderRefuses(t *testing.T) {
	s := validator(t)
	feature := func(keys string) string { return "version: 1\nfeatures: [{" + keys + "}]\n" }
	const plain = "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}]\n"
	for _, file := range []string{
		"features: [{name: a, kind: numeric}]", "version: 1", "version: 2\nfeatures: [{name: a, kind: numeric}]", "version: 1\nfeatures: []", "[1]",
		plain + "spartity: {}", plain + "encoded: 1", plain + "data: {delimiter: ';;'}", plain + "data: {skip: -1}", plain + "data: {filter: [{min: 1}]}",
		plain + "target: {class: unfavourable}", plain + "target: {margin: -1}", plain + "sparsity: {max_features: 1.5}",
		plain + "cost: {norm: l3}", plain + "cost: {norm: mixed, l1_ratio: 2}", plain + "cost: {eps: 0}", plain + "cost: {switches: twice}",
		feature("name: a"), feature("kind: numeric"), feature("name: a, kind: number"), feature("name: a, kind: numeric, std: 0, mean: 0"),
		feature("name: a, kind: numeric, bounds: [1]"), feature("name: a, kind: numeric, bounds: [1, 2, 3]"), feature("name: a, kind: numeric, bounds: [low, 2]"),
		feature("name: a, kind: numeric, direction: up"), feature("name: a, kind: numeric, actionable: maybe"), feature("name: a, kind: numeric, weight: 0"),
		feature("name: a, kind: numeric, max_change: -1"), feature("name: a, kind: numeric, step: 0"), feature("name: a, kind: numeric, quantiles: 3"),
		feature("name: a, kind: onehot, values: [x], shares: [2]"), feature("name: a, kind: onehot, values: [x], transitions: [x]"),
		feature("name: a, kind: numeric, step_direction: 2"), feature("name: a, kind: numeric, step_lb: 2"), feature("name: a, kind: numeric, immutable: true"),
		plain + "links: [{from: a}]", plain + "links: [{from: a, to: b, by: 2}]", plain + "links: {from: a, to: b, scale: 2}", plain + "links: [{from: a, to: b, map: [1]}]",
		plain + "constraints: a < 1", plain + "constraints: [3]", plain + "constraints: [{if: a < 1}]", plain + "constraints: [{at_most: 0, of: [a, b]}]",
		plain + "constraints: [{at_most: 1, of: a}]", plain + "constraints: [{if: a < 1, then: b < 1, at_most: 2}]", plain + "immutables: [a]",
	} {
		if _, err := Parse("t", []byte(file)); err == nil {
			t.Errorf("the decoder accepts\n%s", file)
		}
		if validate(t, s, []byte(file)) == nil {
			t.Errorf("the schema accepts\n%s", file)
		}
	}
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
		want += len(sec.keys)
	}
	if got := walk("", s); got != want {
		t.Errorf("the schema has %d keys, the page %d", got, want)
	}
}

// TestLimitsOfNumbersAreChecked: a number beyond what the schema says is a mistake to the decoder, too, whose checks stand elsewhere.
func TestLimitsOfNumbersAreChecked(t *testing.T) {
	kinds := map[Kind]string{
		Numeric: "", Ordinal: ", values: [1, 2]", Binary: ", one: x", OneHot: ", values: [x, y], ordered: true", Thermometer: ", values: [x, y]",
	}
	d, tried := newDecoder(""), 0
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
			if _, err := Parse("t", []byte(file(v))); err == nil || !strings.Contains(err.Error(), k.Name) && !strings.Contains(err.Error(), "this must be") {
				t.Errorf("%s: %s is taken, or something else is wrong: %v", k.Name, v, err)
			}
		}
	}
	for _, kind := range allKinds() {
		for _, k := range d.featureKeys(&Feature{}, &percents{}) {
			if on := kindsOf(k.Name); on[0] != "all" && !slices.Contains(on, string(kind)) {
				continue
			}
			try(k, func(bad string) string {
				rest := kinds[kind]
				if k.Name == "std" {
					rest += ", mean: 0"
				}
				return fmt.Sprintf("version: 1\nfeatures: [{name: a, kind: %s%s, %s: %s}]\n", kind, rest, k.Name, bad)
			})
		}
	}
	for name, keys := range map[string][]key{"target": d.targetKeys(&Target{}), "cost": d.costKeys(&Cost{}), "sparsity": d.sparsityKeys(&Sparsity{}), "data": d.dataKeys(&Data{})} {
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

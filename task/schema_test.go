package task

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestForm: mistakes of form in testdata/schema.txtar are mistakes to the decoder, and internal/tools/command holds the
// same files against the schema.
func TestForm(t *testing.T) {
	ar, err := txtar.ParseFile(filepath.Join("testdata", "schema.txtar"))
	if err != nil || len(ar.Files) < 50 {
		t.Fatalf("%d files, %v", len(ar.Files), err)
	}
	for _, f := range ar.Files {
		if _, err := Parse("t", f.Data); (err == nil) != strings.HasPrefix(f.Name, "good") {
			t.Errorf("%s: %v\n%s", f.Name, err, f.Data)
		}
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
		for word, beyond := range map[string]float64{"minimum": -1, "exclusiveMinimum": 0, "maximum": 1} {
			limit, ok := form[word].(int)
			if !ok {
				continue
			}
			v := fmt.Sprint(float64(limit) + beyond)
			tried++
			_, err := Parse("t", []byte(file(v)))
			if err == nil || !strings.Contains(err.Error(), k.Name) && !strings.Contains(err.Error(), "this must be") {
				t.Errorf("%s: %s is taken, or something else is wrong: %v", k.Name, v, err)
			}
		}
	}
	for _, e := range encodings() {
		own, _ := d.featureKeys(t0, &Feature{Encoding: e})
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
		"sparsity": d.sparsityKeys(&Task{}), "data": d.dataKeys(&Data{}),
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

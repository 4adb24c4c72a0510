package task

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
)

const filled = `version: 1
data: {missing: "?"}
features:
  - {name: income, kind: numeric, mean: 1000, std: 500, impute: 1250}
  - {name: home, kind: onehot, values: [own, rent], impute: rent}
  - {name: member, kind: binary, one: "yes", zero: "no", impute: "no"}
  - {name: age, kind: numeric}
`

func TestImpute(t *testing.T) {
	tk := parse(t, filled)
	p := read(t, tk, "income,home,member,age\n,?,,30\n2000,own,yes,40\n,own,no,50\n500,rent,no,\n", ReadOptions{})
	must.Same(t, []float32{.5, 0, 1, 0, 30, 2, 1, 0, 1, 40, .5, 1, 0, 0, 50}, p.X)
	if d := cmp.Diff([][]int{{0, 1, 2}, nil, {0}}, p.Imputed); d != "" || p.Failed != 1 {
		t.Error(d, p.Failed)
	}
	if d := cmp.Diff([][]int{{0}, {0, 1, 2}}, p.Subset([]int{2, 0}).Imputed); d != "" {
		t.Error(d)
	}
	plain := parse(t, strings.ReplaceAll(filled, ", impute: 1250", ""))
	if plain.EncodingHash() == tk.EncodingHash() || plain.Hash() == tk.Hash() {
		t.Error("the hashes do not tell the imputed number")
	}
	if again := parse(t, string(tk.JSON())); again.Hash() != tk.Hash() {
		t.Error("the canonical form loses the imputed value")
	}
}

func TestRounded(t *testing.T) {
	tk := parse(t, `version: 1
features: [{name: a, kind: numeric, spread: 3000}, {name: b, kind: numeric, mean: 2e7, std: 3000}]`)
	p := read(t, tk, "a,b\n20000001,20000001\n16777217,1\n20000002,3\n0.1,3\n", ReadOptions{})
	must.Same(t, []string{`column "a": an input of the model (a 32-bit float) has not every whole number as large as ` +
		`20000001, which is taken for 20000000; if the digits matter, count in thousands, or subtract a constant before ` +
		`training`}, p.Warnings)
}

func TestImputeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"features: [{name: a, kind: numeric, impute: x}]":                           `"x" is not a number`,
		"features: [{name: a, kind: onehot, values: [b, c], impute: d}]":            `"d" is not a known value`,
		"features: [{name: a, kind: ordinal, values: [1, 2], impute: 1.5}]":         `"1.5" is not a known value`,
		"encoded: true\nfeatures: [{name: a, kind: numeric, impute: 1}]":            `"impute" says how the model's inputs`,
		"features: [{name: a, kind: image, shape: [1, 2, 2], impute: 1}]":           `impute`,
		"features: [{name: a, kind: thermometer, thresholds: [1, 2], impute: low}]": `low`,
	} {
		_, err := Parse("t.yaml", []byte("version: 1\n"+text))
		must.Fail(t, err, want)
	}
}

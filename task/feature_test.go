package task

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
)

func TestEncodeDecodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(-1e6, 1e6).Draw(t, "mean")
		std := rapid.Float64Range(1e-3, 1e6).Draw(t, "std")
		f := Feature{Encoding: &Standardized{Mean: mean, Std: std}}
		raw := strconv.FormatFloat(mean+std*rapid.Float64Range(-50, 50).Draw(t, "z"), 'g', rapid.IntRange(1, 17).Draw(t,
			"digits"), 64)
		x, back := make([]float32, 1), make([]float32, 1)
		must.Do(t, f.Encode(raw, x))
		text := must.Get(f.Decode(x))(t)
		if err := f.Encode(text, back); err != nil || back[0] != x[0] {
			t.Fatalf("%s is input %v, decoded %s, which is input %v (%v)", raw, x[0], text, back[0], err)
		}
	})
}

func TestDecodeGivesBackWholeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Feature{Encoding: &Standardized{
			Mean: rapid.Float64Range(-1000, 1000).Draw(t, "mean"), Std: rapid.Float64Range(0.1, 1000).Draw(t, "std"),
		}}
		raw := strconv.Itoa(rapid.IntRange(-9999, 9999).Draw(t, "raw"))
		x := make([]float32, 1)
		must.Do(t, f.Encode(raw, x))
		must.Same(t, raw, must.Get(f.Decode(x))(t))
	})
}

func TestDecodeCategories(t *testing.T) {
	hot := Feature{Name: "c", Encoding: &OneHot{Values: []string{"a", "b", "1"}}, Width: 3}
	two := Feature{Name: "m", Encoding: &Binary{One: "yes"}, Width: 1}
	ord := Feature{
		Name: "o", Width: 1, Encoding: &Standardized{
			Ordinal: true, Std: 2, Mean: 1, Values: []string{"10", "5"}, Levels: []float64{5, 10},
		},
	}
	for _, c := range []struct {
		f         *Feature
		raw, text string
	}{
		{&hot, "a", "a"}, {&hot, "1.0", "1"}, {&hot, "", ""}, {&two, "yes", "yes"}, {&two, "no", "not yes"}, {
			&ord, "5.0",
			"5",
		}, {&ord, "10", "10"},
	} {
		x := make([]float32, c.f.Width)
		must.Do(t, c.f.Encode(c.raw, x))
		if text, err := c.f.Decode(x); err != nil || text != c.text {
			t.Errorf("%q came back as %q (%v), want %q", c.raw, text, err, c.text)
		}
	}
	for _, bad := range []string{"7", "Inf", "0x5", ""} {
		must.Fail(t, ord.Encode(bad, make([]float32, 1)), "")
	}
	for _, bad := range [][]float32{{1, 1, 0}, {0.5, 0, 0}, {float32(math.NaN()), 0, 0}} {
		must.Fail(t, must.Err(hot.Decode(bad)), "")
	}
}

func TestRawOfLargeAmounts(t *testing.T) {
	f := Standardized{Mean: 64736200, Std: 88239200}
	for _, v := range []float64{0, 18500000, 6000000, 58000000, 1e9} {
		if got := f.Raw(f.ToInput(v)); got != v || math.Signbit(got) {
			t.Errorf("%v is written as %v", v, got)
		}
	}
	small := Standardized{Mean: 6473.62, Std: 8823.92}
	for _, v := range []float64{0, 5, 10, 1850, 18501, 0.25, -3} {
		must.Same(t, v, small.Raw(small.ToInput(v)))
	}
}

func TestDecimalsAreShortest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(-1<<26, 1<<26).Draw(t, "whole")
		v := rapid.SampledFrom([]float64{float64(whole), float64(whole) / 8, rapid.Float64().Draw(t, "any")}).Draw(t, "v")
		if a := math.Abs(v); a >= 1e15 || a < 1e-6 && a > 0 {
			v = float64(whole)
		}
		if got, want := Decimal(v), strconv.FormatFloat(v+0, 'f', -1, 64); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
		single := strconv.FormatFloat(float64(whole), 'f', -1, 32)
		must.Same(t, single, floatText(float64(float32(whole)), 32))
		long := strconv.FormatInt(whole*997*997*997, 10)
		for _, s := range []string{strconv.FormatInt(whole, 10), long, "00" + Decimal(v)} {
			want, err := strconv.ParseFloat(s, 64)
			if got, ok := Number(s); got != want || ok != (err == nil) {
				t.Errorf("%q is %v, want %v", s, got, want)
			}
		}
	})
}

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
	must.Same(t, [][]int{{0}, {0, 1, 2}}, p.Subset([]int{2, 0}).Imputed)
	plain := parse(t, strings.ReplaceAll(filled, ", impute: 1250", ""))
	if plain.EncodingHash() == tk.EncodingHash() || plain.Hash() == tk.Hash() {
		t.Error("the hashes do not tell the imputed number")
	}
	must.Same(t, tk.Hash(), parse(t, string(tk.JSON())).Hash())
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

func TestPlainNumbers(t *testing.T) {
	t.Parallel()
	for _, spread := range []float64{0.3, 1, 12.53469, 21630.879, 6e6} {
		f := Standardized{Std: 1, Spread: spread}
		if r := f.Unit() / spread; r < 0.7 || r > 1.42 {
			t.Errorf("spread %v: %v", spread, f.Unit())
		}
		for _, v := range []float32{36, 32913, 0.1, 1 << 24, 999_999} {
			must.Same(must.In(t, spread), v, f.ToInput(float64(v))*float32(f.Unit()))
		}
	}
}

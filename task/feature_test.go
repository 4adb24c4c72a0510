package task

import (
	"math"
	"strconv"
	"testing"

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
		if text, err := f.Decode(x); err != nil || text != raw {
			t.Fatalf("%s came back as %s (%v)", raw, text, err)
		}
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
		if err := ord.Encode(bad, make([]float32, 1)); err == nil {
			t.Errorf("%q is accepted as one of 10, 5", bad)
		}
	}
	for _, bad := range [][]float32{{1, 1, 0}, {0.5, 0, 0}, {float32(math.NaN()), 0, 0}} {
		if text, err := hot.Decode(bad); err == nil {
			t.Errorf("%v decodes to %q", bad, text)
		}
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
		if got := small.Raw(small.ToInput(v)); got != v {
			t.Errorf("%v is written as %v", v, got)
		}
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
		if got := floatText(float64(float32(whole)), 32); got != single {
			t.Errorf("%d in single precision is %q, want %q", whole, got, single)
		}
		long := strconv.FormatInt(whole*997*997*997, 10)
		for _, s := range []string{strconv.FormatInt(whole, 10), long, "00" + Decimal(v)} {
			want, err := strconv.ParseFloat(s, 64)
			if got, ok := Number(s); got != want || ok != (err == nil) {
				t.Errorf("%q is %v, want %v", s, got, want)
			}
		}
	})
}

package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Encode writes the model inputs of a raw field to dst (length Width). The empty field is a missing value: all zeros for OneHot, an error
// for the other kinds, which have no input to say so.
func (f *Feature) Encode(raw string, dst []float32) error {
	switch f.Kind {
	case OneHot:
		clear(dst)
		if raw == "" {
			return nil
		}
		i := find(f.Values, raw)
		if i < 0 {
			return fmt.Errorf("%s is not a known value%s", quote(raw), didYouMean(raw, f.Values))
		}
		dst[i] = 1
		return nil
	case Binary:
		switch {
		case raw == "":
			return fmt.Errorf("the value is missing")
		case same(raw, f.One):
			dst[0] = 1
		case f.Zero == "" || same(raw, f.Zero):
			dst[0] = 0
		default:
			return fmt.Errorf("%s is neither %q nor %q", quote(raw), f.One, f.Zero)
		}
		return nil
	}
	if raw == "" {
		return fmt.Errorf("the value is missing")
	}
	v, ok := parseNumber(raw)
	if !ok {
		return fmt.Errorf("%s is not a number", quote(raw))
	}
	if f.Levels != nil && !slices.Contains(f.Levels, v) {
		return fmt.Errorf("%s is not a known value; one of: %s", quote(raw), shorten(f.Values, 20))
	}
	x := f.ToInput(v)
	if math.IsInf(float64(x), 0) {
		return fmt.Errorf("%s is too large for a model input", quote(raw))
	}
	dst[0] = x
	return nil
}

// ToInput converts a raw value of a Numeric or Ordinal feature to its model input, in double precision until the last rounding.
func (f *Feature) ToInput(raw float64) float32 {
	return float32((raw - f.Mean) / f.Std)
}

// FromInput converts the model input of a Numeric or Ordinal feature to the raw value.
func (f *Feature) FromInput(x float32) float64 {
	return float64(x)*f.Std + f.Mean
}

// Decode returns the raw text of a feature's model inputs (length Width): for a number the shortest decimal that Encode takes back to the
// same input, "" for an all-zero one-hot group. Inputs that no raw value has are an error.
func (f *Feature) Decode(x []float32) (string, error) {
	switch f.Kind {
	case OneHot:
		i, ok := f.vertex(x)
		switch {
		case !ok:
			return "", fmt.Errorf("feature %q: %v is not a one-hot group", f.Name, x)
		case i < 0:
			return "", nil
		}
		return f.Values[i], nil
	case Binary:
		switch {
		case x[0] == 1:
			return f.One, nil
		case x[0] != 0:
			return "", fmt.Errorf("feature %q: %v is neither 0 nor 1", f.Name, x[0])
		}
		return f.zeroName(), nil
	}
	v := f.FromInput(x[0])
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", fmt.Errorf("feature %q: %v is not a finite input", f.Name, x[0])
	}
	if f.Levels != nil {
		return f.Values[f.level(v)], nil
	}
	v = f.shortest(v, x[0])
	if math.Abs(v) >= 1e15 || (v != 0 && math.Abs(v) < 1e-6) {
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return strconv.FormatFloat(v+0, 'f', -1, 64), nil // +0 turns -0 into 0
}

// shortest returns the decimal near v with the fewest places whose input is x: the lattice of whole numbers before that of tenths, and so on.
func (f *Feature) shortest(v float64, x float32) float64 {
	for places := range 7 {
		if short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', places, 64), 64); f.ToInput(short) == x {
			return short
		}
	}
	for digits := 1; digits < 17; digits++ {
		if short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64); f.ToInput(short) == x {
			return short
		}
	}
	return v
}

// zeroName is the value of a binary feature whose input is 0.
func (f *Feature) zeroName() string {
	if f.Zero == "" {
		return "not " + f.One
	}
	return f.Zero
}

// level returns the index in Values of the domain value nearest to v.
func (f *Feature) level(v float64) int {
	best, dist := 0, math.Inf(1)
	for i, s := range f.Values {
		if x, _ := parseNumber(s); math.Abs(x-v) < dist {
			best, dist = i, math.Abs(x-v)
		}
	}
	return best
}

// vertex returns which input of a one-hot group is 1, -1 when all are zero; false when the group is neither.
func (f *Feature) vertex(x []float32) (int, bool) {
	at := -1
	for i, v := range x {
		switch {
		case v == 0:
		case v == 1 && at < 0:
			at = i
		default:
			return -1, false
		}
	}
	return at, true
}

// check says why x (length Width) cannot be the inputs of this feature; nil when it can.
func (f *Feature) check(x []float32) error {
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("%v is not a finite number", v)
		}
	}
	switch f.Kind {
	case OneHot:
		if _, ok := f.vertex(x); !ok {
			return fmt.Errorf("the inputs of a one-hot group are 0 and at most one 1")
		}
	case Binary:
		if x[0] != 0 && x[0] != 1 {
			return fmt.Errorf("a binary input is 0 or 1, not %v", x[0])
		}
	}
	return nil
}

// same says whether two fields are the same value: the same text, or the same number written differently (1 and 1.0).
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, ok := parseNumber(a)
	if !ok {
		return false
	}
	y, ok := parseNumber(b)
	return ok && x == y
}

// find returns the index of raw in values, -1 when it is not there.
func find(values []string, raw string) int {
	if i := slices.Index(values, raw); i >= 0 {
		return i
	}
	if _, ok := parseNumber(raw); !ok {
		return -1
	}
	return slices.IndexFunc(values, func(v string) bool { return same(v, raw) })
}

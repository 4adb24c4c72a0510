package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"cfq/internal/message"
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
			return fmt.Errorf("%s is not a known value%s", message.Quote(raw), didYouMean(raw, f.Values))
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
			return fmt.Errorf("%s is neither %q nor %q", message.Quote(raw), f.One, f.Zero)
		}
		return nil
	case Thermometer:
		n, err := f.height(raw)
		if err != nil {
			return err
		}
		for j := range dst {
			dst[j] = 0
			if j < n {
				dst[j] = 1
			}
		}
		return nil
	}
	if raw == "" {
		return fmt.Errorf("the value is missing")
	}
	v, ok := Number(raw)
	if !ok {
		return fmt.Errorf("%s is not a number", message.Quote(raw))
	}
	if f.Levels != nil && !slices.Contains(f.Levels, v) {
		return fmt.Errorf("%s is not a known value; one of: %s", message.Quote(raw), message.List(f.Values, 20))
	}
	x := f.ToInput(v)
	if math.IsInf(float64(x), 0) {
		return fmt.Errorf("%s is too large for a model input", message.Quote(raw))
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
// same input, "" for an all-zero one-hot group, the threshold reached or "<" and the first one for a Thermometer with Thresholds. Inputs that no
// raw value has are an error.
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
	case Thermometer:
		n, ok := reached(x)
		if !ok {
			return "", fmt.Errorf("feature %q: %v is not a thermometer, ones followed by zeros", f.Name, x)
		}
		return f.placeName(n), nil
	}
	v := f.FromInput(x[0])
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", fmt.Errorf("feature %q: %v is not a finite input", f.Name, x[0])
	}
	if f.Levels != nil {
		return f.Values[f.level(v)], nil
	}
	return Decimal(f.shortest(v, x[0])), nil
}

// shortest returns the decimal near v with the fewest places whose input is x: the lattice of whole numbers before that of tenths, and so on. Where
// an input stands for many whole numbers, as float32 does for amounts in millions, hundreds come before tens and these before ones.
func (f *Feature) shortest(v float64, x float32) float64 {
	if math.Abs(v) < 1e15 && f.ToInput(math.Round(v)) == x {
		for unit := 1e15; unit > 1; unit /= 10 {
			if round := math.Round(v/unit) * unit; f.ToInput(round) == x {
				return round + 0 // not -0
			}
		}
	}
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
	case Thermometer:
		if _, ok := reached(x); !ok {
			return fmt.Errorf("the inputs of a thermometer are ones followed by zeros")
		}
	}
	return nil
}

// same says whether two fields are the same value: the same text, or the same number written differently (1 and 1.0).
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, ok := Number(a)
	if !ok {
		return false
	}
	y, ok := Number(b)
	return ok && x == y
}

// find returns the index of raw in values, -1 when it is not there.
func find(values []string, raw string) int {
	if i := slices.Index(values, raw); i >= 0 {
		return i
	}
	if _, ok := Number(raw); !ok {
		return -1
	}
	return slices.IndexFunc(values, func(v string) bool { return same(v, raw) })
}

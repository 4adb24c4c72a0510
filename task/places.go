package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
)

// places returns how many values a category has; those of a thermometer are the lowest, and one for each input.
func (f *Feature) places() int {
	if f.Kind == Thermometer && f.Values == nil {
		return len(f.Thresholds) + 1
	}
	return len(f.Values)
}

// placeName returns the raw text of a category's value: for thresholds 10 and 20, "<10", "10" and "20".
func (f *Feature) placeName(i int) string {
	switch {
	case f.Kind != Thermometer || f.Values != nil:
		return f.Values[i]
	case i == 0:
		return "<" + Decimal(f.Thresholds[0])
	}
	return Decimal(f.Thresholds[i-1])
}

// placeNames returns the raw texts of all values of a category.
func (f *Feature) placeNames() []string {
	names := make([]string, f.places())
	for i := range names {
		names[i] = f.placeName(i)
	}
	return names
}

// height returns which of its values a thermometer's raw field is.
func (f *Feature) height(raw string) (int, error) {
	if raw == "" {
		return 0, fmt.Errorf("the value is missing")
	}
	if f.Values != nil {
		i := find(f.Values, raw)
		if i < 0 {
			return 0, fmt.Errorf("%s is not a known value%s", message.Quote(raw), didYouMean(raw, f.Values))
		}
		return i, nil
	}
	if low, ok := strings.CutPrefix(raw, "<"); ok && same(low, Decimal(f.Thresholds[0])) {
		return 0, nil
	}
	v, ok := Number(raw)
	if !ok {
		return 0, fmt.Errorf("%s is neither a number nor %q", message.Quote(raw), f.placeName(0))
	}
	i, exact := slices.BinarySearch(f.Thresholds, v)
	if exact {
		i++
	}
	return i, nil
}

// level returns the index in Values of the domain value nearest to v.
func (f *Feature) level(v float64) int {
	best, dist := 0, 0.0
	for i, s := range f.Values {
		x, _ := Number(s)
		if d := max(x-v, v-x); i == 0 || d < dist {
			best, dist = i, d
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

// reached returns how many inputs of a thermometer are 1; false when they are not ones followed by zeros.
func reached(x []float32) (int, bool) {
	n := 0
	for n < len(x) && x[n] == 1 {
		n++
	}
	for _, v := range x[n:] {
		if v != 0 {
			return 0, false
		}
	}
	return n, true
}

// Rounded rounds v to so many significant decimal digits, which also removes the noise of binary arithmetic on decimal numbers.
func Rounded(v float64, digits int) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
}

// Floor is what a thermometer of thresholds counts as in constraints below the first of them: as far below it as the second lies
// above, or 1 when there is no second.
func (f *Feature) Floor() float64 {
	if len(f.Thresholds) > 1 {
		return f.Thresholds[0] - (f.Thresholds[1] - f.Thresholds[0])
	}
	return f.Thresholds[0] - 1
}

// Decimal writes a number as people do, exactly.
func Decimal(v float64) string {
	if a := max(v, -v); a >= 1e15 || (v != 0 && a < 1e-6) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v+0, 'f', -1, 64) // +0 turns -0 into 0
}

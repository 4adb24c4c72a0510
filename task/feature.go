package task

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
)

// Kind is how a column becomes model inputs.
type Kind string

// The kinds of feature.
const (
	Numeric Kind = "numeric" // one input, (value-Mean)/Std
	// Ordinal is as Numeric, but only the raw values Levels, or those a whole number of Steps away, are meaningful.
	Ordinal Kind = "ordinal"
	Binary  Kind = "binary" // one input, 1 for the value One and 0 for any other
	OneHot  Kind = "onehot" // len(Values) inputs, at most one of them 1; all zero is a missing value
	// Thermometer is one input for each value above the lowest, 1 up to the person's own value and 0 beyond: with Values,
	// the first of which is all zeros, or with Thresholds on a number, input j being 1 when the number is at least
	// Thresholds[j].
	Thermometer Kind = "thermometer"
	// Pixels is an image: Numeric inputs, of which each is a feature. No feature of a Task has this kind.
	Pixels Kind = "image"
)

// IsNumber says whether the one input of such a feature is a raw number, standardised.
func (k Kind) IsNumber() bool { return k == Numeric || k == Ordinal }

// allKinds are the kinds in the order of the reference page.
func allKinds() []Kind { return []Kind{Numeric, Ordinal, Binary, OneHot, Thermometer, Pixels} }

// has says whether a key means something for the kind.
func (k Kind) has(key string) bool {
	switch key {
	case "mean", "std", "bounds", "step":
		return k.IsNumber() || k == Pixels
	case "missing":
		return k.IsNumber() || k == OneHot
	case "mad", "quantiles", "clip", "log", "spread":
		return k.IsNumber()
	case "shape", "layout":
		return k == Pixels
	case "impute":
		return k != Pixels
	case "inputs":
		return !k.IsNumber() && k != Pixels
	case "one", "zero":
		return k == Binary
	case "values":
		return k != Numeric && k != Binary && k != Pixels
	case "thresholds":
		return k == Thermometer
	case "ordered", "transitions":
		return k == OneHot
	case "shares":
		return !k.IsNumber() && k != Pixels
	case "max_increase", "max_decrease", "max_change":
		return k != Binary
	case "switch_cost":
		return k == OneHot || k == Thermometer
	case "subgroup":
		return k != Numeric && k != Pixels
	}
	return true
}

// Direction restricts the sign of a change in raw units.
type Direction string

// The directions.
const (
	Any      Direction = "any"
	Increase Direction = "increase"
	Decrease Direction = "decrease"
)

// Feature is one column with its encoding and what people can change about it. All quantities are in raw units.
type Feature struct {
	Name      string
	Column    string // default: Name
	Kind      Kind
	Mean, Std float64   // Numeric, Ordinal: of the raw values; default 0 and 1. With Log, 0 and their spread
	One, Zero string    // Binary; Zero may be "": then every value but One and missing ones is the zero
	Values    []string  // OneHot: in the order of the inputs. Ordinal: the domain as written, or nil
	Levels    []float64 // Ordinal with Values: the domain, ascending
	Ordered   bool      // OneHot: Values stand in an order, in which Direction and the largest changes count places
	// Missing are raw numbers that mean "not known": the model sees them as they are, and no action leads from or to one.
	// Not nil, but empty: there are none, whatever the data look like.
	Missing []float64
	// MissingValues are those of a OneHot's Values that mean "not known", likewise; Transitions may lead from one.
	MissingValues []string
	// Impute is the raw value that a missing one is taken for, as the model does: the person starts there. "" is none.
	Impute string
	// Required is why a OneHot value must not be missing, "" where it may, see Task.Require.
	Required string
	// Thresholds of a Thermometer without Values, ascending.
	Thresholds []float64
	// Clip is a pair, nil when not given: the model gets the nearest value between them. A side may be infinite.
	Clip []float64
	// Spread is not 0 when the model gets the number as it is: it is what changes and costs are counted in. Mean is 0
	// then, and Std the power of 2 next to Spread, so that the model gets the very number.
	Spread float64
	// Log is not nil when the model gets the logarithm.
	Log *Log
	// Inputs are the model's inputs for each value of a category, nil when they are the feature's own.
	Inputs [][]float64
	// MAD is the median absolute deviation from the median over the training rows, in raw units; 0 also when not given.
	MAD float64
	// Quantiles are raw values of the training rows at equally spaced ranks, from the least value to the greatest; nil
	// when not given.
	Quantiles []float64
	// Shares in the training rows. OneHot: of each value. Binary: one number, that of One. Thermometer: for each input, of
	// those whose input is 1, descending. nil when not given.
	Shares []float64

	Actionable bool // a person can change it; default true
	// it may change at all; a feature that is not Actionable changes only through a link. Default: Actionable, or
	// linked
	Mutable     bool
	Direction   Direction
	Bounds      [2]float64 // a change may not leave them; -Inf and +Inf when absent
	Step        float64    // changes are whole multiples of it; 0 = any
	MaxIncrease float64    // +Inf when absent
	MaxDecrease float64    // +Inf when absent
	MaxChange   float64    // bound on |change|; +Inf when absent
	Weight      float64    // factor on the cost of changing it; default 1
	// OneHot, Thermometer: cost of a change of value, times the places moved when the values are in order; 0 = by
	// Weights
	SwitchCost float64
	// OneHot: value -> values it may become; nil = any. A value that is no key stays as it is
	Transitions map[string][]string
	Subgroup    bool   // report results by the values of this feature
	Image       *Image // of Task.Images
	Code        bool   // of Task.Latent: no input of the model

	Offset int // first model input
	Width  int // number of model inputs: 1, len(Values) for OneHot, len(Thresholds) or len(Values)-1 for Thermometer
}

// Log says that the model's input is (ln(value + Add) - Mean) / Std.
type Log struct{ Add, Mean, Std float64 }

// defaultFeature is what a feature is before its keys are read.
func defaultFeature() Feature {
	inf := math.Inf(1)
	return Feature{
		Std: 1, Actionable: true, Direction: Any, Weight: 1,
		Bounds: [2]float64{-inf, inf}, MaxIncrease: inf, MaxDecrease: inf, MaxChange: inf,
	}
}

// Encode writes the model inputs of a raw field to dst (length Width). The empty field is a missing value: that of
// Impute, else all zeros for OneHot unless it is Required, and an error for the other kinds, which have no input to say
// so.
func (f *Feature) Encode(raw string, dst []float32) error {
	clear(dst)
	if raw == "" {
		raw = f.Impute
	}
	switch {
	case raw == "" && f.Kind == OneHot && f.zeroIsMissing():
		return nil
	case raw == "":
		return errors.New("the value is missing" + f.Required)
	case !f.Kind.IsNumber():
		i, err := f.placeOf(raw)
		if err != nil {
			return err
		}
		switch f.Kind {
		case OneHot:
			dst[i] = 1
		case Binary:
			dst[0] = float32(i)
		default:
			for j := range dst[:i] {
				dst[j] = 1
			}
		}
		return nil
	}
	v, ok := Number(raw)
	if !ok {
		return fmt.Errorf("%s is not a number", message.Quote(raw))
	}
	if f.Levels != nil && !slices.Contains(f.Levels, v) && !slices.Contains(f.Missing, v) {
		return fmt.Errorf("%s is not a known value; one of: %s", message.Quote(raw), message.List(f.Values, 20))
	}
	if err := f.unreadable(v); err != nil {
		return err
	}
	x := f.ToInput(v)
	if math.IsInf(float64(x), 0) {
		return fmt.Errorf("%s is too large for a model input", message.Quote(raw))
	}
	dst[0] = x
	return nil
}

// placeOf returns which of its values a category's raw field is.
func (f *Feature) placeOf(raw string) (int, error) {
	switch {
	case f.Kind == Binary && Same(raw, f.One):
		return 1, nil
	case f.Kind == Binary && (f.Zero == "" || Same(raw, f.Zero)):
		return 0, nil
	case f.Kind == Binary:
		return 0, fmt.Errorf("%s is neither %q nor %q", message.Quote(raw), f.One, f.Zero)
	case f.Values != nil:
		i := Find(f.Values, raw)
		if i < 0 {
			return 0, fmt.Errorf("%s is not a known value%s", message.Quote(raw), message.DidYouMean(raw, f.Values))
		}
		return i, nil
	}
	if low, ok := strings.CutPrefix(raw, "<"); ok && Same(low, Decimal(f.Thresholds[0])) {
		return 0, nil
	}
	v, ok := Number(raw)
	if !ok {
		return 0, fmt.Errorf("%s is neither a number nor %q", message.Quote(raw), f.PlaceName(0))
	}
	i, exact := slices.BinarySearch(f.Thresholds, v)
	if exact {
		i++
	}
	return i, nil
}

// ToInput converts a raw value of a Numeric or Ordinal feature to its model input, in double precision until the last
// rounding.
func (f *Feature) ToInput(raw float64) float32 {
	return float32((raw - f.Mean) / f.Std)
}

// FromInput converts the model input of a Numeric or Ordinal feature to the raw value.
func (f *Feature) FromInput(x float32) float64 {
	return float64(x)*f.Std + f.Mean
}

// Decode returns the raw text of a feature's model inputs (length Width): for a number the shortest decimal that Encode
// takes back to the same input, "" for an all-zero one-hot group, the threshold reached or "<" and the first one for a
// Thermometer with Thresholds. Inputs that no raw value has are an error.
func (f *Feature) Decode(x []float32) (string, error) {
	if err := f.check(x); err != nil {
		return "", fmt.Errorf("feature %q: %w", f.Name, err)
	}
	if !f.Kind.IsNumber() {
		if i := f.place(x); i >= 0 {
			return f.PlaceName(i), nil
		}
		return "", nil
	}
	v := f.FromInput(x[0])
	if math.IsInf(v, 0) {
		return "", fmt.Errorf("feature %q: %v is too large", f.Name, x[0])
	}
	if f.Levels != nil && !f.IsMissing(x[0]) {
		return f.Values[f.level(v)], nil
	}
	return Decimal(f.shortest(v, x[0])), nil
}

// shortest returns the decimal near v with the fewest places whose input is x: the lattice of whole numbers before that
// of tenths, and so on. Where an input stands for many whole numbers, as float32 does for amounts in millions, hundreds
// come before tens and these before ones.
func (f *Feature) shortest(v float64, x float32) float64 {
	if math.Abs(v) < 1e15 && f.ToInput(math.Round(v)) == x {
		for unit := 1e15; unit > 1; unit /= 10 {
			if unit > 100 && 20*math.Abs(v) < unit { // it rounds to 0, as it does to the next unit
				continue
			}
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

// check says why x (length Width) cannot be the inputs of this feature; nil when it can.
func (f *Feature) check(x []float32) error {
	ones := 0
	for _, v := range x {
		switch {
		case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
			return fmt.Errorf("%v is not a finite number", v)
		case v == 1:
			ones++
		case v != 0 && !f.Kind.IsNumber():
			ones = len(x) + 1
		}
	}
	switch {
	case f.Kind == OneHot && ones > 1:
		return fmt.Errorf("the inputs of a one-hot group are 0 and at most one 1")
	case f.Required != "" && ones == 0:
		return errors.New("none of the inputs of a one-hot group is 1" + f.Required)
	case f.Kind == Binary && ones > 1:
		return fmt.Errorf("a binary input is 0 or 1, not %v", x[0])
	case f.Kind == Thermometer && (ones > len(x) || slices.Contains(x[:ones], 0)):
		return fmt.Errorf("the inputs of a thermometer are ones followed by zeros")
	}
	return nil
}

// IsMissing says whether the model input of a Numeric or Ordinal feature is one of Missing.
func (f *Feature) IsMissing(x float32) bool {
	return slices.ContainsFunc(f.Missing, func(v float64) bool { return f.ToInput(v) == x })
}

// place returns which of its values a category's inputs are, which check accepts; -1 when it is missing.
func (f *Feature) place(x []float32) int {
	switch f.Kind {
	case OneHot:
		return slices.Index(x, 1)
	case Binary:
		return int(x[0])
	}
	if n := slices.Index(x, 0); n >= 0 {
		return n
	}
	return len(x)
}

// Same says whether two fields are the same value: the same text, or the same number written differently (1 and 1.0).
func Same(a, b string) bool {
	if a == b {
		return true
	}
	if m, err := strconv.ParseInt(a, 10, 64); err == nil { // large ones are the same as other numbers
		if n, err := strconv.ParseInt(b, 10, 64); err == nil {
			return m == n
		}
	}
	x, ok := Number(a)
	if !ok {
		return false
	}
	y, ok := Number(b)
	return ok && x == y
}

// Find returns the index of raw in values, -1 when it is not there.
func Find(values []string, raw string) int {
	if i := slices.Index(values, raw); i >= 0 {
		return i
	}
	if _, ok := Number(raw); !ok {
		return -1
	}
	return slices.IndexFunc(values, func(v string) bool { return Same(v, raw) })
}

// places returns how many values a category has; those of a thermometer are the lowest, and one for each input.
func (f *Feature) places() int {
	switch {
	case f.Kind == Binary:
		return 2
	case f.Kind == Thermometer && f.Values == nil:
		return len(f.Thresholds) + 1
	}
	return len(f.Values)
}

// PlaceName returns the raw text of a category's value: for thresholds 10 and 20, "<10", "10" and "20".
func (f *Feature) PlaceName(i int) string {
	switch {
	case f.Kind == Binary && i == 1:
		return f.One
	case f.Kind == Binary:
		return cmp.Or(f.Zero, "not "+f.One)
	case f.Values != nil:
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
		names[i] = f.PlaceName(i)
	}
	return names
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

// Rounded rounds v to so many significant decimal digits, which also removes the noise of binary arithmetic on decimal
// numbers.
func Rounded(v float64, digits int) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
}

// Floor is what a thermometer of thresholds counts as in constraints below the first of them: as far below it as the
// second lies above, or 1 when there is no second.
func (f *Feature) Floor() float64 {
	if len(f.Thresholds) > 1 {
		return f.Thresholds[0] - (f.Thresholds[1] - f.Thresholds[0])
	}
	return f.Thresholds[0] - 1
}

// Decimal writes a number as people do, exactly.
func Decimal(v float64) string { return shortestDecimal(v, 64) }

func shortestDecimal(v float64, bits int) string {
	if whole := int64(v); float64(whole) == v && whole > -1<<24 && whole < 1<<24 { // most numbers; every digit counts
		return strconv.FormatInt(whole, 10)
	}
	if a := math.Abs(v); a >= 1e15 || a != 0 && a < 1e-6 {
		return strconv.FormatFloat(v, 'g', -1, bits)
	}
	return strconv.FormatFloat(v+0, 'f', -1, bits) // +0 turns -0 into 0
}

// Raw returns the raw value of a Numeric or Ordinal feature's model input: the shortest decimal that ToInput takes back
// to it.
func (f *Feature) Raw(x float32) float64 { return f.shortest(f.FromInput(x), x) }

// quantile returns the raw value at a rank between 0 and 1, linear between the Quantiles.
func (f *Feature) quantile(rank float64) float64 {
	at := rank * float64(len(f.Quantiles)-1)
	i := min(int(at), len(f.Quantiles)-2)
	w := at - float64(i)
	return f.Quantiles[i]*(1-w) + f.Quantiles[i+1]*w // not lo + w*(hi-lo), which can overflow
}

// rank returns where a raw value stands among the feature's, and how the feature writes it; or why it is none of them.
func (f *Feature) rank(raw string) (rank float64, name, why string) {
	if why := f.refuses(raw); why != "" {
		return 0, "", why
	}
	if f.Kind.IsNumber() {
		v, _ := Number(raw)
		return v, raw, ""
	}
	i, _ := f.placeOf(raw)
	name = f.PlaceName(i)
	if f.Kind == Thermometer && !Same(raw, name) { // a number between two thresholds
		return 0, "", "one of: " + message.List(f.placeNames(), 20)
	}
	return float64(i), name, ""
}

// refuses says why a raw value is none of the feature's; "" when it is one.
func (f *Feature) refuses(raw string) string {
	if raw == "" {
		return "an empty value is a missing one"
	}
	x := make([]float32, f.Width)
	if err := f.Encode(raw, x); err != nil {
		return err.Error()
	}
	return ""
}

// hasNumber says whether the feature stands for a number in expressions. A thermometer with thresholds does: for the
// one it has reached.
func (f *Feature) hasNumber() bool {
	return f.Kind.IsNumber() || f.Kind == Thermometer && f.Values == nil
}

// conditionValues are the values that a condition can name, in order.
func (f *Feature) conditionValues() []string {
	if f.Kind == Binary && f.Zero == "" {
		return []string{f.One}
	}
	return f.placeNames()
}

// Groups are the values that people have of a category or ordinal number, read back from their model inputs.
func (f *Feature) Groups(p *People) Subgroup {
	s := Subgroup{Feature: f.Name, Values: f.Values, Codes: make([]int32, p.N)}
	if !f.Kind.IsNumber() {
		s.Values = f.placeNames()
	}
	for i := range s.Codes {
		x := p.X[i*p.Dim+f.Offset : i*p.Dim+f.Offset+f.Width]
		switch {
		case f.IsMissing(x[0]):
			s.Codes[i] = -1
		case f.Kind.IsNumber():
			s.Codes[i] = int32(f.level(f.FromInput(x[0])))
		default:
			s.Codes[i] = int32(f.place(x))
		}
	}
	return s
}

func (f *Feature) inputName(j int) string {
	switch f.Kind {
	case OneHot:
		return f.Name + "=" + f.Values[j]
	case Thermometer:
		return f.Name + ">=" + f.PlaceName(j+1)
	}
	return f.Name
}

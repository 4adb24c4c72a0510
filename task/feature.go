package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"cfq/internal/lists"
)

// Feature is one column with its encoding and what people can change about it. All quantities are in raw units.
type Feature struct {
	Name   string
	Column string // default: Name
	// Impute is the raw value that a missing one is taken for, as the model does: the person starts there. "" is none.
	Impute   string
	Encoding Encoding
	Action
	Subgroup bool // report results by the values of this feature

	Offset int // first of its inputs
	Width  int // number of its inputs
}

// Action is what people can change about a feature, and at what cost.
type Action struct {
	Actionable  bool       // a person can change it; default true
	Mutable     bool       // it may change at all, be it through a link; default: Actionable, or linked
	Direction   string     // of a change in raw units: any, increase or decrease
	Bounds      [2]float64 // a change may not leave them; -Inf and +Inf when absent
	Step        float64    // changes are whole multiples of it; 0 = any
	MaxIncrease float64    // +Inf when absent; places for values with an order, as the next two
	MaxDecrease float64    // +Inf when absent
	MaxChange   float64    // bound on |change|; +Inf when absent
	Weight      float64    // factor on the cost of changing it; default 1
	// OneHot, Thermometer: cost of a change of value, or of each place when the values have an order; 0 = by Weights
	SwitchCost float64
	// OneHot: value -> values it may become; nil = any. A value that is no key stays as it is
	Transitions map[string][]string
}

// Free is the action that nothing limits.
func Free() Action {
	inf := math.Inf(1)
	return Action{
		Actionable: true, Mutable: true, Direction: "any", Weight: 1,
		Bounds: [2]float64{-inf, inf}, MaxIncrease: inf, MaxDecrease: inf, MaxChange: inf,
	}
}

// Encoding is how a column becomes model inputs: a *Standardized, a *Pixels or a Category.
type Encoding interface {
	// Kind is the word of the task file: numeric, ordinal, binary, onehot, thermometer or image.
	Kind() string

	// Sigma is the standard deviation of input j over the training rows.
	Sigma(j int) float64

	// Linear is a term of a rule over the feature's inputs, sum(coef x) + constant: the raw number, or 1 for the value.
	Linear(value string) (coef []float64, constant float64, err error)

	width() int
	isMade() bool                           // the model's inputs are others than the feature's
	encode(raw string, dst []float32) error // dst is zero
	encodeMissing() error                   // nil: a missing value is all zeros
	check(x []float32) error                // why finite numbers cannot be its inputs
	notKnown(value string) bool             // the value means "not known"
	hasNumber() bool                        // it stands for a number in rules
	inputName(name string, j int) string

	// declare returns the keys of the task file that this encoding reads, and what checks them once they are read.
	declare(d *fileDecoder, t *Task) (keys []key, check func(featureEntry))
}

func encodings() []Encoding {
	return []Encoding{
		&Standardized{Std: 1}, &Standardized{Std: 1, Ordinal: true}, &Binary{}, &OneHot{}, &Thermometer{},
		&Pixels{Layout: "chw", Standardized: Standardized{Std: 1}},
	}
}

func kinds() []string { return lists.Map(encodings(), Encoding.Kind) }

// Number returns the encoding of a numeric or ordinal feature, nil of others.
func (f *Feature) Number() *Standardized {
	n, _ := f.Encoding.(*Standardized)
	return n
}

// Category returns the encoding of a category, nil of a number or image.
func (f *Feature) Category() Category {
	c, _ := f.Encoding.(Category)
	return c
}

// Values are those that the task file lists, nil where it lists none.
func (f *Feature) Values() []string {
	switch e := f.Encoding.(type) {
	case *Standardized:
		return e.Values
	case *OneHot:
		return e.Values
	case *Thermometer:
		return e.Values
	}
	return nil
}

// Encode writes the model inputs of a raw field to dst (length Width). The empty field is a missing value: that of
// Impute, else all zeros for OneHot unless it is Required, and an error for the other encodings, which have no input to
// say so.
func (f *Feature) Encode(raw string, dst []float32) error {
	clear(dst)
	if raw == "" {
		raw = f.Impute
	}
	if raw == "" {
		return f.Encoding.encodeMissing()
	}
	return f.Encoding.encode(raw, dst)
}

// Decode returns the raw text of a feature's model inputs (length Width): for a number the shortest decimal that Encode
// takes back to the same input, "" for an all-zero one-hot group, the threshold reached or "<" and the first one for a
// Thermometer with Thresholds. Inputs that no raw value has are an error.
func (f *Feature) Decode(x []float32) (raw string, err error) {
	if err = f.check(x); err == nil {
		raw, err = f.decode(x)
	}
	if err != nil {
		return "", fmt.Errorf("feature %q: %w", f.Name, err)
	}
	return raw, nil
}

func (f *Feature) decode(x []float32) (string, error) {
	c := f.Category()
	if c == nil {
		return f.Number().decode(x[0])
	}
	if i := c.place(x); i >= 0 {
		return c.Names()[i], nil
	}
	return "", nil
}

func (f *Feature) check(x []float32) error {
	for _, v := range x {
		if v-v != 0 {
			return fmt.Errorf("%v is not a finite number", v)
		}
	}
	return f.Encoding.check(x)
}

// ToInput is that of a Standardized feature.
func (f *Feature) ToInput(raw float64) float32 { return f.Number().ToInput(raw) }

// FromInput is that of a Standardized feature.
func (f *Feature) FromInput(x float32) float64 { return f.Number().FromInput(x) }

// ModelInputs returns how many inputs the model has of the feature: Width, unless Coding.Inputs says otherwise, and
// none of a code.
func (f *Feature) ModelInputs() int {
	if c := f.Category(); c != nil && c.Made() != nil {
		return len(c.Made()[0])
	}
	if f.isCode() {
		return 0
	}
	return f.Encoding.width()
}

// rank returns where a raw value stands among the feature's, and how the feature writes it; or why it is none of them.
func (f *Feature) rank(raw string) (rank float64, name, why string) {
	if why := f.refuses(raw); why != "" {
		return 0, "", why
	}
	c := f.Category()
	if c == nil {
		v, _ := Number(raw)
		return v, raw, ""
	}
	i, _ := c.PlaceOf(raw)
	return float64(i), c.Names()[i], between(c, raw, i)
}

func (f *Feature) refuses(raw string) string {
	if raw == "" {
		return "an empty value is a missing one"
	}
	if err := f.Encode(raw, make([]float32, f.Width)); err != nil {
		return err.Error()
	}
	return ""
}

// Groups are the values that people have of a category or ordinal number, read back from their model inputs.
func (f *Feature) Groups(p *People) Subgroup {
	s := Subgroup{Feature: f.Name, Values: f.Values(), Codes: make([]int32, p.N)}
	c, n := f.Category(), f.Number()
	if c != nil {
		s.Values = c.Names()
	}
	for i := range s.Codes {
		switch x := p.X[i*p.Dim+f.Offset:][:f.Width]; {
		case c != nil:
			s.Codes[i] = int32(c.place(x))
		case n.IsMissing(x[0]):
			s.Codes[i] = -1
		default:
			s.Codes[i] = int32(n.level(n.FromInput(x[0])))
		}
	}
	return s
}

// sameValue says whether two fields are the same value: the same text, or the same number written differently (1 and
// 1.0).
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	if m, err := strconv.ParseInt(a, 10, 64); err == nil { // a float64 does not tell large ones apart
		if n, err := strconv.ParseInt(b, 10, 64); err == nil {
			return m == n
		}
	}
	x, first := Number(a)
	if !first { // as most texts: errors of reading b take time
		return false
	}
	y, second := Number(b)
	return second && x == y
}

// Find returns the index of raw in values, -1 when it is not there.
func Find(values []string, raw string) int {
	if i := slices.Index(values, raw); i >= 0 {
		return i
	}
	if _, ok := Number(raw); !ok {
		return -1
	}
	return slices.IndexFunc(values, func(v string) bool { return sameValue(v, raw) })
}

// Rounded rounds v to so many significant decimal digits, which also removes the noise of binary arithmetic on decimal
// numbers.
func Rounded(v float64, digits int) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
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

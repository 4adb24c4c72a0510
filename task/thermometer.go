package task

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/internal/message"
)

// Thermometer is one input for each value above the lowest, 1 up to the person's own value and 0 beyond: with Values,
// the first of which is all zeros, or with Thresholds on a number, input j being 1 when the number is at least
// Thresholds[j].
type Thermometer struct {
	Values     []string
	Thresholds []float64 // without Values, ascending
	Coding
}

// Kind is thermometer.
func (t *Thermometer) Kind() string { return "thermometer" }

func (t *Thermometer) width() int {
	if t.Values == nil {
		return len(t.Thresholds)
	}
	return max(len(t.Values)-1, 0)
}

// Names are Values, or "<" with the first threshold, and the thresholds.
func (t *Thermometer) Names() []string {
	if t.Values != nil {
		return t.Values
	}
	return append([]string{"<" + Decimal(t.Thresholds[0])}, lists.Map(t.Thresholds, Decimal)...)
}

// PlaceOf is that of a [Category].
func (t *Thermometer) PlaceOf(raw string) (int, error) {
	if t.Values != nil {
		return known(raw, t.Values)
	}
	lowest := "<" + Decimal(t.Thresholds[0])
	if strings.HasPrefix(raw, "<") && sameValue(raw[1:], lowest[1:]) {
		return 0, nil
	}
	v, ok := Number(raw)
	if !ok {
		return 0, fmt.Errorf("%s is neither a number nor %q", message.Quote(raw), lowest)
	}
	i, exact := slices.BinarySearch(t.Thresholds, v)
	if exact {
		i++
	}
	return i, nil
}

func (t *Thermometer) place(x []float32) int {
	if n := slices.Index(x, 0); n >= 0 {
		return n
	}
	return len(x)
}

func (t *Thermometer) encode(raw string, dst []float32) error {
	i, err := t.PlaceOf(raw)
	for j := range dst[:i] {
		dst[j] = 1
	}
	return err
}

func (t *Thermometer) check(x []float32) error {
	if ones := countOnes(x); ones > len(x) || slices.Contains(x[:ones], 0) {
		return errors.New("the inputs of a thermometer are ones followed by zeros")
	}
	return nil
}

func (t *Thermometer) hasNumber() bool { return t.Values == nil }

func (t *Thermometer) isOrdered() bool { return true }

func (t *Thermometer) inputName(name string, j int) string { return name + ">=" + t.Names()[j+1] }

// Sigma follows from the share of the rows that reach the value, or from 1/2.
func (t *Thermometer) Sigma(j int) float64 { return t.sigma(j, 0.5) }

// Linear is 1 on the value: its own input minus the one above it. The number is the threshold that has been reached;
// below the first, that lies as far below it as the second lies above it, or 1 when there is no second.
func (t *Thermometer) Linear(value string) (coef []float64, constant float64, err error) {
	coef = make([]float64, t.width())
	switch {
	case value != "":
		i, err := t.PlaceOf(value)
		if err != nil {
			return nil, 0, err
		}
		if i < len(coef) {
			coef[i] = -1
		}
		if i == 0 {
			return coef, 1, nil
		}
		coef[i-1] = 1
		return coef, 0, nil
	case t.Values != nil:
		return nil, 0, notNumber()
	}
	last := t.Thresholds[0] - 1
	if len(t.Thresholds) > 1 {
		last = t.Thresholds[0] - (t.Thresholds[1] - t.Thresholds[0])
	}
	constant = last
	for j, v := range t.Thresholds {
		coef[j], last = v-last, v
	}
	return coef, constant, nil
}

func (t *Thermometer) declare(d *fileDecoder, _ *Task) ([]key, func(featureEntry)) {
	keys := append(t.keys(d),
		key{Name: "values", Value: d.Texts(&t.Values)}, key{Name: "thresholds", Value: d.Numbers(&t.Thresholds)})
	return keys, func(e featureEntry) {
		t.validate(e)
		e.checkCoding(t)
	}
}

func (t *Thermometer) validate(e featureEntry) {
	switch {
	case t.Values != nil && t.Thresholds != nil:
		e.errorf("thresholds", "a thermometer has values or thresholds, not both")
		return
	case len(t.Thresholds) > 0:
		for i := 1; i < len(t.Thresholds); i++ {
			if t.Thresholds[i] <= t.Thresholds[i-1] {
				e.errorf("thresholds", "thresholds ascend, and %v does not follow %v", t.Thresholds[i], t.Thresholds[i-1])
			}
		}
	case len(t.Values) < 2:
		e.errorf("", "a thermometer needs thresholds, or two values or more in ascending order, the first of which is "+
			"all zeros")
		return
	default:
		e.checkDistinct(t.Values)
	}
	if t.Shares != nil && len(t.Shares) != t.width() {
		e.errorf("shares", "%d shares, and %d values above the lowest; give the share of the rows that reach each",
			len(t.Shares), t.width())
	}
	if !slices.IsSortedFunc(t.Shares, func(a, b float64) int { return cmp.Compare(b, a) }) {
		e.errorf("shares", "shares of a thermometer descend: who reaches a value has reached those before it")
	}
}

package task

import (
	"errors"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"gonum.org/v1/gonum/floats"

	"cfq/internal/config"
)

// OneHot is len(Values) inputs, at most one of them 1; all zero is a missing value.
type OneHot struct {
	Values  []string // in the order of the inputs
	Ordered bool     // Values stand in an order, in which Direction and the largest changes count places
	// MissingValues are those of Values that mean "not known". Empty but not nil: there are none, whatever data look like.
	MissingValues []string
	// Required is why a value must not be missing, "" where it may, see Task.Require.
	Required string
	Coding
}

// Kind is onehot.
func (o *OneHot) Kind() string { return "onehot" }

func (o *OneHot) width() int { return len(o.Values) }

// Names are Values.
func (o *OneHot) Names() []string { return o.Values }

// PlaceOf is that of a [Category].
func (o *OneHot) PlaceOf(raw string) (int, error) { return known(raw, o.Values) }

func (o *OneHot) place(x []float32) int { return slices.Index(x, 1) }

func (o *OneHot) encode(raw string, dst []float32) error {
	i, err := o.PlaceOf(raw)
	if err == nil {
		dst[i] = 1
	}
	return err
}

func (o *OneHot) encodeMissing() error {
	switch {
	case o.Required != "":
		return errors.New("the value is missing" + o.Required)
	case o.zeroIsMissing():
		return nil
	}
	return missingValue()
}

// zeroIsMissing says whether the model knows a missing value: as zeros of one-hots, also without the first.
func (o *OneHot) zeroIsMissing() bool {
	inputs := o.Made()
	switch {
	case inputs == nil:
		return true
	case len(inputs[0]) < 2:
		return false
	}
	return !slices.ContainsFunc(inputs, func(row []float64) bool { return countOnes(row) > 1 })
}

func (o *OneHot) check(x []float32) error {
	switch ones := countOnes(x); {
	case ones > 1:
		return errors.New("the inputs of a one-hot group are 0 and at most one 1")
	case o.Required != "" && ones == 0:
		return errors.New("none of the inputs of a one-hot group is 1" + o.Required)
	}
	return nil
}

func (o *OneHot) notKnown(value string) bool { return Find(o.MissingValues, value) >= 0 }

func (o *OneHot) isOrdered() bool { return o.Ordered }

func (o *OneHot) inputName(name string, j int) string { return name + "=" + o.Values[j] }

// Sigma follows from the share of the value, or from 1/len(Values).
func (o *OneHot) Sigma(j int) float64 { return o.sigma(j, 1/float64(max(len(o.Values), 2))) }

// Linear is the value's input.
func (o *OneHot) Linear(value string) (coef []float64, constant float64, err error) {
	if value == "" {
		return nil, 0, notNumber()
	}
	coef = make([]float64, len(o.Values))
	i, err := o.PlaceOf(value)
	coef[i] = 1
	return coef, 0, err
}

func (o *OneHot) declare(d *fileDecoder, _ *Task) ([]key, func(featureEntry)) {
	keys := append(o.keys(d),
		key{Name: "values", Value: d.Texts(&o.Values)},
		key{Name: "missing", Value: inForm(missingForm, d.Texts(&o.MissingValues)), Keep: true, Omit: o.MissingValues == nil},
		key{Name: "ordered", Value: d.Flag(&o.Ordered)})
	return keys, func(e featureEntry) {
		o.checkOrder(e)
		if len(o.Values) == 0 {
			e.errorf("values", "a one-hot feature needs its values, in the order of the model's inputs")
		} else {
			e.checkDistinct(o.Values)
			o.checkShares(e)
			o.checkNamed(e)
		}
		e.checkCoding(o)
	}
}

func (o *OneHot) checkOrder(e featureEntry) {
	if o.Ordered {
		return
	}
	for _, key := range []string{"max_increase", "max_decrease", "max_change"} {
		if e.Has(key) {
			e.errorf(key, "%q needs values that stand in an order; say so with ordered: true, or remove it", key)
		}
	}
	if e.Direction != "any" {
		e.errorf("direction", "a direction needs values that stand in an order; say so with ordered: true, or remove it")
	}
}

func (o *OneHot) checkShares(e featureEntry) {
	sum := floats.Sum(o.Shares)
	if o.Shares != nil && len(o.Shares) != len(o.Values) {
		e.errorf("shares", "%d shares for %d values", len(o.Shares), len(o.Values))
	} else if sum > 1.01 { // shares may be rounded
		e.errorf("shares", "the shares add up to %.6g, more than 1", sum)
	}
}

func (o *OneHot) checkNamed(e featureEntry) {
	named := slices.Collect(maps.Keys(e.Transitions))
	for _, to := range e.Transitions {
		named = append(named, to...)
	}
	slices.Sort(named)
	for _, v := range slices.Compact(named) {
		if !slices.Contains(o.Values, v) {
			e.errorf("transitions", "transitions name %q, which is not among its values%s", v, config.DidYouMean(v, o.Values))
		}
	}
	for k, v := range o.MissingValues {
		switch i := Find(o.Values, v); {
		case i < 0:
			e.errorf("missing", "%q is not among its values%s", v, config.DidYouMean(v, o.Values))
			continue
		case slices.Contains(o.MissingValues[:k], o.Values[i]):
			e.errorf("missing", "%q stands there twice", v)
		default:
			v = o.Values[i] // as it is written there
			o.MissingValues[k] = v
		}
		for _, from := range slices.Sorted(maps.Keys(e.Transitions)) {
			if slices.Contains(e.Transitions[from], v) {
				e.errorf("missing", "transitions lead from %q to %q, which means \"not known\"; remove one of the two", from, v)
			}
		}
	}
	known := func(v string) bool { return !slices.Contains(o.MissingValues, v) }
	if !slices.ContainsFunc(o.Values, known) {
		e.errorf("missing", "all of its values mean \"not known\"; leave out those that say something")
	}
}

func (d *fileDecoder) transitions(dst *map[string][]string) value {
	form := mapOf(config.AnyOf(config.Scalar, config.ListOf(config.Scalar), config.Type("null")))
	const must = "transitions must map a value to the values it may become, as {Private: [State-gov]}"
	return config.As(dst, form, func(n ast.Node) (map[string][]string, bool) {
		all := map[string][]string{}
		d.Entries(n, must, func(from string, _, n ast.Node) {
			var to []string
			if _, none := n.(*ast.NullNode); !none {
				d.Texts(&to).Read(n)
			}
			all[from] = to
		})
		return all, true
	})
}

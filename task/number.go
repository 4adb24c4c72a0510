package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/message"
)

// Standardized is the encoding of a number: one input, (value-Mean)/Std.
type Standardized struct {
	Mean, Std float64 // of the raw values, with Log of their logarithms; default 0 and 1
	// Ordinal says that only the raw values Levels, or those a whole number of Steps away, are meaningful.
	Ordinal bool
	Values  []string  // Ordinal: the domain as written, or nil
	Levels  []float64 // with Values: the domain, ascending
	// Missing are raw numbers that mean "not known": the model sees them as they are, and no action leads from or to one.
	// Not nil, but empty: there are none, whatever the data look like.
	Missing []float64
	// Clip is a pair, nil when not given: the model gets the nearest value between them. A side may be infinite.
	Clip []float64
	// Log is not nil when the model gets (ln(value + Log) - Mean) / Std.
	Log *float64
	// Spread is what changes and costs are counted in, the standard deviation of the raw values, where Std is not: with
	// Log, and when the model gets the number as it is.
	Spread float64
	// MAD is the median absolute deviation from the median over the training rows, in raw units; 0 also when not given.
	MAD float64
	// Quantiles are raw values of the training rows at equally spaced ranks, from the least value to the greatest; nil
	// when not given.
	Quantiles []float64
	Code      bool // of Task.Latent: no input of the model
}

// Kind is numeric or ordinal.
func (n *Standardized) Kind() string {
	if n.Ordinal {
		return "ordinal"
	}
	return "numeric"
}

func (n *Standardized) width() int { return 1 }

func (n *Standardized) isMade() bool { return n.Clip != nil || n.Spread != 0 }

func (n *Standardized) hasNumber() bool { return true }

func (n *Standardized) inputName(name string, _ int) string { return name }

// Unit is the raw difference that the feature's input has as 1. That of a number as it is is a power of 2, so that the
// model gets the very number.
func (n *Standardized) Unit() float64 {
	switch {
	case n.Spread == 0:
		return n.Std
	case n.Log != nil:
		return n.Spread
	}
	return math.Exp2(math.Round(math.Log2(n.Spread)))
}

func (n *Standardized) origin() float64 {
	if n.Spread != 0 {
		return 0
	}
	return n.Mean
}

// ToInput converts a raw value to its model input, in double precision until the last rounding.
func (n *Standardized) ToInput(raw float64) float32 { return float32((raw - n.origin()) / n.Unit()) }

// FromInput converts the model input to the raw value.
func (n *Standardized) FromInput(x float32) float64 { return float64(x)*n.Unit() + n.origin() }

// Raw returns the raw value of a model input: the shortest decimal that ToInput takes back to it.
func (n *Standardized) Raw(x float32) float64 { return n.shortest(n.FromInput(x), x) }

// IsMissing says whether the model input is one of Missing.
func (n *Standardized) IsMissing(x float32) bool {
	return slices.ContainsFunc(n.Missing, func(v float64) bool { return n.ToInput(v) == x })
}

func (n *Standardized) notKnown(value string) bool {
	v, ok := Number(value)
	return ok && slices.Contains(n.Missing, v)
}

func (n *Standardized) encodeMissing() error { return missingValue() }

func (n *Standardized) encode(raw string, dst []float32) error {
	v, ok := Number(raw)
	if !ok {
		return fmt.Errorf("%s is not a number", message.Quote(raw))
	}
	if n.Levels != nil && !slices.Contains(n.Levels, v) && !slices.Contains(n.Missing, v) {
		return fmt.Errorf("%s is not a known value; one of: %s", message.Quote(raw), message.List(n.Values, 20))
	}
	if err := n.unreadable(v); err != nil {
		return err
	}
	if dst[0] = n.ToInput(v); math.IsInf(float64(dst[0]), 0) {
		return fmt.Errorf("%s is too large for a model input", message.Quote(raw))
	}
	return nil
}

func (n *Standardized) check([]float32) error { return nil }

func (n *Standardized) decode(x float32) (string, error) {
	v := n.FromInput(x)
	if math.IsInf(v, 0) {
		return "", fmt.Errorf("%v is too large", x)
	}
	if n.Levels != nil && !n.IsMissing(x) {
		return n.Values[n.level(v)], nil
	}
	return Decimal(n.shortest(v, x)), nil
}

// shortest returns the decimal near v with the fewest places whose input is x: the lattice of whole numbers before that
// of tenths, and so on. Where an input stands for many whole numbers, as float32 does for amounts in millions, hundreds
// come before tens and these before ones.
func (n *Standardized) shortest(v float64, x float32) float64 {
	if math.Abs(v) < 1e15 && n.ToInput(math.Round(v)) == x {
		for unit := 1e15; unit > 1; unit /= 10 {
			if unit > 100 && 20*math.Abs(v) < unit { // it rounds to 0, as it does to the next unit
				continue
			}
			if round := math.Round(v/unit) * unit; n.ToInput(round) == x {
				return round + 0 // not -0
			}
		}
	}
	for places := range 7 {
		if short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', places, 64), 64); n.ToInput(short) == x {
			return short
		}
	}
	for digits := 1; digits < 17; digits++ {
		if short := Rounded(v, digits); n.ToInput(short) == x {
			return short
		}
	}
	return v
}

func (n *Standardized) level(v float64) int {
	nearest := slices.MinFunc(n.Levels, func(a, b float64) int { return cmp.Compare(math.Abs(a-v), math.Abs(b-v)) })
	return Find(n.Values, Decimal(nearest))
}

// Sigma is 1, as Mean and Std standardise the input, or the spread in units of the input.
func (n *Standardized) Sigma(int) float64 { return cmp.Or(n.Spread, n.Std) / n.Unit() }

// Linear is the raw number. It has no values.
func (n *Standardized) Linear(string) (coef []float64, constant float64, err error) {
	return []float64{n.Unit()}, n.origin(), nil
}

func (n *Standardized) clipped(v float64) float64 {
	if n.Clip != nil {
		v = min(max(v, n.Clip[0]), n.Clip[1])
	}
	return v
}

// Seen is a raw number as the model sees it, up to mean and std: clipped, and its logarithm.
func (n *Standardized) Seen(v float64) float64 {
	if v = n.clipped(v); n.Log != nil {
		v = math.Log(v + *n.Log)
	}
	return v
}

func (n *Standardized) unreadable(v float64) error {
	v = n.clipped(v)
	if n.Log != nil && v+*n.Log <= 0 {
		return fmt.Errorf("%s has no logarithm (log: %s)", Decimal(v), Decimal(*n.Log))
	}
	return nil
}

func (n *Standardized) quantile(rank float64) float64 {
	at := rank * float64(len(n.Quantiles)-1)
	i := min(int(at), len(n.Quantiles)-2)
	w := at - float64(i)
	return n.Quantiles[i]*(1-w) + n.Quantiles[i+1]*w // not lo + w*(hi-lo), which can overflow
}

func (n *Standardized) declare(d *fileDecoder, t *Task) ([]key, func(featureEntry)) {
	asItIs, log := n.Spread != 0 && n.Log == nil, math.NaN() // where it cannot be read: draws no second mistake
	if n.Log != nil {
		log = *n.Log
	}
	keys := []key{
		{Name: "mean", Value: d.Number(&n.Mean), Keep: true, Omit: asItIs},
		{Name: "std", Value: d.Above0(&n.Std), Omit: asItIs},
		{Name: "missing", Value: inForm(missingForm, d.Numbers(&n.Missing)), Keep: true, Omit: n.Missing == nil},
		{Name: "mad", Value: d.From0(&n.MAD), Keep: true, Omit: n.MAD == 0 && t.Cost.Weights != "inverse_mad"},
		{Name: "quantiles", Value: d.Numbers(&n.Quantiles)},
		{Name: "clip", Value: d.interval("clip", &n.Clip), Omit: n.Clip == nil},
		{Name: "log", Value: d.Number(&log), Omit: n.Log == nil, Keep: true},
		{Name: "spread", Value: d.Above0(&n.Spread)},
	}
	if n.Ordinal {
		keys = append(keys, key{Name: "values", Value: d.Texts(&n.Values)})
	}
	return keys, func(e featureEntry) {
		if e.Has("log") {
			n.Log = &log
		}
		n.checkScale(e)
		if e.Has("quantiles") && len(n.Quantiles) < 2 {
			e.errorf("quantiles", "quantiles are two numbers or more, from the least value to the greatest")
		}
		if !slices.IsSorted(n.Quantiles) {
			e.errorf("quantiles", "quantiles ascend, from the least value to the greatest")
		}
		if n.Ordinal {
			n.checkOrdinal(e)
		}
		low := e.Bounds[0]
		if n.Levels != nil {
			low = n.Levels[0]
		}
		if n.Log != nil && (e.Actionable || n.Levels != nil) && n.unreadable(low) != nil {
			e.errorf("log", "values of %s and below have no logarithm: give a lower bound above that, or clip", Decimal(-*n.Log))
		}
	}
}

func (n *Standardized) checkScale(e featureEntry) {
	switch {
	case e.Has("log") && !e.Has("spread"):
		e.errorf("log", "log needs spread, the standard deviation of the raw values, in which changes are counted; "+
			"`cfq task init` makes it from data")
	case !e.Has("log") && e.Has("spread") && (e.Has("mean") || e.Has("std")):
		e.errorf("spread", "without log, spread belongs to a number that the model gets as it is: changes are counted in "+
			"std; remove spread, or mean and std")
	}
	if e.Has("mean") != e.Has("std") {
		e.errorf("", "mean and std belong together; give both, or neither for an input that is not standardised")
	}
}

func (n *Standardized) checkOrdinal(e featureEntry) {
	if len(n.Values) == 0 {
		if e.Has("values") || !e.Has("step") || math.IsInf(e.Bounds[0], 0) || math.IsInf(e.Bounds[1], 0) {
			e.errorf("", "an ordinal feature needs its values, or bounds [lo, hi] and step")
		}
		if e.Subgroup {
			e.errorf("subgroup", "an ordinal feature needs its values to name subgroups")
		}
		return
	}
	e.checkDistinct(n.Values)
	for _, v := range n.Values {
		x, ok := Number(v)
		if !ok {
			e.errorf("values", "the values of an ordinal feature are numbers, and %q is none", v)
			return
		}
		n.Levels = append(n.Levels, x)
	}
	slices.Sort(n.Levels)
	if len(slices.Compact(slices.Clone(n.Levels))) != len(n.Levels) {
		e.errorf("values", "two of the values are the same number")
	}
	for _, v := range n.Missing {
		if slices.Contains(n.Levels, v) {
			e.errorf("missing", "%s is both a value and missing; keep one of the two", Decimal(v))
		}
	}
}

func (n *Standardized) checkReach(e featureEntry) {
	for _, v := range n.Missing {
		if e.Mutable && n.Values == nil && v >= e.Bounds[0] && v <= e.Bounds[1] {
			e.errorf("missing", "an action could lead to %s, which means \"not known\": set bounds that leave it out, or "+
				"actionable: false", Decimal(v))
		}
	}
}

// inForm is a value of a form that its other readers have, too.
func inForm(form func() schema, v value) value {
	v.Form = form
	return v
}

func missingForm() schema {
	return config.AnyOf(config.ListOf(config.Type("number")), config.OneOrMore(config.Scalar))()
}

// interval is a pair [lo, hi] with lo < hi, of which null leaves a side open.
func (d *fileDecoder) interval(name string, dst *[]float64) value {
	v := config.As(dst, pairOf(config.Type("number", "null")), func(n ast.Node) ([]float64, bool) {
		pair := []float64{math.Inf(-1), math.Inf(1)}
		d.pair(n, func(i int, n ast.Node) { d.Number(&pair[i]).Read(n) })
		if pair[0] >= pair[1] {
			d.Errorf(n, "%s is a pair [lo, hi] with lo < hi, not %v and %v", clause(name), pair[0], pair[1])
		}
		return pair, true
	})
	v.Out = func() any { return openPair(*dst) }
	return v
}

func openPair(pair []float64) []*float64 {
	var out [2]*float64
	for i, v := range pair {
		if !math.IsInf(v, 0) {
			out[i] = &v
		}
	}
	return out[:]
}

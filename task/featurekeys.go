package task

import (
	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

func (d *decoder) featureKeys(f *Feature, b *percents) []key {
	keys := append(d.encodingKeys(f), d.actionKeys(f, b)...)
	return append(keys, key{
		Name: "subgroup", Value: d.flag(&f.Subgroup), Fallback: "`false`",
		Doc: "`true`: the value is kept with each person to tell groups apart; an ordinal feature needs `values` for it",
	})
}

// encodingKeys are what a feature is: how it becomes inputs and how it is distributed.
func (d *decoder) encodingKeys(f *Feature) []key {
	return []key{
		{Name: "name", Value: d.text(&f.Name), Fallback: required, Doc: "name in messages and reports; no two features share one"},
		{Name: "column", Value: d.text(&f.Column), Fallback: "the name", Doc: "column of the data file"},
		{
			Name: "kind", Value: word(d, &f.Kind, Numeric, Ordinal, Binary, OneHot, Thermometer), Fallback: required,
			Doc: "`numeric`, `ordinal`, `binary`, `onehot` or `thermometer`, see above",
		},
		{Name: "mean", Value: d.number(&f.Mean), Fallback: "`0`", Doc: "raw value that becomes the input 0; together with `std`"},
		{Name: "std", Value: d.number(&f.Std).Above0(), Fallback: "`1`", Doc: "raw units, above 0, that make one unit of the input; together with `mean`"},
		{Name: "one", Value: d.text(&f.One), Fallback: "required if binary", Doc: "value that becomes 1"},
		{Name: "zero", Value: d.text(&f.Zero), Fallback: "every value but `one`", Doc: "value that becomes 0; when given, a row with a third value cannot be read"},
		{
			Name: "values", Value: d.texts(&f.Values), Fallback: "required if one-hot; ordinal: `bounds` and `step` instead; thermometer: `thresholds` instead",
			Doc: "one-hot: the values in the order of the inputs; ordinal: the numbers that can occur, in raw units; " +
				"thermometer: the values in ascending order, the first of which is all zeros",
		},
		{
			Name: "thresholds", Value: d.numbers(&f.Thresholds), Fallback: "`values` instead",
			Doc: "raw units, ascending: the input of each is 1 for people who reach it",
		},
		{
			Name: "ordered", Value: d.flag(&f.Ordered), Fallback: "`false`",
			Doc: "`true`: `values` stand in ascending order, in which `direction` and the largest changes count places",
		},
		{
			Name: "shares", Value: d.shares(&f.Shares), Fallback: "1/number of values; 1/2 if binary or thermometer",
			Doc: "shares, 0 to 1, in the training rows, for the cost: of each value in the order of `values`, together at most 1, or of `one` alone; " +
				"of a thermometer, of those who reach each value above the lowest",
		},
		{
			Name: "mad", Value: d.number(&f.MAD).From0(), Fallback: "not known",
			Doc: "median absolute deviation from the median over the training rows, in raw units, for cost weights `inverse_mad`; 0, when more than half " +
				"of the rows have the same value, stands for one `std`",
		},
		{
			Name: "quantiles", Value: d.numbers(&f.Quantiles), Fallback: "not known",
			Doc: "raw values of the training rows at equally spaced ranks, from the least to the greatest, as `[0, 12, 31]`: least, median, greatest; " +
				"for percentile bounds and `inverse_range`",
		},
	}
}

// actionKeys are what people can change about a feature, and at what cost.
func (d *decoder) actionKeys(f *Feature, b *percents) []key {
	return []key{
		{Name: "actionable", Value: d.flag(&f.Actionable), Fallback: "`true`", Doc: "`false`: no action changes this feature, other than what a link drags along"},
		{
			Name: "mutable", Value: d.flag(&f.Mutable), Fallback: "as `actionable`, and `true` for what a link drags along",
			Doc: "`false`: it never changes at all, which makes it not `actionable`, too",
		},
		{
			Name: "direction", Value: word(d, &f.Direction, Any, Increase, Decrease), Fallback: "`any`",
			Doc: "`increase`, `decrease` or `any` (both); an increase of a binary feature goes from `zero` to `one`, one of an ordered one to a later value",
		},
		{
			Name: "bounds", Value: d.span(&f.Bounds, b), Fallback: "`[null, null]`",
			Doc: "`[lo, hi]` in raw units or percentiles (`[1%, 99%]`, by `quantiles`), which an action may not leave; `null` leaves a side open; " +
				"a person beyond them stays or comes closer",
		},
		{
			Name: "step", Value: d.number(&f.Step).Above0(), Fallback: "any change",
			Doc: "raw units, above 0; changes are whole multiples of it, from the person's own value; ordinal with `values`: those are the steps",
		},
		{Name: "max_increase", Value: d.number(&f.MaxIncrease).From0(), Fallback: "no limit", Doc: "largest increase in raw units, 0 or more; places for ordered values"},
		{Name: "max_decrease", Value: d.number(&f.MaxDecrease).From0(), Fallback: "no limit", Doc: "largest decrease in raw units, 0 or more; places for ordered values"},
		{
			Name: "max_change", Value: d.number(&f.MaxChange).From0(), Fallback: "no limit",
			Doc: "largest change in raw units, 0 or more, in either direction; places for ordered values",
		},
		{Name: "weight", Value: d.number(&f.Weight).Above0(), Fallback: "`1`", Doc: "factor, above 0, on the cost of a change; unused with cost weights `uniform`"},
		{
			Name: "switch_cost", Value: d.number(&f.SwitchCost).Above0(), Fallback: "by the weights, see `switches` of the cost",
			Doc: "cost of another value, above 0, in place of what the weights say; for ordered values, of each place",
		},
		{
			Name: "transitions", Value: d.transitions(&f.Transitions), Fallback: "any value may become any other",
			Doc: "what may become what, as `{rent: [family]}`; once given, a value that is no key stays, and so does a missing one",
		},
	}
}

// featuresForm is the list of features.
func featuresForm() schema {
	d := newDecoder("")
	s := config.ListOf(func() schema {
		f := defaultFeature()
		return config.Object(d.featureKeys(&f, &percents{}))
	})()
	s["minItems"] = 1
	return s
}

// applies lists, for each kind, the keys that mean something for it beyond those every feature has.
func applies(k Kind) []string {
	switch k {
	case Numeric:
		return []string{"mean", "std", "mad", "quantiles", "direction", "bounds", "step", "max_increase", "max_decrease", "max_change"}
	case Ordinal:
		return append(applies(Numeric), "values", "subgroup")
	case Binary:
		return []string{"one", "zero", "shares", "direction", "subgroup"}
	case Thermometer:
		return []string{"values", "thresholds", "shares", "direction", "max_increase", "max_decrease", "max_change", "switch_cost", "subgroup"}
	default:
		return []string{"values", "ordered", "shares", "direction", "max_increase", "max_decrease", "max_change", "switch_cost", "transitions", "subgroup"}
	}
}

// allKinds are the kinds in the order of the reference page.
func allKinds() []Kind { return []Kind{Numeric, Ordinal, Binary, OneHot, Thermometer} }

// transitions stores the mapping of a value to those it may become.
func (d *decoder) transitions(dst *map[string][]string) value {
	return value{Read: func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "transitions must map a value to the values it may become, as {Private: [State-gov]}, not %s", d.describe(n))
			return
		}
		*dst = map[string][]string{}
		for _, kv := range node.Values {
			key, ok := d.Key(kv.Key)
			if !ok {
				continue
			}
			if _, dup := (*dst)[key]; dup {
				d.errorf(kv.Key, "transitions from %q are given twice; keep one list", key)
			}
			var to []string
			if _, none := kv.Value.(*ast.NullNode); !none {
				d.texts(&to).Read(kv.Value)
			}
			(*dst)[key] = to
		}
	}, Form: mapOf(anyOf(scalarForm, config.ListOf(scalarForm), func() schema { return schema{"type": "null"} }))}
}

// shares stores a list of shares, or the single one of a binary feature.
func (d *decoder) shares(dst *[]float64) value {
	return value{Read: func(n ast.Node) {
		if _, ok := n.(*ast.SequenceNode); ok {
			d.numbers(dst).Read(n)
			return
		}
		*dst = []float64{0}
		d.number(&(*dst)[0]).Read(n)
	}, Form: oneOrMore(func() schema { return schema{"type": "number", "minimum": 0, "maximum": 1} })}
}

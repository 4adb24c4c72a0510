package task

import "github.com/goccy/go-yaml/ast"

func (d *decoder) featureKeys(f *Feature, b *percents) []key {
	keys := append(d.encodingKeys(f), d.actionKeys(f, b)...)
	return append(keys, key{
		"subgroup", d.flag(&f.Subgroup), "`false`",
		"`true`: the value is kept with each person to tell groups apart; an ordinal feature needs `values` for it",
	})
}

// encodingKeys are what a feature is: how it becomes inputs and how it is distributed.
func (d *decoder) encodingKeys(f *Feature) []key {
	return []key{
		{"name", d.text(&f.Name), required, "name in messages and reports; no two features share one"},
		{"column", d.text(&f.Column), "the name", "column of the data file"},
		{
			"kind", word(d, &f.Kind, Numeric, Ordinal, Binary, OneHot, Thermometer), required,
			"`numeric`, `ordinal`, `binary`, `onehot` or `thermometer`, see above",
		},
		{"mean", d.number(&f.Mean), "`0`", "raw value that becomes the input 0; together with `std`"},
		{"std", d.number(&f.Std).above0(), "`1`", "raw units, above 0, that make one unit of the input; together with `mean`"},
		{"one", d.text(&f.One), "required if binary", "value that becomes 1"},
		{"zero", d.text(&f.Zero), "every value but `one`", "value that becomes 0; when given, a row with a third value cannot be read"},
		{
			"values", d.texts(&f.Values), "required if one-hot; ordinal: `bounds` and `step` instead; thermometer: `thresholds` instead",
			"one-hot: the values in the order of the inputs; ordinal: the numbers that can occur, in raw units; " +
				"thermometer: the values in ascending order, the first of which is all zeros",
		},
		{
			"thresholds", d.numbers(&f.Thresholds), "`values` instead",
			"raw units, ascending: the input of each is 1 for people who reach it",
		},
		{
			"ordered", d.flag(&f.Ordered), "`false`",
			"`true`: `values` stand in ascending order, in which `direction` and the largest changes count places",
		},
		{
			"shares", d.shares(&f.Shares), "1/number of values; 1/2 if binary or thermometer",
			"shares, 0 to 1, in the training rows, for the cost: of each value in the order of `values`, together at most 1, or of `one` alone; " +
				"of a thermometer, of those who reach each value above the lowest",
		},
		{
			"mad", d.number(&f.MAD).from0(), "not known",
			"median absolute deviation from the median over the training rows, in raw units, for cost weights `inverse_mad`; 0, when more than half " +
				"of the rows have the same value, stands for one `std`",
		},
		{
			"quantiles", d.numbers(&f.Quantiles), "not known",
			"raw values of the training rows at equally spaced ranks, from the least to the greatest, as `[0, 12, 31]`: least, median, greatest; " +
				"for percentile bounds, `max_percentile_shift` and `inverse_range`",
		},
	}
}

// actionKeys are what people can change about a feature, and at what cost.
func (d *decoder) actionKeys(f *Feature, b *percents) []key {
	return []key{
		{"actionable", d.flag(&f.Actionable), "`true`", "`false`: no action changes this feature, other than what a link drags along"},
		{
			"mutable", d.flag(&f.Mutable), "as `actionable`, and `true` for what a link drags along",
			"`false`: it never changes at all, which makes it not `actionable`, too",
		},
		{
			"direction", d.direction(f), "`any`",
			"`increase`, `decrease` or `any` (both); an increase of a binary feature goes from `zero` to `one`, one of an ordered one to a later value",
		},
		{
			"bounds", d.span(&f.Bounds, b), "`[null, null]`",
			"`[lo, hi]` in raw units or percentiles (`[1%, 99%]`, by `quantiles`), which an action may not leave; `null` leaves a side open; " +
				"a person beyond them stays or comes closer",
		},
		{
			"step", d.number(&f.Step).above0(), "any change",
			"raw units, above 0; changes are whole multiples of it, from the person's own value; ordinal with `values`: those are the steps",
		},
		{"max_increase", d.number(&f.MaxIncrease).from0(), "no limit", "largest increase in raw units, 0 or more; places for ordered values"},
		{"max_decrease", d.number(&f.MaxDecrease).from0(), "no limit", "largest decrease in raw units, 0 or more; places for ordered values"},
		{
			"max_change", d.number(&f.MaxChange).from0(), "no limit",
			"largest change in raw units, 0 or more, in either direction; places for ordered values",
		},
		{"weight", d.number(&f.Weight).above0(), "`1`", "factor, above 0, on the cost of a change; unused with cost weights `uniform`"},
		{
			"switch_cost", d.number(&f.SwitchCost).above0(), "by the weights, see `switches` of the cost",
			"cost of another value, above 0, in place of what the weights say; for ordered values, of each place",
		},
		{
			"transitions", d.transitions(&f.Transitions), "any value may become any other",
			"what may become what, as `{rent: [family]}`; once given, a value that is no key stays, and so does a missing one",
		},
	}
}

// featuresForm is the list of features.
func featuresForm() schema {
	d := &decoder{}
	s := listOf(func() schema {
		f := defaultFeature()
		return object(d.featureKeys(&f, &percents{}), d.featureAliases(&f, &percents{}))
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

// direction stores a direction, also as MACE calls it.
func (d *decoder) direction(f *Feature) value {
	words := []string{string(Any), string(Increase), string(Decrease), "same-or-increase", "same-or-decrease", "none"}
	return value{func(n ast.Node) {
		if i := d.oneOf(n, words); i >= 0 {
			f.Direction = []Direction{Any, Increase, Decrease, Increase, Decrease, Any}[i] // see noDirection for none
		}
	}, oneOf(words)}
}

// transitions stores the mapping of a value to those it may become.
func (d *decoder) transitions(dst *map[string][]string) value {
	return value{func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "transitions must map a value to the values it may become, as {Private: [State-gov]}, not %s", describe(n))
			return
		}
		*dst = map[string][]string{}
		for _, kv := range node.Values {
			key, ok := d.key(kv.Key)
			if !ok {
				continue
			}
			if _, dup := (*dst)[key]; dup {
				d.errorf(kv.Key, "transitions from %q are given twice; keep one list", key)
			}
			var to []string
			if _, none := kv.Value.(*ast.NullNode); !none {
				d.texts(&to).read(kv.Value)
			}
			(*dst)[key] = to
		}
	}, mapOf(anyOf(scalarForm, listOf(scalarForm), func() schema { return schema{"type": "null"} }))}
}

// shares stores a list of shares, or the single one of a binary feature.
func (d *decoder) shares(dst *[]float64) value {
	return value{func(n ast.Node) {
		if _, ok := n.(*ast.SequenceNode); ok {
			d.numbers(dst).read(n)
			return
		}
		*dst = []float64{0}
		d.number(&(*dst)[0]).read(n)
	}, oneOrMore(func() schema { return schema{"type": "number", "minimum": 0, "maximum": 1} })}
}

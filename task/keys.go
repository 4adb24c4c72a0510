package task

import (
	"math"

	"github.com/goccy/go-yaml/ast"
)

// The functions below declare the keys of a task file, one list for each mapping. The decoder reads by them and Markdown prints them, so
// that the reference page cannot differ from what is read.

func (d *decoder) taskRules(t *Task, data *mapping, features *[]mapping) []rule {
	each := func(_ int, n ast.Node) {
		f := defaultFeature()
		*features = append(*features, d.feature(n, &f))
		t.Features = append(t.Features, f)
	}
	return []rule{
		{"version", d.count(&t.Version), required, "version of the format; 1 is the only one"},
		{
			"encoded", d.flag(&t.Encoded), "`false`",
			"`true`: data files hold the model's inputs (standardised, one-hot) instead of raw columns; a file whose header names the inputs " +
				"(`age`, `housing=rent`) and a `.npy` matrix are taken so by themselves",
		},
		{
			"data", func(n ast.Node) { *data = d.data(n, &t.Data) },
			"comma-separated, with a header and no outcome", "how data files are read, see below",
		},
		{"target", func(n ast.Node) { d.target(n, &t.Target) }, "see below", "the outcome that people want"},
		{
			"features", func(n ast.Node) { d.list(n, "features", each) },
			required, "list of features, in the order of the model's inputs, see below",
		},
		{"cost", func(n ast.Node) { d.cost(n, &t.Cost) }, "see below", "what a change costs"},
		{
			"sparsity", func(n ast.Node) { d.mapping(n, "sparsity", d.sparsityRules(&t.Sparsity)) },
			"no limit", "how many features an action may change",
		},
	}
}

func (d *decoder) dataRules(t *Data) []rule {
	return []rule{
		{"label", d.text(&t.Label), "no outcome", "column of the outcome; a data file may lack it, the outcomes are not known then"},
		{
			"label_suffix", d.text(&t.LabelSuffix), "nothing",
			"removed from the end of label values that have it, as the full stop of Adult's test file",
		},
		{
			"favourable", d.text(&t.Favourable), "required with `label`",
			"label value of the favourable outcome; every other one is the unfavourable outcome, and a missing one is not known",
		},
		{
			"missing", d.texts(&t.Missing), "only the empty field",
			"field value, or list of them, that means \"not known\"; the empty field always does",
		},
		{"delimiter", d.char(&t.Delimiter), "`\",\"`", "the character between fields"},
		{"trim", d.flag(&t.Trim), "`false`", "remove blanks around fields; those around the names of a header always are"},
		{"comment", d.char(&t.Comment), "none", "a line that starts with this character is not data"},
		{"skip", d.count(&t.Skip), "`0`", "lines before the header, or before the data of a file without one"},
		{
			"columns", d.texts(&t.Columns), "the first row names them",
			"names of the columns of a file without header; the last may be absent from a file if it is the label",
		},
		{"drop", d.texts(&t.Drop), "none", "columns that must never become features; a feature that reads one is a mistake"},
		{
			"subgroups", d.texts(&t.Subgroups), "none",
			"columns that are no features, but whose values are kept with each person to tell groups apart",
		},
		{
			"filter", func(n ast.Node) {
				d.list(n, "filter", func(_ int, n ast.Node) {
					c := Condition{Min: math.Inf(-1), Max: math.Inf(1)}
					d.condition(n, &c)
					t.Filter = append(t.Filter, c)
				})
			},
			"every row", "list of conditions, see below; a row that fails one is nobody of this task: not read, not counted as unreadable",
		},
	}
}

func (d *decoder) filterRules(c *Condition) []rule {
	return []rule{
		{"column", d.text(&c.Column), required, "the column that is looked at; it need not be a feature"},
		{"min", d.number(&c.Min), "no limit", "smallest raw value; a field that is no number fails"},
		{"max", d.number(&c.Max), "no limit", "largest raw value; a field that is no number fails"},
		{"not", d.texts(&c.Not), "none", "field value, or list of them, that fails; `1` and `1.0` are the same"},
	}
}

func (d *decoder) targetRules(t *Target) []rule {
	return []rule{
		{"class", word(d, &t.Class, "favourable"), "`favourable`", "the outcome that recourse aims at; `favourable` is the only one"},
		{
			"index", d.count(&t.Index), "`1`",
			"class index of the favourable outcome among the model's outputs, from 0; with a single logit, 1 is a logit above 0 and 0 one below",
		},
		{
			"margin", d.number(&t.Margin), "`0`",
			"margin in logits, 0 or more, that recourse is meant to reach; `cfq eval` asks for those of `--margins` instead",
		},
	}
}

func (d *decoder) featureRules(f *Feature) []rule {
	return []rule{
		{"name", d.text(&f.Name), required, "name in messages and reports; no two features share one"},
		{"column", d.text(&f.Column), "the name", "column of the data file"},
		{"kind", word(d, &f.Kind, Numeric, Ordinal, Binary, OneHot), required, "`numeric`, `ordinal`, `binary` or `onehot`, see above"},
		{"mean", d.number(&f.Mean), "`0`", "raw value that becomes the input 0; together with `std`"},
		{"std", d.number(&f.Std), "`1`", "raw units, above 0, that make one unit of the input; together with `mean`"},
		{"one", d.text(&f.One), "required if binary", "value that becomes 1"},
		{"zero", d.text(&f.Zero), "every value but `one`", "value that becomes 0; when given, a row with a third value cannot be read"},
		{
			"values", d.texts(&f.Values), "required if one-hot; ordinal: `bounds` and `step` instead",
			"one-hot: the values in the order of the inputs; ordinal: the numbers that can occur, in raw units",
		},
		{
			"shares", d.shares(&f.Shares), "1/number of values; 1/2 if binary",
			"shares, 0 to 1, in the training rows, for the cost: of each value in the order of `values`, together at most 1, or of `one` alone",
		},
		{"actionable", d.flag(&f.Actionable), "`true`", "`false`: no action changes this feature"},
		{
			"direction", word(d, &f.Direction, Any, Increase, Decrease), "`any`",
			"`increase`, `decrease` or `any` (both); an increase of a binary feature goes from `zero` to `one`",
		},
		{
			"bounds", d.span(&f.Bounds), "`[null, null]`",
			"`[lo, hi]` in raw units, which an action may not leave; `null` leaves a side open; a person beyond them stays or comes closer",
		},
		{
			"step", d.number(&f.Step), "any change",
			"raw units, above 0; changes are whole multiples of it, from the person's own value; ordinal with `values`: those are the steps",
		},
		{"max_increase", d.number(&f.MaxIncrease), "no limit", "largest increase in raw units, 0 or more"},
		{"max_decrease", d.number(&f.MaxDecrease), "no limit", "largest decrease in raw units, 0 or more"},
		{"max_change", d.number(&f.MaxChange), "no limit", "largest change in raw units, 0 or more, in either direction"},
		{"weight", d.number(&f.Weight), "`1`", "factor, above 0, on the cost of a change; unused with cost weights `uniform`"},
		{
			"transitions", d.transitions(&f.Transitions), "any value may become any other",
			"what may become what, as `{rent: [family]}`; once given, a value that is no key stays, and so does a missing one",
		},
		{
			"subgroup", d.flag(&f.Subgroup), "`false`",
			"`true`: the value is kept with each person to tell groups apart; an ordinal feature needs `values` for it",
		},
	}
}

func (d *decoder) costRules(c *Cost) []rule {
	return []rule{
		{"norm", word(d, &c.Norm, L1, L2), "`l1`", "`l1`: sum of weight times change over the inputs; `l2`: root of the sum of squares of the same"},
		{
			"weights", word(d, &c.Weights, "inverse_std", "uniform", "given"), "`inverse_std`",
			"weight of an input: `inverse_std` is the feature's `weight`/(sigma + `eps`), `given` the feature's `weight` alone, `uniform` 1",
		},
		{"eps", d.number(&c.Eps), "`0.001`", "model-input units, above 0; bounds the weight of an input that hardly varies"},
	}
}

func (d *decoder) sparsityRules(s *Sparsity) []rule {
	return []rule{{
		"max_features", d.count(&s.MaxFeatures), "`0`",
		"most features that an action changes, 0 for no limit; a one-hot feature counts once, however many inputs it has",
	}}
}

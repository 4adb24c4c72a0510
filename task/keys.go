package task

import (
	"math"

	"github.com/goccy/go-yaml/ast"
)

// The functions here and in featurekeys.go declare the keys of a task file, one list for each mapping. The decoder reads by them, Markdown prints
// them and Schema translates them, so that neither the reference page nor the schema can differ from what is read.

// parts are the places of the parts of a task file, for what is checked once all of it is read.
type parts struct {
	data              mapping
	features          []mapping
	links, conditions ast.Node // nil when the file has none
	cost              mapping
}

func (d *decoder) taskKeys(t *Task, p *parts) []key {
	each := func(_ int, n ast.Node) {
		f := defaultFeature()
		p.features = append(p.features, d.feature(n, &f))
		t.Features = append(t.Features, f)
	}
	return []key{
		{"version", d.count(&t.Version).with("enum", []int{1}), required, "version of the format; 1 is the only one"},
		{
			"encoded", d.flag(&t.Encoded), "`false`",
			"`true`: data files hold the model's inputs (standardised, one-hot) instead of raw columns; a file whose header names the inputs " +
				"(`age`, `housing=rent`, `savings>=1000`) and a `.npy` matrix are taken so by themselves",
		},
		{
			"data",
			value{func(n ast.Node) { p.data = d.data(n, &t.Data) }, func() schema { return object(d.dataKeys(&Data{}), nil) }},
			"comma-separated, with a header and no outcome", "how data files are read, see below",
		},
		{
			"target",
			value{func(n ast.Node) { d.target(n, &t.Target) }, func() schema { return object(d.targetKeys(&Target{}), nil) }},
			"see below", "the outcome that people want",
		},
		{
			"features",
			value{func(n ast.Node) { d.list(n, "features", each) }, featuresForm},
			required, "list of features, in the order of the model's inputs, see below",
		},
		{
			"links",
			value{func(n ast.Node) { p.links = n }, listOf(func() schema { return object(d.linkKeys(&Link{}, &pairs{}), nil) })},
			"every feature changes alone", "list of changes that drag others along, see below",
		},
		{
			"constraints",
			value{func(n ast.Node) { p.conditions = n }, conditionsForm},
			"none",
			"list of what must hold between features after an action: inequalities, if-then rules and subset limits, see below",
		},
		{
			"cost",
			value{func(n ast.Node) { p.cost = d.cost(n, &t.Cost) }, func() schema { return object(d.costKeys(&Cost{}), nil) }},
			"see below", "what a change costs",
		},
		{
			"sparsity",
			value{
				func(n ast.Node) { d.mapping(n, "sparsity", d.sparsityKeys(&t.Sparsity)) },
				func() schema { return object(d.sparsityKeys(&Sparsity{}), nil) },
			},
			"no limit", "how many features an action may change",
		},
	}
}

func (d *decoder) dataKeys(t *Data) []key {
	return []key{
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
			"filter",
			value{func(n ast.Node) {
				d.list(n, "filter", func(_ int, n ast.Node) {
					c := Condition{Min: math.Inf(-1), Max: math.Inf(1)}
					d.condition(n, &c)
					t.Filter = append(t.Filter, c)
				})
			}, listOf(func() schema { return object(d.filterKeys(&Condition{}), nil) })},
			"every row", "list of conditions, see below; a row that fails one is nobody of this task: not read, not counted as unreadable",
		},
	}
}

func (d *decoder) filterKeys(c *Condition) []key {
	return []key{
		{"column", d.text(&c.Column), required, "the column that is looked at; it need not be a feature"},
		{"min", d.number(&c.Min), "no limit", "smallest raw value; a field that is no number fails"},
		{"max", d.number(&c.Max), "no limit", "largest raw value; a field that is no number fails"},
		{"not", d.texts(&c.Not), "none", "field value, or list of them, that fails; `1` and `1.0` are the same"},
	}
}

func (d *decoder) targetKeys(t *Target) []key {
	return []key{
		{"class", word(d, &t.Class, "favourable"), "`favourable`", "the outcome that recourse aims at; `favourable` is the only one"},
		{
			"index", d.count(&t.Index), "`1`",
			"class index of the favourable outcome among the model's outputs, from 0; with a single logit, 1 is a logit above 0 and 0 one below",
		},
		{
			"margin", d.number(&t.Margin).from0(), "`0`",
			"margin in logits, 0 or more, that recourse is meant to reach; `cfq eval` asks for those of `--margins` instead",
		},
	}
}

func (d *decoder) costKeys(c *Cost) []key {
	return []key{
		{
			"norm", word(d, &c.Norm, L1, L2, LInf, Mixed, PercentileShift), "`l1`",
			"how weighted changes add up: `l1` their sum, `l2` the root of the sum of squares, `linf` the largest, `mixed` both by `l1_ratio`, " +
				"`max_percentile_shift` the largest `weight` times shift in the distribution of the training rows",
		},
		{
			"l1_ratio", d.number(&c.L1Ratio).from0().with("maximum", 1), "`0.5`",
			"only with `mixed`, 0 to 1: the cost is `l1_ratio` times the sum plus the rest times the sum of squares",
		},
		{
			"weights", word(d, &c.Weights, InverseStd, InverseMAD, InverseRange, Uniform, Given), "`inverse_std`",
			"weight of an input: `inverse_std` is the feature's `weight`/(sigma + `eps`), `inverse_mad` and `inverse_range` the same with the `mad` " +
				"and the range, `given` the feature's `weight` alone, `uniform` 1",
		},
		{"eps", d.number(&c.Eps).above0(), "`0.001`", "model-input units, above 0; bounds the weight of an input that hardly varies"},
		{
			"switches", word(d, &c.Switches, Once, Encoded), "`once`",
			"what another one-hot value costs where no `switch_cost` is given: `once` a change of size 1 at the mean of the weights of the two values, " +
				"`encoded` the changes of both inputs",
		},
	}
}

func (d *decoder) sparsityKeys(s *Sparsity) []key {
	return []key{{
		"max_features", d.count(&s.MaxFeatures), "`0`",
		"most features that an action changes, 0 for no limit; a one-hot feature counts once, however many inputs it has",
	}}
}

package task

import (
	"math"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
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
		{Name: "version", Value: d.count(&t.Version).With("enum", []int{1}), Fallback: required, Doc: "version of the format; 1 is the only one"},
		{
			Name: "encoded", Value: d.flag(&t.Encoded), Fallback: "`false`",
			Doc: "`true`: data files hold the model's inputs (standardised, one-hot) instead of raw columns; a file whose header names the inputs " +
				"(`age`, `housing=rent`, `savings>=1000`) is taken so by itself",
		},
		{
			Name:     "data",
			Value:    value{Read: func(n ast.Node) { p.data = d.data(n, &t.Data) }, Form: func() schema { return config.Object(d.dataKeys(&Data{})) }},
			Fallback: "comma-separated, with a header and no outcome", Doc: "how data files are read, see below",
		},
		{
			Name:     "target",
			Value:    value{Read: func(n ast.Node) { d.target(n, &t.Target) }, Form: func() schema { return config.Object(d.targetKeys(&Target{})) }},
			Fallback: "see below", Doc: "the outcome that people want",
		},
		{
			Name:     "features",
			Value:    value{Read: func(n ast.Node) { d.List(n, "features", each) }, Form: featuresForm},
			Fallback: required, Doc: "list of features, in the order of the model's inputs, see below",
		},
		{
			Name:     "links",
			Value:    value{Read: func(n ast.Node) { p.links = n }, Form: config.ListOf(func() schema { return config.Object(d.linkKeys(&Link{}, &pairs{})) })},
			Fallback: "every feature changes alone", Doc: "list of changes that drag others along, see below",
		},
		{
			Name:     "constraints",
			Value:    value{Read: func(n ast.Node) { p.conditions = n }, Form: conditionsForm},
			Fallback: "none",
			Doc:      "list of what must hold between features after an action: inequalities, if-then rules and subset limits, see below",
		},
		{
			Name:     "cost",
			Value:    value{Read: func(n ast.Node) { p.cost = d.cost(n, &t.Cost) }, Form: func() schema { return config.Object(d.costKeys(&Cost{})) }},
			Fallback: "see below", Doc: "what a change costs",
		},
		{
			Name: "sparsity",
			Value: value{
				Read: func(n ast.Node) { d.mapping(n, "sparsity", d.sparsityKeys(&t.Sparsity)) },
				Form: func() schema { return config.Object(d.sparsityKeys(&Sparsity{})) },
			},
			Fallback: "no limit", Doc: "how many features an action may change",
		},
	}
}

func (d *decoder) dataKeys(t *Data) []key {
	return []key{
		{Name: "label", Value: d.text(&t.Label), Fallback: "no outcome", Doc: "column of the outcome; a data file may lack it, the outcomes are not known then"},
		{
			Name: "label_suffix", Value: d.text(&t.LabelSuffix), Fallback: "nothing",
			Doc: "removed from the end of label values that have it, as the full stop of Adult's test file",
		},
		{
			Name: "favourable", Value: d.text(&t.Favourable), Fallback: "required with `label`",
			Doc: "label value of the favourable outcome; every other one is the unfavourable outcome, and a missing one is not known",
		},
		{
			Name: "missing", Value: d.texts(&t.Missing), Fallback: "only the empty field",
			Doc: "field value, or list of them, that means \"not known\"; the empty field always does",
		},
		{Name: "delimiter", Value: d.char(&t.Delimiter), Fallback: "`\",\"`", Doc: "the character between fields"},
		{Name: "trim", Value: d.flag(&t.Trim), Fallback: "`false`", Doc: "remove blanks around fields; those around the names of a header always are"},
		{Name: "comment", Value: d.char(&t.Comment), Fallback: "none", Doc: "a line that starts with this character is not data"},
		{Name: "skip", Value: d.count(&t.Skip), Fallback: "`0`", Doc: "lines before the header, or before the data of a file without one"},
		{
			Name: "columns", Value: d.texts(&t.Columns), Fallback: "the first row names them",
			Doc: "names of the columns of a file without header; the last may be absent from a file if it is the label",
		},
		{Name: "drop", Value: d.texts(&t.Drop), Fallback: "none", Doc: "columns that must never become features; a feature that reads one is a mistake"},
		{
			Name: "subgroups", Value: d.texts(&t.Subgroups), Fallback: "none",
			Doc: "columns that are no features, but whose values are kept with each person to tell groups apart",
		},
		{
			Name: "filter",
			Value: value{Read: func(n ast.Node) {
				d.List(n, "filter", func(_ int, n ast.Node) {
					c := Condition{Min: math.Inf(-1), Max: math.Inf(1)}
					d.condition(n, &c)
					t.Filter = append(t.Filter, c)
				})
			}, Form: config.ListOf(func() schema { return config.Object(d.filterKeys(&Condition{})) })},
			Fallback: "every row", Doc: "list of conditions, see below; a row that fails one is nobody of this task: not read, not counted as unreadable",
		},
	}
}

func (d *decoder) filterKeys(c *Condition) []key {
	return []key{
		{Name: "column", Value: d.text(&c.Column), Fallback: required, Doc: "the column that is looked at; it need not be a feature"},
		{Name: "min", Value: d.number(&c.Min), Fallback: "no limit", Doc: "smallest raw value; a field that is no number fails"},
		{Name: "max", Value: d.number(&c.Max), Fallback: "no limit", Doc: "largest raw value; a field that is no number fails"},
		{Name: "not", Value: d.texts(&c.Not), Fallback: "none", Doc: "field value, or list of them, that fails; `1` and `1.0` are the same"},
	}
}

func (d *decoder) targetKeys(t *Target) []key {
	return []key{
		{Name: "class", Value: word(d, &t.Class, "favourable"), Fallback: "`favourable`", Doc: "the outcome that recourse aims at; `favourable` is the only one"},
		{
			Name: "index", Value: d.count(&t.Index), Fallback: "`1`",
			Doc: "class index of the favourable outcome among the model's outputs, from 0; with a single logit, 1 is a logit above 0 and 0 one below",
		},
		{
			Name: "margin", Value: d.number(&t.Margin).From0(), Fallback: "`0`",
			Doc: "margin in logits, 0 or more, that recourse is meant to reach; `cfq eval` asks for those of `--margins` instead",
		},
	}
}

func (d *decoder) costKeys(c *Cost) []key {
	return []key{
		{
			Name: "norm", Value: word(d, &c.Norm, L1, L2, Mixed), Fallback: "`l1`",
			Doc: "how weighted changes add up: `l1` their sum, `l2` the root of the sum of squares, `mixed` both by `l1_ratio`",
		},
		{
			Name: "l1_ratio", Value: d.number(&c.L1Ratio).From0().With("maximum", 1), Fallback: "`0.5`",
			Doc: "only with `mixed`, 0 to 1: the cost is `l1_ratio` times the sum plus the rest times the sum of squares",
		},
		{
			Name: "weights", Value: word(d, &c.Weights, InverseStd, InverseMAD, InverseRange, Uniform, Given), Fallback: "`inverse_std`",
			Doc: "weight of an input: `inverse_std` is the feature's `weight`/(sigma + `eps`), `inverse_mad` and `inverse_range` the same with the `mad` " +
				"and the range, `given` the feature's `weight` alone, `uniform` 1",
		},
		{Name: "eps", Value: d.number(&c.Eps).Above0(), Fallback: "`0.001`", Doc: "model-input units, above 0; bounds the weight of an input that hardly varies"},
		{
			Name: "switches", Value: word(d, &c.Switches, Once, Encoded), Fallback: "`once`",
			Doc: "what another one-hot value costs where no `switch_cost` is given: `once` a change of size 1 at the mean of the weights of the two values, " +
				"`encoded` the changes of both inputs",
		},
	}
}

func (d *decoder) sparsityKeys(s *Sparsity) []key {
	return []key{{
		Name: "max_features", Value: d.count(&s.MaxFeatures), Fallback: "`0`",
		Doc: "most features that an action changes, 0 for no limit; a one-hot feature counts once, however many inputs it has",
	}}
}

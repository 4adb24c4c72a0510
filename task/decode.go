package task

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/config"
	"cfq/internal/message"
)

// A task file is read by keys; package config says what these are.
type (
	key     = config.Key
	value   = config.Value
	mapping = config.Mapping
	schema  = config.Schema
)

const required = config.Required

// Error is one mistake in a task file.
type Error = config.Error

// Errors are all mistakes of one task file in the order of their places.
type Errors = config.Errors

// decoder walks a parsed task file and collects mistakes.
type decoder struct{ config.Decoder }

func newDecoder(file string) *decoder {
	return &decoder{config.Decoder{File: file, Kind: "task file"}}
}

// clause is a part of a message that is never shortened.
type clause string

// errorf notes a mistake at n. Texts among args are cut to a length that a terminal line can hold: they may be a whole
// file that is no task file.
func (d *decoder) errorf(n ast.Node, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = message.Clip(s)
		}
	}
	d.Errorf(n, format, args...)
}

// mapping decodes n by its keys; what names it in messages ("data", "a feature").
func (d *decoder) mapping(n ast.Node, what string, keys []key) mapping {
	m := d.Mapping(n, what, keys)
	for _, k := range keys {
		if k.Fallback == required && !m.Has(k.Name) && !m.Bad[k.Name] {
			d.errorf(m.Node, "%s needs the key %q", what, k.Name)
		}
	}
	return m
}

// describe names what a node is, for messages.
func (d *decoder) describe(n ast.Node) clause { return clause(d.Describe(n)) }

// didYouMean is the clause to put behind a message about the unknown word s.
func didYouMean(s string, candidates []string) clause {
	return clause(message.DidYouMean(s, candidates))
}

// Number reads a decimal number such as 40, -1.5 or 1e+05. Infinities, NaN, hexadecimals and digit separators are no
// numbers here.
func Number(s string) (float64, bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) { // ParseFloat also reads "inf", "nan", "0x1p4" and "1_000"
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// Load reads a task file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Task, error) {
	data, err := config.Content("task file", path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads a task file's content; name is the file name in messages. Mistakes are returned as Errors: all of them,
// not the first.
func Parse(name string, data []byte) (*Task, error) {
	d := newDecoder(name)
	var t *Task
	if root := d.Document(data, "version, data and features"); root != nil {
		t = d.task(root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// task decodes and checks the whole file.
func (d *decoder) task(root ast.Node) *Task {
	t := &Task{
		Data:   Data{Delimiter: ','},
		Target: Target{Class: "favourable", Index: 1},
		Cost:   Cost{Norm: L1, L1Ratio: 0.5, Weights: InverseStd, Eps: 1e-3, Switches: Once},
	}
	var p parts
	top := d.mapping(root, "the task file", d.taskKeys(t, &p))
	if top.Has("version") && t.Version != 1 {
		d.errorf(top.Place("version"), "this task file has version %d; the version known here is 1", t.Version)
	}
	if top.Has("features") && len(t.Features) == 0 {
		d.errorf(top.Place("features"), "the list of features is empty; name each input of the model")
	}
	known := len(t.Features) > 0
	for i := range t.Features {
		d.checkMutable(&t.Features[i], p.features[i])
		d.checkFeature(&t.Features[i], p.features[i])
		known = known && t.Features[i].Kind != "" && t.Features[i].Width > 0
	}
	d.checkNames(t, p.data, p.features)
	if known { // what refers to features that are no features would be reported twice
		d.links(p.links, t, p.features)
		d.rules(p.conditions, t)
		t.settleMutable(p.features)
		d.checkCost(t, p.cost, p.features)
	}
	offset := 0
	for i := range t.Features {
		t.Features[i].Offset = offset
		offset += t.Features[i].Width
	}
	return t
}

// checkMutable makes what is not mutable not actionable.
func (d *decoder) checkMutable(f *Feature, m mapping) {
	if !m.Has("mutable") || f.Mutable {
		return
	}
	if m.Has("actionable") && f.Actionable {
		d.errorf(m.Place("mutable"), "feature %q: it is actionable and never changes (mutable: false); keep one of the two",
			f.Name)
	}
	f.Actionable = false
}

// settleMutable fills in Mutable where the file does not say.
func (t *Task) settleMutable(features []mapping) {
	for i := range t.Features {
		if f := &t.Features[i]; !features[i].Has("mutable") {
			f.Mutable = f.Actionable || t.Moves(f.Name)
		}
	}
}

// Moves says whether a link moves the feature along.
func (t *Task) Moves(name string) bool {
	return slices.ContainsFunc(t.Links, func(l Link) bool { return l.To == name })
}

func (d *decoder) data(n ast.Node, t *Data) mapping {
	m := d.mapping(n, "data", d.dataKeys(t))
	if t.Comment == t.Delimiter {
		d.errorf(m.Place("comment"), "comment and delimiter must differ")
	}
	return m
}

func (d *decoder) condition(n ast.Node, c *Condition) {
	m := d.mapping(n, "a filter", d.filterKeys(c))
	switch {
	case !m.Has("column"):
	case !m.Has("min") && !m.Has("max") && !m.Has("not"):
		d.errorf(m.Node, "a filter needs a condition: min, max or not")
	case c.Min > c.Max:
		d.errorf(m.Place("min"), "no value lies between min %v and max %v", c.Min, c.Max)
	}
}

// The functions below declare the keys of a task file, one list for each mapping. The decoder reads by them, and Schema
// translates them with what reference.txt says of each.

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
		{Name: "version", Value: d.count(&t.Version).With("enum", []int{1}), Fallback: required},
		{Name: "encoded", Value: d.flag(&t.Encoded)},
		{Name: "data", Value: value{
			Read: func(n ast.Node) { p.data = d.data(n, &t.Data) },
			Form: object("`data`", d.dataKeys(&Data{})),
		}},
		{Name: "target", Value: value{
			Read: func(n ast.Node) { d.mapping(n, "target", d.targetKeys(&t.Target)) },
			Form: object("`target`", d.targetKeys(&Target{})),
		}},
		{Name: "features", Value: value{
			Read: func(n ast.Node) { d.List(n, "features", each) },
			Form: config.ListOf(object("A feature of `features`", d.featureKeys(&Feature{}, &percents{}))),
		}.With("minItems", 1), Fallback: required},
		{Name: "links", Value: value{
			Read: func(n ast.Node) { p.links = n },
			Form: config.ListOf(object("A link of `links`", d.linkKeys(&Link{}, &pairs{}))),
		}},
		{Name: "constraints", Value: value{Read: func(n ast.Node) { p.conditions = n }, Form: conditionsForm}},
		{Name: "cost", Value: value{
			Read: func(n ast.Node) { p.cost = d.cost(n, &t.Cost) },
			Form: object("`cost`", d.costKeys(&Cost{})),
		}},
		{Name: "sparsity", Value: value{
			Read: func(n ast.Node) { d.mapping(n, "sparsity", d.sparsityKeys(&t.Sparsity)) },
			Form: object("`sparsity`", d.sparsityKeys(&Sparsity{})),
		}},
	}
}

func (d *decoder) dataKeys(t *Data) []key {
	return []key{
		{Name: "label", Value: d.text(&t.Label)},
		{Name: "label_suffix", Value: d.text(&t.LabelSuffix)},
		{Name: "favourable", Value: d.text(&t.Favourable)},
		{Name: "missing", Value: d.texts(&t.Missing)},
		{Name: "delimiter", Value: d.char(&t.Delimiter)},
		{Name: "trim", Value: d.flag(&t.Trim)},
		{Name: "comment", Value: d.char(&t.Comment)},
		{Name: "skip", Value: d.count(&t.Skip)},
		{Name: "columns", Value: d.texts(&t.Columns)},
		{Name: "drop", Value: d.texts(&t.Drop)},
		{Name: "subgroups", Value: d.texts(&t.Subgroups)},
		{Name: "filter", Value: value{Read: func(n ast.Node) {
			d.List(n, "filter", func(_ int, n ast.Node) {
				c := Condition{Min: math.Inf(-1), Max: math.Inf(1)}
				d.condition(n, &c)
				t.Filter = append(t.Filter, c)
			})
		}, Form: config.ListOf(object("A condition of `data.filter`", d.filterKeys(&Condition{})))}},
	}
}

func (d *decoder) filterKeys(c *Condition) []key {
	return []key{
		{Name: "column", Value: d.text(&c.Column), Fallback: required},
		{Name: "min", Value: d.number(&c.Min)},
		{Name: "max", Value: d.number(&c.Max)},
		{Name: "not", Value: d.texts(&c.Not)},
	}
}

func (d *decoder) targetKeys(t *Target) []key {
	return []key{
		{Name: "class", Value: word(d, &t.Class, "favourable")},
		{Name: "index", Value: d.count(&t.Index)},
		{Name: "margin", Value: d.from0(&t.Margin)},
	}
}

func (d *decoder) costKeys(c *Cost) []key {
	return []key{
		{Name: "norm", Value: word(d, &c.Norm, L1, L2, Mixed)},
		{Name: "l1_ratio", Value: d.within(&c.L1Ratio, "between 0 and 1", 0, 1).With("minimum", 0).With("maximum", 1)},
		{Name: "weights", Value: word(d, &c.Weights, InverseStd, InverseMAD, InverseRange, Uniform, Given)},
		{Name: "eps", Value: d.above0(&c.Eps)},
		{Name: "switches", Value: word(d, &c.Switches, Once, Encoded)},
	}
}

func (d *decoder) sparsityKeys(s *Sparsity) []key {
	return []key{{Name: "max_features", Value: d.count(&s.MaxFeatures)}}
}

func (d *decoder) featureKeys(f *Feature, b *percents) []key {
	keys := append(d.encodingKeys(f), d.actionKeys(f, b)...)
	return append(keys, key{Name: "subgroup", Value: d.flag(&f.Subgroup)})
}

// encodingKeys are what a feature is: how it becomes inputs and how it is distributed.
func (d *decoder) encodingKeys(f *Feature) []key {
	return []key{
		{Name: "name", Value: d.text(&f.Name), Fallback: required},
		{Name: "column", Value: d.text(&f.Column)},
		{Name: "kind", Value: word(d, &f.Kind, Numeric, Ordinal, Binary, OneHot, Thermometer), Fallback: required},
		{Name: "mean", Value: d.number(&f.Mean)},
		{Name: "std", Value: d.above0(&f.Std)},
		{Name: "one", Value: d.text(&f.One)},
		{Name: "zero", Value: d.text(&f.Zero)},
		{Name: "values", Value: d.texts(&f.Values)},
		{Name: "thresholds", Value: d.numbers(&f.Thresholds)},
		{Name: "ordered", Value: d.flag(&f.Ordered)},
		{Name: "shares", Value: d.shares(&f.Shares)},
		{Name: "mad", Value: d.from0(&f.MAD)},
		{Name: "quantiles", Value: d.numbers(&f.Quantiles)},
	}
}

// actionKeys are what people can change about a feature, and at what cost.
func (d *decoder) actionKeys(f *Feature, b *percents) []key {
	return []key{
		{Name: "actionable", Value: d.flag(&f.Actionable)},
		{Name: "mutable", Value: d.flag(&f.Mutable)},
		{Name: "direction", Value: word(d, &f.Direction, Any, Increase, Decrease)},
		{Name: "bounds", Value: d.span(&f.Bounds, b)},
		{Name: "step", Value: d.above0(&f.Step)},
		{Name: "max_increase", Value: d.from0(&f.MaxIncrease)},
		{Name: "max_decrease", Value: d.from0(&f.MaxDecrease)},
		{Name: "max_change", Value: d.from0(&f.MaxChange)},
		{Name: "weight", Value: d.above0(&f.Weight)},
		{Name: "switch_cost", Value: d.above0(&f.SwitchCost)},
		{Name: "transitions", Value: d.transitions(&f.Transitions)},
	}
}

// applies lists, for each kind, the keys that mean something for it beyond those every feature has.
func applies(k Kind) []string {
	switch k {
	case Numeric:
		return []string{
			"mean", "std", "mad", "quantiles", "direction", "bounds", "step", "max_increase", "max_decrease",
			"max_change",
		}
	case Ordinal:
		return append(applies(Numeric), "values", "subgroup")
	case Binary:
		return []string{"one", "zero", "shares", "direction", "subgroup"}
	case Thermometer:
		return []string{
			"values", "thresholds", "shares", "direction", "max_increase", "max_decrease", "max_change",
			"switch_cost", "subgroup",
		}
	default:
		return []string{
			"values", "ordered", "shares", "direction", "max_increase", "max_decrease", "max_change",
			"switch_cost", "transitions", "subgroup",
		}
	}
}

// allKinds are the kinds in the order of the reference page.
func allKinds() []Kind { return []Kind{Numeric, Ordinal, Binary, OneHot, Thermometer} }

// transitions stores the mapping of a value to those it may become.
func (d *decoder) transitions(dst *map[string][]string) value {
	return value{Read: func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "transitions must map a value to the values it may become, as {Private: [State-gov]}, not %s",
				d.describe(n))
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

// text stores a scalar as it is written: a label 0 or a category 1e5 is a text here, whatever YAML takes it for.
func (d *decoder) text(dst *string) value {
	return value{Read: func(n ast.Node) {
		if s, ok := d.Text(n); ok {
			*dst = s
		}
	}, Form: scalarForm}
}

// texts stores a list of texts; a single one may stand without brackets.
func (d *decoder) texts(dst *[]string) value {
	return value{Read: func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			if s, ok := d.Text(n); ok {
				*dst = []string{s}
			}
			return
		}
		*dst = make([]string, 0, len(seq.Values))
		for _, v := range seq.Values {
			s, _ := d.Text(v) // a mistake keeps its place in the list, so that the others keep theirs
			*dst = append(*dst, s)
		}
	}, Form: oneOrMore(scalarForm)}
}

func (d *decoder) float(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if f, ok := Number(strings.ReplaceAll(config.ScalarText(n), "_", "")); ok {
			return f, true
		}
	case *ast.InfinityNode:
		return v.Value, true
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if f, ok := Number(v.Value); ok && v.Token.Type == token.StringType {
			return f, true
		}
	}
	d.errorf(n, "this must be a number, not %s", d.describe(n))
	return 0, false
}

// number stores a finite number.
func (d *decoder) number(dst *float64) value {
	return value{Read: func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case math.IsInf(f, 0):
			d.errorf(n, "this must be a finite number")
		default:
			*dst = f
		}
	}, Form: config.NumberForm}
}

// within stores a number that lies between two others; want says so.
func (d *decoder) within(dst *float64, want string, lo, hi float64) value {
	return value{Read: func(n ast.Node) {
		v := math.NaN()
		d.number(&v).Read(n)
		if v < lo || v > hi {
			d.errorf(n, "this must be %s, not %v", want, v)
		} else if v >= lo {
			*dst = v
		}
	}, Form: config.NumberForm}
}

func (d *decoder) from0(dst *float64) value {
	return d.within(dst, "0 or more", 0, math.Inf(1)).With("minimum", 0)
}

func (d *decoder) above0(dst *float64) value {
	return d.within(dst, "above 0", math.SmallestNonzeroFloat64, math.Inf(1)).With("exclusiveMinimum", 0)
}

// numbers stores a list of finite numbers.
func (d *decoder) numbers(dst *[]float64) value {
	return value{Read: func(n ast.Node) {
		*dst = nil
		d.List(n, "this", func(_ int, n ast.Node) {
			var f float64
			d.number(&f).Read(n)
			*dst = append(*dst, f)
		})
	}, Form: config.ListOf(config.NumberForm)}
}

// count stores a whole number >= 0.
func (d *decoder) count(dst *int) value {
	return value{Read: func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case f != math.Trunc(f) || f < 0 || f > math.MaxInt32:
			d.errorf(n, "this must be a whole number, 0 or more")
		default:
			*dst = int(f)
		}
	}, Form: countForm}
}

func (d *decoder) flag(dst *bool) value {
	return value{Read: func(n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.errorf(n, "this must be true or false, not %s", d.describe(n))
			return
		}
		*dst = b.Value
	}, Form: flagForm}
}

// char stores a single character.
func (d *decoder) char(dst *rune) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if !ok {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsAny(s, "\x00\"\r\n\ufffd") {
			d.errorf(n, "this must be a single character, not %q", s)
			return
		}
		*dst = r[0]
	}, Form: charForm}
}

// word stores one of the given words.
func word[T ~string](d *decoder, dst *T, words ...T) value {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return value{Read: func(n ast.Node) {
		if i := d.oneOf(n, all); i >= 0 {
			*dst = words[i]
		}
	}, Form: oneOf(all)}
}

// oneOf returns the index of n among words, -1 and a mistake when it is none of them.
func (d *decoder) oneOf(n ast.Node, words []string) int {
	s, ok := d.Text(n)
	if !ok {
		return -1
	}
	i := slices.Index(words, s)
	if i < 0 {
		d.errorf(n, "%q is not known here%s", s, didYouMean(s, words))
	}
	return i
}

// feature decodes one feature; checkFeature then checks it.
func (d *decoder) feature(n ast.Node, f *Feature) mapping {
	var b percents
	m := d.mapping(n, "a feature", d.featureKeys(f, &b))
	d.settle(f, &b, m)
	if f.Column == "" {
		f.Column = f.Name
	}
	f.Width = 1
	switch {
	case f.Kind == OneHot:
		f.Width = len(f.Values)
	case f.Kind == Thermometer:
		f.Width = max(f.places()-1, 0)
	}
	return m
}

// checkFeature reports what is impossible within one feature and fills in Levels.
func (d *decoder) checkFeature(f *Feature, m mapping) {
	if m.Has("name") && strings.TrimSpace(f.Name) == "" {
		d.errorf(m.Place("name"), "the name is empty")
	}
	if f.Kind == "" {
		return
	}
	if m.Has("mean") != m.Has("std") && f.Kind.IsNumber() {
		d.errorf(m.Node,
			"feature %q: mean and std belong together; give both, or neither for an input that is not standardised", f.Name)
	}
	d.checkApplies(f, m)
	switch f.Kind {
	case Binary:
		d.checkBinary(f, m)
	case OneHot:
		d.checkOneHot(f, m)
	case Ordinal:
		d.checkOrdinal(f, m)
	case Thermometer:
		d.checkThermometer(f, m)
	}
	d.checkStatistics(f, m)
}

// checkApplies reports keys that mean nothing for the kind of the feature.
func (d *decoder) checkApplies(f *Feature, m mapping) {
	var some []string // keys that mean something for some kinds only
	for _, k := range allKinds() {
		some = append(some, applies(k)...)
	}
	slices.Sort(some)
	for _, key := range slices.Compact(some) {
		if m.Has(key) && !slices.Contains(applies(f.Kind), key) {
			d.errorf(m.Place(key), "feature %q: %q means nothing for kind %s; remove it", f.Name, key, f.Kind)
		}
	}
	if f.Kind != OneHot || f.Ordered {
		return
	}
	for _, key := range []string{"max_increase", "max_decrease", "max_change"} {
		if m.Has(key) {
			d.errorf(m.Place(key), "feature %q: %q needs values that stand in an order; say so with ordered: true, or remove it",
				f.Name, key)
		}
	}
	if f.Direction != Any {
		d.errorf(m.Place("direction"),
			"feature %q: a direction needs values that stand in an order; say so with ordered: true, or remove it", f.Name)
	}
}

func (d *decoder) checkBinary(f *Feature, m mapping) {
	if !m.Has("one") {
		d.errorf(m.Node, "feature %q: a binary feature needs the key \"one\", the value that becomes 1", f.Name)
	}
	if m.Has("zero") && f.Zero == f.One {
		d.errorf(m.Place("zero"), "feature %q: zero and one are the same value", f.Name)
	}
	if f.Shares != nil && len(f.Shares) != 1 {
		d.errorf(m.Place("shares"), "feature %q: a binary feature has one share, that of %q", f.Name, f.One)
	}
}

func (d *decoder) checkOneHot(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		d.errorf(m.Place("values"), "feature %q: a one-hot feature needs its values, in the order of the model's inputs",
			f.Name)
		return
	}
	d.checkDistinct(f, m)
	sum := 0.0
	for _, s := range f.Shares {
		sum += s
	}
	if f.Shares != nil && len(f.Shares) != len(f.Values) {
		d.errorf(m.Place("shares"), "feature %q: %d shares for %d values", f.Name, len(f.Shares), len(f.Values))
	} else if sum > 1.01 { // shares may be rounded
		d.errorf(m.Place("shares"), "feature %q: the shares add up to %.6g, more than 1", f.Name, sum)
	}
	named := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
		for _, v := range append([]string{from}, f.Transitions[from]...) {
			if slices.Index(f.Values, v) < 0 && !named[v] {
				named[v] = true
				d.errorf(m.Place("transitions"), "feature %q: transitions name %q, which is not among its values%s", f.Name, v,
					didYouMean(v, f.Values))
			}
		}
	}
}

func (d *decoder) checkOrdinal(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		if m.Has("values") || !m.Has("bounds") || !m.Has("step") || math.IsInf(f.Bounds[0], 0) || math.IsInf(f.Bounds[1], 0) {
			d.errorf(m.Node, "feature %q: an ordinal feature needs its values, or bounds [lo, hi] and step", f.Name)
		}
		if m.Has("subgroup") && f.Subgroup {
			d.errorf(m.Place("subgroup"), "feature %q: an ordinal feature needs its values to name subgroups", f.Name)
		}
		return
	}
	d.checkDistinct(f, m)
	for _, v := range f.Values {
		x, ok := Number(v)
		if !ok {
			d.errorf(m.Place("values"), "feature %q: the values of an ordinal feature are numbers, and %q is none", f.Name, v)
			return
		}
		f.Levels = append(f.Levels, x)
	}
	slices.Sort(f.Levels)
	if len(slices.Compact(slices.Clone(f.Levels))) != len(f.Levels) {
		d.errorf(m.Place("values"), "feature %q: two of the values are the same number", f.Name)
	}
}

func (d *decoder) checkThermometer(f *Feature, m mapping) {
	switch {
	case f.Values != nil && f.Thresholds != nil:
		d.errorf(m.Place("thresholds"), "feature %q: a thermometer has values or thresholds, not both", f.Name)
		return
	case len(f.Thresholds) > 0:
		for i := 1; i < len(f.Thresholds); i++ {
			if f.Thresholds[i] <= f.Thresholds[i-1] {
				d.errorf(m.Place("thresholds"), "feature %q: thresholds ascend, and %v does not follow %v", f.Name, f.Thresholds[i],
					f.Thresholds[i-1])
			}
		}
	case len(f.Values) < 2:
		d.errorf(
			m.Node,
			"feature %q: a thermometer needs thresholds, or two values or more in ascending order, the first of which is "+
				"all zeros",
			f.Name,
		)
		return
	default:
		d.checkDistinct(f, m)
	}
	if f.Shares != nil && len(f.Shares) != f.Width {
		d.errorf(
			m.Place("shares"),
			"feature %q: %d shares, and %d values above the lowest; give the share of the rows that reach each",
			f.Name,
			len(f.Shares),
			f.Width,
		)
	}
	if !slices.IsSortedFunc(f.Shares, func(a, b float64) int { return cmp.Compare(b, a) }) {
		d.errorf(m.Place("shares"),
			"feature %q: shares of a thermometer descend: who reaches a value has reached those before it", f.Name)
	}
}

func (d *decoder) checkDistinct(f *Feature, m mapping) {
	seen := map[string]bool{}
	for _, v := range f.Values {
		if seen[v] {
			d.errorf(m.Place("values"), "feature %q: the value %q is listed twice", f.Name, v)
		}
		if v == "" {
			d.errorf(m.Place("values"),
				"feature %q: a value is empty; an empty field is a missing value and encoded as all zeros", f.Name)
		}
		seen[v] = true
	}
}

// checkStatistics reports figures that no training rows can have.
func (d *decoder) checkStatistics(f *Feature, m mapping) {
	for _, s := range f.Shares {
		if s < 0 || s > 1 {
			d.errorf(m.Place("shares"), "feature %q: a share lies between 0 and 1, not at %v", f.Name, s)
		}
	}
	if m.Has("quantiles") && len(f.Quantiles) < 2 {
		d.errorf(m.Place("quantiles"), "feature %q: quantiles are two numbers or more, from the least value to the greatest",
			f.Name)
	}
	if !slices.IsSorted(f.Quantiles) {
		d.errorf(m.Place("quantiles"), "feature %q: quantiles ascend, from the least value to the greatest", f.Name)
	}
}

// percents are the sides of bounds that are given as percentiles, until the quantiles are known.
type percents [2]struct {
	at    ast.Node // nil: this side is no percentile
	value float64  // 0 to 100
}

// span stores [lo, hi]; null and infinities leave a side open.
func (d *decoder) span(dst *[2]float64, b *percents) value {
	return value{Read: func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok || len(seq.Values) != 2 {
			d.errorf(n, "this must be a pair [lo, hi]; null leaves a side open")
			return
		}
		for i, v := range seq.Values {
			d.side(v, i, dst, b)
		}
	}, Form: pairForm}
}

// side stores one side of bounds: null, a number, or a percentile such as 99%.
func (d *decoder) side(n ast.Node, i int, dst *[2]float64, b *percents) {
	if _, open := n.(*ast.NullNode); open {
		return
	}
	if s, ok := n.(*ast.StringNode); ok && strings.HasSuffix(s.Value, "%") {
		p, ok := Number(strings.TrimSpace(strings.TrimSuffix(s.Value, "%")))
		if !ok || p < 0 || p > 100 {
			d.errorf(n, "%q is no percentile; write one from \"0%%\" to \"100%%\"", s.Value)
			return
		}
		b[i].at, b[i].value = n, p
		return
	}
	if f, ok := d.float(n); ok {
		dst[i] = f
	}
}

// settle turns percentiles into raw values and reports bounds that nothing lies between.
func (d *decoder) settle(f *Feature, b *percents, m mapping) {
	for i, p := range b {
		switch {
		case p.at == nil:
		case len(f.Quantiles) < 2:
			d.errorf(
				p.at,
				"feature %q: the percentile %s needs the feature's quantiles; `cfq task init` makes them from data, or give "+
					"a number",
				f.Name,
				message.Quote(config.ScalarText(p.at)),
			)
		default:
			f.Bounds[i] = f.quantile(p.value / 100)
		}
	}
	if f.Bounds[0] > f.Bounds[1] || math.IsInf(f.Bounds[0], 1) || math.IsInf(f.Bounds[1], -1) {
		d.errorf(m.Place("bounds"), "no value lies between %v and %v; write [lo, hi] with lo <= hi", f.Bounds[0], f.Bounds[1])
	}
}

// quantile returns the raw value at a rank between 0 and 1, linear between the Quantiles.
func (f *Feature) quantile(rank float64) float64 {
	at := rank * float64(len(f.Quantiles)-1)
	i := min(int(at), len(f.Quantiles)-2)
	w := at - float64(i)
	return f.Quantiles[i]*(1-w) + f.Quantiles[i+1]*w // not lo + w*(hi-lo), which can overflow
}

func (d *decoder) cost(n ast.Node, c *Cost) mapping {
	m := d.mapping(n, "cost", d.costKeys(c))
	if m.Has("l1_ratio") && c.Norm != Mixed {
		d.errorf(m.Place("l1_ratio"), "l1_ratio means nothing with norm %s; remove it, or set norm: mixed", c.Norm)
	}
	return m
}

// checkCost reports features whose cost needs figures that the file does not give.
func (d *decoder) checkCost(t *Task, m mapping, features []mapping) {
	var lacking []string
	need := ""
	for i := range t.Features {
		f := &t.Features[i]
		if what := t.Cost.lacks(f, features[i]); f.Actionable && what != "" {
			need = what
			lacking = append(lacking, f.Name)
		}
	}
	if lacking != nil {
		d.errorf(m.Place("weights"), "%s needs %s of every number that people can change, and these have none: %s; "+
			"`cfq task init` makes them from data", string(t.Cost.Weights), need, clause(message.List(lacking, 20)))
	}
}

// lacks says which figures the weight of f needs that f does not have; "" when none.
func (c *Cost) lacks(f *Feature, m mapping) (need string) {
	switch {
	case !f.Kind.IsNumber():
	case c.Weights == InverseMAD && f.MAD == 0 && !m.Has("mad"):
		return "the mad"
	case c.Weights == InverseRange && f.Quantiles == nil && len(f.Levels) < 2 &&
		(math.IsInf(f.Bounds[0], 0) || math.IsInf(f.Bounds[1], 0)):
		return "quantiles, or bounds on both sides,"
	}
	return ""
}

// checkNames reports names that occur twice or that refer to nothing.
func (d *decoder) checkNames(t *Task, data mapping, features []mapping) {
	seen := map[string]bool{}
	for i := range t.Features {
		f, m := &t.Features[i], features[i]
		if f.Name != "" && seen[f.Name] {
			d.errorf(m.Place("name"),
				"a feature named %q is listed above; names must differ (use column to read a column twice)", f.Name)
		}
		seen[f.Name] = true
		if f.Column == "" {
			continue
		}
		at := m.Place("name")
		if m.Has("column") {
			at = m.Place("column")
		}
		switch {
		case f.Column == t.Data.Label:
			d.errorf(at, "feature %q reads the label column: the model would be given the outcome", f.Name)
		case slices.Index(t.Data.Drop, f.Column) >= 0:
			d.errorf(at, "feature %q reads column %q, which data.drop excludes; remove one of the two", f.Name, f.Column)
		case len(t.Data.Columns) > 0 && !t.Encoded && slices.Index(t.Data.Columns, f.Column) < 0:
			d.errorf(at, "feature %q reads column %q, which data.columns does not list%s", f.Name, f.Column, didYouMean(f.Column,
				t.Data.Columns))
		}
		for _, v := range f.Values {
			if f.Kind == OneHot && slices.Index(t.Data.Missing, v) >= 0 {
				d.errorf(m.Place("values"), "feature %q: %q is both a value and a missing marker (data.missing)", f.Name, v)
			}
		}
	}
	if t.Data.Label != "" && !data.Has("favourable") {
		d.errorf(data.Place("label"), "data.label needs data.favourable, the label value that is the favourable outcome")
	}
	if data.Has("favourable") && !data.Has("label") {
		d.errorf(data.Place("favourable"), "data.favourable needs data.label, the column of the outcome")
	}
	if data.Has("favourable") && slices.Index(t.Data.Missing, t.Data.Favourable) >= 0 {
		d.errorf(data.Place("favourable"), "%q is both the favourable label and a missing marker (data.missing)",
			t.Data.Favourable)
	}
	d.checkColumns(t, data)
}

func (d *decoder) checkColumns(t *Task, data mapping) {
	cols := t.Data.Columns
	if len(cols) == 0 {
		return
	}
	seen := map[string]bool{}
	for _, c := range cols {
		if seen[c] {
			d.errorf(data.Place("columns"), "column %q is listed twice", c)
		}
		seen[c] = true
	}
	refer := func(key, column string) {
		if column != "" && slices.Index(cols, column) < 0 {
			d.errorf(data.Place(key), "data.%s names column %q, which data.columns does not list%s", key, column,
				didYouMean(column, cols))
		}
	}
	refer("label", t.Data.Label)
	for _, c := range t.Data.Drop {
		refer("drop", c)
	}
	for _, c := range t.Data.Subgroups {
		refer("subgroups", c)
	}
	for _, c := range t.Data.Filter {
		refer("filter", c.Column)
	}
}

// featureList reads a list of features: their indices, with their places.
func (d *decoder) featureList(n ast.Node, t *Task) map[int]ast.Node {
	nodes := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		nodes = seq.Values
	}
	listed := map[int]ast.Node{}
	for _, v := range nodes {
		name, ok := d.Text(v)
		if !ok {
			continue
		}
		i := d.featureNamed(v, name, t)
		if _, twice := listed[i]; twice && i >= 0 {
			d.errorf(v, "%q is listed twice", name)
		}
		if i >= 0 {
			listed[i] = v
		}
	}
	return listed
}

// featureNamed returns the index of a feature, -1 and a mistake at n when there is none of that name.
func (d *decoder) featureNamed(n ast.Node, name string, t *Task) int {
	i := slices.IndexFunc(t.Features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		d.errorf(n, "there is no feature %q%s", name, didYouMean(name, featureNames(t.Features)))
	}
	return i
}

func featureNames(features []Feature) []string {
	names := make([]string, len(features))
	for i := range features {
		names[i] = features[i].Name
	}
	return names
}

// pairs is the map of a link with its places.
type pairs struct {
	list []Pair
	at   []ast.Node // of the keys
}

func (d *decoder) linkKeys(l *Link, p *pairs) []key {
	return []key{
		{Name: "from", Value: d.text(&l.From), Fallback: required},
		{Name: "to", Value: d.text(&l.To), Fallback: required},
		{Name: "scale", Value: d.number(&l.Scale)},
		{Name: "map", Value: d.pairs(p)},
	}
}

// pairs reads a mapping of raw values to raw values.
func (d *decoder) pairs(p *pairs) value {
	return value{Read: func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "map must give the value of one feature for values of another, as {Masters: 14}, not %s", d.describe(n))
			return
		}
		for _, kv := range node.Values {
			from, ok1 := d.Key(kv.Key)
			to, ok2 := d.Text(kv.Value)
			if ok1 && ok2 {
				p.list, p.at = append(p.list, Pair{from, to}), append(p.at, ast.Node(kv.Key))
			}
		}
		if len(node.Values) == 0 {
			d.errorf(n, "the map is empty")
		}
	}, Form: mapOf(scalarForm)}
}

// links reads and checks the links, once the features are known.
func (d *decoder) links(n ast.Node, t *Task, features []mapping) {
	if n == nil {
		return
	}
	var places []mapping
	d.List(n, "links", func(_ int, n ast.Node) {
		var l Link
		var p pairs
		m := d.mapping(n, "a link", d.linkKeys(&l, &p))
		if m.Has("from") && m.Has("to") && d.link(&l, &p, m, t, features) {
			t.Links = append(t.Links, l)
			places = append(places, m)
		}
	})
	for i := range t.Links {
		d.checkLinkPair(t.Links[:i+1], places[i])
	}
	d.checkCircle(t.Links, places)
}

// link checks one link and puts its map into order. It says whether both features are there.
func (d *decoder) link(l *Link, p *pairs, m mapping, t *Task, features []mapping) bool {
	i, j := d.featureNamed(m.Place("from"), l.From, t), d.featureNamed(m.Place("to"), l.To, t)
	if i < 0 || j < 0 {
		return false
	}
	from, to := &t.Features[i], &t.Features[j]
	switch {
	case i == j:
		d.errorf(m.Place("to"), "%q is linked to itself; from and to are two features", l.To)
		return false
	case to.Actionable:
		d.errorf(m.Place("to"), "%q changes with %q and is actionable, too; set actionable: false on it, or remove the link",
			l.To, l.From)
	case features[j].Has("mutable") && !to.Mutable:
		d.errorf(m.Place("to"), "%q never changes (mutable: false), and %q is linked to it; remove one of the two", l.To,
			l.From)
	}
	switch {
	case m.Has("scale") == m.Has("map"):
		d.errorf(m.Node, "a link needs scale or map, one of the two")
	case m.Has("map"):
		d.checkMap(l, p, from, to)
	case l.Scale == 0:
		d.errorf(m.Place("scale"), "scale must not be 0: it is what %q changes by for each unit of %q", l.To, l.From)
	case !from.Kind.IsNumber() || !to.Kind.IsNumber():
		d.errorf(m.Place("scale"), "scale is between numbers, and %q is %s; write a map", notNumber(from, to).Name,
			clause(notNumber(from, to).Kind))
	}
	return true
}

func notNumber(a, b *Feature) *Feature {
	if a.Kind.IsNumber() {
		return b
	}
	return a
}

// checkMap reports entries that either feature does not know, and sorts them.
func (d *decoder) checkMap(l *Link, p *pairs, from, to *Feature) {
	ranks := map[float64]Pair{}
	for i, e := range p.list {
		rank, name, why := from.rank(e.From)
		if why == "" {
			if _, twice := ranks[rank]; twice {
				why = "it stands in the map twice"
			}
		}
		if why != "" {
			d.errorf(p.at[i], "%q is no value that %q can be mapped from: %s", e.From, l.From, clause(why))
			continue
		}
		if why := to.refuses(e.To); why != "" {
			d.errorf(p.at[i], "%q is mapped to %q, which %q cannot be: %s", e.From, e.To, l.To, clause(why))
		}
		ranks[rank] = Pair{name, e.To}
	}
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		l.Map = append(l.Map, ranks[r])
	}
}

// rank returns where a raw value stands among the feature's, and how the feature writes it; or why it is none of them.
func (f *Feature) rank(raw string) (rank float64, name, why string) {
	if why := f.refuses(raw); why != "" {
		return 0, "", why
	}
	switch f.Kind {
	case Numeric, Ordinal:
		v, _ := Number(raw)
		return v, raw, ""
	case Binary:
		if same(raw, f.One) {
			return 1, f.One, ""
		}
		return 0, f.zeroName(), ""
	}
	i := slices.IndexFunc(f.placeNames(), func(s string) bool { return same(raw, s) })
	if i < 0 {
		return 0, "", "one of: " + message.List(f.placeNames(), 20)
	}
	return float64(i), f.placeName(i), ""
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
	if math.IsInf(float64(x[0]), 0) {
		return "it is too large"
	}
	return ""
}

// checkLinkPair holds the last link against those before it.
func (d *decoder) checkLinkPair(links []Link, m mapping) {
	l := links[len(links)-1]
	for _, o := range links[:len(links)-1] {
		switch {
		case o.To != l.To:
		case o.From == l.From:
			d.errorf(m.Place("from"), "the link from %q to %q is given twice; keep one", l.From, l.To)
			return
		case o.Map != nil || l.Map != nil:
			d.errorf(m.Place("to"), "%q has two sources, %q and %q; only scales add up, a map is the only link to its feature",
				l.To, o.From, l.From)
			return
		}
	}
}

// checkCircle reports the first circle.
func (d *decoder) checkCircle(links []Link, places []mapping) {
	for i, l := range links {
		if way := wayBack(links, l.To, l.From, nil); way != nil {
			d.errorf(places[i].Node, "the links go round in a circle: %s; remove one of them",
				clause(message.Legible(l.From)+" -> "+strings.Join(way, " -> ")))
			return
		}
	}
}

// wayBack returns the features on a way along the links, nil when there is none.
func wayBack(links []Link, from, to string, seen []string) []string {
	if from == to {
		return []string{message.Legible(to)}
	}
	if slices.Contains(seen, from) {
		return nil
	}
	for _, l := range links {
		if l.From != from {
			continue
		}
		if way := wayBack(links, l.To, to, append(seen, from)); way != nil {
			return append([]string{message.Legible(from)}, way...)
		}
	}
	return nil
}

// conditionList is the texts of conditions with their places.
type conditionList struct {
	texts []string
	at    []ast.Node
}

// ruleTexts are the parts of a rule that is a mapping.
type ruleTexts struct {
	when, then conditionList
	of         ast.Node
}

func (d *decoder) ruleKeys(r *Rule, p *ruleTexts) []key {
	return []key{
		{Name: "if", Value: d.conditions(&p.when)},
		{Name: "then", Value: d.conditions(&p.then)},
		{Name: "at_most", Value: d.count(&r.AtMost).With("minimum", 1)},
		{Name: "of", Value: value{Read: func(n ast.Node) { p.of = n }, Form: config.ListOf(scalarForm)}},
	}
}

// conditions reads a text or a list of texts.
func (d *decoder) conditions(l *conditionList) value {
	return value{Read: func(n ast.Node) {
		nodes := []ast.Node{n}
		if seq, ok := n.(*ast.SequenceNode); ok {
			nodes = seq.Values
		}
		for _, v := range nodes {
			if s, ok := d.Text(v); ok {
				l.texts, l.at = append(l.texts, strings.TrimSpace(s)), append(l.at, v)
			}
		}
	}, Form: oneOrMore(func() schema { return schema{"type": "string"} })}
}

// conditionsForm is the list of constraints.
func conditionsForm() schema {
	rule := func(needed ...string) func() schema {
		return func() schema {
			d := newDecoder("")
			s := object("A constraint of `constraints`", d.ruleKeys(&Rule{}, &ruleTexts{}))()
			for name := range s["properties"].(schema) {
				if name != needed[0] && name != needed[1] {
					delete(s["properties"].(schema), name)
				}
			}
			s["required"] = needed
			return s
		}
	}
	return config.ListOf(anyOf(func() schema { return schema{"type": "string"} }, rule("if", "then"), rule("at_most",
		"of")))()
}

// rules reads and checks the constraints, once the features are known.
func (d *decoder) rules(n ast.Node, t *Task) {
	if n == nil {
		return
	}
	seen := map[string]bool{}
	g := newGrammar(t)
	d.List(n, "constraints", func(_ int, n ast.Node) {
		before := len(d.Errs)
		r := d.rule(n, t, g)
		switch {
		case len(d.Errs) > before:
			return
		case seen[r.Text]:
			d.errorf(n, "the constraint %q is given twice; keep one", r.Text)
		}
		seen[r.Text] = true
		t.Rules = append(t.Rules, r)
	})
}

func (d *decoder) rule(n ast.Node, t *Task, g *grammar) Rule {
	if _, ok := n.(*ast.MappingNode); !ok {
		var l conditionList
		d.conditions(&l).Read(n)
		if _, list := n.(*ast.SequenceNode); list {
			d.errorf(n, "each constraint is an entry of its own, not a list of them")
			return Rule{}
		}
		return Rule{Text: strings.Join(l.texts, ""), Then: d.inequalities(l, g)}
	}
	before := len(d.Errs)
	var r Rule
	var p ruleTexts
	m := d.mapping(n, "a constraint", d.ruleKeys(&r, &p))
	implies, subset := m.Has("if") || m.Has("then"), m.Has("at_most") || m.Has("of")
	switch {
	case len(d.Errs) > before:
	case implies && subset:
		d.errorf(m.Node, "a constraint is if and then, or at_most and of, not both")
	case implies && m.Has("if") && m.Has("then"):
		r.If, r.Then = d.inequalities(p.when, g), d.inequalities(p.then, g)
		r.Text = fmt.Sprintf("if %s then %s", strings.Join(p.when.texts, " and "), strings.Join(p.then.texts, " and "))
		if len(r.If) == 0 && len(p.when.texts) == 0 || len(r.Then) == 0 && len(p.then.texts) == 0 {
			d.errorf(m.Node, "if and then need a condition each")
		}
	case implies:
		d.errorf(m.Node, "if and then belong together; what always holds is a text of its own")
	case m.Has("at_most") && m.Has("of"):
		d.subset(&r, m, &p, t)
	case subset:
		d.errorf(m.Node, "at_most and of belong together")
	default:
		d.errorf(m.Node,
			"a constraint is a text such as \"debt <= 0.5 * income\", {if: ..., then: ...} or {at_most: 2, of: [...]}")
	}
	return r
}

// subset reads the features of which an action changes some only.
func (d *decoder) subset(r *Rule, m mapping, p *ruleTexts, t *Task) {
	if _, ok := p.of.(*ast.SequenceNode); !ok {
		d.errorf(p.of, "of must be a list of features, not %s", d.describe(p.of))
		return
	}
	before := len(d.Errs)
	for _, i := range slices.Sorted(maps.Keys(d.featureList(p.of, t))) {
		r.Of = append(r.Of, t.Features[i].Name)
	}
	if len(d.Errs) > before {
		return
	}
	switch {
	case r.AtMost == 0:
		d.errorf(m.Place("at_most"), "at_most must be 1 or more; actionable: false forbids any change of a feature")
	case r.AtMost >= len(r.Of):
		d.errorf(m.Place("at_most"), "at_most %d of %d features is no limit", r.AtMost, len(r.Of))
	}
	r.Text = fmt.Sprintf("at most %d of %s", r.AtMost, strings.Join(r.Of, ", "))
}

// inequalities reads conditions; mistakes are noted where their text stands.
func (d *decoder) inequalities(l conditionList, g *grammar) []Inequality {
	var all []Inequality
	seen := map[string]bool{}
	for i, text := range l.texts {
		if seen[text] {
			d.errorf(l.at[i], "the condition %q is given twice; keep one", text)
			continue
		}
		seen[text] = true
		read, err := g.parse(text)
		if err != nil {
			d.errorf(l.at[i], "constraint %s: %s", message.Quote(text), clause(err.Error()))
			continue
		}
		all = append(all, read...)
	}
	return all
}

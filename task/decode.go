package task

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
)

// A task file is read by keys; package config says what these are.
type (
	key     = config.Key
	value   = config.Value
	mapping = config.Mapping
	schema  = config.Schema
	clause  = config.Clause
)

const required = config.Required

// Number reads a decimal number such as 40, -1.5 or 1e+05, with blanks around it, but no infinity, NaN, hexadecimal or
// digit separator.
func Number(s string) (float64, bool) { return config.Decimal(strings.Trim(s, " ")) }

// Load reads a task file in YAML or JSON. Mistakes in it are returned as config.Errors.
func Load(path string) (*Task, error) { return config.Load("task file", path, Parse) }

// Parse reads a task file's content; name is the file name in messages. All mistakes are returned, as config.Errors.
func Parse(name string, data []byte) (*Task, error) {
	d := newDecoder(name, &Task{
		Data:   Data{Delimiter: ','},
		Target: Target{Class: "favourable", Index: 1},
		Cost:   Cost{Norm: L1, L1Ratio: 0.5, Weights: "inverse_std", Eps: 1e-3, Switches: "once"},
	})
	if root := d.Document(data, "version, data and features"); root != nil {
		d.read(root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.task, nil
}

type fileDecoder struct {
	config.Decoder
	task      *Task
	cost      mapping
	codes     mapping // of latent
	space     *Latent // what it says
	features  []featureEntry
	reference [][]string // rows of the reference's table of features
}

func newDecoder(file string, t *Task) *fileDecoder {
	return &fileDecoder{
		Decoder: config.Decoder{File: file, Kind: "task file"}, task: t,
		reference: referenceTable("A feature of `features`"),
	}
}

func (d *fileDecoder) mapping(n ast.Node, what string, keys []key) mapping {
	m := d.Mapping(n, what, keys)
	for _, k := range keys {
		if k.Fallback == required && !m.Has(k.Name) && !m.Bad[k.Name] {
			d.Errorf(m.Node, "%s needs the key %q", what, k.Name)
		}
	}
	return m
}

func (d *fileDecoder) read(root ast.Node) {
	t := d.task
	top := d.mapping(root, "the task file", d.taskKeys(t))
	if top.Has("version") && t.Version != 1 {
		d.Errorf(top.Place("version"), "this task file has version %d; the version known here is 1", t.Version)
	}
	known := true
	d.List(top.At["features"], "features", func(_ int, n ast.Node) {
		f := Feature{Action: Free()}
		d.feature(n, &f)
		known = known && f.Width > 0
	})
	if seq, ok := top.At["features"].(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		d.Errorf(seq, "the list of features is empty; name each input of the model")
	}
	if top.Has("latent") && known {
		d.latent(d.space)
	}
	d.checkNames()
	if d.cost.Has("l1_ratio") && t.Cost.Norm != Mixed {
		d.Errorf(d.cost.Place("l1_ratio"), "l1_ratio means nothing with norm %s; remove it, or set norm: mixed",
			t.Cost.Norm)
	}
	if known {
		d.settleFeatures()
	}
	if len(t.Features) == 0 { // what refers to features that are no features would be reported twice
		return
	}
	d.links(top.At["links"])
	d.rules(top.At["constraints"])
	for _, e := range d.features {
		if !e.Has("mutable") {
			e.Mutable = e.Actionable || t.Moves(e.Name)
		}
		if n := e.Number(); n != nil {
			n.checkReach(e)
		}
	}
	if t.Latent != nil {
		t.Latent.Codes = t.Features[len(t.Features)-(t.Dim()-t.ModelDim()):]
	}
	d.checkCost()
}

func (d *fileDecoder) settleFeatures() {
	t, listed, at := d.task, d.features, 0
	d.features = nil
	for _, e := range listed {
		e.Offset = at
		at += e.Width
		own := []Feature{*e.Feature}
		if e.image() != nil {
			e.Mutable = e.Actionable
			t.Images = append(t.Images, *e.Feature)
			own = e.pixels()
		}
		for _, f := range own {
			t.Features = append(t.Features, f)
			d.features = append(d.features, featureEntry{nil, e.mapping, d})
		}
	}
	for i := range t.Features {
		d.features[i].Feature = &t.Features[i]
	}
}

// Moves says whether a link moves the feature along.
func (t *Task) Moves(name string) bool {
	return slices.ContainsFunc(t.Links, func(l Link) bool { return l.To == name })
}

// The functions below declare the keys of a task file, one list for each mapping. The decoder reads by them, JSON
// writes by them, and Schema translates them with what reference.txt says of each.

func (d *fileDecoder) taskKeys(t *Task) []key {
	rules := func() any {
		return lists.Map(t.Rules, func(r Rule) any {
			if r.If != nil || r.Of != nil || r.Must {
				return config.Members(d.ruleKeys(&r))
			}
			return r.Text
		})
	}
	listed := slices.DeleteFunc(t.Entries(), func(f Feature) bool { return f.isCode() })
	features := d.featureList(t, listed)
	d.space = cmp.Or(t.Latent, &Latent{})
	codes, cost := func(m mapping) { d.codes = m }, func(m mapping) { d.cost = m }
	return []key{
		{Name: "version", Value: d.Count(&t.Version, 0).With("enum", []int{1}), Fallback: required},
		{Name: "encoded", Value: d.Flag(&t.Encoded), Keep: true},
		{Name: "data", Value: d.section("data", d.dataKeys(&t.Data), d.checkData)},
		{Name: "target", Value: d.section("target", d.targetKeys(&t.Target), d.checkTarget)},
		{Name: "features", Value: features.With("minItems", 1), Fallback: required},
		{Name: "latent", Value: d.section("latent", d.latentKeys(t, d.space), codes), Omit: t.Latent == nil},
		{Name: "links", Value: entries("A link of `links`", t.Links, d.linkKeys)},
		{Name: "constraints", Value: value{Form: config.ListOf(d.ruleForm()), Out: rules}},
		{Name: "cost", Value: d.section("cost", d.costKeys(&t.Cost), cost)},
		{Name: "sparsity", Value: d.section("sparsity", d.sparsityKeys(t), func(mapping) {})},
	}
}

func (d *fileDecoder) section(name string, keys []key, read func(mapping)) value {
	return value{
		Read: func(n ast.Node) { read(d.mapping(n, name, keys)) },
		Form: object("`"+name+"`", keys),
		Out:  func() any { return config.Members(keys) },
	}
}

func entries[T any](section string, list []T, keys func(*T) []key) value {
	return value{
		Form: config.ListOf(func() schema { return object(section, keys(new(T)))() }),
		Out:  func() any { return lists.Map(list, func(v T) config.Members { return keys(&v) }) },
	}
}

func (d *fileDecoder) dataKeys(t *Data) []key {
	return []key{
		{Name: "label", Value: d.Text(&t.Label)},
		{Name: "label_suffix", Value: d.Text(&t.LabelSuffix)},
		{Name: "favourable", Value: d.Text(&t.Favourable), Keep: true, Omit: t.Label == ""},
		{Name: "missing", Value: d.Texts(&t.Missing)},
		{Name: "delimiter", Value: d.char(&t.Delimiter)},
		{Name: "trim", Value: d.Flag(&t.Trim), Keep: true},
		{Name: "comment", Value: d.char(&t.Comment)},
		{Name: "skip", Value: d.Count(&t.Skip, 0), Keep: true},
		{Name: "columns", Value: d.Texts(&t.Columns)},
		{Name: "id", Value: d.Text(&t.ID)},
		{Name: "drop", Value: d.Texts(&t.Drop)},
		{Name: "subgroups", Value: d.Texts(&t.Subgroups)},
		{Name: "filter", Value: entries("A condition of `data.filter`", t.Filter, d.filterKeys)},
	}
}

func (d *fileDecoder) filterKeys(c *Condition) []key {
	return []key{
		{Name: "column", Value: d.Text(&c.Column), Fallback: required},
		{Name: "min", Value: d.Number(&c.Min), Keep: true},
		{Name: "max", Value: d.Number(&c.Max), Keep: true},
		{Name: "not", Value: d.Texts(&c.Not)},
	}
}

func (d *fileDecoder) targetKeys(t *Target) []key {
	return []key{
		{Name: "class", Value: config.Word(&d.Decoder, &t.Class, "favourable")},
		{Name: "index", Value: d.Count(&t.Index, 0), Keep: true},
		{Name: "margin", Value: d.From0(&t.Margin), Keep: true},
		{Name: "output", Value: config.Word(&d.Decoder, &t.Output, "logits", "probabilities")},
		{Name: "threshold", Value: d.Number(&t.Threshold)},
		{Name: "accuracy", Value: d.Share(&t.Accuracy)},
	}
}

func (d *fileDecoder) costKeys(c *Cost) []key {
	weights := config.Word(&d.Decoder, &c.Weights, "inverse_std", "inverse_mad", "inverse_range", "uniform", "given")
	return []key{
		{Name: "norm", Value: config.Word(&d.Decoder, &c.Norm, L1, L2, Mixed)},
		{Name: "l1_ratio", Value: d.Share(&c.L1Ratio), Keep: true, Omit: c.Norm != Mixed},
		{Name: "weights", Value: weights},
		{Name: "eps", Value: d.Above0(&c.Eps)},
		{Name: "switches", Value: config.Word(&d.Decoder, &c.Switches, "once", "encoded"), Omit: c.Switches == "once"},
	}
}

func (d *fileDecoder) sparsityKeys(t *Task) []key {
	return []key{{Name: "max_features", Value: d.Count(&t.MaxFeatures, 0), Keep: true}}
}

func (d *fileDecoder) featureList(t *Task, list []Feature) value {
	return entries("A feature of `features`", list, func(f *Feature) []key {
		own, _ := d.featureKeys(t, f)
		return own
	})
}

// featureKeys returns the keys of a feature of its kind, in the order of the reference page, and what checks them.
// Without a kind it returns the keys of all of them.
func (d *fileDecoder) featureKeys(t *Task, f *Feature) (own []key, check func(featureEntry)) {
	kind, from := "", encodings()
	if f.Encoding != nil {
		kind, from = f.Encoding.Kind(), []Encoding{f.Encoding}
	}
	keys := append(d.actionKeys(t, f),
		key{Name: "name", Value: d.Text(&f.Name), Fallback: required, Keep: true},
		key{Name: "column", Value: d.Text(&f.Column), Keep: true},
		key{Name: "kind", Value: config.Word(&d.Decoder, &kind, kinds()...), Fallback: required},
		key{Name: "impute", Value: d.Text(&f.Impute)},
		key{Name: "subgroup", Value: d.Flag(&f.Subgroup)})
	for _, e := range slices.Backward(from) { // of an image first, whose mean and std may be lists
		declared, checks := e.declare(d, t)
		keys, check = append(keys, declared...), checks
	}
	for _, row := range d.reference {
		if i := slices.IndexFunc(keys, func(k key) bool { return k.Name == row[0] }); i >= 0 && isFor(row, kind) {
			own = append(own, keys[i])
		}
	}
	return own, check
}

// Keys returns the keys of the task file that the feature needs, in the order of the reference page: those whose values
// do not hold without them, and what is known of a number.
func (f *Feature) Keys() (needed []config.Key) {
	encoding := encodings()[slices.Index(kinds(), f.Encoding.Kind())]
	usual := &Feature{Column: f.Name, Encoding: encoding, Action: Free()}
	d := newDecoder("", &Task{Cost: Cost{Weights: "inverse_mad"}})
	keys, _ := d.featureKeys(d.task, f)
	without, _ := d.featureKeys(d.task, usual)
	for i, k := range keys {
		known := slices.Contains([]string{"name", "kind", "mean", "std", "mad"}, k.Name)
		if !k.Omit && (known || !reflect.DeepEqual(k.Value.Out(), without[i].Value.Out())) {
			if c := f.Category(); k.Name == "inputs" {
				k.Value.Out = c.coding().written
			}
			needed = append(needed, k)
		}
	}
	return needed
}

// isFor says whether a row of the reference's table of features, the last cell of which lists kinds, is for a kind.
func isFor(row []string, kind string) bool {
	list := strings.Split(row[3], ", ")
	return kind == "" || list[0] == "all" || slices.Contains(list, kind)
}

func (d *fileDecoder) actionKeys(t *Task, f *Feature) []key {
	bounds := func() any { return openPair(f.Bounds[:]) }
	direction := config.Word(&d.Decoder, &f.Direction, "any", "increase", "decrease")
	settled := f.Actionable || t.Moves(f.Name)
	c := f.Category()
	_, hot := c.(*OneHot)
	return []key{
		{Name: "actionable", Value: d.Flag(&f.Actionable), Keep: true},
		{Name: "mutable", Value: d.Flag(&f.Mutable), Keep: true, Omit: f.Mutable == settled},
		{Name: "direction", Value: direction, Omit: hot && !c.isOrdered()},
		{Name: "bounds", Value: value{Form: pairOf(config.AnyOf(config.Type("number", "null"), percentForm)), Out: bounds}},
		{Name: "step", Value: d.Above0(&f.Step)},
		{Name: "max_increase", Value: d.From0(&f.MaxIncrease), Keep: true},
		{Name: "max_decrease", Value: d.From0(&f.MaxDecrease), Keep: true},
		{Name: "max_change", Value: d.From0(&f.MaxChange), Keep: true},
		{Name: "weight", Value: d.Above0(&f.Weight)},
		{Name: "switch_cost", Value: d.Above0(&f.SwitchCost)},
		{Name: "transitions", Value: d.transitions(&f.Transitions)},
	}
}

func (d *fileDecoder) linkKeys(l *Link) []key {
	entries := func() any {
		byValue := map[string]string{}
		for _, p := range l.Map {
			byValue[p[0]] = p[1]
		}
		return byValue
	}
	return []key{
		{Name: "from", Value: d.Text(&l.From), Fallback: required},
		{Name: "to", Value: d.Text(&l.To), Fallback: required},
		{Name: "scale", Value: d.Number(&l.Scale)},
		{Name: "map", Value: value{Form: mapOf(config.Scalar), Out: entries}, Omit: l.Map == nil},
	}
}

func (d *fileDecoder) ruleKeys(r *Rule) []key {
	conditions := func(list []Inequality) value {
		texts := func() any {
			all := lists.Map(list, func(q Inequality) string { return q.Text })
			return slices.Compact(all) // an equation is two inequalities of one text
		}
		return value{Form: config.OneOrMore(config.Type("string")), Out: texts}
	}
	return []key{
		{Name: "if", Value: conditions(r.If)},
		{Name: "then", Value: conditions(r.Then)},
		{Name: "must", Value: d.Flag(&r.Must)},
		{Name: "at_most", Value: d.Count(&r.AtMost, 1)},
		{Name: "of", Value: value{Form: config.ListOf(config.Scalar), Out: func() any { return r.Of }}},
	}
}

func (d *fileDecoder) ruleForm() func() schema {
	keys := d.ruleKeys(&Rule{})
	for _, i := range []int{1, 3, 4} {
		keys[i].Fallback = required
	}
	const section = "A constraint of `constraints`"
	return config.AnyOf(config.Type("string"), object(section, keys[:3]), object(section, keys[3:]))
}

func (d *fileDecoder) orList(item func(*float64) value, dst *float64, all *[]float64) value {
	one, list := item(dst), config.Listed(&d.Decoder, all, item)
	return value{
		Read: func(n ast.Node) {
			if _, ok := n.(*ast.SequenceNode); ok {
				list.Read(n)
			} else {
				one.Read(n)
			}
		},
		Form: config.AnyOf(one.Form, list.Form),
		Out: func() any {
			if len(*all) > 0 {
				return *all
			}
			return *dst
		},
	}
}

func (d *fileDecoder) char(dst *rune) value {
	return value{
		Read: func(n ast.Node) {
			s, ok := d.ReadText(n)
			r := []rune(s)
			if ok && (len(r) != 1 || strings.ContainsAny(s, "\x00\"\r\n\ufffd")) {
				d.Errorf(n, "this must be a single character, not %q", s)
			} else if ok {
				*dst = r[0]
			}
		},
		Form: func() schema { return schema{"type": []string{"string", "number"}, "minLength": 1, "maxLength": 1} },
		Out:  func() any { return strings.Trim(string(*dst), "\x00") },
	}
}

func (d *fileDecoder) checkTarget(m mapping) {
	switch t, at := &d.task.Target, m.Place("threshold"); {
	case !m.Has("threshold"):
	case t.Output == "":
		d.Errorf(at, "a threshold needs `output: logits` or `output: probabilities`, which say what it is a threshold of")
	case t.Output == "probabilities" && (t.Threshold <= 0 || t.Threshold >= 1):
		d.Errorf(at, "a threshold of probabilities must be between 0 and 1, not %v", t.Threshold)
	}
}

func (d *fileDecoder) checkData(m mapping) {
	t := &d.task.Data
	if t.Comment == t.Delimiter {
		d.Errorf(m.Place("comment"), "comment and delimiter must differ")
	}
	d.List(m.At["filter"], "filter", func(_ int, n ast.Node) {
		c := Condition{Min: math.Inf(-1), Max: math.Inf(1)}
		m := d.mapping(n, "a filter", d.filterKeys(&c))
		switch {
		case !m.Has("column"):
		case !m.Has("min") && !m.Has("max") && !m.Has("not"):
			d.Errorf(m.Node, "a filter needs a condition: min, max or not")
		case c.Min > c.Max:
			d.Errorf(m.Place("min"), "no value lies between min %v and max %v", c.Min, c.Max)
		}
		t.Filter = append(t.Filter, c)
	})
	switch {
	case t.Label != "" && !m.Has("favourable"):
		d.Errorf(m.Place("label"), "data.label needs data.favourable, the label value that is the favourable outcome")
	case m.Has("favourable") && !m.Has("label"):
		d.Errorf(m.Place("favourable"), "data.favourable needs data.label, the column of the outcome")
	case m.Has("favourable") && slices.Contains(t.Missing, t.Favourable):
		d.Errorf(m.Place("favourable"), "%q is both the favourable label and a missing marker (data.missing)", t.Favourable)
	}
	if len(t.Columns) == 0 {
		return
	}
	for i, c := range t.Columns {
		if slices.Contains(t.Columns[:i], c) {
			d.Errorf(m.Place("columns"), "column %q is listed twice", c)
		}
	}
	refer := func(key string, columns ...string) {
		for _, c := range columns {
			if c != "" && !slices.Contains(t.Columns, c) {
				d.Errorf(m.Place(key), "data.%s names column %q, which data.columns does not list%s", key, c,
					config.DidYouMean(c, t.Columns))
			}
		}
	}
	refer("label", t.Label)
	refer("id", t.ID)
	refer("drop", t.Drop...)
	refer("subgroups", t.Subgroups...)
	for _, c := range t.Filter {
		refer("filter", c.Column)
	}
}

func (d *fileDecoder) checkNames() {
	data := &d.task.Data
	seen := map[string]bool{}
	for _, e := range d.features {
		if e.Name != "" && seen[e.Name] {
			d.Errorf(e.Place("name"), "a feature named %q is listed above; names must differ (use column to read a column "+
				"twice)", e.Name)
		}
		seen[e.Name] = true
		at := "name"
		if e.Has("column") {
			at = "column"
		}
		switch {
		case e.Column == "":
		case e.Column == data.Label:
			e.errorf(at, "it reads the label column: the model would be given the outcome")
		case slices.Contains(data.Drop, e.Column):
			e.errorf(at, "it reads column %q, which data.drop excludes; remove one of the two", e.Column)
		case len(data.Columns) > 0 && !d.task.Encoded && !slices.Contains(data.Columns, e.Column):
			e.errorf(at, "it reads column %q, which data.columns does not list%s", e.Column,
				config.DidYouMean(e.Column, data.Columns))
		}
	}
}

func (d *fileDecoder) checkCost() {
	var lacking []string
	need := ""
	for _, e := range d.features {
		if what := d.task.Cost.lacks(e); e.Actionable && what != "" {
			need = what
			lacking = append(lacking, e.Name)
		}
	}
	if lacking != nil {
		d.Errorf(d.cost.Place("weights"), "%s needs %s of every number that people can change, and these have none: %s; "+
			"`cfq task init` makes them from data", d.task.Cost.Weights, need, clause(message.List(lacking, 20)))
	}
}

func (c *Cost) lacks(e featureEntry) (need string) {
	n := e.Number()
	switch {
	case n == nil:
	case c.Weights == "inverse_mad" && n.MAD == 0 && !e.Has("mad"):
		return "the mad"
	case c.Weights == "inverse_range" && n.Quantiles == nil && len(n.Levels) < 2 &&
		(math.IsInf(e.Bounds[0], 0) || math.IsInf(e.Bounds[1], 0)):
		return "quantiles, or bounds on both sides,"
	}
	return ""
}

type featureEntry struct {
	*Feature
	mapping
	d *fileDecoder
}

func (e featureEntry) errorf(key, format string, args ...any) {
	e.d.Errorf(e.Place(key), "feature %q: "+format, append([]any{e.Name}, args...)...)
}

func (d *fileDecoder) feature(n ast.Node, f *Feature) {
	f.Encoding, f.Mutable = encodingOf(n), false
	keys, check := d.featureKeys(d.task, f)
	for _, row := range d.reference {
		if f.Encoding != nil && !isFor(row, f.Encoding.Kind()) {
			keys = append(keys, key{Name: row[0]})
		}
	}
	e := featureEntry{f, d.mapping(n, "a feature", keys), d}
	d.features = append(d.features, e)
	f.Column = cmp.Or(f.Column, f.Name)
	if e.Has("mutable") && !e.Mutable {
		if e.Has("actionable") && e.Actionable {
			e.errorf("mutable", "it is actionable and never changes (mutable: false); keep one of the two")
		}
		e.Actionable = false
	}
	if e.Has("name") && strings.TrimSpace(e.Name) == "" {
		d.Errorf(e.Place("name"), "the name is empty")
	}
	if e.Has("bounds") {
		d.pair(e.At["bounds"], e.side)
	}
	e.checkBounds()
	if f.Encoding == nil {
		return
	}
	e.refuse()
	check(e)
	f.Width = f.Encoding.width()
	if e.Impute != "" && f.Width > 0 && f.image() == nil {
		if why := e.refuses(e.Impute); why != "" {
			e.errorf("impute", "the value that stands for a missing one: %s", why)
		}
	}
	for _, key := range []string{"clip", "log", "inputs", "impute"} {
		if d.task.Encoded && e.Has(key) {
			e.errorf(key, "%q says how the model's inputs are made, and data files hold them (encoded: true); remove one of "+
				"the two", key)
		}
	}
}

func encodingOf(n ast.Node) Encoding {
	m, _ := n.(*ast.MappingNode)
	if m == nil {
		return nil
	}
	for _, kv := range m.Values {
		if config.ScalarText(kv.Key) == "kind" {
			if i := slices.Index(kinds(), config.ScalarText(kv.Value)); i >= 0 {
				return encodings()[i]
			}
		}
	}
	return nil
}

func (e featureEntry) refuse() {
	for _, row := range e.d.reference {
		if kind := e.Encoding.Kind(); e.Has(row[0]) && !isFor(row, kind) {
			e.errorf(row[0], "%q means nothing for kind %s; remove it", row[0], kind)
		}
	}
}

func (d *fileDecoder) pair(n ast.Node, side func(i int, n ast.Node)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) != 2 {
		d.Errorf(n, "this must be a pair [lo, hi]; null leaves a side open")
		return
	}
	for i, n := range seq.Values {
		if _, open := n.(*ast.NullNode); !open {
			side(i, n)
		}
	}
}

// side stores one side of bounds: a number, or a percentile such as 99%.
func (e featureEntry) side(i int, n ast.Node) {
	text, percent := "", false
	if s, ok := n.(*ast.StringNode); ok {
		text, percent = strings.CutSuffix(s.Value, "%")
	}
	if !percent {
		e.d.Number(&e.Bounds[i]).Read(n)
		return
	}
	number := e.Number()
	switch p, ok := Number(strings.TrimSpace(text)); {
	case !ok || p < 0 || p > 100:
		e.d.Errorf(n, "%q is no percentile; write one from \"0%%\" to \"100%%\"", text+"%")
	case number == nil || len(number.Quantiles) < 2:
		e.d.Errorf(n, "feature %q: the percentile %q needs the feature's quantiles; `cfq task init` makes them from data, "+
			"or give a number", e.Name, text+"%")
	default:
		e.Bounds[i] = number.quantile(p / 100)
	}
}

func (e featureEntry) checkBounds() {
	if lo, hi := e.Bounds[0], e.Bounds[1]; lo > hi {
		e.d.Errorf(e.Place("bounds"), "no value lies between %v and %v; write [lo, hi] with lo <= hi", lo, hi)
	}
}

func (d *fileDecoder) featureNamed(n ast.Node, name string) int {
	i := slices.IndexFunc(d.task.Features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		d.Errorf(n, "there is no feature %q%s", name, config.DidYouMean(name, featureNames(d.task.Features)))
	}
	return i
}

func featureNames(features []Feature) []string {
	return lists.Map(features, func(f Feature) string { return f.Name })
}

func (d *fileDecoder) links(n ast.Node) {
	d.List(n, "links", func(_ int, n ast.Node) {
		var l Link
		m := d.mapping(n, "a link", d.linkKeys(&l))
		if !m.Has("from") || !m.Has("to") || !d.link(&l, m) {
			return
		}
		links := d.task.Links
		for _, o := range links {
			switch {
			case o.To != l.To:
			case o.From == l.From:
				d.Errorf(m.Place("from"), "the link from %q to %q is given twice; keep one", l.From, l.To)
				return
			case o.Map != nil || l.Map != nil:
				d.Errorf(m.Place("to"), "%q has two sources, %q and %q; only scales add up, a map is the only link to its "+
					"feature", l.To, o.From, l.From)
				return
			}
		}
		reached := map[string]bool{l.To: true}
		for range links {
			for _, o := range links {
				reached[o.To] = reached[o.To] || reached[o.From]
			}
		}
		if reached[l.From] {
			d.Errorf(m.Node, "the links go round in a circle, from %q back to it; remove one of them", l.From)
			return
		}
		d.task.Links = append(d.task.Links, l)
	})
}

func (d *fileDecoder) link(l *Link, m mapping) bool {
	i, j := d.featureNamed(m.Place("from"), l.From), d.featureNamed(m.Place("to"), l.To)
	if i < 0 || j < 0 {
		return false
	}
	from, to := d.features[i], d.features[j]
	switch {
	case i == j:
		d.Errorf(m.Place("to"), "%q is linked to itself; from and to are two features", l.To)
		return false
	case to.Actionable:
		d.Errorf(m.Place("to"), "%q changes with %q and is actionable, too; set actionable: false on it, or remove the link",
			l.To, l.From)
	case to.Has("mutable") && !to.Mutable:
		d.Errorf(m.Place("to"), "%q never changes (mutable: false), and %q is linked to it; remove one of the two", l.To,
			l.From)
	}
	category := from
	if from.Category() == nil {
		category = to
	}
	switch {
	case m.Has("scale") == m.Has("map"):
		d.Errorf(m.Node, "a link needs scale or map, one of the two")
	case m.Has("map"):
		d.linkMap(l, m.At["map"], from.Feature, to.Feature)
	case l.Scale == 0:
		d.Errorf(m.Place("scale"), "scale must not be 0: it is what %q changes by for each unit of %q", l.To, l.From)
	case category.Category() != nil:
		d.Errorf(m.Place("scale"), "scale is between numbers, and %q is %s; write a map", category.Name,
			category.Encoding.Kind())
	}
	return true
}

func (d *fileDecoder) linkMap(l *Link, n ast.Node, from, to *Feature) {
	ranks := map[float64][2]string{}
	const must = "map must give the value of one feature for values of another, as {Masters: 14}"
	before := len(d.Errs)
	d.Entries(n, must, func(key string, at, n ast.Node) {
		value, ok := d.ReadText(n)
		if !ok {
			return
		}
		rank, name, why := from.rank(key)
		if _, twice := ranks[rank]; twice && why == "" {
			why = "it stands in the map twice"
		}
		if why != "" {
			d.Errorf(at, "%q is no value that %q can be mapped from: %s", key, l.From, clause(why))
			return
		}
		why = to.refuses(value)
		if why == "" && to.Encoding.notKnown(value) {
			why = `it means "not known"`
		}
		if why != "" {
			d.Errorf(at, "%q is mapped to %q, which %q cannot be: %s", key, value, l.To, clause(why))
		}
		ranks[rank] = [2]string{name, value}
	})
	if len(ranks) == 0 && len(d.Errs) == before {
		d.Errorf(n, "the map is empty")
	}
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		l.Map = append(l.Map, ranks[r])
	}
}

func (d *fileDecoder) rules(n ast.Node) {
	seen := map[string]bool{}
	p := newConditionParser(d.task)
	d.List(n, "constraints", func(_ int, n ast.Node) {
		before := len(d.Errs)
		r := d.rule(n, p)
		switch {
		case len(d.Errs) > before:
			return
		case seen[r.Text]:
			d.Errorf(n, "the constraint %q is given twice; keep one", r.Text)
		}
		seen[r.Text] = true
		d.task.Rules = append(d.task.Rules, r)
	})
	if len(d.Errs) == 0 {
		if err := contradiction(d.task); err != nil {
			d.Errorf(n, "%v", err)
		}
	}
}

func (d *fileDecoder) rule(n ast.Node, p *conditionParser) (r Rule) {
	switch n.(type) {
	case *ast.SequenceNode:
		d.Errorf(n, "each constraint is an entry of its own, not a list of them")
		return r
	case *ast.MappingNode:
	default:
		r.Then, r.Text = d.inequalities(n, p)
		return r
	}
	before := len(d.Errs)
	m := d.mapping(n, "a constraint", d.ruleKeys(&r))
	switch {
	case len(d.Errs) > before:
	case m.Has("then") && (m.Has("if") || r.Must) && !m.Has("at_most") && !m.Has("of"):
		r.Then, r.Text = d.inequalities(m.At["then"], p)
		if m.Has("if") {
			var when string
			r.If, when = d.inequalities(m.At["if"], p)
			r.Text = fmt.Sprintf("if %s then %s", when, r.Text)
		}
		if m.Has("if") && len(config.Nodes(m.At["if"])) == 0 || len(config.Nodes(m.At["then"])) == 0 {
			d.Errorf(m.Node, "if and then need a condition each")
		}
	case len(m.At) == 2 && m.Has("at_most") && m.Has("of"):
		d.subset(&r, m)
	default:
		d.Errorf(m.Node,
			"a constraint is a text such as \"debt <= 0.5 * income\", {if: ..., then: ...}, {then: ..., must: true} "+
				"or {at_most: 2, of: [...]}")
	}
	return r
}

func (d *fileDecoder) subset(r *Rule, m mapping) {
	before := len(d.Errs)
	listed := map[int]bool{}
	d.List(m.At["of"], "of", func(_ int, n ast.Node) {
		name, ok := d.ReadText(n)
		if !ok {
			return
		}
		i := d.featureNamed(n, name)
		if listed[i] && i >= 0 {
			d.Errorf(n, "%q is listed twice", name)
		}
		listed[i] = true
	})
	if len(d.Errs) > before {
		return
	}
	for _, i := range slices.Sorted(maps.Keys(listed)) {
		r.Of = append(r.Of, d.task.Features[i].Name)
	}
	if r.AtMost >= len(r.Of) {
		d.Errorf(m.Place("at_most"), "at_most %d of %d features is no limit", r.AtMost, len(r.Of))
	}
	r.Text = fmt.Sprintf("at most %d of %s", r.AtMost, strings.Join(r.Of, ", "))
}

func (d *fileDecoder) inequalities(n ast.Node, p *conditionParser) (all []Inequality, text string) {
	var texts []string
	for _, n := range config.Nodes(n) {
		text, ok := d.ReadText(n)
		if text = strings.TrimSpace(text); !ok {
			continue
		}
		if slices.Contains(texts, text) {
			d.Errorf(n, "the condition %q is given twice; keep one", text)
			continue
		}
		texts = append(texts, text)
		read, err := p.parse(text)
		if err != nil {
			d.Errorf(n, "constraint %q: %s", text, clause(err.Error()))
		}
		all = append(all, read...)
	}
	return all, strings.Join(texts, " and ")
}

// Package draft writes first drafts of task files from data, and holds task files against data.
//
// In: a data file, and if there is one the declared encoding of the model's inputs. Out: a task file with comments
// (New), or a list of what does not fit (Check). Of a model it is told the number of inputs and the margins.
//
// Invariant: nothing that the data do not tell is guessed in silence. It is a question in the file, which Check refuses
// until it is answered, and a draft that is handed out has been parsed by package task.
package draft

import (
	"cmp"
	"context"
	_ "embed" // the names
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

// Source is the data that a draft is made from.
type Source struct {
	Path  string
	Names []string // columns of a file without header
	Rows  task.ReadOptions
}

// Options of New. Whatever they leave open becomes a question of the draft.
type Options struct {
	Label      string    // column of the outcome
	Favourable string    // its value that people want
	Features   []string  // columns that are the model's inputs, in their order
	Encoding   *Encoding // how the model's inputs are made of columns; nil = not known
	File       string    // name of the data file, for the comments

	inputs  int       // of the model; 0 = not known
	imputed []float64 // by input, the number that the model takes for one that is not known; NaN is none
}

// Model is what a draft is told of the model.
type Model struct {
	Inputs  int           // numbers of a row
	Sizes   []int         // of the input after the batch
	Columns []ModelColumn // that it reads itself; nil where it reads numbers
	Scales  bool          // its own graph scales the numbers of Columns
	Classes int
	Labels  []string // of the classes, nil where it has none

	// Imputed returns, by input, the number that the model takes for one that is not known; NaN is none.
	Imputed func(context.Context) ([]float64, error)
}

// Draft is a task file that a person has to finish.
type Draft struct {
	Text      []byte // the file, in YAML with comments
	Task      *task.Task
	Notes     []string   // what was read off the data
	Questions []Question // what the data do not tell, in the order of the file
}

type drafter struct {
	o         Options
	table     *table
	profiles  []*profile
	label     *profile // of the outcome, nil when there is none
	favourite string   // the favourable value of the outcome, "" when it is not known
	features  []feature
	dropped   []string // comments on columns that are no features
	drop      []string // their names
	notes     []string
}

type feature struct {
	task.Feature
	from      *profile
	protected string // the attribute that it seems to be, which people cannot be asked to change
	questions []string
}

func (f *feature) ask(format string, args ...any) {
	f.questions = append(f.questions, fmt.Sprintf(format, args...))
}

func (d *drafter) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// New drafts a task file for a model, nil where there is none: features by the declared encoding, by that in the
// model's graph, or by the columns; bounds (1st to 99th percentile), steps and shares from the data. An error says that
// the data, or what the options name, cannot be used.
func New(ctx context.Context, from Source, o Options, m *Model) (*Draft, error) {
	var sizes []int
	if m != nil {
		sizes, o.inputs = m.Sizes, m.Inputs
	}
	if o.Encoding == nil && o.Features == nil {
		p, err := findImages(from.Path, sizes)
		if err != nil {
			return nil, err
		}
		if p != nil {
			return p.draft(ctx, from, o, m)
		}
	}
	t, err := readTable(ctx, from, o.values(m)...)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if o.imputed, err = m.Imputed(ctx); err != nil {
			return nil, err
		}
		if m.Columns != nil && o.Encoding == nil {
			if o.Encoding, err = m.encoding(t, o); err != nil {
				return nil, err
			}
			o.Features = nil // the encoding names them
		} else if o.Encoding != nil {
			o.Encoding.lookUp(m.Columns)
		}
	}
	return fromTable(t, o)
}

// values are the categories that the encoding or the model names.
func (o *Options) values(m *Model) (all []string) {
	if o.Encoding != nil {
		for i := range o.Encoding.inputs {
			if c := o.Encoding.inputs[i].Category(); c != nil {
				all = append(all, c.Names()...)
			}
		}
	} else if m != nil {
		all = lists.Join(m.Columns, func(c ModelColumn) []string { return c.Values })
	}
	return all
}

func fromTable(t *table, o Options) (*Draft, error) {
	d, err := newDrafter(t, o)
	if err != nil {
		return nil, err
	}
	if d.o.Encoding != nil {
		err = d.declared()
	} else {
		err = d.inferred()
	}
	if err != nil {
		return nil, err
	}
	if len(d.features) == 0 {
		return nil, errors.New("no column can be a feature")
	}
	d.impute()
	d.tell()
	return d.write()
}

// impute gives numbers the value that the model takes a missing one for, in the units that the encoding says.
func (d *drafter) impute() {
	if d.o.Encoding == nil || d.inputs() != len(d.o.imputed) {
		return
	}
	at := 0
	for i := range d.features {
		f := &d.features[i]
		v := d.o.imputed[at]
		if n := f.Number(); n != nil && n.Log == nil && f.Impute == "" && !math.IsNaN(v) {
			if n.Spread == 0 {
				v = short(n.Mean + n.Std*v)
			}
			f.Impute = task.Decimal(v)
		}
		at += f.ModelInputs()
	}
}

func newDrafter(t *table, o Options) (*drafter, error) {
	d := &drafter{o: o, table: t}
	for i := range t.cols {
		if c := &t.cols[i]; t.column(c.name) == c { // a reader takes the first of columns with the same name
			d.profiles = append(d.profiles, look(c))
		} else {
			d.note("the file has two columns %s; the first counts, and rows in which they differ cannot be read",
				message.Quote(c.name))
		}
	}
	return d, d.findLabel()
}

func (d *drafter) profile(name string) (*profile, error) {
	if i := slices.IndexFunc(d.profiles, func(p *profile) bool { return p.name == name }); i >= 0 {
		return d.profiles[i], nil
	}
	return nil, d.table.lacks(name)
}

const maxClasses = 20

// findLabel finds the outcome: the column that the options name, else the last if it has two values and is no feature.
func (d *drafter) findLabel() (err error) {
	if d.o.Label != "" {
		if d.label, err = d.profile(d.o.Label); err != nil {
			return fmt.Errorf("the outcome: %w", err)
		}
	} else if last := d.profiles[len(d.profiles)-1]; len(last.texts) == 2 && !d.isFeature(last.name) {
		d.label = last
	}
	if d.label == nil {
		if d.o.Favourable != "" {
			return fmt.Errorf("which column has the favourable value %s? --label names it", message.Quote(d.o.Favourable))
		}
		return nil
	}
	values := d.label.texts
	if len(values) > maxClasses {
		return fmt.Errorf("column %s has %d values; an outcome has a few: name another column", message.Quote(d.label.name),
			len(values))
	}
	if d.o.Favourable == "" {
		return nil
	}
	i := task.Find(values, d.o.Favourable)
	if i < 0 {
		i = slices.IndexFunc(values, func(v string) bool { return strings.TrimSpace(v) == d.o.Favourable })
	}
	if i < 0 {
		return fmt.Errorf("column %s has no value %s; its values are %s",
			message.Quote(d.label.name), message.Quote(d.o.Favourable), message.List(values, maxClasses))
	}
	d.favourite = values[i]
	return nil
}

func (d *drafter) isFeature(name string) bool {
	return slices.Contains(d.o.Features, name) || d.o.Encoding.of(name) != nil
}

func (d *drafter) declared() error {
	var errs []error
	for i := range d.o.Encoding.inputs {
		in := &d.o.Encoding.inputs[i]
		p, err := d.profile(in.Column)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("the encoding's input %s: %w", message.Quote(in.Name), err))
		case p == d.label:
			errs = append(errs, fmt.Errorf("the encoding's input %s is the outcome", message.Quote(in.Name)))
		case in.Number() != nil && !p.numeric:
			errs = append(errs, fmt.Errorf("column %s is numeric in the encoding, but the file has texts there: %s",
				message.Quote(in.Column), message.List(p.texts, 5)))
		default:
			d.features = append(d.features, d.declare(in, p))
		}
	}
	for _, p := range d.profiles {
		if p != d.label && !d.isFeature(p.name) {
			d.leave(p, "not among the declared inputs")
		}
	}
	return errors.Join(errs...)
}

func (d *drafter) declare(in *task.Feature, p *profile) feature {
	f := d.start(p)
	if q := d.o.Encoding.asked[p.name]; q != "" {
		f.ask("%s", q)
	}
	f.Impute = in.Impute
	switch e := in.Encoding.(type) {
	case *task.Standardized:
		n := d.number(&f)
		if e.Spread != 0 {
			n.Spread = n.Std
		}
		if n.Mean, n.Std, n.Clip, n.Log = e.Mean, e.Std, e.Clip, e.Log; n.Log != nil {
			f.Bounds[0] = max(f.Bounds[0], p.points[0])
		}
	case *task.Binary:
		p.claim(e.Names())
		zero := e.Zero
		if i := task.Find(p.texts, e.One); i < 0 {
			f.ask("the encoding says that %q is 1, but the values are %s: which one is it?", e.One, message.List(p.texts, 6))
		} else if zero == "" && len(p.texts) == 2 {
			zero = p.texts[1-i]
		}
		d.binary(&f, e.One, zero, e.Coding)
	case *task.OneHot:
		p.claim(e.Values)
		d.category(&f, e.Values, e.Coding)
		others := slices.DeleteFunc(slices.Clone(p.texts), func(v string) bool { return task.Find(e.Values, v) >= 0 })
		if len(others) > 0 {
			f.ask("the encoding does not list %s, so rows with it cannot be read: does it mean \"not known\" (then add it "+
				"to data.missing), or has the model no input for it?", message.List(others, 5))
		}
	case *task.Thermometer:
		e.Shares = p.reaching(e.Thresholds)
		f.Encoding = e
	}
	return f
}

func (d *drafter) start(p *profile) feature {
	f := feature{from: p, Feature: task.Feature{Name: p.name, Column: p.name, Action: task.Free()}}
	f.protected = protected(p.name)
	f.Actionable = f.protected == ""
	return f
}

// Bounds on what is taken for a scale of grades and for a category.
const (
	maxGrades  = 16
	fewValues  = 20
	manyValues = 200
	rowsPer    = 20
)

func (d *drafter) number(f *feature) *task.Standardized {
	mean, std := f.from.moments() // of codes, too: the model was trained with them
	n := &task.Standardized{Std: 1, Missing: f.from.codes()}
	p := f.from.without(n.Missing)
	f.Encoding, f.Step, n.MAD, n.Quantiles = n, p.step(), short(p.mad()), p.quantiles()
	if std > 0 {
		n.Mean, n.Std = short(mean), short(std)
	}
	lo, hi := p.points[0], p.points[len(p.points)-1]
	if p.whole && len(p.points) <= maxGrades && hi-lo < 2*maxGrades && d.o.Encoding == nil {
		n.Ordinal, f.Step = true, max(f.Step, 1)
	} else {
		lo, hi = p.bounds()
	}
	f.Bounds = [2]float64{lo, hi}
	return n
}

func (d *drafter) binary(f *feature, one, zero string, known task.Coding) {
	known.Shares = []float64{f.from.share(one)}
	f.Encoding = &task.Binary{One: one, Zero: zero, Coding: known}
	f.Subgroup = !f.Actionable
}

func (d *drafter) category(f *feature, values []string, known task.Coding) {
	const most = 10 // groups that results are reported by
	f.Subgroup = !f.Actionable && len(values) <= most
	known.Shares = f.from.shares(values)
	f.Encoding = &task.OneHot{Values: values, MissingValues: markers(values), Coding: known}
}

func (d *drafter) leave(p *profile, why string) {
	d.drop = append(d.drop, p.name)
	d.dropped = append(d.dropped, why)
}

func (d *drafter) inferred() error {
	named := func(p *profile) bool { return p != d.label && strings.TrimSpace(p.name) != "" }
	useful := lists.Filter(d.profiles, func(p *profile) bool { return named(p) && p.useless() == "" })
	numbers := lists.Filter(useful, func(p *profile) bool { return p.numeric })
	use, err := d.named()
	if err != nil {
		return err
	}
	why := "it was not named"
	switch {
	case d.o.Features != nil:
	case len(numbers) > 0 && len(numbers) == d.o.inputs:
		use, why = numbers, fmt.Sprintf("the model takes %d numbers, and as many columns have them", d.o.inputs)
	default:
		use = useful
	}
	for _, p := range lists.Filter(d.profiles, named) {
		switch useless := p.useless(); {
		case slices.Contains(use, p):
		case d.o.Features != nil:
			d.leave(p, why)
		default:
			d.leave(p, cmp.Or(useless, why))
		}
	}
	d.features = lists.Map(use, d.infer)
	if known := d.features; d.o.inputs != 0 && d.inputs() != d.o.inputs {
		d.features = lists.Map(use, func(p *profile) feature {
			q := *p
			if !p.numeric {
				q.claim(p.markers)
			}
			return d.infer(&q)
		})
		if d.inputs() != d.o.inputs { // so what looks like "not known" is no category of the model
			d.features = known
		}
	}
	d.groups()
	return nil
}

func (d *drafter) named() (use []*profile, err error) {
	for i, name := range d.o.Features {
		p, err := d.profile(name)
		switch {
		case err != nil:
			return nil, err
		case p == d.label:
			return nil, fmt.Errorf("column %s is the outcome and cannot be a feature", message.Quote(name))
		case slices.Contains(d.o.Features[:i], name):
			return nil, fmt.Errorf("column %s is named twice", message.Quote(name))
		case len(p.texts) == 0 || strings.TrimSpace(name) == "":
			return nil, fmt.Errorf("column %s cannot be a feature: it is empty or has no name", message.Quote(name))
		}
		use = append(use, p)
	}
	return use, nil
}

func (d *drafter) infer(p *profile) feature {
	f := d.start(p)
	switch {
	case p.numeric && len(p.points) == 2 && p.points[0] == 0 && p.points[1] == 1:
		d.binary(&f, "1", "0", task.Coding{})
	case p.numeric:
		d.number(&f)
	case len(p.texts) == 2:
		values := slices.Sorted(slices.Values(p.texts))
		d.binary(&f, values[1], values[0], task.Coding{})
		f.ask("is the input of %s 1 for %s and 0 for %s? It may be the other way round, or two inputs (kind: onehot).",
			message.Legible(p.name), message.Legible(values[1]), message.Legible(values[0]))
	default:
		d.category(&f, slices.Sorted(slices.Values(p.texts)), task.Coding{})
	}
	return f
}

func (p *profile) useless() string {
	n, rows := len(p.texts), p.col.rows
	switch {
	case n == 0:
		return "it is empty"
	case n == 1 || p.numeric && len(p.points) < 2:
		return "it has one value"
	case !p.numeric && n > fewValues && (n > manyValues || n*rowsPer > rows):
		return fmt.Sprintf("it has %d different texts", n)
	case p.whole && p.numeric && n == rows && rows >= 20 && int(p.points[n-1]-p.points[0]) == n-1:
		return "it numbers the rows"
	case 2*p.missing > rows:
		return message.Percent(float64(p.missing)/float64(rows), 1) + " of its fields are missing"
	}
	return ""
}

// groups finds columns of 0 and 1 whose names begin alike, as home_rent and home_own: one of them alone may not change.
func (d *drafter) groups() {
	members := map[string][]*feature{}
	for i := range d.features {
		f := &d.features[i]
		_, binary := f.Encoding.(*task.Binary)
		if at := strings.LastIndexAny(f.Name, "=_.:"); at > 0 && binary && f.from.numeric {
			members[f.Name[:at]] = append(members[f.Name[:at]], f)
		}
	}
	for _, g := range members {
		if len(g) < 2 {
			continue
		}
		for _, f := range g {
			f.Actionable = false
		}
		g[0].ask("are %s to %s the values of one category? An action would have to change two of them, "+
			"so none is actionable here.", message.Legible(g[0].Name), message.Legible(g[len(g)-1].Name))
	}
}

// protectedNames has the attributes that people cannot be asked to change, and how names of columns of them begin.
//
//go:embed protected.txt
var protectedNames string

func protected(name string) string {
	notLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	words := strings.Join(strings.FieldsFunc(strings.ToLower(name), notLetter), " ")
	for line := range strings.Lines(protectedNames) {
		what, pattern, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if regexp.MustCompile(`\b(` + pattern + `)`).MatchString(words) {
			return what
		}
	}
	return ""
}

func (d *drafter) missing() []string {
	out := lists.Join(d.features, func(f feature) []string { return f.from.markers })
	slices.Sort(out)
	return slices.Compact(out)
}

type notedColumn struct {
	*task.Feature
	Missing float64  // share of the rows that have no number
	Strange []string // fields that are no numbers
}

func (d *drafter) tell() {
	of := struct {
		*table
		Missing, Drop, Fixed []string
		Columns              []notedColumn
	}{table: d.table, Missing: d.missing(), Drop: d.drop}
	for i := range d.features {
		f := &d.features[i]
		if !f.Actionable {
			of.Fixed = append(of.Fixed, f.Name)
		}
		c := notedColumn{Feature: &f.Feature, Strange: f.from.strange}
		if f.Number() != nil {
			c.Missing = float64(f.from.missing) / float64(d.table.Rows)
		}
		of.Columns = append(of.Columns, c)
	}
	d.notes = append(d.notes, pageTemplates().Lines("notes", of)...)
}

func (d *drafter) inputs() (n int) {
	for i := range d.features {
		n += d.features[i].ModelInputs()
	}
	return n
}

// Question is something that a draft leaves open, as a comment with the word QUESTION.
type Question struct {
	Line int // of the task file
	Text string
}

// Questions returns the questions that a task file still has. A question is answered when its comment is gone.
func Questions(text []byte) []Question {
	var out []Question
	mark := regexp.MustCompile(`(?:^|\s)#\s*QUESTION:\s*(.*?)\s*$`)
	for n, line := range strings.Split(string(text), "\n") {
		if m := mark.FindStringSubmatch(line); m != nil {
			out = append(out, Question{n + 1, m[1]})
		}
	}
	return out
}

func (d *drafter) write() (*Draft, error) {
	index, free := -1, 0
	if d.o.Encoding != nil {
		index = d.o.Encoding.index
	}
	p := &page{
		About: fmt.Sprintf("A draft from %s of %s. What people can change, how far, and at what cost is for you to say.",
			message.Count(d.table.Rows, "row"), message.Legible(d.o.File)),
		Data: d.table.Data, Guessed: d.o.Label == "", Index: index,
		pageQuestions: pageQuestions{
			Inputs: d.o.inputs, Made: d.inputs(), Inferred: d.o.Encoding == nil, Ordered: d.o.Features != nil,
		},
	}
	p.Data.Missing = d.missing()
	p.Missing = len(p.Data.Missing) > 0 || p.Data.Delimiter == 0
	for i, name := range d.drop {
		p.Drop = append(p.Drop, scalar(name)+" # "+d.dropped[i])
	}
	if d.label != nil {
		p.Data.Label, p.Data.Favourable, p.Values = d.label.name, d.favourite, message.List(d.label.texts, 6)
	}
	for i := range d.features {
		f := &d.features[i]
		if f.Mutable = f.Actionable; f.Actionable {
			free++
		}
		if n := f.Number(); n != nil {
			p.Numbers = true
			if n.Missing != nil && f.Actionable {
				rows := message.Percent(float64(f.from.rowsOf(n.Missing))/float64(d.table.Rows), 1)
				p.Codes = append(p.Codes,
					fmt.Sprintf("%s in %s (%s of the rows)", numbers(n.Missing), message.Legible(f.Name), rows))
			}
		}
		p.Categories = p.Categories || f.Encoding.Kind() == "onehot"
		p.Columns = append(p.Columns, f.Column)
		p.Features = append(p.Features, pageFeature{f.protected, f.questions, entry(&f.Feature)})
	}
	p.MaxFeatures = min(free, 3)
	return p.draft(d.notes)
}

// entry writes a feature as an entry of a list, with its lists last.
func entry(f *task.Feature) string {
	var items, long []string
	for _, k := range f.Keys() {
		text := k.Name + ": " + flow(k.Value.Out(), ",\n")
		if strings.Contains(text, "\n") {
			long = append(long, text)
		} else {
			items = append(items, text)
		}
	}
	return wrap("  - {"+strings.Join(append(items, long...), ",\n")+"}", "     ")
}

// flow writes a value on one line, or with what separates entries of a list where a line may end.
func flow(value any, separator string) string {
	switch v := value.(type) {
	case string:
		return scalar(v)
	case []string:
		return "[" + strings.Join(lists.Map(v, scalar), separator) + "]"
	case []float64:
		return "[" + strings.Join(decimals(v), separator) + "]"
	}
	text, _ := json.Marshal(value) // numbers and lists of them
	return strings.ReplaceAll(string(text), ",", ", ")
}

// wrap fills lines with what stands on lines of its own.
func wrap(text, indent string) string {
	const width = 120 // besides a comma at the end
	filled, at := "", 0
	for i, s := range strings.Split(text, "\n") {
		if i > 0 && at+len(s) > width {
			filled, at = filled+"\n"+indent, len(indent)
		} else if i > 0 {
			filled, at = filled+" ", at+len(" ")
		}
		filled, at = filled+s, at+len(s)
	}
	return filled
}

func decimals(v []float64) []string { return lists.Map(v, task.Decimal) }

func scalar(s string) string {
	word := regexp.MustCompile(`^[A-Za-z](?:[\w./+()-]| [\w./+()])*$`)
	number := regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?$`)
	reserved := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
	if number.MatchString(s) || word.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}

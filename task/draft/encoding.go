package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

// Encoding is how a training script made the model's inputs of the columns, as the script wrote it down.
type Encoding struct {
	index  int               // class index of the favourable outcome; -1: not known
	inputs []task.Feature    // one for each column, in the order of the model's inputs; a number's Spread is not known
	asked  map[string]string // questions, by column
}

// ReadEncoding reads a declared encoding from a JSON file.
func ReadEncoding(path string) (*Encoding, error) {
	return config.Parsed("encoding", path, parseEncoding)
}

func parseEncoding(text []byte) (*Encoding, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	var file struct {
		Dataset  string // a name, for people
		Target   string // "favourable = 1" gives the class index of the favourable outcome
		Features []map[string]any
	}
	if err := in.Decode(&file); err != nil {
		return nil, fmt.Errorf("byte %d: %w; `cfq task --help-all` shows the form", in.InputOffset(), err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON object")
	}
	if len(file.Features) == 0 {
		return nil, errors.New(`the list "features" is empty: it names each input of the model`)
	}
	index, err := favourableIndex(file.Target)
	if err != nil {
		return nil, err
	}
	e := &Encoding{index: index}
	var errs []error
	for i, in := range file.Features {
		name, _ := in["name"].(string)
		f, err := declaredFeature(in)
		if err == nil {
			err = e.add(f)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("features[%d] %s: %w", i, message.Quote(name), err))
		}
	}
	return e, errors.Join(errs...)
}

// add adds an input, or the next values of the last one's column.
func (e *Encoding) add(f *task.Feature) error {
	same := e.of(f.Column)
	if same == nil {
		e.inputs = append(e.inputs, *f)
		return nil
	}
	last, ok := same.Encoding.(*task.OneHot)
	next, hot := f.Encoding.(*task.OneHot)
	if !ok || !hot || same != &e.inputs[len(e.inputs)-1] || last.Inputs != nil || next.Inputs != nil {
		return fmt.Errorf("column %s occurs twice; the inputs of one column must stand side by side and be onehot",
			message.Quote(f.Column))
	}
	last.Values = append(last.Values, next.Values...)
	return nil
}

// lookUp makes the inputs of a category that the model looks up those of the model.
func (e *Encoding) lookUp(columns []ModelColumn) {
	t, at := &task.Task{Features: e.inputs}, 0
	for _, c := range columns {
		t.Require(at, c.Values, false, "")
		at += max(1, len(c.Values))
	}
}

func (e *Encoding) of(column string) *task.Feature {
	if e == nil {
		return nil
	}
	for i := range e.inputs {
		if e.inputs[i].Column == column {
			return &e.inputs[i]
		}
	}
	return nil
}

func favourableIndex(target string) (int, error) {
	if target == "" {
		return -1, nil
	}
	word, number, _ := strings.Cut(target, "=")
	i, err := strconv.Atoi(strings.TrimSpace(number))
	if strings.TrimSpace(word) != "favourable" || err != nil || i < 0 {
		return -1, fmt.Errorf("invalid target %s: want \"favourable = INDEX\", the class index of the favourable outcome",
			message.Quote(target))
	}
	return i, nil
}

// declaredFeature reads an input, or all of a column, as a feature of a task file, whose keys mean the same there. Two
// are of their own: name is for people, and value is one of the values, whose input is 1.
func declaredFeature(in map[string]any) (*task.Feature, error) {
	known := strings.Fields("name column kind mean std clip log one zero value values impute thresholds inputs")
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if in[key] == nil || in[key] == "" {
			delete(in, key)
		} else if !slices.Contains(known, key) {
			return nil, fmt.Errorf("unknown key %q%s", key, message.DidYouMean(key, known))
		}
	}
	std, number := in["std"].(float64)
	switch kind, _ := in["kind"].(string); {
	case in["column"] == nil:
		return nil, errors.New(`the key "column" is missing`)
	case !slices.Contains([]string{"numeric", "binary", "onehot", "thermometer"}, kind):
		return nil, fmt.Errorf("invalid kind %q: want numeric, binary, onehot or thermometer", kind)
	case number && std <= 0:
		return nil, errors.New("std must be above 0")
	case kind == "binary" && in["inputs"] != nil:
		return nil, errors.New(`a binary input has no "inputs": "one" says which value is 1`)
	case kind == "onehot" && (in["value"] == nil) == (in["values"] == nil):
		return nil, errors.New(`a onehot input needs "value", or all of them as "values"`)
	case kind == "thermometer" && in["thresholds"] == nil:
		return nil, errors.New(`a thermometer needs "thresholds", ascending`)
	case kind == "numeric" && (in["log"] != nil || in["mean"] == nil && in["std"] == nil):
		in["spread"] = 1
	}
	impute := in["impute"]
	delete(in, "impute") // it may be one of the values that follow
	if in["value"] != nil {
		in["values"] = []any{in["value"]}
		delete(in, "value")
	}
	in["name"], in["actionable"] = in["column"], false
	text, err := json.Marshal(map[string]any{"version": 1, "features": []any{in}})
	if err != nil {
		return nil, err
	}
	t, err := task.Parse("encoding", text)
	var mistakes config.Errors
	if errors.As(err, &mistakes) {
		return nil, errors.New(mistakes[0].Msg) // its place is not one of the file
	}
	if impute != nil {
		t.Features[0].Impute = fmt.Sprint(impute)
	}
	return &t.Features[0], nil
}

// ModelColumn is a column of data that the model itself reads, with the encoding in its graph.
type ModelColumn struct {
	Name   string   // of the model's input; with the place in brackets behind it where the input has several columns
	Values []string // categories, in the order of their inputs; nil is a number
	Impute string   // what the model takes a missing value for, "" where it does not say
	Text   bool     // the categories are texts; else whole numbers, which may be codes of the texts in the data
}

// encoding returns how the inputs of a model that names its columns are made of those of a table: nothing is left to
// guess but which column is which, where the model's inputs have no such names, what its codes stand for, and whether
// it takes numbers that were scaled.
func (m *Model) encoding(t *table, o Options) (*Encoding, error) {
	columns := m.Columns
	names, err := matched(t, columns, o.Features, o.Label)
	if err != nil {
		return nil, err
	}
	e, scales := &Encoding{index: -1, asked: map[string]string{}}, m.Scales
	for i, c := range columns {
		in := task.Feature{Name: c.Name, Column: names[i], Impute: c.Impute}
		p := look(t.column(names[i]))
		p.claim(c.Values)
		switch {
		case c.Values != nil:
			if i := slices.Index(c.Values, ""); i >= 0 { // by which no value can be called
				c.Values, in.Impute = slices.Clone(c.Values), empty
				c.Values[i] = empty
			} else if i := task.Find(c.Values, "nan"); i >= 0 && in.Impute == "" && p.missing > 0 {
				in.Impute = c.Values[i] // as data frames call an empty field that they make a text of
			}
			values, err := c.named(p)
			if err != nil {
				return nil, err
			}
			in.Encoding = &task.OneHot{Values: values}
			if !slices.Equal(values, c.Values) {
				e.asked[p.name] = "the model has codes from " + c.Values[0] + " to " + c.Values[len(c.Values)-1] +
					" here, and the data texts: are they in the alphabetical order, as below? The list has the order of the codes."
			}
		case !p.numeric && decimalCommas(p.texts):
			return nil, fmt.Errorf("the model's input %s is a number, and column %s has decimal commas: %s; write decimal "+
				"points", message.Quote(c.Name), message.Quote(p.name), message.List(p.texts, 5))
		case !p.numeric:
			return nil, fmt.Errorf("the model's input %s is a number, but column %s has texts: %s; --features lists the "+
				"columns in the model's order", message.Quote(c.Name), message.Quote(p.name), message.List(p.texts, 5))
		default:
			in.Encoding = &task.Standardized{Std: 1, Spread: 1}
			if !scales { // asked once
				e.asked[p.name], scales = "Does the model take numbers as they are, as here, or standardised (mean and std)? "+
					"Its graph does not scale them.", true
			}
		}
		e.inputs = append(e.inputs, in)
	}
	if i := task.Find(m.Labels, o.Favourable); i >= 0 && o.Favourable != "" {
		e.index = i
	}
	return e, nil
}

func decimalCommas(texts []string) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool {
		_, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
		return err != nil
	})
}

const empty = "(empty)"

func (c *ModelColumn) named(p *profile) ([]string, error) {
	known := func(v string) bool { return task.Find(c.Values, v) >= 0 }
	if c.Text || len(p.texts) == 0 || slices.ContainsFunc(p.texts, known) {
		return c.Values, nil // a value that the model does not know is asked about where the feature is made
	}
	texts := slices.Clone(p.texts)
	if len(texts)+len(p.markers) <= len(c.Values) { // trained with the fields that look like "not known" as categories
		texts = append(texts, p.markers...)
	}
	slices.Sort(texts)
	if len(texts) > len(c.Values) {
		return nil, fmt.Errorf("column %s has %d values, and the model codes for %d: %s", message.Quote(p.name), len(texts),
			len(c.Values), message.List(texts, 8))
	}
	for k := len(texts); k < len(c.Values); k++ {
		texts = append(texts, "code "+c.Values[k])
	}
	return texts, nil
}

func matched(t *table, columns []ModelColumn, features []string, label string) ([]string, error) {
	if features != nil && len(features) != len(columns) {
		return nil, fmt.Errorf("--features lists %d columns, and the model reads %d: %s", len(features), len(columns),
			inputsOf(columns))
	}
	for _, f := range features {
		if t.column(f) == nil {
			return nil, t.lacks(f)
		}
	}
	if features != nil {
		return features, nil
	}
	var names, without []string
	for _, c := range columns {
		name := alike(t, c.Name)
		if names = append(names, name); name == "" {
			without = append(without, c.Name)
		}
	}
	switch len(without) {
	case 0:
		return names, nil
	case len(columns):
		return byKind(t, columns, label)
	}
	return nil, fmt.Errorf("the data have no column for the model's inputs %s; its columns are %s (--features lists "+
		"those of the model, in its order)", message.List(without, 20), message.List(t.Names, 60))
}

// byKind takes the columns in the order of the table, those of numbers for numbers and the others for categories, if
// that leaves none. A model of numbers alone leaves texts, and columns that are no features.
func byKind(t *table, columns []ModelColumn, label string) ([]string, error) {
	var names, all []string
	left := map[bool][]string{} // columns of numbers and, with true, of texts
	for _, n := range t.Names {
		if n != label && !slices.Contains(all, n) {
			text := !look(t.column(n)).numeric
			all, left[text] = append(all, n), append(left[text], n)
		}
	}
	categories := len(lists.Filter(columns, func(c ModelColumn) bool { return c.Values != nil }))
	if categories == 0 {
		left[true] = nil
		if len(left[false]) > len(columns) {
			left[false] = slices.DeleteFunc(left[false], func(n string) bool { return look(t.column(n)).useless() != "" })
		}
	}
	given := slices.Concat(left[false], left[true])
	for _, c := range columns {
		if from := left[c.Values != nil]; len(from) > 0 {
			names, left[c.Values != nil] = append(names, from[0]), from[1:]
		}
	}
	if len(names) < len(columns) || len(left[false])+len(left[true]) > 0 {
		return nil, fmt.Errorf("which column is which of the model's inputs is not known: it reads %s, %d of them "+
			"categories, and the data have %s; say it in the model's order, %s of these: --features %s", inputsOf(columns),
			categories, message.List(all, 60), message.Count(len(columns), "column"), shell(given))
	}
	return names, nil
}

func shell(names []string) string {
	return "'" + strings.ReplaceAll(strings.Join(names, ","), "'", `'\''`) + "'"
}

func inputsOf(columns []ModelColumn) string {
	var names []string
	sizes := map[string]int{}
	for _, c := range columns {
		name, _, _ := strings.Cut(c.Name, "[")
		if sizes[name]++; sizes[name] == 1 {
			names = append(names, name)
		}
	}
	for i, n := range names {
		if sizes[n] > 1 {
			names[i] = n + " (" + strconv.Itoa(sizes[n]) + ")"
		}
	}
	return message.List(names, 60)
}

// BareName is what all exporters keep of a column's name.
func BareName(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// alike returns the column with a name, up to case and signs that exporters replace; "" when there is none.
func alike(t *table, name string) string {
	if t.column(name) != nil {
		return name
	}
	found := ""
	for _, n := range t.Names {
		if BareName(n) == BareName(name) && n != found {
			if found != "" {
				return ""
			}
			found = n
		}
	}
	return found
}

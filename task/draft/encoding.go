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

	"cfq/internal/config"
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

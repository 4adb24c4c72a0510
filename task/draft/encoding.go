package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// Encoding is how a training script made the model's inputs of the columns, as the script wrote it down.
type Encoding struct {
	index  int            // class index of the favourable outcome; -1: not known
	inputs []task.Feature // one for each column, in the order of the model's inputs; the Spread of a number is not known
}

// declaredInput is one input of the model, or all of a column. Keys that the task file has mean what they mean there.
type declaredInput struct {
	Name   string `json:"name"`   // for people
	Column string `json:"column"` // of the data file
	Kind   string `json:"kind"`   // numeric, binary, onehot or thermometer
	declaredScale
	One        string    `json:"one,omitempty"`
	Zero       string    `json:"zero,omitempty"`
	Value      string    `json:"value,omitempty"`  // onehot: the value whose input is 1
	Values     []string  `json:"values,omitempty"` // onehot: all values in the order of their inputs
	Impute     string    `json:"impute,omitempty"`
	Thresholds []float64 `json:"thresholds,omitempty"`
	Form       string    `json:"inputs,omitempty"`
}

// declaredScale is how a number becomes an input: without mean, std and log it is the input itself.
type declaredScale struct {
	Mean *float64   `json:"mean,omitempty"`
	Std  *float64   `json:"std,omitempty"`
	Clip []*float64 `json:"clip,omitempty"`
	Log  *float64   `json:"log,omitempty"`
}

// ReadEncoding reads a declared encoding from a JSON file.
func ReadEncoding(path string) (*Encoding, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	e, err := parseEncoding(text)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", path, err)
	}
	return e, nil
}

func parseEncoding(text []byte) (*Encoding, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	var file struct {
		Dataset  string // a name, for people
		Target   string // "favourable = 1" gives the class index of the favourable outcome
		Features []declaredInput
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
	for i := range file.Features {
		in := &file.Features[i]
		f, err := in.feature()
		if err == nil {
			err = e.add(f)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("features[%d] %s: %w", i, message.Quote(in.Name), err))
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

// feature reads the input as the feature of a task file.
func (in *declaredInput) feature() (*task.Feature, error) {
	switch {
	case in.Column == "":
		return nil, errors.New(`the key "column" is missing`)
	case !slices.Contains([]string{"numeric", "binary", "onehot", "thermometer"}, in.Kind):
		return nil, fmt.Errorf("invalid kind %s: want numeric, binary, onehot or thermometer", message.Quote(in.Kind))
	case in.Std != nil && *in.Std <= 0:
		return nil, errors.New("std must be above 0")
	case in.Kind == "binary" && in.Form != "":
		return nil, errors.New(`a binary input has no "inputs": "one" says which value is 1`)
	case in.Kind == "onehot" && (in.Value == "") == (len(in.Values) == 0):
		return nil, errors.New(`a onehot input needs "value", or all of them as "values"`)
	case in.Kind == "thermometer" && len(in.Thresholds) == 0:
		return nil, errors.New(`a thermometer needs "thresholds", ascending`)
	}
	entry := struct {
		declaredInput
		Spread     float64 `json:"spread,omitempty"`
		Actionable bool    `json:"actionable"`
	}{declaredInput: *in}
	entry.Name, entry.Impute = in.Column, "" // which may be one of the values that follow
	if in.Value != "" {
		entry.Value, entry.Values = "", []string{in.Value}
	}
	if in.Kind == "numeric" && (in.Log != nil || in.Mean == nil && in.Std == nil) {
		entry.Spread = 1
	}
	text, _ := json.Marshal(map[string]any{"version": 1, "features": []any{entry}}) // texts and finite numbers
	t, err := task.Parse("encoding", text)
	var mistakes task.Errors
	if errors.As(err, &mistakes) {
		return nil, errors.New(mistakes[0].Msg) // its place is not one of the file
	}
	t.Features[0].Impute = in.Impute
	return &t.Features[0], nil
}

package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// Encoding is how a training script made the model's inputs of the columns, as the script wrote it down.
type Encoding struct {
	Dataset string  `json:"dataset"`  // a name, for people
	Target  string  `json:"target"`   // "favourable = 1" gives the class index of the favourable outcome
	Inputs  []Input `json:"features"` // of the model, in their order
}

// Input is one input of the model; one with Values is one for each of them.
type Input struct {
	Name   string   `json:"name"`   // in messages only
	Column string   `json:"column"` // of the data file
	Kind   string   `json:"kind"`   // numeric, binary, onehot or thermometer
	Mean   *float64 `json:"mean"`   // numeric: the input is (value - mean) / std; without both the value itself
	Std    *float64 `json:"std"`
	// Clip and Log are what happens to a number first, as in the task file.
	Clip   []*float64 `json:"clip"` // a pair; null is an open side
	Log    *float64   `json:"log"`
	One    string     `json:"one"`    // binary: the value whose input is 1
	Zero   string     `json:"zero"`   // binary: the value whose input is 0; any other than one when it is missing
	Value  string     `json:"value"`  // onehot: the value whose input is 1
	Values []string   `json:"values"` // onehot: all values in the order of their inputs
	Impute string     `json:"impute"` // what a missing value is taken for, as in the task file
	// Thresholds are those of the bins of a number, Form the inputs of bins or values, as in the task file.
	Thresholds []float64 `json:"thresholds"`
	Form       string    `json:"inputs"`
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
	var e Encoding
	if err := in.Decode(&e); err != nil {
		return nil, fmt.Errorf("byte %d: %w; `cfq task --help-all` shows the form", in.InputOffset(), err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON object")
	}
	if len(e.Inputs) == 0 {
		return nil, errors.New(`the list "features" is empty: it names each input of the model`)
	}
	if _, err := e.index(); err != nil {
		return nil, err
	}
	var errs []error
	for i := range e.Inputs {
		if err := e.Inputs[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("features[%d] %s: %w", i, message.Quote(e.Inputs[i].Name), err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &e, e.joinValues()
}

func (e *Encoding) of(column string) *Input {
	if e == nil {
		return nil
	}
	i := slices.IndexFunc(e.Inputs, func(in Input) bool { return in.Column == column })
	if i < 0 {
		return nil
	}
	return &e.Inputs[i]
}

func (e *Encoding) index() (int, error) {
	if e.Target == "" {
		return -1, nil
	}
	word, number, _ := strings.Cut(e.Target, "=")
	i, err := strconv.Atoi(strings.TrimSpace(number))
	if strings.TrimSpace(word) != "favourable" || err != nil || i < 0 {
		return -1, fmt.Errorf("invalid target %s: want \"favourable = INDEX\", the class index of the favourable outcome",
			message.Quote(e.Target))
	}
	return i, nil
}

func (in *Input) within() []float64 {
	if in.Clip == nil {
		return nil
	}
	pair := []float64{math.Inf(-1), math.Inf(1)}
	for i, v := range in.Clip {
		if v != nil {
			pair[i] = *v
		}
	}
	return pair
}

func (in *Input) check() error {
	number := in.Kind == "numeric"
	ascending := slices.IsSorted(in.Thresholds) && len(slices.Compact(slices.Clone(in.Thresholds))) == len(in.Thresholds)
	switch {
	case in.Column == "":
		return errors.New(`the key "column" is missing`)
	case !slices.Contains([]string{"numeric", "binary", "onehot", "thermometer"}, in.Kind):
		return fmt.Errorf("invalid kind %s: want numeric, binary, onehot or thermometer", message.Quote(in.Kind))
	case number && (in.Mean == nil) != (in.Std == nil):
		return errors.New("mean and std belong together: give both or neither")
	case number && in.Std != nil && *in.Std <= 0:
		return errors.New("std must be above 0")
	case number && in.Clip != nil && (len(in.Clip) != 2 || in.within()[0] >= in.within()[1]):
		return errors.New("clip is a pair [lo, hi] with lo < hi; null leaves a side open")
	case number && in.Form != "":
		return errors.New(`a numeric input has no "inputs": thermometer with "thresholds" is the kind of bins`)
	case in.Kind == "binary" && in.Form != "":
		return errors.New(`a binary input has no "inputs": "one" says which value is 1`)
	case in.Kind == "binary" && in.One == "":
		return errors.New(`a binary input needs "one", the value that becomes 1`)
	case in.Kind == "onehot" && (in.Value == "") == (len(in.Values) == 0):
		return errors.New(`a onehot input needs "value", or all of them as "values"`)
	case in.Kind == "thermometer" && (len(in.Thresholds) == 0 || !ascending):
		return errors.New(`a thermometer needs "thresholds", ascending`)
	case !number && (in.Clip != nil || in.Log != nil):
		return fmt.Errorf("clip and log are of numbers, and the kind is %s", in.Kind)
	case in.Form != "" && !slices.Contains(task.InputWords(), in.Form):
		return fmt.Errorf("invalid inputs %s: want %s", message.Quote(in.Form), message.List(task.InputWords(), 3))
	}
	return nil
}

func (e *Encoding) joinValues() error {
	var out []Input
	for _, in := range e.Inputs {
		if in.Kind == "onehot" {
			if in.Value != "" {
				in.Values = []string{in.Value}
			}
			if last := len(out) - 1; last >= 0 && out[last].Kind == "onehot" && out[last].Column == in.Column {
				out[last].Values = append(out[last].Values, in.Values...)
				continue
			}
		}
		if slices.ContainsFunc(out, func(o Input) bool { return o.Column == in.Column }) {
			return fmt.Errorf("features: column %s occurs twice; the inputs of one column must stand side by side and be onehot",
				message.Quote(in.Column))
		}
		out = append(out, in)
	}
	e.Inputs = out
	return nil
}

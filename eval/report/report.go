// Package report shows an evaluation, or a comparison of several, to people and programs: one
// document, many views. Views lists them.
//
// In: a Document, which holds an eval.Result and where it came from, or a Comparison. Out: bytes on a writer, which
// depend on the document alone. The invariant: every view tells the same numbers, a rate never goes without its counts,
// and a number that does not exist is shown as missing ("-", null), not as a zero.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cfq/eval"
	"cfq/eval/gate"
)

// Document is one evaluation and where it came from.
type Document struct {
	Title string `json:"title"`
	Run
	Full      Model `json:"full"`
	Quantized Model `json:"quantized"`
	Inputs
	// people and promises that numbers leave out, with the reasons
	Excluded []Exclusion       `json:"excluded,omitempty"`
	Recipe   map[string]string `json:"recipe,omitempty"`   // how the quantized model was made
	Warnings []string          `json:"warnings,omitempty"` // besides those of Result
	Result   *eval.Result      `json:"result"`
	Gate     *gate.Report      `json:"gate,omitempty"` // what a gate says of Result
	Details
}

// Inputs are the files that an evaluation read besides the models.
type Inputs struct {
	Data File `json:"data"`
	Task File `json:"task"`
	// whose promises are the original's; none when they were computed
	Promises File `json:"promises,omitzero"`
	// what single people can change; none when the task says it for all
	Overrides File `json:"overrides,omitzero"`
	Previous  File `json:"previous,omitzero"` // the earlier report that a gate compares with
	RowsFile  File `json:"rows_file,omitzero"`
	GateFile  File `json:"gate_file,omitzero"`
	// the rows that the quantized model was calibrated on
	CalibrationRecord File `json:"calibration_record,omitzero"`
	EncodingRecord    File `json:"encoding_record,omitzero"` // what verified the task's encoding
}

// Details are lists that explain the numbers.
type Details struct {
	Layers []Layer `json:"layers,omitempty"` // of the quantized model
	// people whose promise breaks; the first of them when they are many
	Broken    []Broken `json:"broken,omitempty"`
	AllBroken int      `json:"all_broken,omitempty"` // how many there are
	// a few people of whom a transfer certificate is refuted, with the change
	Refuted []Broken `json:"refuted,omitempty"`
}

// Run is how a report was made: the same run on the same files gives the same report, so that it has no date.
type Run struct {
	Tool    string   `json:"tool,omitempty"`    // program, version and commit
	Command []string `json:"command,omitempty"` // arguments as they were typed
	Runtime string   `json:"runtime,omitempty"` // "ONNX Runtime 1.24.4, linux/amd64"
	CPU     []string `json:"cpu,omitempty"`     // features by which ONNX Runtime chooses its kernels
	// flags that environment variables set, by variable
	Environment map[string]string `json:"environment,omitempty"`
}

// Layer is one layer of the quantized model.
type Layer struct {
	Node    string  `json:"node"`
	Weights int     `json:"weights"`
	Bits    float64 `json:"bits"`  // mean of its weights; 32 in float
	Bytes   int     `json:"bytes"` // stored for it
	Kernel  string  `json:"kernel,omitempty"`
	// Sensitivity is the original's counterfactual sensitivity: the mean, over its recourse points, of the l1 norm of
	// the gradient of the cross-entropy of the target by the layer's weights (eq. cfptq_sensitivity).
	Sensitivity eval.Float `json:"sensitivity"`
}

// Broken is a person whose promise breaks at a required margin, in the words of the data.
type Broken struct {
	ID     string     `json:"id,omitempty"` // of the person, when the data has IDs
	Row    int        `json:"row"`
	Line   int        `json:"line"`
	Margin float64    `json:"margin"` // required
	Own    eval.Float `json:"own"`    // margin of the original at the recourse point
	Other  eval.Float `json:"other"`  // of the quantized model
	Cost   eval.Float `json:"cost"`
	Action []string   `json:"action"` // "income 27000 -> 31500"
	// Repair says what would have held: recourse at the smallest larger margin that the quantized model accepts, or its
	// own.
	Repair     string     `json:"repair"`
	RepairCost eval.Float `json:"repair_cost"` // cost of that
}

// File is a file that the evaluation read. Empty fields are not known.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"` // hexadecimal
	Bytes  int64  `json:"bytes,omitempty"`
	// of a list, as of rows, promises or overrides: how many it has, and how many of them are about people of the data
	Entries int `json:"entries,omitempty"`
	Used    int `json:"used,omitempty"`
}

// Model is a model file with the number of bits its weights take, when known.
type Model struct {
	File
	StoredBits float64 `json:"stored_bits_per_weight,omitempty"` // as eval.Weight has it
}

// Comparison is a comparison of quantized models and where they came from.
type Comparison struct {
	Title string `json:"title"`
	Run
	Full    Model   `json:"full"`
	Entries []Entry `json:"entries"` // in the order of Comparison.Names
	Inputs
	Warnings   []string         `json:"warnings,omitempty"`
	Comparison *eval.Comparison `json:"comparison"`
}

// Entry is a quantized model that takes part in a Comparison.
type Entry struct {
	Alias string `json:"alias"` // by which the comparison calls it
	Model
	Recipe map[string]string `json:"recipe,omitempty"` // how it was made
}

// View is one way to show a document.
type View[D any] struct {
	Name  string // as in --report NAME:PATH
	Write func(io.Writer, *D) error
}

// Views lists how a Document can be shown; those behind EvaluationViews need a gate.
func Views() []View[Document] {
	return append(EvaluationViews(), View[Document]{"junit", junit})
}

// EvaluationViews lists how a Document without a gate can be shown.
func EvaluationViews() []View[Document] { return views(JSON, evaluationPage) }

// ComparisonViews lists how a Comparison can be shown.
func ComparisonViews() []View[Comparison] {
	return views(func(w io.Writer, c *Comparison) error {
		return writeJSON(w, CompareLayout{CompareSchema, c})
	}, comparisonPage)
}

func views[D any](json func(io.Writer, *D) error, page func(d *D, full bool) *reportPage) []View[D] {
	show := func(full bool, draw func(*reportPage, io.Writer) error) func(io.Writer, *D) error {
		return func(w io.Writer, d *D) error { return draw(page(d, full), w) }
	}
	return []View[D]{
		{"text", show(false, (*reportPage).writeText)},
		{"json", json},
		{"md", show(false, (*reportPage).markdown)},
		{"html", show(true, (*reportPage).html)},
	}
}

// Schema and CompareSchema name the layouts of the JSON views. The number grows when a key
// changes its meaning or goes away; new keys do not change it.
const (
	Schema        = "cfq.eval/2"
	CompareSchema = "cfq.compare/1"
)

// Layout is the JSON view of a Document.
type Layout struct {
	Schema string `json:"schema"` // cfq.eval/2
	*Document
}

// CompareLayout is the JSON view of a Comparison.
type CompareLayout struct {
	Schema string `json:"schema"` // cfq.compare/1
	*Comparison
}

// JSON writes d as one indented JSON object with a trailing newline. Keys are stable (see Schema), numbers that do not
// exist are null. Two evaluations of the same files and options differ in timing alone.
func JSON(w io.Writer, d *Document) error { return writeJSON(w, Layout{Schema, d}) }

func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// ReadJSON reads what JSON wrote. What is not in the file stays out: there are no Result.Records, and
// infinite numbers are undefined.
func ReadJSON(data []byte) (*Document, error) {
	v := Layout{Document: &Document{}}
	var head struct{ Schema string }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("report: invalid JSON report: %w", err)
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("report: unsupported schema %q: want %q, as cfq eval --report json:FILE writes it",
			head.Schema, Schema)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	d := v.Document
	if d.Result == nil {
		return nil, errors.New("report: missing result")
	}
	if n, want := len(d.Result.Margins), len(d.Result.Settings.Margins); n != want {
		return nil, fmt.Errorf("report: %d required margins in the settings and %d results", want, n)
	}
	if err := d.Result.Settings.Check(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return d, nil
}

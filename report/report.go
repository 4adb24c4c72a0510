// Package report shows an evaluation to people and programs: one Document,
// many views. Text is for a terminal, Markdown for a page, JSON for a program.
//
// In: a Document, which holds an eval.Result and where it came from. Out: bytes
// on a writer, which depend on the Document alone. The invariant: every view
// tells the same numbers, a rate never goes without its counts, and a number
// that does not exist is shown as missing ("-", null), not as a zero.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"cfq/eval"
	"cfq/gate"
)

// Schema names the layout of the JSON view. The number grows when a key
// changes its meaning or goes away; new keys do not change it.
const Schema = "cfq.eval/2"

// Document is one evaluation and where it came from.
type Document struct {
	Title     string            `json:"title"`
	Tool      string            `json:"tool,omitempty"` // program and version that made it
	Full      Model             `json:"full"`
	Quantized Model             `json:"quantized"`
	Data      File              `json:"data"`
	Task      File              `json:"task"`
	Promises  File              `json:"promises,omitzero"`  // whose promises are the original's; none when they were computed
	Overrides File              `json:"overrides,omitzero"` // what single people can change; none when the task says it for all
	Recipe    map[string]string `json:"recipe,omitempty"`   // how the quantized model was made
	Warnings  []string          `json:"warnings,omitempty"` // beside those of Result
	Result    *eval.Result      `json:"result"`
	Gate      *gate.Report      `json:"gate,omitempty"`    // what a gate says of Result
	Layers    []Layer           `json:"layers,omitempty"`  // of the quantized model
	Broken    []Broken          `json:"broken,omitempty"`  // people whose promise breaks, in the order of the data
	Records   []eval.Record     `json:"records,omitempty"` // one per person, when they are asked for
}

// Layer is one layer of the quantized model.
type Layer struct {
	Node    string  `json:"node"`
	Weights int     `json:"weights"`
	Bits    float64 `json:"bits"`  // mean of its weights; 32 in float
	Bytes   int     `json:"bytes"` // stored for it
	Kernel  string  `json:"kernel,omitempty"`
	// Damage is the margin error (rms, logits) at the original's recourse points when this layer alone has its quantized weights.
	Damage eval.Float `json:"damage"`
}

// Broken is a person whose promise breaks at a required margin, in the words of the data.
type Broken struct {
	Row    int        `json:"row"`
	Line   int        `json:"line"`
	Margin float64    `json:"margin"` // required
	Own    eval.Float `json:"own"`    // margin of the original at the recourse point
	Other  eval.Float `json:"other"`  // of the quantized model
	Cost   eval.Float `json:"cost"`
	Action []string   `json:"action"` // "income 27000 -> 31500"
	// Repair says what would have held: recourse at the smallest larger margin that the quantized model accepts, or its own.
	Repair     string     `json:"repair"`
	RepairCost eval.Float `json:"repair_cost"` // cost of that
}

// File is a file that the evaluation read. Empty fields are not known.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"` // hexadecimal
	Bytes  int64  `json:"bytes,omitempty"`
}

// Model is a model file with the number of bits its weights take, when known.
type Model struct {
	File
	WeightBits float64 `json:"weight_bits,omitempty"` // mean bits per weight
}

// JSON writes d as one indented JSON object with a trailing newline. Keys are stable
// (see Schema), numbers that do not exist are null.
func JSON(w io.Writer, d *Document) error {
	v := struct {
		Schema string `json:"schema"`
		*Document
	}{Schema, d}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

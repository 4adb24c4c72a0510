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
)

// Schema names the layout of the JSON view. The number grows when a key
// changes its meaning or goes away; new keys do not change it.
const Schema = "cfq.eval/1"

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
	Records   []eval.Record     `json:"records,omitempty"` // one per person, when they are asked for
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

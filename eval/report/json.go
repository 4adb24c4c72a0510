package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

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

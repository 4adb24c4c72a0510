// Package record records which rows a quantized model was calibrated on, so that it is not judged by them.
//
// In: the hashes of rows as model inputs (task.InputHash). Out: a small file next to the model, and the people of other
// data who are in it. The invariant: a record that is read is whole and names its model; the same rows make the same
// bytes.
package record

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"cfq/task"
)

// Schema is the format of the record.
const Schema = "cfq.rows/3"

// Path returns where the record of the model of that path stands.
func Path(model string) string { return model + ".rows" }

// Rows is the record of the rows that a model was calibrated on.
type Rows struct {
	Model string // SHA-256 of the model's file, in hexadecimal
	Data  Data
	Count int // rows, equal ones included

	hashes []uint64  // ascending, each once
	ranges []float32 // of every model input, the smallest and the largest value; nil when they are not known
}

// Data is the file that the rows come from.
type Data struct {
	Name   string `json:"name"` // without its directory
	SHA256 string `json:"sha256"`
}

// New makes the record of a model from the hashes of the rows.
func New(model string, data Data, hashes []uint64) *Rows {
	r := &Rows{Model: model, Data: data, Count: len(hashes), hashes: slices.Clone(hashes)}
	slices.Sort(r.hashes)
	r.hashes = slices.Compact(r.hashes)
	return r
}

// Equal returns the positions, ascending, of the people whose model inputs are those of a row that the model was
// calibrated on, however the row was written: the same people, or others like them.
func Equal(people *task.People, rows *Rows) []int {
	var at []int
	for i := range people.N {
		if _, ok := slices.BinarySearch(rows.hashes, task.InputHash(people.X[i*people.Dim:(i+1)*people.Dim])); ok {
			at = append(at, i)
		}
	}
	return at
}

// Span keeps the range of every model input of the people from whom the rows were drawn.
func (r *Rows) Span(people *task.People) {
	for i, v := range people.X {
		if i < people.Dim {
			r.ranges = append(r.ranges, v, v)
			continue
		}
		j := 2 * (i % people.Dim)
		r.ranges[j], r.ranges[j+1] = min(r.ranges[j], v), max(r.ranges[j+1], v)
	}
}

const fewOutside = 0.05

// Spans says whether the ranges of dim inputs are known from so many rows that few people like them are outside.
func (r *Rows) Spans(dim int) bool {
	numbers := 0 // one more row is outside each of their ranges with a probability of 2 in Count + 1
	for j := 0; j < len(r.ranges); j += 2 {
		if lo, hi := r.ranges[j], r.ranges[j+1]; lo < hi && (lo != 0 || hi != 1) {
			numbers++
		}
	}
	return dim > 0 && len(r.ranges) == 2*dim && float64(2*numbers) <= fewOutside*float64(r.Count+1)
}

// Outside says whether a model input is beyond its range.
func (r *Rows) Outside(x []float32) bool {
	for j, v := range x {
		if !(v >= r.ranges[2*j] && v <= r.ranges[2*j+1]) {
			return true
		}
	}
	return false
}

type record struct {
	Schema string `json:"schema"`
	Model  string `json:"model_sha256"`
	Data   Data   `json:"data"`
	Rows   int    `json:"rows"`
	// Hashes are 64-bit little-endian numbers, ascending, each once; JSON has them in base64.
	Hashes []byte `json:"hashes"`
	// Ranges are 32-bit little-endian floats, two of each model input.
	Ranges []byte `json:"ranges,omitempty"`
}

// Write writes the record as JSON.
func (r *Rows) Write(w io.Writer) error {
	packed, err := binary.Append([]byte{}, binary.LittleEndian, r.hashes)
	if err != nil {
		return err
	}
	ranges, err := binary.Append(nil, binary.LittleEndian, r.ranges)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(record{Schema, r.Model, r.Data, r.Count, packed, ranges}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Load reads a record from a file. The error wraps fs.ErrNotExist when there is none.
func Load(path string) (*Rows, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("record of calibration rows: %w", err)
	}
	r, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("record of calibration rows %s: %w", path, err)
	}
	return r, nil
}

func parse(text []byte) (*Rows, error) {
	var f record
	switch err := json.Unmarshal(text, &f); {
	case f.Schema != Schema && f.Schema != "":
		return nil, fmt.Errorf("it has the schema %.40q, not %q: it was written by another version of cfq, "+
			"or by something else", f.Schema, Schema)
	case err != nil || len(f.Hashes)%8 != 0 || len(f.Ranges)%8 != 0:
		return nil, fmt.Errorf("it is not whole: %w; quantize the model again", cmp.Or(err, io.ErrUnexpectedEOF))
	case f.Schema == "":
		return nil, fmt.Errorf("it has no schema %q: this is another file", Schema)
	}
	for _, sum := range []string{f.Model, f.Data.SHA256} {
		if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
			return nil, fmt.Errorf("%.70q is no SHA-256", sum)
		}
	}
	r := &Rows{Model: f.Model, Data: f.Data, Count: f.Rows}
	r.ranges = make([]float32, len(f.Ranges)/4)
	if _, err := binary.Decode(f.Ranges, binary.LittleEndian, r.ranges); err != nil {
		return nil, err
	}
	r.hashes = make([]uint64, len(f.Hashes)/8)
	for i := range r.hashes {
		r.hashes[i] = binary.LittleEndian.Uint64(f.Hashes[8*i:])
		if i > 0 && r.hashes[i] <= r.hashes[i-1] {
			return nil, errors.New("its hashes are not in order; quantize the model again")
		}
	}
	if r.Count < len(r.hashes) || (r.Count > 0) != (len(r.hashes) > 0) {
		return nil, fmt.Errorf("it is of %d rows and has the hashes of %d", r.Count, len(r.hashes))
	}
	return r, nil
}

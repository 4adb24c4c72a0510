// Package record records which rows a quantized model was calibrated on, so that it is not judged by them.
//
// In: the hashes of rows as model inputs (task.InputHash). Out: a small file next to the model, and the people of other
// data who are in it. The invariant: a record that is read is whole and names its model; the same rows make the same
// bytes.
package record

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"cfq/internal/config"
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

	hashes []uint64     // ascending, each once
	ranges [][2]float32 // of every model input, the smallest and the largest value; nil when they are not known
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

// Equal says of each of the people whether their model inputs are those of a row that the model was calibrated on,
// however the row was written: the same people, or others like them. Without a record it is nil.
func (r *Rows) Equal(people *task.People) []bool {
	if r == nil {
		return nil
	}
	equal := make([]bool, people.N)
	for i := range equal {
		_, equal[i] = slices.BinarySearch(r.hashes, task.InputHash(people.X[i*people.Dim:(i+1)*people.Dim]))
	}
	return equal
}

// Span keeps the range of every model input of the people from whom the rows were drawn.
func (r *Rows) Span(people *task.People) {
	for i, v := range people.X {
		j := i % people.Dim
		if i == j {
			r.ranges = append(r.ranges, [2]float32{v, v})
		}
		r.ranges[j] = [2]float32{min(r.ranges[j][0], v), max(r.ranges[j][1], v)}
	}
}

// fewOutside is the largest share of people like the rows who may be expected outside: half of what a gate allows.
const fewOutside = 0.025

// Outside counts the people who have a model input beyond its range, of all, where few people like the rows do. The
// ranges of fewer rows count with their width on either side, where they have one; those of too few count nobody.
func (r *Rows) Outside(people *task.People) (outside, of int) {
	numbers := 0 // one more row is outside each of their ranges with a probability of 2 in Count + 1
	for _, x := range r.ranges {
		if x != [2]float32{0, 1} {
			numbers++
		}
	}
	expected := float64(2*numbers) / float64(r.Count+1)
	few := expected > fewOutside
	if len(r.ranges) == 0 || len(r.ranges) != people.Dim || expected > 10*fewOutside {
		return 0, 0
	}
	for row := range slices.Chunk(people.X, people.Dim) {
		for j, v := range row {
			lo, hi, room := r.ranges[j][0], r.ranges[j][1], float32(0)
			if few {
				room = hi - lo
			}
			if !(v >= lo-room && v <= hi+room) && !(few && room == 0) {
				outside++
				break
			}
		}
	}
	return outside, people.N
}

type record struct {
	Schema string `json:"schema"`
	Model  string `json:"model_sha256"`
	Data   Data   `json:"data"`
	Rows   int    `json:"rows"`
	// Hashes are 64-bit little-endian numbers, ascending, each once; JSON has them in base64.
	Hashes []byte `json:"hashes"`
	// Ranges are the smallest and the largest value of each model input.
	Ranges [][2]float32 `json:"ranges,omitempty"`
}

// Write writes the record as JSON.
func (r *Rows) Write(w io.Writer) error {
	packed, err := binary.Append([]byte{}, binary.LittleEndian, r.hashes)
	if err != nil {
		return err
	}
	_, err = w.Write(config.EncodeRecord(record{Schema, r.Model, r.Data, r.Count, packed, r.ranges}))
	return err
}

// Load reads a record from a file. The error wraps fs.ErrNotExist when there is none.
func Load(path string) (*Rows, error) {
	return config.Parsed("record of calibration rows", path, parse)
}

func parse(text []byte) (*Rows, error) {
	var f record
	if err := config.DecodeRecord(text, Schema, &f); err != nil {
		return nil, err
	}
	if len(f.Hashes)%8 != 0 {
		return nil, errors.New("it is not whole; quantize the model again")
	}
	for _, sum := range []string{f.Model, f.Data.SHA256} {
		if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
			return nil, fmt.Errorf("%.70q is no SHA-256", sum)
		}
	}
	r := &Rows{Model: f.Model, Data: f.Data, Count: f.Rows, ranges: f.Ranges}
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

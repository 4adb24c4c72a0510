package eval

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/internal/spill"
)

// Alternative is the same evaluation with another rule of who counts as a person. Where rules differ, a verdict rests
// on the stricter one.
type Alternative struct {
	Name   string  `json:"name"`
	About  string  `json:"about"` // why there is a doubt, in one sentence
	Result *Result `json:"result"`
}

// CalibrationGroup tells people apart who are equal to a calibration row, who come first, and others.
const CalibrationGroup = "calibration"

// maxCopies is the share of rows equal to an earlier one up to which they are taken for different people.
const maxCopies = 0.01

// RowID starts the ID of a row of people without IDs, for a row that stands there several times: for several promises.
// It does not say that equal rows are different people.
const RowID = "#row:"

// Alternatives are the doubts about who counts. Rows that are equal, see [task.ReadOptions], may be copies, or people
// who do not differ: when they are more than 1 % of the rows, or of those evaluated, and nobody has an ID, distinct
// rows count once. Rows equal to one that g was calibrated on are left out. Both together are an alternative, too.
func (r *Result) Alternatives() ([]Alternative, error) {
	var all []Alternative
	known := r.Records.Calibrated()
	copies, err := r.copies()
	if err != nil {
		return nil, err
	}
	add := func(name, about string, distinct, others bool) {
		var v *Result
		if v, err = r.variant(distinct, others, err); err == nil {
			all = append(all, Alternative{name, about, v})
		}
	}
	if copies > 0 {
		add("distinct rows", fmt.Sprintf("%s equal to another (numbers of rows aside): copies, or people who do not differ",
			message.Count(copies, "row")+message.Plural(copies, " is", " are")), true, false)
	}
	if known > 0 {
		about := fmt.Sprintf("%s equal to a row that the quantized model was calibrated on",
			message.Count(known, "row")+message.Plural(known, " is", " are"))
		add("without calibration rows", about, false, true)
		if copies > 0 {
			add("distinct rows without calibration rows", about, true, true)
		}
	}
	return all, err
}

// copies counts the rows that are equal to an earlier one; 0 when they are few, or IDs say who is who.
func (r *Result) copies() (int, error) {
	const size = 17 // of what is kept of a record: its hash, that of its ID, and whether it is evaluated
	var evaluated, n int
	rows := spill.New(shards, r.Records.bytes)
	defer rows.Close() //nolint:errcheck // nothing in it is wanted any more
	var b [size]byte
	for x, err := range r.Records.passing(toIdentity) {
		if err != nil {
			return 0, err
		}
		if x.ID != "" && !strings.HasPrefix(x.ID, RowID) || x.Hash == 0 {
			return 0, nil
		}
		n++
		evaluated += count(x.Evaluated)
		binary.LittleEndian.PutUint64(b[:], x.Hash)
		row := uint64(n) // a row of its own
		if x.ID != "" {
			row = textHash(x.ID)
		}
		binary.LittleEndian.PutUint64(b[8:], row)
		b[16] = byte(count(x.Evaluated))
		if err := rows.Append(int(mixed(x.Hash)%shards), b[:]); err != nil {
			return 0, err
		}
	}
	var all, ofThese int
	for i := range shards {
		data, err := io.ReadAll(rows.Reader(i))
		if err != nil {
			return 0, fmt.Errorf("eval: temporary file: %w", err)
		}
		seen := map[uint64]map[uint64]bool{} // whether rows are evaluated, by hash
		for one := range slices.Chunk(data, size) {
			hash, row := binary.LittleEndian.Uint64(one), binary.LittleEndian.Uint64(one[8:])
			if seen[hash] == nil {
				seen[hash] = map[uint64]bool{}
			}
			seen[hash][row] = seen[hash][row] || one[16] == 1
		}
		for _, rows := range seen {
			of := 0
			for _, evaluated := range rows {
				of += count(evaluated)
			}
			all, ofThese = all+len(rows)-1, ofThese+max(0, of-1)
		}
	}
	if float64(all) > maxCopies*float64(n) || float64(ofThese) > maxCopies*float64(evaluated) {
		return all, nil
	}
	return 0, nil
}

// variant summarizes the records again: with distinct rows as people, without calibration rows.
func (r *Result) variant(distinct, others bool, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	view := r.Records.view(r.Records.key, nil)
	if distinct {
		view.key = func(x *Record) identity { return identity{hash: x.Hash} }
		view.shared = true
	}
	if others {
		view.keep = func(x *Record) bool { return !x.Calibrated }
	}
	v, err := Summarize(view, r.Settings, DataFile{})
	if err != nil {
		return nil, err
	}
	v.Footprint, v.Timing, v.Batches, v.Shift = r.Footprint, r.Timing, r.Batches, r.Shift
	for i := range v.Margins {
		v.Margins[i].Noise = r.Margins[i].Noise
	}
	return v, nil
}

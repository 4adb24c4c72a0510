package eval

import (
	"fmt"
	"strconv"
	"strings"

	"cfq/internal/message"
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

// rowID starts the IDs of people who have none in the data.
const rowID = "#row:"

// RowID is the ID of a row of people without IDs, for a row that stands there several times: for several promises. It
// does not say that equal rows are different people.
func RowID(row int) string { return rowID + strconv.Itoa(row) }

// Alternatives are the doubts about who counts. Rows that are equal, see [task.ReadOptions], may be copies, or people
// who do not differ: when they are more than 1 % of the rows, or of those evaluated, and nobody has an ID, distinct
// rows count once. Rows equal to one that g was calibrated on, whose positions among the people are known, are left
// out. Both together are an alternative, too.
func (r *Result) Alternatives(known map[int]bool) []Alternative {
	var all []Alternative
	copies := r.copies()
	distinct := fmt.Sprintf("%s equal to another (numbers of rows aside): copies, or people who do not differ",
		message.Count(copies, "row")+message.Plural(copies, " is", " are"))
	if copies > 0 {
		all = append(all, Alternative{"distinct rows", distinct, r.variant(nil, true)})
	}
	if len(known) > 0 {
		about := fmt.Sprintf("%s equal to a row that the quantized model was calibrated on",
			message.Count(len(known), "row")+message.Plural(len(known), " is", " are"))
		all = append(all, Alternative{"without calibration rows", about, r.variant(known, false)})
		if copies > 0 {
			all = append(all, Alternative{"distinct rows without calibration rows", about, r.variant(known, true)})
		}
	}
	return all
}

// copies counts the rows that are equal to an earlier one; 0 when they are few, or IDs say who is who.
func (r *Result) copies() int {
	var all, evaluated, n int
	seen := map[uint64]string{}
	for i := range r.Records {
		x := &r.Records[i]
		if x.ID != "" && !strings.HasPrefix(x.ID, rowID) || x.Hash == 0 {
			return 0
		}
		n += count(x.Evaluated)
		id, again := seen[x.Hash]
		if again && (x.ID == "" || x.ID != id) {
			all++
			evaluated += count(x.Evaluated)
		}
		seen[x.Hash] = x.ID
	}
	if float64(all) > maxCopies*float64(len(r.Records)) || float64(evaluated) > maxCopies*float64(n) {
		return all
	}
	return 0
}

// variant summarizes the records again, without some of the people, or with distinct rows as people.
func (r *Result) variant(without map[int]bool, distinct bool) *Result {
	var records []Record
	for i := range r.Records {
		x := r.Records[i]
		if without[x.Person] {
			continue
		}
		if distinct {
			x.ID = strconv.FormatUint(x.Hash, 16)
		}
		records = append(records, x)
	}
	v := summarize(records, r.Settings, DataFile{})
	v.Footprint, v.Timing, v.Batches, v.Shift = r.Footprint, r.Timing, r.Batches, r.Shift
	return v
}

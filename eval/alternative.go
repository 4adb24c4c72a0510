package eval

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/extsort"
	"cfq/internal/message"
)

// CalibrationGroup tells people apart who are equal to a calibration row, who come first, and others.
const CalibrationGroup = "calibration"

// maxCopies is the share of rows equal to an earlier one up to which they are taken for different people.
const maxCopies = 0.01

// RowID starts the ID of a row of people without IDs, for a row that stands there several times: for several promises.
// It does not say that equal rows are different people.
const RowID = "#row:"

// HasID says whether the ID is one that the data has.
func (r *Record) HasID() bool { return r.ID != "" && !strings.HasPrefix(r.ID, RowID) }

// Alternatives are the same evaluation with other rules of who counts as a person, and About says why there is a doubt.
// Where rules differ, a verdict rests on the stricter one. Rows that are equal, see [task.ReadOptions], may be copies,
// or people who do not differ: when they are more than 1 % of the rows, or of those evaluated, and nobody has an ID,
// distinct rows count once. Rows equal to one that g was calibrated on are left out. Both together are an alternative,
// too. The argument says how people are told apart in them; nil for no groups.
func (r *Result) Alternatives(by *GroupBy) (all []Scenario, err error) {
	known, copies := r.Records.Calibrated(), r.Records.copies
	add := func(name, about string, distinct, others bool) {
		v, failed := r.variant(by, distinct, others)
		all, err = append(all, Scenario{name, about, v}), errors.Join(err, failed)
	}
	equal := func(n int) string { return message.Count(n, "row") + message.Plural(n, " is", " are") + " equal to" }
	if copies > 0 {
		add("distinct rows", equal(copies)+" another (numbers of rows aside): copies, or people who do not differ",
			true, false)
	}
	if known > 0 {
		about := equal(known) + " a row that the quantized model was calibrated on"
		add("without calibration rows", about, false, true)
		if copies > 0 {
			add("distinct rows without calibration rows", about, true, true)
		}
	}
	return all, err
}

// copies finds rows that are equal to others.
type copies struct {
	rows         *extsort.Rows // of each record its hash, that of its ID, and 0 if it is evaluated
	n, evaluated int
	distinct     bool // IDs say who is who, or hashes are not known
}

func newCopies(of *Records) *copies {
	return &copies{rows: extsort.NewRows(shards(of.n), 3, of.limits.bytes)}
}

func (c *copies) visit(some []*Record, _ [][]*Record) error {
	for _, x := range some {
		if c.distinct = c.distinct || x.HasID() || x.Hash == 0; c.distinct {
			return nil
		}
		person := uint64(c.n) // a row of its own
		if x.ID != "" {
			person = textHash(x.ID)
		}
		c.n, c.evaluated = c.n+1, c.evaluated+count(x.Evaluated)
		if err := c.rows.Add(x.Hash, person, uint64(count(!x.Evaluated))); err != nil {
			return err
		}
	}
	return nil
}

// count counts the rows that are equal to an earlier one; 0 when they are few, or IDs say who is who.
func (c *copies) count() (int, error) {
	if c.distinct {
		return 0, nil
	}
	distinct := func(rows [][]uint64, by int) [][]uint64 {
		return slices.CompactFunc(slices.Clone(rows), func(a, b []uint64) bool { return slices.Equal(a[:by], b[:by]) })
	}
	var all, ofThese int
	for rows, err := range c.rows.Sorted() {
		if err != nil {
			return 0, fmt.Errorf("eval: %w", err)
		}
		rows = distinct(rows, 2)
		all += len(rows) - len(distinct(rows, 1))
		rows = slices.DeleteFunc(rows, func(r []uint64) bool { return r[2] == 1 })
		ofThese += len(rows) - len(distinct(rows, 1))
	}
	if float64(all) > maxCopies*float64(c.n) || float64(ofThese) > maxCopies*float64(c.evaluated) {
		return all, nil
	}
	return 0, nil
}

// variant is r of some of the records, or with another rule of who is one person.
func (r *Result) variant(by *GroupBy, distinct, others bool) (*Result, error) {
	view := *r.Records // which is closed with them
	view.parted = nil
	if distinct {
		view.key = func(x *Record) string { return strconv.FormatUint(x.Hash, 16) }
		view.shared = true
	}
	if others {
		view.keep = func(x *Record) bool { return !x.Calibrated }
	}
	v, err := metricsOf(&view, r.Settings, DataFile{}, by)
	if err != nil {
		return nil, err
	}
	v.Footprint, v.Timing, v.Batches = r.Footprint, r.Timing, r.Batches
	v.CopyNoise(r)
	return v, nil
}

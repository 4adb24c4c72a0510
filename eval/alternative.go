package eval

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/internal/extsort"
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

// RowID starts the ID of a row of people without IDs, for a row that stands there several times: for several promises.
// It does not say that equal rows are different people.
const RowID = "#row:"

// Alternatives are the doubts about who counts. Rows that are equal, see [task.ReadOptions], may be copies, or people
// who do not differ: when they are more than 1 % of the rows, or of those evaluated, and nobody has an ID, distinct
// rows count once. Rows equal to one that g was calibrated on are left out. Both together are an alternative, too.
// The argument says how people are told apart in them; nil for no groups.
func (r *Result) Alternatives(by *GroupBy) ([]Alternative, error) {
	var all []Alternative
	var err error
	known, copies := r.Records.Calibrated(), r.Records.copies
	add := func(name, about string, distinct, others bool) {
		var v *Result
		if v, err = r.variant(by, distinct, others, err); err == nil {
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

type copies struct {
	shards       int
	rows         *extsort.Lists // by hash
	n, evaluated int
	distinct     bool // IDs say who is who, or hashes are not known
}

const copySize = 17 // of what is kept of a record: its hash, that of its ID, and whether it is evaluated

func newCopies(of *Records) *copies {
	n := shards(of.n)
	return &copies{shards: n, rows: extsort.New(n, of.limits.bytes)}
}

func (c *copies) visitor() Visitor {
	return VisitRecords(func(some []*Record) error {
		var b [copySize]byte
		for _, x := range some {
			c.distinct = c.distinct || x.ID != "" && !strings.HasPrefix(x.ID, RowID) || x.Hash == 0
			if c.distinct {
				return nil
			}
			c.n++
			c.evaluated += count(x.Evaluated)
			binary.LittleEndian.PutUint64(b[:], x.Hash)
			row := uint64(c.n) // a row of its own
			if x.ID != "" {
				row = textHash(x.ID)
			}
			binary.LittleEndian.PutUint64(b[8:], row)
			b[16] = byte(count(x.Evaluated))
			if err := c.rows.Append(int(mixed(x.Hash)%uint64(c.shards)), b[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// count counts the rows that are equal to an earlier one; 0 when they are few, or IDs say who is who.
func (c *copies) count() (int, error) {
	if c.distinct {
		return 0, nil
	}
	var all, ofThese int
	for i := range c.shards {
		data, err := io.ReadAll(c.rows.Reader(i))
		if err != nil {
			return 0, fmt.Errorf("eval: temporary file: %w", err)
		}
		seen := map[uint64]map[uint64]bool{} // whether rows are evaluated, by hash
		for one := range slices.Chunk(data, copySize) {
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
	if float64(all) > maxCopies*float64(c.n) || float64(ofThese) > maxCopies*float64(c.evaluated) {
		return all, nil
	}
	return 0, nil
}

func (r *Result) variant(by *GroupBy, distinct, others bool, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	view := r.Records.view(r.Records.key, nil)
	if distinct {
		view.key = func(x *Record) recordKey { return recordKey{hash: x.Hash} }
		view.shared = true
	}
	if others {
		view.keep = func(x *Record) bool { return !x.Calibrated }
	}
	var visitors []Visitor
	var groups *Groups
	if by != nil {
		if groups, err = NewGroups(view, &r.Settings, *by); err != nil {
			return nil, err
		}
		defer groups.Close()
		visitors = append(visitors, groups.Visitor())
	}
	v, err := metricsOf(view, r.Settings, DataFile{}, visitors...)
	if err != nil {
		return nil, err
	}
	if v.Groups, err = groups.Groupings(); err != nil {
		return nil, err
	}
	v.Footprint, v.Timing, v.Batches = r.Footprint, r.Timing, r.Batches
	v.CopyNoise(r)
	return v, nil
}

package eval

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"cfq/internal/spill"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Records are those of an evaluation, as many as there are: what does not fit in memory is in a temporary file until
// Close. One goroutine may use them at a time.
type Records struct {
	// Attributes tell groups of people apart, in the order of Record.Groups. Groups come in the order of the Values, and
	// those that are not among them behind these, in alphabetical order. Codes are not used.
	Attributes []task.Subgroup

	*owned
	key    func(x *Record) string // who a record is about; "" is nobody else
	shared bool                   // some records may be about the same person
	keep   func(x *Record) bool   // nil for all
	parted *spill.Lists           // the records by person; nil before they are needed
	lean   bool                   // points are left out
}

// owned is what views of the same records have in common.
type owned struct {
	limits
	margins int
	columns []Column
	others  *task.Equality // of the other columns of the data; nil when there are none
	tape    *spill.Lists   // one list: a length, and the cells, of each record
	n       int
	known   int            // with Calibrated
	divided []*spill.Lists // of all views
	buf     []byte
	raw     []byte // the bytes of the record that was read last
}

// NewRecords makes a place for records of these required margins.
func NewRecords(margins []float64, attributes []task.Subgroup) *Records {
	return newRecords(margins, attributes, usualLimits())
}

func newRecords(margins []float64, attributes []task.Subgroup, l limits) *Records {
	names := make([]string, len(attributes))
	for i := range attributes {
		names[i] = attributes[i].Feature
	}
	return &Records{
		Attributes: attributes, key: func(x *Record) string { return x.ID },
		owned: &owned{limits: l, margins: len(margins), columns: Columns(margins, names), tape: spill.New(1, l.bytes)},
	}
}

// CompareBy says what Record.Others are of, before the first record is added: rows that differ there are not equal,
// unless the columns number them.
func (r *Records) CompareBy(columns []string) {
	if len(columns) > 0 {
		r.others = task.NewEquality(columns)
	}
}

// Note says without which columns rows are compared, "" when that makes no difference.
func (r *Records) Note() string {
	if r.others == nil || r.shared {
		return ""
	}
	return r.others.Note()
}

// Add adds a record, which is copied. It fails when the temporary file cannot be written.
func (r *Records) Add(x *Record) error {
	if r.parted != nil {
		return errors.New("eval: records were added after some were read")
	}
	if x.Evaluated && len(x.Steps) != r.margins {
		return fmt.Errorf("eval: record of row %d: %d steps for %d required margins", x.Row, len(x.Steps), r.margins)
	}
	r.n++
	r.known += count(x.Calibrated)
	r.shared = r.shared || x.ID != ""
	if r.others != nil && len(x.Others) > 0 {
		r.others.Add(x.Hash, x.Others)
	}
	return r.append(r.tape, 0, x)
}

// Len is how many records there are, those that a view leaves out included.
func (r *Records) Len() int {
	if r == nil {
		return 0
	}
	return r.n
}

// Calibrated is how many of the records are of rows equal to one that g was calibrated on.
func (r *Records) Calibrated() int { return r.known }

// Close removes what is in a temporary file.
func (r *Records) Close() error {
	if r == nil {
		return nil
	}
	err := r.tape.Close()
	for _, x := range r.divided {
		err = errors.Join(err, x.Close())
	}
	return err
}

func (r *Records) append(to *spill.Lists, list int, x *Record) error {
	r.buf = encode(append(r.buf[:0], 0, 0, 0, 0), r.columns, x)
	binary.LittleEndian.PutUint32(r.buf, uint32(len(r.buf)-4))
	return to.Append(list, r.buf)
}

// All returns the records in the order in which they were added. Those that are handed out may be kept. Record.Person
// is the number of the record, from 0. Of a view, some are left out.
func (r *Records) All() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if r == nil {
			return
		}
		i := 0
		for x, err := range r.read(r.tape, 0) {
			if err == nil {
				x.Person = i
			}
			if (err != nil || r.keep == nil || r.keep(x)) && !yield(x, err) {
				return
			}
			i++
		}
	}
}

// Raw is All with Record.Hash and Others as they were added.
func (r *Records) Raw() iter.Seq2[*Record, error] {
	raw := *r
	o := *r.owned
	o.others, raw.owned = nil, &o
	return raw.All()
}

// read returns the records of a list.
func (r *Records) read(from *spill.Lists, list int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		in := bufio.NewReaderSize(from.Reader(list), int(min(1<<16, from.Size(list))))
		d := decoder{
			lean: r.lean, columns: r.columns, margins: r.margins, attributes: len(r.Attributes), texts: map[string]string{},
		}
		var buf []byte
		for {
			var size [4]byte
			if _, err := io.ReadFull(in, size[:]); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			buf = slices.Grow(buf[:0], int(binary.LittleEndian.Uint32(size[:])))[:binary.LittleEndian.Uint32(size[:])]
			if _, err := io.ReadFull(in, buf); err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			x, err := d.decode(buf)
			r.raw = buf
			if r.others != nil && len(x.Others) > 0 {
				x.Hash, x.Others = r.others.Hash(x.Hash, x.Others), nil
			}
			if !yield(&x, err) || err != nil {
				return
			}
		}
	}
}

// view is some of the records, and another rule of who is one person. It is closed with the records that it is of.
func (r *Records) view(key func(x *Record) string, keep func(x *Record) bool) *Records {
	v := *r
	v.key, v.keep, v.parted = key, keep, nil
	return &v
}

// shards are the parts into which records are divided by person. One part is in memory at a time.
const shards = 1024

// Persons returns the records, without recourse points, of one person after those of another: records with the same
// ID are about one person, and records without are about one each. Those of one person come in an order of their own,
// and the persons in any order.
func (r *Records) Persons() iter.Seq2[[]*Record, error] {
	return func(yield func([]*Record, error) bool) {
		for part, err := range r.parts() {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, of := range r.persons(part) {
				if !yield(of, nil) {
					return
				}
			}
		}
	}
}

// persons divides the records of a part.
func (r *Records) persons(part []*Record) [][]*Record {
	var persons [][]*Record
	at := map[string]int{}
	for _, x := range part {
		k := r.key(x)
		i, seen := at[k]
		if k == "" || !seen {
			i = len(persons)
			at[k], persons = i, append(persons, nil)
		}
		persons[i] = append(persons[i], x)
	}
	for _, of := range persons {
		slices.SortStableFunc(of, (*Record).compare)
	}
	return persons
}

// without are the records without recourse points, which passes over persons do not need.
func (r *Records) without() *Records {
	lean := *r
	lean.lean = true
	return &lean
}

// parts returns all records, in parts that have all of a person's or none. Records of another evaluation of the same
// people come in the same parts and the same order.
func (r *Records) parts() iter.Seq2[[]*Record, error] {
	return func(yield func([]*Record, error) bool) {
		switch {
		case r.Len() == 0:
		case !r.shared:
			r.chunks(yield)
		case r.n <= r.limits.records:
			yield(collect(r.without().All()))
		default:
			if err := r.divide(); err != nil {
				yield(nil, err)
				return
			}
			for i := range shards {
				part, err := collect(r.without().read(r.parted, i))
				if !yield(part, err) || err != nil {
					return
				}
			}
		}
	}
}

// chunks hands on records of different people, some at a time.
func (r *Records) chunks(yield func([]*Record, error) bool) {
	var part []*Record
	for x, err := range r.without().All() {
		if err != nil {
			yield(nil, err)
			return
		}
		if part = append(part, x); len(part) == r.limits.records {
			if !yield(part, nil) {
				return
			}
			part = nil
		}
	}
	if len(part) > 0 {
		yield(part, nil)
	}
}

func collect(all iter.Seq2[*Record, error]) (list []*Record, err error) {
	for x, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// divide writes all records into lists, of which one has all of a person's.
func (r *Records) divide() error {
	if r.parted != nil {
		return nil
	}
	lists := spill.New(shards, r.bytes)
	for x, err := range r.without().All() {
		if err == nil {
			to := uint64(x.Person)
			if k := r.key(x); k != "" {
				to = mixed(textHash(k))
			}
			err = errors.Join(lists.Append(int(to%shards), binary.LittleEndian.AppendUint32(nil, uint32(len(r.raw)))),
				lists.Append(int(to%shards), r.raw))
		}
		if err != nil {
			return errors.Join(err, lists.Close())
		}
	}
	r.parted = lists
	r.divided = append(r.divided, lists)
	return nil
}

// textHash is the same for the same text in every process.
func textHash(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s)
	return h.Sum64()
}

// mixed spreads a number over all bits (the finalizer of SplitMix64).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// People are the people of all records, in their order, and the promises that they were issued; nil without any. All of
// them are in memory.
func (r *Records) People() (*task.People, []recourse.Action, error) {
	p := &task.People{}
	var promises []recourse.Action
	p.Subgroups = make([]task.Subgroup, len(r.Attributes))
	codes := make([]map[string]int32, len(r.Attributes))
	for i := range r.Attributes {
		p.Subgroups[i] = task.Subgroup{Feature: r.Attributes[i].Feature, Values: slices.Clone(r.Attributes[i].Values)}
		codes[i] = map[string]int32{}
		for code, value := range p.Subgroups[i].Values {
			codes[i][value] = int32(code)
		}
	}
	issued := false
	for x, err := range r.All() {
		if err != nil {
			return nil, nil, err
		}
		p.X, p.Dim, p.N, p.Total = append(p.X, x.X...), len(x.X), p.N+1, p.N+1
		p.Labels, p.Rows, p.Lines = append(p.Labels, x.Label), append(p.Rows, x.Row), append(p.Lines, x.Line)
		p.IDs = append(p.IDs, x.ID)
		a := recourse.Action{Status: recourse.NoneFound, Point: x.X, Delta: make([]float32, len(x.X))}
		if x.Issued.Made() && x.Issued.Point != nil { // or it was not in the sample
			issued = true
			a.Status, a.Cost, a.Margin, a.Point = recourse.Found, float64(x.Issued.Cost), float64(x.Issued.Own), x.Issued.Point
			constraint.Difference(a.Delta, x.X, a.Point)
		}
		promises = append(promises, a)
		for i := range p.Subgroups {
			s, code := &p.Subgroups[i], int32(-1)
			if value := x.Groups[i]; value != "" {
				known := false
				if code, known = codes[i][value]; !known {
					code = int32(len(s.Values))
					codes[i][value], s.Values = code, append(s.Values, value)
				}
			}
			s.Codes = append(s.Codes, code)
		}
	}
	if !issued {
		promises = nil
	}
	return p, promises, nil
}

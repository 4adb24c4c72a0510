package eval

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"cfq/internal/extsort"
	"cfq/internal/ordered"
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

	*recordStore
	key    func(x *Record) recordKey // who a record is about
	shared bool                      // some records may be about the same person
	keep   func(x *Record) bool      // nil for all
	parted *extsort.Lists            // the records by person; nil before they are needed
}

// recordKey says who a record is about; the zero value is nobody else.
type recordKey struct {
	id   string
	hash uint64
}

type recordStore struct {
	limits
	layout  *layout
	others  *task.Equality // of the other columns of the data; nil when there are none
	tape    *extsort.Lists // one list: a length, and the cells, of each record
	n       int
	known   int              // with Calibrated
	divided []*extsort.Lists // of all views
	// what Summarize finds for others: points for Rerun, and how many copies of rows there are for Alternatives
	judged *judgedSample
	copies int
	buf    []byte
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
		Attributes: attributes, key: func(x *Record) recordKey { return recordKey{id: x.ID} },
		recordStore: &recordStore{limits: l, layout: newLayout(margins, names), tape: extsort.New(1, l.bytes)},
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
	if x.Evaluated && len(x.Steps) != r.layout.margins {
		return fmt.Errorf("eval: record of row %d: %d steps for %d required margins", x.Row, len(x.Steps), r.layout.margins)
	}
	for i := range x.Steps {
		if n := len(x.Steps[i].Perturbed); n != 0 && n != len(Perturbations()) {
			return fmt.Errorf("eval: record of row %d: %d perturbations, want %d", x.Row, n, len(Perturbations()))
		}
	}
	r.n++
	r.known += count(x.Calibrated)
	r.shared = r.shared || x.ID != ""
	if r.others != nil && len(x.Others) > 0 {
		r.others.Add(x.Hash, x.Others)
	}
	return r.append(x)
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

func (r *Records) rest() (err error) {
	if r == nil {
		return nil
	}
	const small = 1 << 20
	for _, x := range r.lists() {
		if x.Held() > small {
			err = errors.Join(err, x.Rest())
		}
	}
	return err
}

func (o *recordStore) lists() []*extsort.Lists { return append(slices.Clip(o.divided), o.tape) }

// Close removes what is in a temporary file.
func (r *Records) Close() (err error) {
	if r == nil {
		return nil
	}
	for _, x := range r.lists() {
		err = errors.Join(err, x.Close())
	}
	return err
}

func (r *Records) append(x *Record) error {
	r.buf = r.layout.encode(append(r.buf[:0], 0, 0, 0, 0), x)
	binary.LittleEndian.PutUint32(r.buf, uint32(len(r.buf)-4))
	return r.tape.Append(0, r.buf)
}

// All returns the records in the order in which they were added. Those that are handed out may be kept. Record.Person
// is the number of the record, from 0. Of a view, some are left out.
func (r *Records) All() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if r.Len() == 0 {
			return
		}
		for some, err := range ordered.Ahead(r.chunks(toPoints, nil, r.limits.part())) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, x := range some {
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}

// Raw is All with Record.Hash and Others as they were added.
func (r *Records) Raw() iter.Seq2[*Record, error] {
	raw := *r
	o := *r.recordStore
	o.others, raw.recordStore = nil, &o
	return raw.All()
}

// Where is All without those that do not fit, which costs less: fits is asked before inputs and recourse points are
// read.
func (r *Records) Where(fits func(x *Record) bool) iter.Seq2[*Record, error] {
	if r == nil {
		return r.All()
	}
	before := r.keep
	return r.view(r.key, func(x *Record) bool { return (before == nil || before(x)) && fits(x) }).All()
}

func (r *Records) chunks(to depth, places *slots, size int) iter.Seq2[[]*Record, error] {
	return func(yield func([]*Record, error) bool) {
		var part []*Record
		for x, err := range r.readList(r.tape, 0, to, places.next) {
			if err != nil {
				yield(nil, err)
				return
			}
			if part = append(part, x); len(part) == size {
				if !yield(part, nil) {
					return
				}
				part = nil
				places.turn()
			}
		}
		if len(part) > 0 {
			yield(part, nil)
		}
	}
}

// slots are places for records that are used again, by turns with others: those of one turn are free when the next turn
// ends. Those of nil are new ones.
type slots struct {
	all  [2][]*slot
	now  int
	used int
}

func (p *slots) next() *slot {
	if p == nil {
		return new(slot)
	}
	all := &p.all[p.now]
	if p.used == len(*all) {
		*all = append(*all, new(slot))
	}
	p.used++
	return (*all)[p.used-1]
}

func (p *slots) turn() {
	if p != nil {
		p.now, p.used = 1-p.now, 0
	}
}

func (r *Records) readList(from *extsort.Lists, list int, to depth, next func() *slot) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		in := bufio.NewReaderSize(from.Reader(list), int(min(1<<16, from.Size(list))))
		d := recordDecoder{layout: r.layout, texts: map[string]string{}}
		const head = 4 // bytes of the length before a record
		buf := make([]byte, head)
		var s *slot // that nobody has been handed yet
		fill := func(person int, to depth) error {
			err := d.decode(buf[head:], s, to)
			if s.Person = person; r.others != nil && len(s.Others) > 0 {
				s.Hash, s.Others = r.others.Hash(s.Hash, s.Others), nil
			}
			return err
		}
		for i := 0; ; i++ {
			if _, err := io.ReadFull(in, buf[:head]); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			n := head + int(binary.LittleEndian.Uint32(buf))
			buf = slices.Grow(buf[:head], n-head)[:n]
			if _, err := io.ReadFull(in, buf[head:]); err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			if s == nil {
				s = next()
			}
			first := to
			if r.keep != nil {
				first = min(to, toNumbers)
			}
			err := fill(i, first)
			if err == nil && r.keep != nil && !r.keep(&s.Record) {
				continue
			}
			if err == nil && first < to {
				err = fill(i, to)
			}
			s.raw = buf
			if !yield(&s.Record, err) || err != nil {
				return
			}
			s = nil
		}
	}
}

// view is some of the records, and another rule of who is one person. It is closed with the records that it is of.
func (r *Records) view(key func(x *Record) recordKey, keep func(x *Record) bool) *Records {
	v := *r
	v.key, v.keep, v.parted = key, keep, nil
	return &v
}

// Batch is the people of all records, in their order, and the promises that they were issued, nil without any. All of
// them are in memory. It has no Set.
func (r *Records) Batch() (*Batch, error) {
	p := &task.People{}
	var promises []recourse.Action
	p.Subgroups = make([]task.Subgroup, len(r.Attributes))
	for i := range r.Attributes {
		p.Subgroups[i] = task.Subgroup{Feature: r.Attributes[i].Feature, Values: slices.Clone(r.Attributes[i].Values)}
	}
	issued := false
	for x, err := range r.All() {
		if err != nil {
			return nil, err
		}
		p.X, p.Dim, p.N, p.Total = append(p.X, x.X...), len(x.X), p.N+1, p.N+1
		p.Labels, p.Rows, p.Lines = append(p.Labels, x.Label), append(p.Rows, x.Row), append(p.Lines, x.Line)
		p.IDs = append(p.IDs, x.ID)
		a := recourse.Action{Status: recourse.NoneFound, Point: x.X, Delta: make([]float32, len(x.X))}
		if x.Issued.Exists() && x.Issued.Point != nil { // or it was not in the sample
			issued = true
			a.Status, a.Cost, a.Margin, a.Point = recourse.Found, float64(x.Issued.Cost), float64(x.Issued.Own), x.Issued.Point
			constraint.Difference(a.Delta, x.X, a.Point)
		}
		promises = append(promises, a)
		for i := range p.Subgroups {
			s, code := &p.Subgroups[i], -1
			if value := x.Groups[i]; value != "" {
				if code = slices.Index(s.Values, value); code < 0 {
					code, s.Values = len(s.Values), append(s.Values, value)
				}
			}
			s.Codes = append(s.Codes, int32(code))
		}
	}
	if !issued {
		promises = nil
	}
	return &Batch{People: p, Promises: promises}, nil
}

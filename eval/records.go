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
	layout  layout
	others  *task.Equality // of the other columns of the data; nil when there are none
	tape    *extsort.Lists // one list, of all records
	buf     []byte         // of the record that is added
	n       int
	known   int              // with Calibrated
	divided []*extsort.Lists // of all views
	// what Summarize finds for others: points for Rerun, and how many copies of rows there are for Alternatives
	judged *judgedSample
	copies int
}

// NewRecords makes a place for records of these required margins.
func NewRecords(margins []float64, attributes []task.Subgroup) *Records {
	return newRecords(margins, attributes, usualLimits())
}

func newRecords(margins []float64, attributes []task.Subgroup, l limits) *Records {
	return &Records{
		Attributes: attributes, key: func(x *Record) recordKey { return recordKey{id: x.ID} },
		recordStore: &recordStore{
			limits: l, layout: layout{len(margins), len(attributes)}, tape: extsort.New(1, l.bytes),
		},
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
	return r.write(r.tape, 0, x)
}

// write adds a record to a list, behind the number of its bytes.
func (o *recordStore) write(to *extsort.Lists, list int, x *Record) error {
	o.buf = o.layout.encode(append(o.buf[:0], 0, 0, 0, 0), x)
	binary.LittleEndian.PutUint32(o.buf, uint32(len(o.buf)-4))
	return to.Append(list, o.buf)
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

// lists are those of all views and that of the records. Views share the first ones, and so must not grow them.
func (o *recordStore) lists() []*extsort.Lists { return append(slices.Clip(o.divided), o.tape) }

// rest has little of the records held in memory, nor of their views: what is small stays.
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

func (r *Records) read(from *extsort.Lists, list int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		in := bufio.NewReaderSize(from.Reader(list), int(min(1<<16, from.Size(list))))
		var size [4]byte
		var b []byte
		for i := 0; ; i++ {
			_, err := io.ReadFull(in, size[:])
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				b = slices.Grow(b[:0], int(binary.LittleEndian.Uint32(size[:])))[:binary.LittleEndian.Uint32(size[:])]
				_, err = io.ReadFull(in, b)
			}
			if err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			x := r.layout.decode(b)
			x.Person = i
			if r.others != nil && len(x.Others) > 0 {
				x.Hash, x.Others = r.others.Hash(x.Hash, x.Others), nil
			}
			if (r.keep == nil || r.keep(x)) && !yield(x, nil) {
				return
			}
		}
	}
}

// All returns the records in the order in which they were added. Record.Person is the number of the record, from 0. Of
// a view, some are left out.
func (r *Records) All() iter.Seq2[*Record, error] {
	if r == nil {
		return func(func(*Record, error) bool) {}
	}
	return r.read(r.tape, 0)
}

// Raw is All with Record.Hash and Others as they were added.
func (r *Records) Raw() iter.Seq2[*Record, error] {
	raw, store := *r, *r.recordStore
	store.others, raw.recordStore = nil, &store
	return raw.All()
}

// parts returns all records, in parts that have all of a person's or none. Records of another evaluation of the same
// people come in the same parts and the same order.
func (r *Records) parts() iter.Seq2[[]*Record, error] {
	return func(yield func([]*Record, error) bool) {
		if r.Len() == 0 {
			return
		}
		from, lists, most := r.tape, 1, r.limits.part()
		if r.shared {
			most = r.n
			if r.n > r.limits.records {
				if err := r.divide(); err != nil {
					yield(nil, err)
					return
				}
				from, lists = r.parted, shards(r.n)
			}
		}
		for list := range lists {
			var part []*Record
			for x, err := range r.read(from, list) {
				if err != nil {
					yield(nil, err)
					return
				}
				if part = append(part, x); len(part) == most {
					if !yield(part, nil) {
						return
					}
					part = nil
				}
			}
			if len(part) > 0 && !yield(part, nil) {
				return
			}
		}
	}
}

// shards is how many parts n records are divided into, by person or by hash. Two parts are in memory at a time.
func shards(n int) int { return max(16, min(n/2048, 2048)) }

// divide writes all records into lists, of which one has all of a person's. What else there is of them rests: these
// lists are read from now on.
func (r *Records) divide() error {
	if r.parted != nil {
		return nil
	}
	if err := r.rest(); err != nil {
		return err
	}
	n := shards(r.n)
	lists := extsort.New(n, r.bytes)
	for x, err := range r.read(r.tape, 0) {
		if err == nil {
			to := uint64(x.Person)
			if k := r.key(x); k != (recordKey{}) {
				to = mixed(k.hash ^ textHash(k.id))
			}
			err = r.write(lists, int(to%uint64(n)), x)
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

func byPerson(part []*Record, key func(x *Record) recordKey) (persons [][]*Record) {
	at := map[recordKey]int{}
	for _, x := range part {
		k := key(x)
		i, known := at[k]
		if !known || k == (recordKey{}) {
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

// Visitor looks at records, some at a time: at all, and at those of each person, who are those with the same ID. They
// must not be changed: others look at the same ones. Record.Person is not the number of the record.
type Visitor func(some []*Record, persons [][]*Record) error

// VisitRecords is a visitor of all records, in any order.
func VisitRecords(visit func(some []*Record) error) Visitor {
	return func(some []*Record, _ [][]*Record) error { return visit(some) }
}

// Visit has the visitors look at the records, all at the same ones at a time, each in a goroutine of its own: records
// are read once for all of them.
func (r *Records) Visit(visitors ...Visitor) error {
	work := make([]func() error, len(visitors))
	for some, err := range ordered.Ahead(r.parts()) {
		if err != nil {
			return err
		}
		persons := byPerson(some, r.key)
		for i, visit := range visitors {
			work[i] = func() error { return visit(some, persons) }
		}
		if err := ordered.All(len(work), work...); err != nil {
			return err
		}
	}
	return nil
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
	p := &task.People{Subgroups: make([]task.Subgroup, len(r.Attributes))}
	for i, a := range r.Attributes {
		p.Subgroups[i] = task.Subgroup{Feature: a.Feature, Values: slices.Clone(a.Values)}
	}
	var promises []recourse.Action
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

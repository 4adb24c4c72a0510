package eval

import (
	"bufio"
	"cmp"
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
	key    func(x *Record) string // who a record is about, "" for nobody else
	shared bool                   // some records may be about the same person
	keep   func(x *Record) bool   // nil for all
	parted *extsort.Lists         // the records by person; nil before they are needed
}

type recordStore struct {
	limits
	layout  Layout
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
	layout := Layout{Margins: margins, Attributes: features(attributes)}
	return &Records{
		Attributes: attributes, key: func(x *Record) string { return x.ID },
		recordStore: &recordStore{limits: l, layout: layout, tape: extsort.New(1, l.bytes)},
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
	if n := len(r.layout.Margins); x.Evaluated && len(x.Steps) != n {
		return fmt.Errorf("eval: record of row %d: %d steps for %d required margins", x.Row, len(x.Steps), n)
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
	out := recordBytes{b: append(o.buf[:0], 0, 0, 0, 0)}
	out.record(o.layout, x)
	o.buf = out.b
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
		var size uint32
		var b []byte
		for i := 0; ; i++ {
			err := binary.Read(in, binary.LittleEndian, &size)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				b = slices.Grow(b[:0], int(size))[:size]
				_, err = io.ReadFull(in, b)
			}
			if err != nil {
				yield(nil, fmt.Errorf("eval: temporary file: %w", err))
				return
			}
			blank := r.layout.Blank()
			x := &blank
			(&recordBytes{b, true}).record(r.layout, x)
			x.Settle()
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
			if k := r.key(x); k != "" {
				to = mixed(textHash(k))
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

func byPerson(part []*Record, key func(x *Record) string) (persons [][]*Record) {
	at := map[string]int{}
	for _, x := range part {
		k := key(x)
		i, known := at[k]
		if !known || k == "" {
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

// Record is everything that was measured about one person. All metrics are sums over records, so a slice of them (one
// subgroup, one bootstrap draw) has metrics of its own: see Summarize.
type Record struct {
	Person int `json:"-"`    // number of the record, see [Records.All]; position in the People that Compare was given
	Row    int `json:"row"`  // of the data, as task.ReadOptions counts: from 0
	Line   int `json:"line"` // line of the data file, 0 when not known, as in Parquet files
	// ID is that of the person, "" when every record is a person of its own: those with the same one count once.
	ID        string `json:"id,omitempty"`
	Label     int8   `json:"label"` // 1 favourable, 0 not, -1 not known
	Full      Float  `json:"full"`  // margin of f at the factual point
	Quant     Float  `json:"quant"` // margin of g at the factual point
	Evaluated bool   `json:"evaluated"`
	// Issued is the promise that the person was issued, also when it reaches no required margin; nil without
	// Options.Promises. Its margins are known when the person is evaluated.
	Issued *Promise `json:"issued,omitempty"`
	// one per required margin, in the order of Settings.Margins; nil unless Evaluated
	Steps   []Step  `json:"steps,omitempty"`
	First   Promise `json:"pgd_first"` // f's first valid PGD iterate; meaningful only when Evaluated
	RowData `json:"-"`
}

// RowData is what the data say about a person.
type RowData struct {
	// Hash is equal for rows that are, see [task.Equality]; 0 when it is not known. Of a record that is added it may be
	// that of what the task reads, with Others for the other columns.
	Hash       uint64
	Others     []uint64
	Calibrated bool      // the row is equal to one that g was calibrated on
	X          []float32 // model inputs as they are
	Groups     []string  // value of each attribute that tells groups apart, "" without one
}

// Step is one person's recourse under both models at one required margin.
type Step struct {
	Full    Promise `json:"full"`        // f's recourse; Other is g's margin there
	Quant   Promise `json:"quant"`       // g's recourse; Other is f's margin there
	DirSim  Float   `json:"dir_sim"`     // cosine of the two actions; undefined unless both were found
	Overlap Float   `json:"act_overlap"` // Jaccard overlap of the changed inputs; undefined unless both were found
	// Pixels is how far f's recourse point is from the person in the model's inputs, where recourse is found in a latent
	// space; else 0.
	Pixels Float `json:"pixel_distance,omitempty"`
	// Perturbed is the logit perturbation around f's recourse point by each of Perturbations; nil unless it was asked for.
	Perturbed []Float `json:"perturbation,omitempty"`
	// Transfer is what is certain of f's changes, and Back of g's; nil where there are none, or nobody asked.
	Transfer *Transfer `json:"transfer,omitempty"`
	Back     *Transfer `json:"rtransfer,omitempty"`
}

func (s *Step) promise(quant bool) *Promise {
	if quant {
		return &s.Quant
	}
	return &s.Full
}

// free says that g gives the person the required margin as they are, at no cost.
func (s *Step) free() bool { return s.Quant.Status == recourse.AlreadyFavourable }

// common says that both models have a price for the person, which CRG compares.
func (s *Step) common() bool { return s.Full.Exists() && (s.Quant.Exists() || s.free()) }

func (s *Step) bothExist() bool { return s.Full.Exists() && s.Quant.Exists() }

// Promise is a recourse that one model gives to one person. Cost is in the task's cost units and both margins are logit
// margins at the recourse point x+delta; they are undefined unless Status is recourse.Found, except that a person who
// has the required margin already has cost 0.
type Promise struct {
	Status recourse.Status `json:"status"`
	Cost   Float           `json:"cost"`
	Own    Float           `json:"own"`   // margin under the model that gives the promise
	Other  Float           `json:"other"` // margin under the other model
	// Violation is why the task does not allow the action; "" when it does.
	Violation string `json:"violation,omitempty"`
	// Point is the recourse point in model inputs, nil unless the promise exists.
	Point []float32 `json:"-"`
}

func none(why recourse.Status) Promise {
	return Promise{Status: why, Cost: undefined(), Own: undefined(), Other: undefined()}
}

// Exists reports whether there is an action that the person was told to take.
func (p *Promise) Exists() bool { return p != nil && p.Status == recourse.Found }

// Broken reports whether the other model refuses the person who took the action.
func (p *Promise) Broken() bool { return p.Exists() && !approves(p.Other) }

// approves is the tie rule: a margin of exactly zero is a refusal.
func approves(margin Float) bool { return margin > 0 }

func (r *Record) eligible() bool { return !approves(r.Full) || r.Issued.Exists() }

// reverse reports whether the record counts for the mirrored metrics: both must refuse
// the person, or there is nothing that g would tell them to change.
func (r *Record) reverse() bool { return r.Evaluated && !approves(r.Full) && !approves(r.Quant) }

// mirrored says that g was asked what it can promise to the person.
func (r *Record) mirrored(s *Settings) bool { return r.reverse() && !s.OneSided }

// reaches says whether the model that gives the promise approves by the required margin. The comparison is
// the solver's.
func (p *Promise) reaches(t float64) bool { return approves(p.Own) && float32(p.Own) >= float32(t) }

func (p *Promise) same(o *Promise) bool { return o.Exists() && p.Own == o.Own && p.Cost == o.Cost }

func (p *Promise) compare(o *Promise) int {
	return cmp.Or(cmp.Compare(p.Status, o.Status), cmp.Compare(p.Cost, o.Cost), cmp.Compare(p.Own, o.Own),
		cmp.Compare(p.Other, o.Other))
}

func (r *Record) promise(at int, s *Settings, quant bool) *Promise {
	p := r.Steps[at].promise(quant)
	if !r.Evaluated || !p.Exists() || quant && !r.mirrored(s) {
		return nil
	}
	return p
}

// compare orders records by what they say; those that are equal can stand for each other.
func (r *Record) compare(o *Record) int {
	c := cmp.Or(cmp.Compare(r.Full, o.Full), cmp.Compare(r.Quant, o.Quant), cmp.Compare(len(r.Steps), len(o.Steps)))
	for i := 0; c == 0 && i < len(r.Steps); i++ {
		s, t := &r.Steps[i], &o.Steps[i]
		c = cmp.Or(s.Full.compare(&t.Full), s.Quant.compare(&t.Quant), cmp.Compare(s.DirSim, t.DirSim),
			cmp.Compare(s.Overlap, t.Overlap))
	}
	return cmp.Or(c, cmp.Compare(r.Label, o.Label), slices.Compare(r.X, o.X))
}

func (r *Record) correct(margin Float) bool { return approves(margin) == (r.Label == 1) }

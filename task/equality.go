package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/internal/message"
)

// Equality says by which columns rows are compared: by what the task reads, and by those others that do not number the
// rows. It is told of every row, in any order, and looks at all of them up to equalityRows different ones. Of more it
// keeps a sample that neither order nor parts of the data change: rows by the hash of what the task reads of them, so
// that rows that may be equal are in it together, and values of each column by their hash. One goroutine may use it at
// a time.
type Equality struct {
	columns []string
	limit   int // different rows that are kept
	level   int // rows are kept whose Content starts with so many zero bits
	rows    map[uint64]*equalRows
	fields  []fieldSample // of columns
	split   *columnSplit  // nil as long as rows are added
}

type equalRows struct {
	content uint64
	others  []uint64
	count   int
}

type columnSplit struct {
	kept    []int    // columns that tell people apart
	without []string // the others, when some rows are equal but for them
}

const (
	// idLike is the share of distinct fields from which on a column that is neither input nor outcome numbers the rows and
	// does not tell people apart: copies of a row would get new numbers, too.
	idLike = 0.9

	// stray is the share of rows that need not be as a column that counts copies makes them.
	stray = 0.01

	equalityRows  = 100_000 // that are kept, or as many as make equalityCells
	equalityCells = 4 << 20
	sampledFields = 8192 // values of a column that are kept
)

// NewEquality starts without rows. columns are People.OtherColumns.
func NewEquality(columns []string) *Equality {
	return newEquality(columns, min(equalityRows, equalityCells/(len(columns)+1)))
}

func newEquality(columns []string, limit int) *Equality {
	fields := lists.Map(columns, func(string) fieldSample { return fieldSample{counts: map[uint64]int{}} })
	return &Equality{columns: columns, limit: limit, rows: map[uint64]*equalRows{}, fields: fields}
}

// Add tells of one row: one of People.Content and of People.Others.
func (e *Equality) Add(content uint64, others []uint64) {
	if len(e.columns) == 0 {
		return // nothing can be left out
	}
	e.split = nil
	key := content
	for i, field := range others {
		e.fields[i].add(field)
		key += part(i, field)
	}
	if !sampled(content, e.level) {
		return
	}
	if e.rows[key] == nil {
		e.rows[key] = &equalRows{content: content, others: slices.Clone(others)}
	}
	e.rows[key].count++
	for len(e.rows) > e.limit {
		e.level++
		maps.DeleteFunc(e.rows, func(_ uint64, r *equalRows) bool { return !sampled(r.content, e.level) })
	}
}

func sampled(hash uint64, bits int) bool { return hash>>(64-bits) == 0 }

func part(column int, field uint64) uint64 { return mixed(field + uint64(column+1)*0x9e3779b97f4a7c15) }

type fieldSample struct {
	level  int
	counts map[uint64]int
}

func (s *fieldSample) add(field uint64) {
	if field == 0 || !sampled(field, s.level) {
		return
	}
	s.counts[field]++
	for len(s.counts) > sampledFields {
		s.level++
		maps.DeleteFunc(s.counts, func(field uint64, _ int) bool { return !sampled(field, s.level) })
	}
}

func (s *fieldSample) distinct() bool {
	n := 0
	for _, k := range s.counts {
		n += k
	}
	return n > 0 && float64(len(s.counts)) >= idLike*float64(n)
}

// Without returns the columns by which rows are not compared, in order; nil when no rows are equal without them.
func (e *Equality) Without() []string {
	return e.columnSplit().without
}

// Note says what Without means; "" when there is nothing to say.
func (e *Equality) Note() string {
	without := e.Without()
	if without == nil {
		return ""
	}
	quoted := lists.Map(without, message.Quote)
	return "rows are compared without column " + strings.Join(quoted, ", ") + ": nearly every row has another value " +
		"there, or it counts copies; data.id names the column that says who is who"
}

// Hash is the same number for rows that are equal.
func (e *Equality) Hash(content uint64, others []uint64) uint64 {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 128), content)
	for _, i := range e.columnSplit().kept {
		text = binary.LittleEndian.AppendUint64(text, others[i])
	}
	return shortSHA(text)
}

func (e *Equality) columnSplit() *columnSplit {
	if e.split != nil {
		return e.split
	}
	distinct := lists.Map(e.fields, func(s fieldSample) bool { return s.distinct() })
	counter, split := e.counter(distinct), &columnSplit{}
	for i, name := range e.columns {
		if distinct[i] || i == counter {
			split.without = append(split.without, name)
		} else {
			split.kept = append(split.kept, i)
		}
	}
	e.split = split // by which repeats compares rows
	if split.without != nil && !e.repeats() {
		split.without = nil
	}
	return split
}

// repeats says whether some rows are equal: as many are when none of a large file were kept.
func (e *Equality) repeats() bool {
	seen := make(map[uint64]bool, len(e.rows))
	for _, r := range e.rows {
		h := e.Hash(r.content, r.others)
		if r.count > 1 || seen[h] {
			return true
		}
		seen[h] = true
	}
	return len(e.rows) == 0 && e.level > 0
}

// counter returns the column that counts copies, -1 when there is none: in (nearly) every set of rows that are equal in
// all else, row numbers aside, its values are 1 to some k (or 0 to k-1), each equally often, and half of the rows
// or more are in sets with k > 1. Different people with equal values elsewhere do not number themselves so.
func (e *Equality) counter(distinct []bool) int {
	for i := range e.columns {
		if !distinct[i] && (e.counted(distinct, i, 0) || e.counted(distinct, i, 1)) {
			return i
		}
	}
	return -1
}

func (e *Equality) counted(distinct []bool, column, first int) bool {
	values, rows := map[uint64]int{}, 0
	for _, r := range e.rows {
		values[r.others[column]] += r.count
		rows += r.count
	}
	numbers, numbered, strays := make([]uint64, len(values)), 0, rows
	for i := range numbers {
		numbers[i] = fieldHash(Decimal(float64(first + i)))
		strays -= values[numbers[i]]
	}
	if float64(strays) > stray*float64(rows) {
		return false // without a look at the sets
	}
	sets := map[uint64]map[uint64]int{} // of rows that are equal but for the column: how often it has which value
	for _, r := range e.rows {
		rest := r.content
		for i, field := range r.others {
			if i != column && !distinct[i] {
				rest += part(i, field)
			}
		}
		if sets[rest] == nil {
			sets[rest] = map[uint64]int{}
		}
		sets[rest][r.others[column]] += r.count
	}
	strays = 0
	for _, set := range sets {
		n, counts := 0, true
		for _, k := range set {
			n += k
		}
		for _, number := range numbers[:len(set)] {
			counts = counts && set[number]*len(set) == n
		}
		switch {
		case !counts:
			strays += n
		case len(set) > 1:
			numbered += n
		}
	}
	return numbered > 0 && 2*numbered >= rows && float64(strays) <= stray*float64(rows)
}

// rowHashes hashes what tells people apart, see ReadOptions.Hash, of each row alone: so a stream has the hashes, too.
type rowHashes struct {
	names []string // of the columns that are neither input nor outcome nor ID, ascending
	at    []int    // where they are in a record
	text  []byte   // scratch
}

func newRowHashes(c *columns) *rowHashes {
	second := lists.Map(c.twins, func(tw [2]int) int { return tw[1] }) // the same as the first
	images := lists.Map(c.images, func(im imageColumn) int { return im.at })
	read := slices.Concat(c.features, c.id, []int{c.label}, second, images)
	h := &rowHashes{at: lists.Where(len(c.names), func(i int) bool { return !slices.Contains(read, i) })}
	slices.SortStableFunc(h.at, func(a, b int) int { return cmp.Compare(c.names[a], c.names[b]) })
	for _, i := range h.at {
		h.names = append(h.names, c.names[i])
	}
	return h
}

func (h *rowHashes) content(x []float32, label int8) uint64 {
	h.text = append(appendInputs(h.text[:0], x), byte(label))
	return shortSHA(h.text)
}

func (h *rowHashes) others(rec []string, missing func(string) bool) []uint64 {
	fields := make([]uint64, len(h.at))
	for i, at := range h.at {
		if field := strings.TrimSpace(rec[at]); !missing(field) {
			fields[i] = fieldHash(plainField(field))
		}
	}
	return fields
}

func shortSHA(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:])
}

func fieldHash(field string) uint64 {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	for i := range len(field) {
		h = (h ^ uint64(field[i])) * 0x100000001b3
	}
	return max(mixed(h), 1)
}

// mixed makes every bit of a number depend on all of them: the finalizer of MurmurHash3.
func mixed(v uint64) uint64 {
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	v = (v ^ v>>33) * 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}

// plainField writes a number in one way; more digits than a float64 has stay as they are.
func plainField(field string) string {
	if v, ok := Number(field); ok && len(field) <= 15 {
		return Decimal(v)
	}
	return field
}

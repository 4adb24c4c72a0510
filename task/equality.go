package task

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

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
	at      map[uint64]int
	content []uint64      // of each row that is kept
	others  []uint64      // len(columns) each
	counts  []int         // how often it was told
	total   int           // sum of counts
	fields  []fieldSample // of columns, when there are more rows than are kept
	people  contentSample // when there are more rows than are kept

	split *columnSplit // nil as long as rows are added
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

	// When there are more rows:
	sampledFields   = 8192    // values of a column
	sampledContents = 1024    // contents
	maxCopies       = 1 << 22 // of a row that are recognised
)

// NewEquality starts without rows. columns are People.OtherColumns.
func NewEquality(columns []string) *Equality {
	return newEquality(columns, min(equalityRows, equalityCells/(len(columns)+1)))
}

func newEquality(columns []string, limit int) *Equality {
	return &Equality{columns: columns, limit: limit, at: map[uint64]int{}}
}

// Add tells of one row: one of People.Content and of People.Others.
func (e *Equality) Add(content uint64, others []uint64) {
	if len(e.columns) == 0 {
		return // nothing can be left out
	}
	e.split = nil
	if e.fields != nil {
		e.sample(content, others, 1)
	}
	if !sampled(content, e.level) {
		return
	}
	e.total++
	key := rowKey(content, others)
	if at, ok := e.at[key]; ok {
		e.counts[at]++
		return
	}
	e.at[key] = len(e.counts)
	e.content, e.others, e.counts = append(e.content, content), append(e.others, others...), append(e.counts, 1)
	for len(e.counts) > e.limit {
		e.halve()
	}
}

func sampled(hash uint64, bits int) bool { return hash>>(64-bits) == 0 }

func part(column int, field uint64) uint64 { return mixed(field + uint64(column+1)*0x9e3779b97f4a7c15) }

func rowKey(content uint64, others []uint64) uint64 {
	for i, field := range others {
		content += part(i, field)
	}
	return content
}

// thin keeps the entries of a sample that have the least hashes, at most limit.
func thin[T any](sample map[uint64]T, level *int, limit int) {
	for len(sample) > limit {
		*level++
		maps.DeleteFunc(sample, func(hash uint64, _ T) bool { return !sampled(hash, *level) })
	}
}

func (e *Equality) row(i int) []uint64 { return e.others[i*len(e.columns) : (i+1)*len(e.columns)] }

func (e *Equality) sample(content uint64, others []uint64, times int) {
	for i := range e.fields {
		e.fields[i].add(others[i], times)
	}
	e.people.add(content, others, times)
}

// halve keeps about half of the rows. Before it does so for the first time, all of them go to the other samples.
func (e *Equality) halve() {
	if e.fields == nil {
		e.fields = make([]fieldSample, len(e.columns))
		for i := range e.fields {
			e.fields[i].counts = map[uint64]int{}
		}
		e.people.sets = map[uint64]*contentSet{}
		for row, k := range e.counts {
			e.sample(e.content[row], e.row(row), k)
		}
	}
	e.level++
	clear(e.at)
	n := 0
	e.total = 0
	for row, content := range e.content {
		if !sampled(content, e.level) {
			continue
		}
		e.at[rowKey(content, e.row(row))] = n
		copy(e.row(n), e.row(row))
		e.content[n], e.counts[n] = content, e.counts[row]
		e.total += e.counts[n]
		n++
	}
	e.content, e.others, e.counts = e.content[:n], e.others[:n*len(e.columns)], e.counts[:n]
}

type fieldSample struct {
	level  int
	counts map[uint64]int
}

func (s *fieldSample) add(field uint64, times int) {
	if field == 0 || !sampled(field, s.level) {
		return
	}
	s.counts[field] += times
	thin(s.counts, &s.level, sampledFields)
}

// contentSample sums up the rows of those contents whose hashes are among the least.
type contentSample struct {
	level int
	sets  map[uint64]*contentSet
}

type contentSet struct {
	rows int
	sums []uint64 // per column: of the hashes of fields
}

func (s *contentSample) add(content uint64, others []uint64, times int) {
	if !sampled(content, s.level) {
		return
	}
	set := s.sets[content]
	if set == nil {
		set = &contentSet{sums: make([]uint64, len(others))}
		s.sets[content] = set
	}
	set.rows += times
	for i, field := range others {
		set.sums[i] += field * uint64(times)
	}
	thin(s.sets, &s.level, sampledContents)
}

// counted says that a column counts the rows of contents up from first, see Equality.counter. Sums of hashes tell:
// those of first, first + 1 and so on up to some number, each equally often, have the sum that they have.
func (s *contentSample) counted(column, first int) bool {
	var tally copyTally
	sums := []uint64{0} // of the hashes of first, first + 1, ...
	for _, set := range s.sets {
		most := 0 // the largest number of copies that fits
		for k := 1; k*k <= set.rows; k++ {
			for _, copies := range []int{k, set.rows / k} {
				if set.rows%k != 0 || copies > maxCopies {
					continue
				}
				for i := len(sums) - 1; i < copies; i++ {
					sums = append(sums, sums[i]+numberHash(first+i))
				}
				if sums[copies]*uint64(set.rows/copies) == set.sums[column] {
					most = max(most, copies)
				}
			}
		}
		tally.add(set.rows, most)
	}
	return tally.counts()
}

// copyTally counts rows of sets in which a column is said to count copies.
type copyTally struct{ rows, numbered, others int }

// add adds a set with so many copies of each row; 0 where the column does not count them.
func (c *copyTally) add(rows, copies int) {
	c.rows += rows
	switch {
	case copies == 0:
		c.others += rows
	case copies > 1:
		c.numbered += rows
	}
}

func (c *copyTally) counts() bool {
	return 2*c.numbered >= c.rows && float64(c.others) <= stray*float64(c.rows)
}

func numberHash(n int) uint64 { return fieldHash(Decimal(float64(n))) }

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
	var quoted []string
	for _, n := range without {
		quoted = append(quoted, message.Quote(n))
	}
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
	distinct := make([]bool, len(e.columns))
	for i := range distinct {
		distinct[i] = e.distinct(i)
	}
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
	seen := make(map[uint64]bool, len(e.counts))
	for row, k := range e.counts {
		h := e.Hash(e.content[row], e.row(row))
		if k > 1 || seen[h] {
			return true
		}
		seen[h] = true
	}
	return len(e.counts) == 0 && e.level > 0
}

func (e *Equality) distinct(column int) bool {
	var s map[uint64]int
	if e.fields != nil {
		s = e.fields[column].counts
	} else {
		s = e.values(column)
		delete(s, 0)
	}
	n := 0
	for _, k := range s {
		n += k
	}
	return n > 0 && float64(len(s)) >= idLike*float64(n)
}

func (e *Equality) values(column int) map[uint64]int {
	values := map[uint64]int{}
	for row, k := range e.counts {
		values[e.row(row)[column]] += k
	}
	return values
}

// counter returns the column that counts copies, -1 when there is none: in (nearly) every set of rows that are equal in
// all else, row numbers aside, its values are 1 to some k (or 0 to k-1), each equally often, and half of the rows
// or more are in sets with k > 1. Different people with equal values elsewhere do not number themselves so.
func (e *Equality) counter(distinct []bool) int {
	counts := e.people.counted // for many rows of few contents, of which no sample is left: in sets of rows of one content
	if e.level == 0 || 64*len(e.counts) >= e.limit {
		all := slices.Clone(e.content) // of each row: the sum of the hashes of its parts
		for row := range all {
			for i, field := range e.row(row) {
				if !distinct[i] {
					all[row] += part(i, field)
				}
			}
		}
		counts = func(column, first int) bool { return e.counted(all, column, first) }
	}
	for i := range e.columns {
		if !distinct[i] && (counts(i, 0) || counts(i, 1)) {
			return i
		}
	}
	return -1
}

// counted says that the fields of a column are first, first + 1 and so on, but for strays, and go up from first in sets
// of rows that are equal but for the column; all are the hashes of rows.
func (e *Equality) counted(all []uint64, column, first int) bool {
	values, n := e.values(column), 0
	numbers := make([]uint64, len(values))
	for i := range numbers {
		numbers[i] = numberHash(first + i)
		n += values[numbers[i]]
	}
	if float64(e.total-n) > stray*float64(e.total) {
		return false
	}
	sets := map[uint64]map[uint64]int{} // how often the column has which value
	for row, k := range e.counts {
		field := e.row(row)[column]
		rest := all[row] - part(column, field)
		if sets[rest] == nil {
			sets[rest] = map[uint64]int{}
		}
		sets[rest][field] += k
	}
	var tally copyTally
	for _, set := range sets {
		rows, copies := 0, len(set)
		for _, k := range set {
			rows += k
		}
		for _, x := range numbers[:len(set)] {
			if set[x]*len(set) != rows {
				copies = 0
			}
		}
		tally.add(rows, copies)
	}
	return tally.counts()
}

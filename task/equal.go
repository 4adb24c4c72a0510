package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"cfq/internal/message"
)

// idLike is the share of distinct fields from which on a column that is neither input nor outcome numbers the rows and
// does not tell people apart: copies of a row would get new numbers, too.
const idLike = 0.9

// equality hashes what tells people apart, see ReadOptions.Hash.
type equality struct {
	names  []string   // of the columns that are neither input nor outcome nor ID, ascending
	at     []int      // where they are in a record
	fields [][]uint64 // per person: a hash of each, 0 where it is missing
}

// newEquality finds the columns that are neither input nor outcome nor ID.
func newEquality(c *columns) *equality {
	read := slices.Concat(c.features, c.id, []int{c.label})
	for _, tw := range c.twins {
		read = append(read, tw[1]) // the same as the first
	}
	e := &equality{}
	for i := range c.names {
		if !slices.Contains(read, i) {
			e.at = append(e.at, i)
		}
	}
	slices.SortStableFunc(e.at, func(a, b int) int { return cmp.Compare(c.names[a], c.names[b]) })
	for _, i := range e.at {
		e.names = append(e.names, c.names[i])
	}
	return e
}

// add hashes the fields of the next person.
func (e *equality) add(rec []string, missing func(string) bool) {
	fields := make([]uint64, len(e.at))
	for i, at := range e.at {
		if field := strings.TrimSpace(rec[at]); !missing(field) {
			fields[i] = fieldHash(plainField(field))
		}
	}
	e.fields = append(e.fields, fields)
}

// fieldHash is never 0, which stands for a missing field.
func fieldHash(field string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(field))
	return max(h.Sum64(), 1)
}

// plainField writes a number in one way; more digits than a float64 has stay as they are.
func plainField(field string) string {
	if v, ok := Number(field); ok && len(field) <= 15 {
		return Decimal(v)
	}
	return field
}

// hashes are those of all people, and the columns without which some of them are equal.
func (e *equality) hashes(p *People) (all []uint64, without []string) {
	counter := e.counter(p)
	var kept []int // columns that tell people apart
	for i, name := range e.names {
		if e.distinct(i) || i == counter {
			without = append(without, name)
		} else {
			kept = append(kept, i)
		}
	}
	seen := map[uint64]bool{}
	for person, fields := range e.fields {
		text := append(inputBytes(p.X[person*p.Dim:(person+1)*p.Dim]), byte(p.Labels[person]))
		for _, i := range kept {
			text = binary.LittleEndian.AppendUint64(text, fields[i])
		}
		sum := sha256.Sum256(text)
		h := binary.LittleEndian.Uint64(sum[:])
		all, seen[h] = append(all, h), true
	}
	if len(seen) == len(all) {
		without = nil
	}
	return all, without
}

// distinct says that (nearly) all fields of a column differ.
func (e *equality) distinct(column int) bool {
	n, seen := 0, map[uint64]bool{}
	for _, fields := range e.fields {
		if h := fields[column]; h != 0 {
			n++
			seen[h] = true
		}
	}
	return n > 0 && float64(len(seen)) >= idLike*float64(n)
}

// stray is the share of rows that need not be as a column that counts copies makes them.
const stray = 0.01

// counter returns the column that counts copies, -1 when there is none: in (nearly) every set of rows that are equal in
// all else, row numbers aside, its values are 1 to some k (or 0 to k-1), each equally often, and half of the rows
// or more are in sets with k > 1. Different people with equal values elsewhere do not number themselves so.
func (e *equality) counter(p *People) int {
	part := func(i int, field uint64) uint64 {
		return fieldHash(string(binary.LittleEndian.AppendUint64([]byte{byte(i), byte(i >> 8)}, field)))
	}
	var columns, whole []int // that do not number the rows, and of them those of whole numbers from 0 or 1
	for i := range e.names {
		if !e.distinct(i) {
			columns = append(columns, i)
			if e.wholeFrom(i, 0) || e.wholeFrom(i, 1) {
				whole = append(whole, i)
			}
		}
	}
	if whole == nil {
		return -1
	}
	all := make([]uint64, len(e.fields)) // of each row: the sum of the hashes of its parts
	for person, fields := range e.fields {
		all[person] = fieldHash(string(inputBytes(p.X[person*p.Dim:(person+1)*p.Dim]))) + uint64(p.Labels[person])
		for _, i := range columns {
			all[person] += part(i, fields[i])
		}
	}
	for _, i := range whole {
		sets := map[uint64]map[uint64]int{} // of rows that are equal but for the column: how often it has which value
		for person, fields := range e.fields {
			rest := all[person] - part(i, fields[i])
			if sets[rest] == nil {
				sets[rest] = map[uint64]int{}
			}
			sets[rest][fields[i]]++
		}
		if counts(sets, len(e.fields), 0) || counts(sets, len(e.fields), 1) {
			return i
		}
	}
	return -1
}

// wholeFrom says that the fields of a column are first, first + 1 and so on, in any order, but for strays.
func (e *equality) wholeFrom(column, first int) bool {
	values, n := map[uint64]int{}, 0
	for _, fields := range e.fields {
		values[fields[column]]++
	}
	for i := range len(values) {
		n += values[fieldHash(Decimal(float64(first+i)))]
	}
	return float64(len(e.fields)-n) <= stray*float64(len(e.fields))
}

// counts says that in sets of rows, n altogether, values go up from first, see counter.
func counts(sets map[uint64]map[uint64]int, n, first int) bool {
	var numbered, others int
	numbers := []uint64{} // hashes of first, first + 1, ...
	for _, set := range sets {
		for len(numbers) < len(set) {
			numbers = append(numbers, fieldHash(Decimal(float64(first+len(numbers)))))
		}
		rows, counted := 0, true
		for _, k := range set {
			rows += k
		}
		for _, x := range numbers[:len(set)] {
			counted = counted && set[x]*len(set) == rows
		}
		switch {
		case !counted:
			others += rows
		case len(set) > 1:
			numbered += rows
		}
	}
	return 2*numbered >= n && float64(others) <= stray*float64(n)
}

// withoutColumns says that rows are compared without columns.
func withoutColumns(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = message.Quote(n)
	}
	return "rows are compared without column " + strings.Join(quoted, ", ") + ": nearly every row has another value " +
		"there, or it counts copies; data.id names the column that says who is who"
}

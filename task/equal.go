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
			h := fnv.New64a()
			h.Write([]byte(plainField(field)))
			fields[i] = max(h.Sum64(), 1)
		}
	}
	e.fields = append(e.fields, fields)
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
	var kept []int // columns that tell people apart
	for i, name := range e.names {
		if e.distinct(i) {
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

// withoutColumns says that rows are compared without columns.
func withoutColumns(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = message.Quote(n)
	}
	return "rows are compared without column " + strings.Join(quoted, ", ") + ": nearly every row has another value " +
		"there; data.id names the column that says who is who"
}

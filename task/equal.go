package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// rowHashes hashes what tells people apart, see ReadOptions.Hash, of each row alone: so a stream has the hashes, too.
type rowHashes struct {
	names []string // of the columns that are neither input nor outcome nor ID, ascending
	at    []int    // where they are in a record
	text  []byte   // scratch
}

func newRowHashes(c *columns) *rowHashes {
	read := slices.Concat(c.features, c.id, []int{c.label})
	for _, tw := range c.twins {
		read = append(read, tw[1]) // the same as the first
	}
	for _, im := range c.images {
		read = append(read, im.at)
	}
	h := &rowHashes{}
	for i := range c.names {
		if !slices.Contains(read, i) {
			h.at = append(h.at, i)
		}
	}
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

package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// recordHash makes the numbers of People.Hashes.
type recordHash struct {
	order []int  // of the fields
	text  []byte // scratch
}

func newRecordHash(o ReadOptions) *recordHash {
	if !o.Hash {
		return nil
	}
	return &recordHash{}
}

// by orders the fields by the names of their columns; those of one name stay as they are.
func (h *recordHash) by(names []string) {
	if h == nil {
		return
	}
	h.order = make([]int, len(names))
	for i := range h.order {
		h.order[i] = i
	}
	slices.SortStableFunc(h.order, func(a, b int) int { return cmp.Compare(names[a], names[b]) })
}

// record hashes the fields, each behind its length.
func (h *recordHash) record(rec []string) uint64 {
	h.text = h.text[:0]
	for _, i := range h.order {
		field := strings.TrimSpace(rec[i])
		h.text = binary.AppendUvarint(h.text, uint64(len(field)))
		h.text = append(h.text, field...)
	}
	return h.sum()
}

func (h *recordHash) sum() uint64 {
	sum := sha256.Sum256(h.text)
	return binary.LittleEndian.Uint64(sum[:])
}

// Package extsort keeps lists of bytes that together may be larger than memory: beyond a limit they go to one temporary
// file.
//
// In: bytes, appended to numbered lists in any order. Out: the bytes of each list, in the order in which they came.
// The invariant: memory stays near the limit, and a process that ends leaves no file, not even one that is killed where
// files can be removed while they are open.
package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// Limit is a limit for New that leaves a process of 500 MB room for everything else.
const Limit = 64 << 20

// ErrFile means that the temporary file cannot be written or read: the disk is full, perhaps. TMPDIR names its folder.
var ErrFile = errors.New("temporary file")

// Lists are lists of bytes. One goroutine may use them at a time; any number of Readers of a list that nobody appends
// to may read at once.
type Lists struct {
	limit int // bytes that are held in memory
	held  int
	lists []list
	file  *os.File // nil as long as everything is held
	end   int64    // of what was written to the file
}

// list is one of them: parts of the file, and then what is held, in blocks of which the last one grows.
type list struct {
	parts []fileRange
	held  [][]byte
	size  int64
}

// block is the size from which on a block does not grow: what is held is copied no more.
const block = 64 << 10

type fileRange struct{ at, size int64 }

// New makes n empty lists, which hold up to limit bytes in memory.
func New(n, limit int) *Lists { return &Lists{limit: limit, lists: make([]list, n)} }

// Grow adds an empty list and returns its number.
func (l *Lists) Grow() int {
	l.lists = append(l.lists, list{})
	return len(l.lists) - 1
}

// Append adds b, which is copied, to the end of a list. It fails when the temporary file cannot be written.
func (l *Lists) Append(to int, b []byte) error {
	x := &l.lists[to]
	if n := len(x.held); n == 0 {
		x.held = [][]byte{nil}
	} else if len(x.held[n-1]) >= block {
		x.held = append(x.held, make([]byte, 0, block+len(b)))
	}
	last := &x.held[len(x.held)-1]
	*last = append(*last, b...)
	x.size += int64(len(b))
	if l.held += len(b); l.held <= l.limit {
		return nil
	}
	return l.Rest()
}

// Held is how many bytes are in memory.
func (l *Lists) Held() int { return l.held }

// Rest moves what is held in memory to the temporary file: of lists that are not read for long, or never again.
func (l *Lists) Rest() (err error) {
	if l.held == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrFile, err)
		}
	}()
	if l.file == nil {
		if l.file, err = os.CreateTemp("", "cfq-*.tmp"); err != nil {
			return err
		}
		_ = os.Remove(l.file.Name()) // which Windows does not do yet
	}
	for i := range l.lists {
		x := &l.lists[i]
		if len(x.held) == 0 {
			continue
		}
		from := l.end
		for _, b := range x.held {
			if _, err := l.file.WriteAt(b, l.end); err != nil {
				return err
			}
			l.end += int64(len(b))
		}
		x.parts = append(x.parts, fileRange{from, l.end - from})
		x.held = nil // other lists may be the ones that grow next
	}
	l.held = 0
	return nil
}

// Size is how many bytes a list has.
func (l *Lists) Size(of int) int64 { return l.lists[of].size }

// Reader reads a list from its beginning. It is valid until the list is appended to.
func (l *Lists) Reader(of int) io.Reader {
	x := &l.lists[of]
	readers := make([]io.Reader, 0, len(x.parts)+len(x.held))
	for _, p := range x.parts {
		readers = append(readers, io.NewSectionReader(l.file, p.at, p.size))
	}
	for _, b := range x.held {
		readers = append(readers, bytes.NewReader(b))
	}
	return io.MultiReader(readers...)
}

// Close removes the temporary file, if there is one. The lists are then empty.
func (l *Lists) Close() error {
	clear(l.lists)
	if l.held = 0; l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	err := f.Close()
	_ = os.Remove(f.Name()) // where it is still there
	return err
}

// Rows are rows of numbers, in lists by their first number: rows that have it in common come together.
type Rows struct {
	*Lists
	width int
	row   []byte // that is added
}

// NewRows makes a place for rows of width numbers in n lists, see [New]. One list at a time is read into memory.
func NewRows(n, width, limit int) *Rows { return &Rows{Lists: New(n, limit), width: width} }

// Add adds a row.
func (r *Rows) Add(row ...uint64) error {
	r.row = r.row[:0]
	for _, x := range row {
		r.row = binary.LittleEndian.AppendUint64(r.row, x)
	}
	return r.Append(int(row[0]%uint64(len(r.lists))), r.row)
}

// Sorted returns the rows of each list, in ascending order.
func (r *Rows) Sorted() iter.Seq2[[][]uint64, error] {
	return func(yield func([][]uint64, error) bool) {
		for i := range r.lists {
			numbers := make([]uint64, r.Size(i)/8)
			if err := binary.Read(r.Reader(i), binary.LittleEndian, numbers); err != nil {
				yield(nil, fmt.Errorf("%w: %w", ErrFile, err))
				return
			}
			if !yield(slices.SortedFunc(slices.Chunk(numbers, r.width), slices.Compare), nil) {
				return
			}
		}
	}
}

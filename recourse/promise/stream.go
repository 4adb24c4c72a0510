package promise

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/internal/extsort"
	"cfq/recourse"
	"cfq/task"
)

// Batches hands people on in batches, in the order of their Rows, and returns what is known of all of them: task.Stream
// for some file.
type Batches func(each func(*task.People) error) (*task.People, error)

// Stream is Read for files of any length: each is given the batches of people, and to each batch the promises to these
// people, in the order of the file. The returned File has the counts, problems and notes of Read and no promises; its
// People are those that the batches returned. The rows of the promises file may stand in any order. Memory is bounded
// by a batch and the promises to its people: the others wait in a temporary file.
//
// A file with a column role, or without people (nil), is read at once and gives one batch; its people then are in
// memory, too. People are asked for twice when the file says by IDs whose its promises are. Errors of people and of
// each are returned as they are.
func Stream(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error) (*File, error) {
	return stream(ctx, path, t, people, each, newQueue(queueRows, queueLimit))
}

func stream(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error, q *queue) (
	*File, error,
) {
	r, err := newReader(path, t)
	if err != nil {
		return nil, err
	}
	var f *File
	switch {
	case r.has(colRole):
		f, err = r.pairs(ctx, people, each)
	case people == nil:
		err = fmt.Errorf("promises %s: %w", path, errNoPeople)
	default:
		f, err = r.stream(ctx, people, each, q)
	}
	if err != nil {
		return nil, err
	}
	f.Lost = firstLines(f.Lost)
	return f, nil
}

// stream is Stream of a file without factual rows. It closes the queue.
func (r *fileReader) stream(ctx context.Context, people Batches, each func(*File) error, q *queue) (
	_ *File, err error,
) {
	defer func() { err = cmp.Or(err, q.lists.Close(), q.ids.Close()) }()
	q.r = r
	if err := q.fill(ctx); err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	if r.byID {
		if err := q.join(people); err != nil {
			return nil, err
		}
	}
	f := r.file
	f.People, err = people(func(p *task.People) error {
		last := -1
		if p.N > 0 {
			last = p.Rows[p.N-1]
		}
		batch, err := q.to(p, last)
		if err != nil {
			return fmt.Errorf("promises %s: %w", r.path, err)
		}
		batch.Made = len(batch.Promises)
		f.Made, f.moved = f.Made+batch.Made, f.moved+batch.moved
		return each(batch)
	})
	if err != nil {
		return nil, err
	}
	if _, err := q.to(&task.People{}, math.MaxInt); err != nil { // the rest are to people who did not come
		return nil, fmt.Errorf("promises %s: %w", r.path, err)
	}
	if f.moved > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d promises were made from other lines of the data than their rows are on "+
			"now; are these the data that they were made from?", f.moved))
	}
	return f, nil
}

// queue holds promises until their people come. List i has those to the rows from i * rows, and the last list those
// beyond.
type queue struct {
	r      *fileReader
	rows   int
	ids    *extsort.Lists // promises of which only the ID is known, row being its idKey
	lists  *extsort.Lists
	next   int        // the list that is to be read next
	rest   []numbered // of the list before, to people who come later; by row
	record []byte     // scratch
}

// several stands for the people with one ID.
const several = -1

// newQueue holds up to limit bytes in memory, and as many while it looks for IDs.
func newQueue(rows, limit int) *queue {
	return &queue{rows: rows, ids: extsort.New(idParts, limit), lists: extsort.New(queueLists, limit)}
}

const (
	queueRows  = 8192
	queueLists = 1 << 16 // for 500 million rows
	queueLimit = extsort.Limit / 2
	idParts    = 256 // what is known of the IDs of one part is in memory
)

func (q *queue) listOf(row int) int { return min(row/q.rows, queueLists-1) }

// idKey stands for an ID, as a row number stands for a person.
func idKey(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.LittleEndian.Uint64(sum[:]) >> 1)
}

// join finds the people whose IDs the promises name, and puts the promises into the lists of their rows.
func (q *queue) join(people Batches) (err error) {
	keys := extsort.New(idParts, queueLimit) // and rows
	defer func() { err = cmp.Or(err, keys.Close()) }()
	if _, err := people(func(p *task.People) error {
		var b []byte
		for i, id := range p.IDs {
			key := idKey(id)
			b = binary.LittleEndian.AppendUint64(b[:0], uint64(key))
			b = binary.LittleEndian.AppendUint64(b, uint64(p.Rows[i]))
			if err := keys.Append(key%idParts, b); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var unclear []task.Problem
	for part := range idParts {
		if unclear, err = q.joinPart(keys, part, unclear); err != nil {
			return fmt.Errorf("promises %s: %w", q.r.path, err)
		}
	}
	f := q.r.file
	unclear = firstLines(unclear)
	f.Problems = append(f.Problems, unclear[:min(len(unclear), maxListed-len(f.Problems))]...)
	return nil
}

func (q *queue) joinPart(keys *extsort.Lists, part int, unclear []task.Problem) ([]task.Problem, error) {
	known := make([]int64, keys.Size(part)/8)
	if err := binary.Read(keys.Reader(part), binary.LittleEndian, known); err != nil {
		return nil, fmt.Errorf("%w: %w", extsort.ErrFile, err)
	}
	rowOf := make(map[int]int, len(known)/2)
	for pair := range slices.Chunk(known, 2) {
		key, row := int(pair[0]), int(pair[1])
		if _, twice := rowOf[key]; twice {
			row = several
		}
		rowOf[key] = row
	}
	promises, err := q.read(q.ids, part)
	if err != nil {
		return nil, err
	}
	for i := range promises {
		n := &promises[i]
		switch row, ok := rowOf[n.row]; {
		case !ok:
			q.r.lost(n.Line, "no person of the data has this ID")
		case row == several:
			q.r.file.Failed++
			unclear = addFirst(unclear, task.Problem{
				Line: n.Line, Column: q.r.keyName,
				Reason: "several rows of the data have this ID; a column row would say which one is meant",
			})
		default:
			n.row = row
			if err := q.lists.Append(q.listOf(row), q.encode(n)); err != nil {
				return nil, err
			}
		}
	}
	return unclear, nil
}

// fill reads the promises file.
func (q *queue) fill(ctx context.Context) error {
	r := q.r
	if err := r.findOwner(ctx); err != nil {
		return err
	}
	total, err := task.Stream(ctx, r.path, r.task, r.options(), queueRows, func(p *task.People) error {
		r.People = p
		for i := range p.N {
			if err := q.put(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f := r.file
	found := f.Problems // behind those that could not be read at all
	f.Rows, f.Problems, f.Failed = total.Total, total.Problems, f.Failed+total.Failed
	f.Problems = append(f.Problems, found[:min(len(found), maxListed-len(f.Problems))]...)
	return nil
}

// put adds row i to the list of its person, if it is a promise.
func (q *queue) put(i int) error {
	r := q.r
	n, column, err := r.numbered(i)
	switch {
	case err != nil:
		r.problem(i, column, "%v", err)
		return nil
	case n.status != recourse.Found:
		r.file.Unpromised[n.status]++
		return nil
	case r.byID:
		n.row = idKey(r.IDs[i])
		return q.ids.Append(n.row%idParts, q.encode(&n))
	}
	return q.lists.Append(q.listOf(n.row), q.encode(&n))
}

// findOwner reads as much of the file as tells whether this program wrote it, so that a column status holds its words:
// the first rows, nearly always.
func (r *fileReader) findOwner(ctx context.Context) error {
	if !r.has(colStatus) {
		return nil
	}
	known := errors.New("known")
	_, err := task.Stream(ctx, r.path, r.task, r.options(), 16, func(p *task.People) error {
		r.People = p
		for i := range p.N {
			if _, err := r.status(i); err == nil {
				r.own = true
				return known
			}
		}
		return nil
	})
	if r.own {
		return nil
	}
	return err
}

type queuedRow struct {
	Row, Line, From      int64
	Cost, Margin, Before float64
}

// encode writes a promise as a record, which is valid until the next one.
func (q *queue) encode(n *numbered) []byte {
	head := queuedRow{int64(n.row), int64(n.Line), int64(n.from), n.Cost, n.Margin, n.Before}
	q.record = q.record[:0]
	for _, part := range []any{&head, n.Point} { // of a fixed size, so that nothing can fail
		q.record, _ = binary.Append(q.record, binary.LittleEndian, part)
	}
	return q.record
}

// read returns the promises of a list, by row and then by line.
func (q *queue) read(from *extsort.Lists, at int) (all []numbered, err error) {
	if from.Size(at) == 0 { // as most are
		return nil, nil
	}
	var head queuedRow
	dim := q.r.task.Dim()
	in := bufio.NewReaderSize(from.Reader(at), 1<<16)
	for range from.Size(at) / int64(binary.Size(head)+4*dim) {
		point := make([]float32, dim)
		if err := errors.Join(binary.Read(in, binary.LittleEndian, &head),
			binary.Read(in, binary.LittleEndian, point)); err != nil {
			return nil, fmt.Errorf("%w: %w", extsort.ErrFile, err)
		}
		all = append(all, numbered{
			Promise: Promise{Line: int(head.Line), Point: point, Cost: head.Cost, Margin: head.Margin, Before: head.Before},
			row:     int(head.Row), from: int(head.From),
		})
	}
	slices.SortStableFunc(all, func(a, b numbered) int { return cmp.Compare(a.row, b.row) })
	return all, nil
}

// to takes the promises to the rows up to the last one. Those that are not to any of p are lost.
func (q *queue) to(p *task.People, last int) (*File, error) {
	f := &File{People: p}
	for {
		k := 0
		for ; k < len(q.rest) && q.rest[k].row <= last; k++ {
			n := &q.rest[k]
			var ok bool
			if n.Person, ok = slices.BinarySearch(p.Rows, n.row); !ok {
				q.r.lost(n.Line, "no person of the data has the row number %d", n.row)
				continue
			}
			if n.from != noLine && n.from != p.Lines[n.Person] {
				f.moved++
			}
			f.Promises = append(f.Promises, n.Promise)
		}
		if q.rest = q.rest[k:]; len(q.rest) > 0 || q.next > q.listOf(last) {
			break
		}
		var err error
		if q.rest, err = q.read(q.lists, q.next); err != nil {
			return nil, err
		}
		q.next++
	}
	slices.SortStableFunc(f.Promises, func(a, b Promise) int { return cmp.Compare(a.Line, b.Line) })
	return f, nil
}

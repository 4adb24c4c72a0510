package promise

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"cfq/internal/extsort"
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

func stream(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error, q *queue) (*File,
	error,
) {
	r, err := newReader(path, t, nil)
	if err != nil {
		return nil, err
	}
	if people == nil || r.has(colRole) {
		return atOnce(ctx, path, t, people, each)
	}
	return r.stream(ctx, path, people, each, q)
}

// stream is Stream of a file without factual rows. It closes the queue.
func (r *fileReader) stream(ctx context.Context, path string, people Batches, each func(*File) error, q *queue) (
	_ *File, err error,
) {
	defer func() { err = cmp.Or(err, q.lists.Close()) }()
	q.r, q.lost, q.unclear = r, firstLines{column: r.keyName, why: r.notThere}, r.unclear()
	if r.byID {
		err = q.fillByID(ctx, path, people)
	} else {
		err = q.fill(ctx, path, q.put)
	}
	if err != nil {
		return nil, err
	}
	f := r.file
	f.People, err = people(func(p *task.People) error {
		batch, err := q.to(p)
		if err != nil {
			return fmt.Errorf("promises %s: %w", path, err)
		}
		batch.Made = len(batch.Promises)
		f.Made, f.moved = f.Made+batch.Made, f.moved+batch.moved
		return each(batch)
	})
	if err != nil {
		return nil, err
	}
	if err := q.loseRest(); err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	f.Lost, f.Problems = q.lost.list(nil), q.unclear.list(f.Problems)
	f.noteMoved()
	return f, nil
}

func atOnce(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error) (*File, error) {
	var all, total *task.People
	if people != nil {
		all = &task.People{}
		var err error
		if total, err = people(func(p *task.People) error { all.Append(p); return nil }); err != nil {
			return nil, err
		}
	}
	f, err := Read(ctx, path, t, all)
	if err != nil {
		return nil, err
	}
	if err := each(f); err != nil {
		return nil, err
	}
	end := *f
	end.Promises = nil
	if total != nil {
		end.People = total
	}
	return &end, nil
}

// queue holds promises until their people come. List i has those to the rows from i * rows, and the last list those
// beyond.
type queue struct {
	r      *fileReader
	rows   int
	lists  *extsort.Lists
	next   int        // the list that is to be read next
	rest   []numbered // of the list before, to people who come later; by row
	record []byte     // scratch

	lost    firstLines
	unclear firstLines // to an ID of several rows
}

func newQueue(rows, limit int) *queue {
	return &queue{rows: rows, lists: extsort.New(queueLists, limit)}
}

const (
	queueRows  = 8192
	queueLists = 1 << 16 // for 500 million rows
	queueLimit = extsort.Limit / 2
)

func (q *queue) listOf(row int) int { return min(row/q.rows, queueLists-1) }

func (q *queue) put(n *numbered) error { return q.lists.Append(q.listOf(n.row), q.encode(n)) }

func (q *queue) fill(ctx context.Context, path string, put func(*numbered) error) error {
	r := q.r
	if err := r.findOwner(ctx, path); err != nil {
		return fmt.Errorf("promises: %w", err)
	}
	total, err := task.Stream(ctx, path, r.task, r.options(), queueRows, func(p *task.People) error {
		r.People = p
		for i := range p.N {
			if n, ok := r.numbered(i); ok {
				if err := put(&n); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("promises: %w", err)
	}
	f := r.file
	found := f.Problems // behind those that could not be read at all, as in Read
	f.Rows, f.Problems, f.Failed = total.Total, total.Problems, f.Failed+total.Failed
	f.Problems = append(f.Problems, found[:min(len(found), maxListed-len(f.Problems))]...)
	return nil
}

// idParts is how many parts IDs are divided into: what is known of one part is in memory.
const idParts = 256

func (q *queue) fillByID(ctx context.Context, path string, people Batches) (err error) {
	promises, rows := extsort.New(idParts, queueLimit), extsort.New(idParts, queueLimit)
	defer func() { err = cmp.Or(err, promises.Close(), rows.Close()) }()
	if err := q.fill(ctx, path, func(n *numbered) error {
		return promises.Append(n.row%idParts, q.encode(n))
	}); err != nil {
		return err
	}
	if _, err := people(func(p *task.People) error {
		var b [16]byte
		for i, id := range p.IDs {
			key := idKey(id)
			binary.LittleEndian.PutUint64(b[:], uint64(key))
			binary.LittleEndian.PutUint64(b[8:], uint64(p.Rows[i]))
			if err := rows.Append(key%idParts, b[:]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for part := range idParts {
		if err := q.join(promises, rows, part); err != nil {
			return fmt.Errorf("promises %s: %w", path, err)
		}
	}
	return nil
}

func (q *queue) join(promises, rows *extsort.Lists, part int) error {
	at := map[int]int{}
	in := bufio.NewReader(rows.Reader(part))
	for range rows.Size(part) / 16 {
		var b [16]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return fmt.Errorf("%w: %w", extsort.ErrFile, err)
		}
		addID(at, int(binary.LittleEndian.Uint64(b[:])), int(binary.LittleEndian.Uint64(b[8:])))
	}
	all, err := q.read(promises, part)
	if err != nil {
		return err
	}
	for i := range all {
		n := &all[i]
		switch row, known := at[n.row]; {
		case !known:
			q.lose(n)
		case row == several:
			q.r.file.Failed++
			q.unclear.add(n.Line, row)
		default:
			n.row = row
			if err := q.put(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// findOwner reads as much of the file as tells whether this program wrote it: the first rows, nearly always.
func (r *fileReader) findOwner(ctx context.Context, path string) error {
	if !r.has(colStatus) {
		return nil
	}
	known := errors.New("known")
	_, err := task.Stream(ctx, path, r.task, r.options(), 16, func(p *task.People) error {
		if r.People = p; r.findOwn() {
			return known
		}
		return nil
	})
	if errors.Is(err, known) {
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

func (q *queue) read(from *extsort.Lists, at int) ([]numbered, error) {
	if from.Size(at) == 0 { // as most are
		return nil, nil
	}
	var all []numbered
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

func (q *queue) to(p *task.People) (*File, error) {
	f := &File{People: p}
	if p.N == 0 {
		return f, nil
	}
	last := p.Rows[p.N-1]
	for {
		k := 0
		for ; k < len(q.rest) && q.rest[k].row <= last; k++ {
			n := &q.rest[k]
			if person, ok := slices.BinarySearch(p.Rows, n.row); ok {
				f.add(n, person)
			} else {
				q.lose(n)
			}
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

func (q *queue) loseRest() (err error) {
	for {
		for i := range q.rest {
			q.lose(&q.rest[i])
		}
		if q.next == queueLists {
			return nil
		}
		if q.rest, err = q.read(q.lists, q.next); err != nil {
			return err
		}
		q.next++
	}
}

func (q *queue) lose(n *numbered) {
	q.r.file.Missing++
	q.lost.add(n.Line, n.row)
}

// firstLines keeps the promises on the lowest lines, maxListed of them at least, that are of no use for one reason.
type firstLines struct {
	why    func(row int) string
	column string
	lines  [][2]int // line and row
}

func (l *firstLines) add(line, row int) {
	if l.lines = append(l.lines, [2]int{line, row}); len(l.lines) == 4*maxListed {
		l.cut()
	}
}

func (l *firstLines) cut() {
	slices.SortFunc(l.lines, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	l.lines = l.lines[:min(len(l.lines), maxListed)]
}

func (l *firstLines) list(all []task.Problem) []task.Problem {
	l.cut()
	for _, at := range l.lines {
		all = list(all, at[0], l.column, "%s", l.why(at[1]))
	}
	return all
}

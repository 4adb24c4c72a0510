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

func inMemory(people *task.People) Batches {
	return func(each func(*task.People) error) (*task.People, error) { return people, each(people) }
}

// Stream is Read for files of any length: each is given the batches of people, and to each batch the promises to these
// people, in the order of the file. The returned File has the counts, problems and notes of Read and no promises; its
// People are those that the batches returned. The rows of the promises file may stand in any order. Memory is bounded
// by a batch and the promises to its people: the others wait in a temporary file.
//
// The people of a file with a column role and without people (nil) are in memory and one batch. People are asked for
// twice when the file says by IDs whose its promises are. Errors of people and of each are returned as they are.
func Stream(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error) (*File, error) {
	return stream(ctx, path, t, people, each, newQueue(queueRows, queueLimit))
}

// stream is Stream with a queue, which it closes.
func stream(ctx context.Context, path string, t *task.Task, people Batches, each func(*File) error, q *queue) (
	_ *File, err error,
) {
	defer func() { err = cmp.Or(err, q.lists.Close(), q.ids.Close()) }()
	r, err := newReader(path, t, people == nil)
	switch {
	case err != nil || people != nil:
	case r.has(colRole):
		people, err = r.ownPeople(ctx)
	default:
		err = fmt.Errorf("promises %s: the file does not say what its people are like: give the data that its rows are "+
			"numbered by, or factual rows marked in a column role", path)
	}
	if err != nil {
		return nil, err
	}
	q.r = r
	if err := q.fill(ctx); err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	if r.byID {
		if err := q.join(people); err != nil {
			return nil, err
		}
	}
	f, moved := r.file, 0
	f.People, err = people(func(p *task.People) error {
		last := -1
		if p.N > 0 {
			last = p.Rows[p.N-1]
		}
		batch, n, err := q.to(p, last)
		if err != nil {
			return fmt.Errorf("promises %s: %w", r.path, err)
		}
		batch.Made = len(batch.Promises)
		f.Made, moved = f.Made+batch.Made, moved+n
		return each(batch)
	})
	if err != nil {
		return nil, err
	}
	if _, _, err := q.to(&task.People{}, math.MaxInt); err != nil { // the rest are to people who did not come
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	if moved > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d promises were made from other lines of the data than their rows are on "+
			"now; are these the data that they were made from?", moved))
	}
	for _, list := range [][]task.Problem{f.Problems, f.Lost} {
		slices.SortStableFunc(list, func(a, b task.Problem) int { return a.Line - b.Line })
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
	other  int64      // the row of a person whose factual row has other values
	rest   []numbered // of the list before, to people who come later; by row
	record []byte     // scratch
}

// several stands for the people with one ID.
const several = -1

// newQueue holds up to limit bytes in memory, and as many while it looks for IDs.
func newQueue(rows, limit int) *queue {
	return &queue{rows: rows, other: noLine, ids: extsort.New(idParts, limit), lists: extsort.New(queueLists, limit)}
}

const (
	queueRows  = 8192
	queueLists = 1 << 16 // for 500 million rows
	queueLimit = extsort.Limit / 2
	idParts    = 256 // what is known of the IDs of one part is in memory
)

func (q *queue) listOf(row int64) int { return int(min(row/int64(q.rows), queueLists-1)) }

// idKey stands for an ID, as a row number stands for a person.
func idKey(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return int64(binary.LittleEndian.Uint64(sum[:]) >> 1)
}

// join finds the people whose IDs the promises name, and puts the promises into the lists of their rows.
func (q *queue) join(people Batches) (err error) {
	keys := extsort.NewRows(idParts, 2, queueLimit) // and rows
	defer func() { err = cmp.Or(err, keys.Close()) }()
	if _, err := people(func(p *task.People) error {
		for i, id := range p.IDs {
			if err := keys.Add(uint64(idKey(id)), uint64(p.Rows[i])); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	part := 0
	for known, err := range keys.Sorted() {
		if err == nil {
			err = q.joinPart(known, part)
		}
		if err != nil {
			return fmt.Errorf("promises %s: %w", q.r.path, err)
		}
		part++
	}
	return nil
}

func (q *queue) joinPart(known [][]uint64, part int) error {
	rowOf := make(map[int64]int64, len(known))
	for _, pair := range known {
		key, row := int64(pair[0]), int64(pair[1])
		if _, twice := rowOf[key]; twice {
			row = several
		}
		rowOf[key] = row
	}
	promises, err := q.read(q.ids, part)
	if err != nil {
		return err
	}
	for i := range promises {
		n := &promises[i]
		switch row, ok := rowOf[n.Row]; {
		case !ok && n.From == factualRow:
			q.r.problem(int(n.Line), q.r.keyName, "no person of the data has this ID")
		case !ok:
			q.r.lost(int(n.Line), "no person of the data has this ID")
		case row == several:
			q.r.problem(int(n.Line), q.r.keyName, "several rows of the data have this ID; a column row would say which one "+
				"is meant")
		default:
			n.Row = row
			if err := q.lists.Append(q.listOf(row), q.encode(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *queue) fill(ctx context.Context) error {
	r := q.r
	total, err := task.Stream(ctx, r.path, r.task, r.options(), queueRows, func(p *task.People) error {
		r.People = p
		known := func(i int) bool { _, err := r.status(i); return err == nil }
		r.own = r.own || !r.alone && r.has(colStatus) && slices.ContainsFunc(task.AllRows(p.N), known)
		facts := slices.DeleteFunc(task.AllRows(p.N), func(i int) bool {
			fact, err := r.isFactual(i)
			return err != nil || !fact
		})
		if len(facts) > 0 { // codes of people are not what the file says
			if err := r.task.Recode(ctx, p, facts); err != nil {
				return err
			}
		}
		for i := range p.N {
			if err := q.put(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f := r.file
		f.Rows, f.Failed = total.Total, f.Failed+total.Failed
		f.Problems = append(total.Problems, f.Problems...)
	}
	return err
}

// put adds row i to the list of its person, if it is a promise or says what they are like.
func (q *queue) put(i int) error {
	r := q.r
	n, column, err := r.numbered(i)
	switch {
	case err != nil:
		r.problem(r.Lines[i], column, "%v", err)
		return nil
	case n.status != recourse.Found:
		r.file.Unpromised[n.status]++
		return nil
	case r.known != nil && !r.known[r.IDs[i]]:
		r.lost(r.Lines[i], "there is no factual row with %s %q", r.keyName, r.IDs[i])
		return nil
	case r.byID:
		return q.ids.Append(int(n.Row%idParts), q.encode(&n))
	}
	return q.lists.Append(q.listOf(n.Row), q.encode(&n))
}

// encode writes a promise as a record, which is valid until the next one.
func (q *queue) encode(n *numbered) []byte {
	q.record = q.record[:0]
	for _, part := range []any{&n.queuedRow, n.point} { // of a fixed size, so that nothing can fail
		q.record, _ = binary.Append(q.record, binary.LittleEndian, part)
	}
	return q.record
}

// read returns the rows of a list by person, factual ones first, and then by line.
func (q *queue) read(from *extsort.Lists, at int) (all []numbered, err error) {
	if from.Size(at) == 0 { // as most are
		return nil, nil
	}
	dim := q.r.task.Dim()
	in := bufio.NewReaderSize(from.Reader(at), 1<<16)
	for range from.Size(at) / int64(binary.Size(queuedRow{})+4*dim) {
		n := numbered{point: make([]float32, dim)}
		if err := errors.Join(binary.Read(in, binary.LittleEndian, &n.queuedRow),
			binary.Read(in, binary.LittleEndian, n.point)); err != nil {
			return nil, fmt.Errorf("%w: %w", extsort.ErrFile, err)
		}
		all = append(all, n)
	}
	slices.SortStableFunc(all, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(min(a.From, noLine), min(b.From, noLine)))
	})
	return all, nil
}

// to takes the promises to the rows up to the last one, and says how many were made from other lines than these are on.
// Those that are not to any of p are lost.
func (q *queue) to(p *task.People, last int) (f *File, moved int, err error) {
	f = &File{People: p}
	for {
		k := 0
		for ; k < len(q.rest) && q.rest[k].Row <= int64(last); k++ {
			n := &q.rest[k]
			person := q.match(p, n)
			if person < 0 {
				continue
			}
			if line := p.Line(person); n.From > 0 && line > 0 && n.From != int64(line) { // Parquet has no lines
				moved++
			}
			f.Promises = append(f.Promises, Promise{person, int(n.Line), n.point, n.Cost, n.Margin, n.Before})
		}
		if q.rest = q.rest[k:]; len(q.rest) > 0 || q.next > q.listOf(int64(last)) {
			break
		}
		if q.rest, err = q.read(q.lists, q.next); err != nil {
			return nil, 0, err
		}
		q.next++
	}
	slices.SortStableFunc(f.Promises, func(a, b Promise) int { return cmp.Compare(a.Line, b.Line) })
	return f, moved, nil
}

// match returns whose promise a row is; -1 where it is none, or to nobody of p.
func (q *queue) match(p *task.People, n *numbered) int {
	r, line := q.r, int(n.Line)
	person, ok := slices.BinarySearch(p.Rows, int(n.Row))
	switch {
	case n.From != factualRow && !ok:
		r.lost(line, "no person of the data has the row number %d", n.Row)
	case n.From != factualRow && n.Row == q.other:
		r.lost(line, "the person of row %d of the data is not the one who is meant, see their factual row", n.Row)
	case n.From != factualRow:
		return person
	case !ok:
		r.problem(line, r.keyName, "no person of the data has the row number %d", n.Row)
	case !slices.Equal(n.point, row(p, person)) && r.alone:
		r.problem(line, r.keyName, "line %d is another factual row of the same person, with other values; it counts",
			p.Lines[person])
	case !slices.Equal(n.point, row(p, person)):
		q.other = n.Row
		r.problem(line, r.keyName, "row %d of the data (line %d) has other values than this factual row", n.Row,
			p.Lines[person])
	default:
		r.file.Factual++
	}
	return -1
}

// Package rowio reads people from a stream of rows and writes rows to another: the layer of a command that stands
// between two others in a pipe.
//
// In: rows as CSV or tab-delimited text, and a task. Out: batches of people (see [Reader.Each]), and rows of cells in
// the same format (see [Writer]).
//
// The invariant: every row that is read is accounted for, in order, as a person, as filtered or with the problem why it
// cannot be read. Batches are bounded, and what has arrived is handed on when nothing more arrives. What is written
// ends with a whole row, whenever it ends.
package rowio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

// Limits of a batch.
const (
	maxRows  = 8192
	maxBytes = 16 << 20 // of fields
)

type streamRecord struct {
	fields  []string
	kept    []any
	line    int
	problem *task.Problem
}

// Reader reads the rows of a stream as people.
type Reader struct {
	record  func() (streamRecord, error)
	null    string        // the field that is null, besides ""
	columns []string      // nil when the stream ended before it named any
	decoder *task.Decoder // nil then
	kept    []string      // names of columns
	at      []int         // where they are in a record
}

// Open reads the head of a stream. A stream without any byte has no rows, and is no error.
func Open(r io.Reader, t *task.Task, o Options) (_ *Reader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stream of rows (%s): %w", o.Format, err)
		}
	}()
	in, err := open(r, t, o)
	if err != nil {
		return nil, err
	}
	if in.columns != nil {
		if in.decoder, err = t.Decoder(in.columns, o.Hash); err != nil {
			return nil, err
		}
	}
	for _, name := range append([]string{t.Data.ID}, o.Keep...) {
		if name == "" || slices.Contains(in.kept, name) {
			continue
		}
		i := slices.Index(in.columns, name)
		if i < 0 && in.columns != nil {
			return nil, fmt.Errorf("there is no column %s to keep; the columns are %s", message.Quote(name),
				message.List(in.columns, 100))
		}
		in.kept, in.at = append(in.kept, name), append(in.at, i)
	}
	return in, nil
}

// Fields reads the rows of a stream with a header as texts, for those who know its columns: their names, and a
// function that returns the next row, which is valid until the next call, and at the end io.EOF. A stream without any
// byte has no names.
func Fields(r io.Reader, f Format) (names []string, next func() ([]string, error), err error) {
	in, err := open(r, &task.Task{}, Options{Format: f})
	if err != nil {
		return nil, nil, fmt.Errorf("stream of rows (%s): %w", f, err)
	}
	return in.columns, func() ([]string, error) {
		rec, err := in.next()
		if err == nil && rec.problem != nil {
			err = rec.problem
		}
		return rec.fields, err
	}, nil
}

// Kept returns the names of the columns that are handed on: Data.ID of the task, and Options.Keep.
func (r *Reader) Kept() []string { return r.kept }

// Like returns people of the stream, but none of them: with their attributes and other columns.
func (r *Reader) Like() *task.People {
	if r.decoder == nil {
		return &task.People{}
	}
	return r.decoder.Like()
}

// Each calls do with the rows, in order and in batches: as many as have arrived, up to 8192. An error of do ends the
// reading and is returned as it is. What was read before an error of the stream is handed on before that is returned.
func (r *Reader) Each(ctx context.Context, do func(*Batch) error) (n Counts, err error) {
	if r.decoder == nil {
		return n, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records := make(chan streamRecord)
	failed := make(chan error, 1)
	go func() {
		defer close(records)
		failed <- r.read(ctx, records)
	}()
	batches := make(chan []streamRecord)
	go func() {
		defer close(batches)
		gather(ctx, records, batches)
	}()
	for records := range batches {
		b, err := r.batch(records)
		if err != nil {
			return n, err
		}
		n.Rows += len(b.Rows)
		for i := range b.Rows {
			if b.Rows[i].Problem != nil {
				n.Unreadable++
			}
		}
		if err := do(b); err != nil {
			return n, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return n, err
	}
	return n, <-failed
}

func (r *Reader) read(ctx context.Context, to chan<- streamRecord) error {
	for {
		rec, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("stream of rows: %w", err)
		}
		select {
		case to <- rec:
		case <-ctx.Done():
			return nil
		}
	}
}

// gather makes batches of records: while the taker is busy a batch grows up to the limits.
func gather(ctx context.Context, from <-chan streamRecord, to chan<- []streamRecord) {
	var batch []streamRecord
	size := 0
	for from != nil || len(batch) > 0 {
		in, out := from, to
		if len(batch) >= maxRows || size >= maxBytes {
			in = nil
		}
		if len(batch) == 0 {
			out = nil
		}
		select {
		case rec, more := <-in:
			if !more {
				from = nil
				continue
			}
			batch = append(batch, rec)
			for _, f := range rec.fields {
				size += len(f)
			}
		case out <- batch:
			batch, size = nil, 0
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reader) batch(records []streamRecord) (_ *Batch, err error) {
	b := &Batch{Rows: make([]Row, len(records))}
	n := 0
	for i := range records {
		rec, row := &records[i], &b.Rows[i]
		*row = Row{Kept: rec.kept, Person: -1, Problem: rec.problem}
		if row.Kept == nil {
			row.Kept = make([]any, len(r.kept))
		}
		if row.Problem != nil {
			continue
		}
		person, problem := r.decoder.Add(rec.fields, rec.line)
		if person {
			row.Person = n
			n++
		}
		row.Problem = problem
	}
	b.People, err = r.decoder.Take()
	return b, err
}

// open takes the names of the columns from the first row, unless o has them.
func open(r io.Reader, t *task.Task, o Options) (*Reader, error) {
	in := &Reader{columns: o.Columns}
	switch o.Format {
	case CSV:
		rows, err := (&task.Data{Delimiter: ',', Trim: t.Data.Trim}).TextRows(r)
		if err != nil {
			return nil, err
		}
		in.record = func() (streamRecord, error) { return readCSV(rows) }
	case TSV:
		in.null, in.record = null, tabbed(r, t.Data.Trim)
	default:
		return nil, fmt.Errorf("unknown format %q", o.Format)
	}
	if in.columns != nil {
		return in, nil
	}
	first, err := in.record()
	switch {
	case errors.Is(err, io.EOF):
		return in, nil // no row: there is nothing to name
	case err != nil:
		return nil, err
	case first.problem != nil:
		return nil, fmt.Errorf("the header: %w", first.problem)
	}
	in.columns = lists.Map(first.fields, strings.TrimSpace)
	in.columns[0] = strings.TrimPrefix(in.columns[0], "\ufeff") // a byte order mark
	return in, nil
}

// next returns a record that is not used again. The error of a row that is bad by itself is in the record.
func (r *Reader) next() (streamRecord, error) {
	rec, err := r.record()
	if err != nil || len(rec.fields) != len(r.columns) { // where which field is nobody knows
		return rec, err
	}
	for _, i := range r.at {
		if r.null != "" && rec.fields[i] == r.null {
			rec.kept = append(rec.kept, nil)
		} else {
			rec.kept = append(rec.kept, rec.fields[i])
		}
	}
	for i, f := range rec.fields {
		if f == r.null {
			rec.fields[i] = ""
		}
	}
	return rec, nil
}

func readCSV(rows *task.Rows) (rec streamRecord, err error) {
	fields, line, err := rows.Next()
	if errors.As(err, &rec.problem) {
		rec.line = rec.problem.Line
		return rec, nil
	}
	rec.fields, rec.line = append(rec.fields, fields...), line
	return rec, err
}

// null is how a tab-delimited text writes what is missing.
const null = `\N`

const maxLine = 1 << 20

// tabbed reads lines whose fields have tabs between; there are no quotes, and every line is a row.
func tabbed(r io.Reader, trim bool) func() (streamRecord, error) {
	in := bufio.NewReaderSize(r, maxLine)
	line := 0
	return func() (streamRecord, error) {
		line++
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			if err == nil || errors.Is(err, io.EOF) {
				bad := &task.Problem{Line: line, Reason: "the row is longer than 1 MiB"}
				return streamRecord{line: line, problem: bad}, nil
			}
		}
		if err != nil && (len(text) == 0 || !errors.Is(err, io.EOF)) {
			return streamRecord{}, err
		}
		fields := strings.Split(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), "\t")
		if trim {
			for i, f := range fields {
				fields[i] = strings.Trim(f, " ")
			}
		}
		return streamRecord{fields: fields, line: line}, nil
	}
}

// Format is how rows are written.
type Format string

// The formats.
const (
	// CSV is text with commas as of RFC 4180, lines ending in \n; an empty field is null.
	CSV Format = "csv"
	// TSV is text with tabs, as Apache Hive and Spark exchange with scripts: without quotes, and \N is null.
	TSV Format = "tsv"
)

// Formats returns all formats.
func Formats() []Format { return []Format{CSV, TSV} }

// Options say how a stream is read.
type Options struct {
	Format Format
	// Columns are the names of the columns of rows without a header; nil when the first row names them.
	Columns []string
	// Keep are columns whose fields are handed on as they came, besides the column Data.ID of the task.
	Keep []string
	Hash bool // fill People.Content and Others, see task.ReadOptions
}

// Row is a row of a stream: a person, or filtered, or unreadable.
type Row struct {
	Kept    []any         // cells of the columns of [Reader.Kept]; nil where the row could not be told into fields
	Person  int           // position among the people of the batch; -1 when the row is none of them
	Problem *task.Problem // why the row cannot be read; nil for a person and for a row that data.filter leaves out
}

// Batch is some rows of a stream, one after the other.
type Batch struct {
	Rows   []Row
	People *task.People // those of the rows who could be read; People.Rows count those of the stream
}

// Counts are the rows of a stream.
type Counts struct{ Rows, Unreadable int }

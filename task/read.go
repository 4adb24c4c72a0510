package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxProblems is how many problems are kept in detail; the others are counted.
const maxProblems = 1000

// maxGroups bounds the values of a Data.Subgroups column: more of them are no groups.
const maxGroups = 1000

// Read reads the people of a data file: delimited text of raw columns or of model inputs (a header that names the model's inputs, or
// Task.Encoded). It may be compressed with gzip, which is recognised by content.
//
// A row that cannot be used is a Problem, not an error: a wrong number of fields, a number that is none, a missing number or binary value,
// an unknown category. A missing category is no problem but an all-zero one-hot group. It is an error when no row at all can be used.
func Read(ctx context.Context, path string, t *Task, o ReadOptions) (*People, error) {
	return FromFile(path, func(r io.Reader) (*People, error) { return ReadFrom(ctx, r, t, o) })
}

// ReadFrom is Read for a stream.
func ReadFrom(ctx context.Context, r io.Reader, t *Task, o ReadOptions) (*People, error) {
	return newReader(ctx, t, o).read(r)
}

func newReader(ctx context.Context, t *Task, o ReadOptions) *reader {
	return &reader{ctx: ctx, task: t, people: &People{Dim: t.Dim()}, pick: NewSelection(o), sampler: newSampler(o), texts: o.Keep, hash: newRecordHash(o)}
}

// read reads all of r.
func (rd *reader) read(r io.Reader) (*People, error) {
	rows, err := rd.task.Data.rows(r)
	if err != nil {
		return nil, err
	}
	if err = rd.table(rows); err == nil {
		err = rd.flush(true)
	}
	if err != nil {
		return nil, err
	}
	return rd.finish()
}

// reader turns records into people.
type reader struct {
	ctx      context.Context //nolint:containedctx // lives as long as one call of Read
	task     *Task
	people   *People
	pick     *Selection
	sampler  *sampler // nil when everybody is kept
	cols     *columns
	lookup   []map[string]int // per feature: value -> input, for OneHot
	favour   int              // people with the favourable label
	others   others           // what the other people's labels are
	rowsOnly bool             // the file has rows and no lines
	hint     string           // the likely delimiter when it is not the task's, for errors
	known    int              // people with a label
	texts    []string         // columns to be kept as text
	kept     []int            // where they are, -1 when the file has none
	hash     *recordHash      // nil when nobody asks for it
	batch    *batch           // nil when all people are wanted at once
}

// table reads delimited text.
func (rd *reader) table(rows *Rows) error {
	var bad *Problem
	first, line, data, err := rd.open(rows)
	if err != nil {
		if rd.hint != "" {
			err = fmt.Errorf("%s\n%w", rd.hint, err)
		}
		return err
	}
	for n := 0; ; n++ {
		if !data {
			if n%1024 == 0 && rd.ctx.Err() != nil {
				return context.Cause(rd.ctx)
			}
			first, line, err = rows.Next()
		}
		data = false
		switch {
		case errors.Is(err, io.EOF):
			return rd.pick.End()
		case errors.As(err, &bad):
			if rd.take() {
				rd.problem(bad)
			}
		case err != nil:
			return err
		default:
			rd.row(first, line)
			if err := rd.flush(false); err != nil {
				return err
			}
		}
		if rd.pick.full() {
			return nil
		}
	}
}

// open finds the columns of the file. The first record is returned when it is data.
func (rd *reader) open(rows *Rows) (first []string, line int, data bool, err error) {
	var cols *columns
	if p := rows.parquet; p != nil {
		rd.rowsOnly = true
		if cols, err = rd.task.resolve(p.names, p.unreadable); err != nil {
			return nil, 0, false, err
		}
	} else {
		rd.hint = otherDelimiter(rows.text.head, rd.task.Data.Delimiter)
		var bad *Problem
		switch first, line, err = rows.Next(); {
		case errors.Is(err, io.EOF):
			return nil, 0, false, errors.New("the file is empty")
		case errors.As(err, &bad):
			return nil, 0, false, fmt.Errorf("the first row: %w", err)
		case err != nil:
			return nil, 0, false, err
		}
		if cols, data, err = rd.task.header(first); err != nil {
			return nil, 0, false, err
		}
	}
	cols.header = !data
	rd.setColumns(cols)
	return first, line, data, nil
}

// setColumns prepares the encoding of records.
func (rd *reader) setColumns(cols *columns) {
	t := rd.task
	rd.cols = cols
	rd.hash.by(cols.names)
	for _, name := range rd.texts {
		rd.kept = append(rd.kept, slices.Index(cols.names, name))
	}
	for i := range t.Features {
		m := map[string]int{}
		for j, v := range t.Features[i].Values {
			m[v] = j
		}
		rd.lookup = append(rd.lookup, m)
	}
	for _, name := range t.Data.Subgroups {
		if !cols.encoded {
			rd.people.Subgroups = append(rd.people.Subgroups, Subgroup{Feature: name})
		}
	}
	if cols.encoded && !t.Encoded {
		rd.note("the header names the model's inputs: the rows are taken as encoded already")
	}
	if cols.encoded && len(t.Data.Subgroups) > 0 {
		rd.note("encoded data has no results by " + strings.Join(t.Data.Subgroups, ", "))
	}
	switch {
	case cols.label < 0 && t.Data.Label != "" && cols.header:
		rd.warn(fmt.Sprintf("the file has no column %q, which data.label names: outcomes are not known%s", t.Data.Label, suggest(t.Data.Label, cols.unused())))
	case cols.label < 0 && t.Data.Label != "":
		rd.note(fmt.Sprintf("the file has no column %q: outcomes are not known", t.Data.Label))
	case cols.label < 0:
		rd.note("the task names no label column: outcomes are not known")
	}
}

func (rd *reader) note(s string) { rd.people.Notes = append(rd.people.Notes, s) }

func (rd *reader) warn(s string) { rd.people.Warnings = append(rd.people.Warnings, s) }

// take counts a row that the filter kept and says whether it was selected.
func (rd *reader) take() bool {
	rd.people.Total++
	if !rd.pick.Next() {
		rd.people.Excluded++
		return false
	}
	return true
}

func (rd *reader) problem(p *Problem) {
	p.Row = rd.rowsOnly
	rd.people.Failed++
	if len(rd.people.Problems) < maxProblems {
		rd.people.Problems = append(rd.people.Problems, *p)
	}
}

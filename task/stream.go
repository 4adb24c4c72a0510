package task

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Stream is Read for files of any length: each is given the people in batches of size (the last may be smaller), in the order of the file,
// and keeps the batch it is given. Memory is bounded by the batch.
//
// Row numbers, filters, problems, notes and warnings are those of Read. Codes of Data.Subgroups columns mean the same in all batches, but their
// values stand in the order in which they first occur. The returned People have the counts, problems, notes and warnings of the whole file, and
// nobody in person: X and all that is listed per person is nil. An error of each ends the reading and is returned as it is.
// With ReadOptions.Most the people drawn are handed on at the end of the file, and memory is bounded by their number.
func Stream(ctx context.Context, path string, t *Task, o ReadOptions, size int, each func(*People) error) (*People, error) {
	if o.Most > 0 {
		return drawn(ctx, path, t, o, max(size, 1), each)
	}
	rd := newReader(ctx, t, o)
	rd.batch = &batch{size: max(size, 1), each: each}
	p, err := FromFile(path, rd.read)
	if rd.batch.err != nil {
		return nil, rd.batch.err
	}
	return p, err
}

// drawn is Stream for a sample of the people.
func drawn(ctx context.Context, path string, t *Task, o ReadOptions, size int, each func(*People) error) (*People, error) {
	p, err := Read(ctx, path, t, o)
	if err != nil {
		return nil, err
	}
	for from := 0; from < p.N; from += size {
		var rows []int
		for i := from; i < min(from+size, p.N); i++ {
			rows = append(rows, i)
		}
		if err := each(p.Subset(rows)); err != nil {
			return nil, err
		}
	}
	p.X, p.Labels, p.Lines, p.Rows, p.Kept, p.Hashes, p.Subgroups = nil, nil, nil, nil, nil, nil, nil
	return p, nil
}

// batch is where people go while a file is being streamed.
type batch struct {
	size int
	each func(*People) error
	err  error // what each returned
}

// flush hands the people read so far on when they fill a batch, or when they are the last.
func (rd *reader) flush(last bool) error {
	b, p := rd.batch, rd.people
	if b == nil || len(p.Lines) == 0 || (!last && len(p.Lines) < b.size) {
		return nil
	}
	n := len(p.Lines)
	q := &People{X: p.X, Dim: p.Dim, N: n, Labels: p.Labels, Lines: p.Lines, Rows: p.Rows, Kept: p.Kept, Hashes: p.Hashes, Total: n}
	q.Subgroups = rd.task.subgroups(q)
	p.X, p.Labels, p.Lines, p.Rows, p.Kept, p.Hashes = nil, nil, nil, nil, nil, nil
	for i := range p.Subgroups {
		s := &p.Subgroups[i]
		q.Subgroups = append(q.Subgroups, Subgroup{Feature: s.Feature, Values: slices.Clip(s.Values), Codes: s.Codes})
		s.Codes = nil
	}
	b.err = b.each(q)
	return b.err
}

// Header returns the names of the columns of a delimited text file: its first row, without blanks around them. Data.Columns is not looked at.
func Header(path string, d *Data) ([]string, error) {
	return FromFile(path, func(r io.Reader) ([]string, error) {
		names, err := header(r, d)
		if err != nil {
			return nil, fmt.Errorf("the header: %w", err)
		}
		return names, nil
	})
}

func header(r io.Reader, d *Data) ([]string, error) {
	rows, err := d.rows(r)
	if err != nil {
		return nil, err
	}
	if rows.Names() != nil {
		return rows.Names(), nil
	}
	first, _, err := rows.Next()
	if err != nil {
		return nil, err
	}
	return slices.Clone(trimmed(first)), nil
}

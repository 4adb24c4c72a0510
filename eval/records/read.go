package records

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/extsort"
	"cfq/internal/message"
	"cfq/task"
	"cfq/task/rowio"
)

// Read reads the records of tables that were made of the same (see [Run]), whatever wrote the tables: other columns may
// be in them, in any order. The task says how many inputs a person has, and the attributes (see
// [eval.Records.Attributes]). see is called with every record before it is taken in, with Hash and Others as
// they stand there, and may change it; nil for nothing. The records are the caller's to close.
func Read(
	ctx context.Context, paths []string, t *task.Task, see func(*eval.Record),
) (_ *eval.Records, run *Run, file eval.DataFile, err error) {
	in := &reader{
		ctx: ctx, attributes: t.Attributes(), inputs: t.Dim(), see: see,
		overlap: rowOverlap{rows: extsort.NewRows(overlapShards, 4, extsort.Limit/8)},
	}
	defer func() {
		err = errors.Join(err, in.overlap.rows.Close())
		if err != nil && in.records != nil {
			err = errors.Join(err, in.records.Close())
		}
	}()
	for _, path := range paths {
		in.path = path
		if _, err := task.FromFile(path, func(r io.Reader) (bool, error) { return true, in.table(r) }); err != nil {
			return nil, nil, file, fmt.Errorf("records: %w", err)
		}
	}
	if in.records == nil {
		return nil, nil, file, fmt.Errorf("records: there are no rows in %s", message.List(paths, 3))
	}
	if err := in.overlap.check(); err != nil {
		return nil, nil, file, fmt.Errorf("records: %w", err)
	}
	in.file.LeftOut += in.file.Filtered
	in.file.Rows += in.file.Unreadable + in.file.LeftOut
	return in.records, in.run, in.file, nil
}

type reader struct {
	ctx        context.Context //nolint:containedctx // lives as long as one call of Read
	attributes []task.Subgroup
	inputs     int // of a person
	see        func(*eval.Record)
	path       string
	first      string // path of the first table with rows

	run     *Run
	text    string // of run, as the last row had it
	layout  eval.Layout
	records *eval.Records
	file    eval.DataFile // Rows are those judged, and LeftOut without Filtered, until all are read
	overlap rowOverlap
}

func (in *reader) table(r io.Reader) error {
	names, next, err := fieldsOf(r, in.path)
	if err != nil || names == nil { // a part without rows
		return err
	}
	place := map[string]int{}
	for i, name := range names {
		place[strings.Clone(name)] = i
	}
	for _, name := range []string{colRun, colOutcome, colCount} {
		if _, ok := place[name]; !ok {
			return fmt.Errorf("this is not a table of records: there is no column %q", name)
		}
	}
	in.overlap.tables = append(in.overlap.tables, in.path)
	var at []int // of the columns
	for n := 0; ; n++ {
		if n%1024 == 0 && in.ctx.Err() != nil {
			return context.Cause(in.ctx)
		}
		fields, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(fields) != len(names):
			return fmt.Errorf("row %d: %d fields where %d are expected", n+1, len(fields), len(names))
		}
		if err := in.of(fields[place[colRun]]); err != nil {
			return fmt.Errorf("row %d, column %q: %w", n+1, colRun, err)
		}
		if at == nil {
			if at, err = in.places(place); err != nil {
				return err
			}
		}
		if err := in.row(fields, place, at); err != nil {
			return fmt.Errorf("row %d, %w", n+1, err)
		}
	}
}

func fieldsOf(r io.Reader, path string) (names []string, next func() ([]string, error), err error) {
	if f, err := formatOf(path); err == nil && f == rowio.TSV {
		return rowio.Fields(r, f)
	}
	rows, err := task.NewRows(r, func([]byte) (*task.Data, error) { return &task.Data{Delimiter: ','}, nil })
	if err != nil {
		return nil, nil, err
	}
	next = func() ([]string, error) {
		fields, _, err := rows.Next()
		return fields, err
	}
	if names = rows.Names; names == nil {
		if names, err = next(); errors.Is(err, io.EOF) {
			return nil, next, nil
		}
		names = slices.Clone(names)
	}
	return names, next, err
}

func (in *reader) of(text string) error {
	if in.run != nil && text == in.text {
		return nil
	}
	run := &Run{}
	if err := json.Unmarshal([]byte(text), run); err != nil {
		return fmt.Errorf("it does not say what the record was made of: %w", err)
	}
	if run.Schema != schema {
		return fmt.Errorf("unsupported schema %q: want %q", run.Schema, schema)
	}
	if err := run.Settings.Check(); err != nil {
		return err
	}
	if in.run == nil {
		var attributes []task.Subgroup
		for _, name := range run.Attributes {
			i := slices.IndexFunc(in.attributes, func(s task.Subgroup) bool { return s.Feature == name })
			if i < 0 {
				return fmt.Errorf("the records tell people apart by %s, and the task does not", message.Quote(name))
			}
			attributes = append(attributes, task.Subgroup{Feature: name, Values: in.attributes[i].Values})
		}
		in.run, in.first, in.layout = run, in.path, run.layout()
		in.records = eval.NewRecords(run.Settings.Margins, attributes)
		in.records.CompareBy(run.Columns)
	} else if d := in.run.Differs(run); d != "" {
		return fmt.Errorf("records that were not made of the same as those of %s cannot be put together: %s", in.first, d)
	}
	in.text = strings.Clone(text)
	return nil
}

// places are where the columns of records stand; -1 for one that only others read.
func (in *reader) places(place map[string]int) ([]int, error) {
	blank := in.layout.Blank()
	cells := in.layout.Cells(&blank)
	at := make([]int, len(cells))
	for i, name := range in.layout.Columns() {
		k, ok := place[name]
		switch {
		case cells[i] == nil:
			k = -1
		case !ok:
			return nil, fmt.Errorf("there is no column %s", message.Quote(name))
		}
		at[i] = k
	}
	return at, nil
}

func (in *reader) row(fields []string, place map[string]int, at []int) error {
	count, err := strconv.Atoi(fields[place[colCount]])
	if err != nil || count < 0 {
		return fmt.Errorf("column %q: %q is not a number of rows", colCount, fields[place[colCount]])
	}
	if why := Outcome(fields[place[colOutcome]]); why != Judged {
		n := counted(&in.file, why)
		if n == nil {
			return fmt.Errorf("column %q: unknown outcome %q; there are %q", colOutcome, why, outcomes())
		}
		*n += count
		return nil
	}
	r := in.layout.Blank()
	for i, cell := range in.layout.Cells(&r) {
		if at[i] < 0 || fields[at[i]] == "" {
			continue
		}
		if err := put(cell, fields[at[i]], &r, in.inputs); err != nil {
			return fmt.Errorf("column %s: %w", message.Quote(in.layout.Columns()[i]), err)
		}
	}
	r.Settle()
	if err := check(&r, in.inputs); err != nil {
		return err
	}
	in.file.Rows += count
	if err := in.overlap.add(&r); err != nil {
		return err
	}
	if in.see != nil {
		in.see(&r)
	}
	return in.records.Add(&r)
}

// rowOverlap finds a row of the data that several tables have: the same number, line and content. People with an ID
// count once anyway, and rows of a stream have no numbers.
type rowOverlap struct {
	tables []string
	rows   *extsort.Rows // of each row its hash, line, table and number
}

const overlapShards = 1024 // of which one is in memory at a time

func (o *rowOverlap) add(r *eval.Record) error {
	if r.HasID() || r.Row == 0 && r.Line == 0 {
		return nil
	}
	h := fnv.New64a()
	content := append([]uint64{uint64(r.Row), r.Hash}, r.Others...)
	binary.Write(h, binary.LittleEndian, content) //nolint:errcheck // a hash takes all
	return o.rows.Add(h.Sum64(), uint64(r.Line), uint64(len(o.tables)-1), uint64(r.Row))
}

// check refuses such a row: the person would count twice. A table may not know its lines.
func (o *rowOverlap) check() error {
	for rows, err := range o.rows.Sorted() {
		if err != nil {
			return err
		}
		before := make([]uint64, 4)
		for _, x := range rows {
			if x[0] == before[0] && (x[1] == before[1] || before[1] == 0) && x[2] != before[2] {
				return fmt.Errorf("row %d of the data is in %s and in %s, with the same content, and would count twice: give "+
					"each row once, or name an id in the task file if these are different people", x[3], o.tables[before[2]],
					o.tables[x[2]])
			}
			before = x
		}
	}
	return nil
}

package rowio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"cfq/internal/lists"
	"cfq/task"
)

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

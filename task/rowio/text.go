package rowio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"cfq/task"
)

type textSource struct {
	columns []string // nil when the stream ended before it named any
	kept    []int
	null    string // the field that is null, besides ""
	read    func() (streamRecord, error)
}

func (s *textSource) head(given []string) error {
	if s.columns = given; given != nil {
		return nil
	}
	first, err := s.read()
	switch {
	case errors.Is(err, io.EOF):
		return nil // no row: there is nothing to name
	case err != nil:
		return err
	case first.problem != nil:
		return fmt.Errorf("the header: %w", first.problem)
	}
	for _, name := range first.fields {
		s.columns = append(s.columns, strings.TrimSpace(name))
	}
	return nil
}

func (s *textSource) next() (streamRecord, error) {
	rec, err := s.read()
	if err != nil || len(rec.fields) != len(s.columns) { // where which field is nobody knows
		return rec, err
	}
	for _, i := range s.kept {
		if s.null != "" && rec.fields[i] == s.null {
			rec.kept = append(rec.kept, nil)
		} else {
			rec.kept = append(rec.kept, rec.fields[i])
		}
	}
	for i, f := range rec.fields {
		if f == s.null {
			rec.fields[i] = ""
		}
	}
	return rec, nil
}

func openCSV(r io.Reader, t *task.Task, columns []string) (*textSource, error) {
	rows, err := task.NewTextRows(r, &task.Data{Delimiter: ',', Trim: t.Data.Trim})
	if err != nil {
		return nil, err
	}
	s := &textSource{}
	s.read = func() (streamRecord, error) {
		fields, line, err := rows.Next()
		rec := streamRecord{line: line}
		if bad := (*task.Problem)(nil); errors.As(err, &bad) {
			rec.line, rec.problem = bad.Line, bad
			return rec, nil
		}
		rec.fields = append(rec.fields, fields...)
		return rec, err
	}
	return s, s.head(columns)
}

// null is how a tab-delimited text writes what is missing.
const null = `\N`

const maxLine = 1 << 20

// openTSV reads lines whose fields have tabs between; there are no quotes, and every line is a row.
func openTSV(r io.Reader, t *task.Task, columns []string) (*textSource, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	line := 0
	s := &textSource{null: null}
	s.read = func() (streamRecord, error) {
		line++
		text, long, err := readLine(in)
		rec := streamRecord{line: line}
		switch {
		case err != nil:
			return rec, err
		case long:
			rec.problem = &task.Problem{Line: line, Reason: "the row is longer than 1 MiB"}
			return rec, nil
		}
		rec.fields = strings.Split(text, "\t")
		if t.Data.Trim {
			for i, f := range rec.fields {
				rec.fields[i] = strings.Trim(f, " ")
			}
		}
		return rec, nil
	}
	err := s.head(columns)
	if err == nil && columns == nil && len(s.columns) > 0 {
		s.columns[0] = strings.TrimPrefix(s.columns[0], "\ufeff") // a byte order mark
	}
	return s, err
}

// readLine returns a line without its end, or says that it is too long to keep. io.EOF comes behind the last line,
// which may lack its end.
func readLine(in *bufio.Reader) (text string, long bool, err error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			long, line = true, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (long || len(line) > 0), err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), long, nil
		}
		return "", false, err
	}
}

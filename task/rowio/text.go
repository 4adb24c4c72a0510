package rowio

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"cfq/task"
)

// textSource is what CSV and tab-delimited text have in common.
type textSource struct {
	columns []string
	kept    []int
	null    string // the field that is null, besides ""
	read    func() (record, error)
}

func (s *textSource) names() []string { return s.columns }

func (s *textSource) unreadable(string) string { return "" }

func (s *textSource) keep(columns []int) (kept []Column, err error) {
	s.kept = columns
	for _, i := range columns {
		kept = append(kept, Column{Name: s.columns[i]})
	}
	return kept, nil
}

// head takes the names of the columns from the first row, unless they are given.
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

func (s *textSource) next() (record, error) {
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

// openCSV reads what follows RFC 4180, with lines that end in \r\n or \n. Empty lines are no rows.
func openCSV(r io.Reader, t *task.Task, columns []string) (*textSource, error) {
	rows, err := task.NewTextRows(r, &task.Data{Delimiter: ',', Trim: t.Data.Trim})
	if err != nil {
		return nil, err
	}
	s := &textSource{}
	s.read = func() (record, error) {
		fields, line, err := rows.Next()
		rec := record{line: line}
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

// maxLine bounds the bytes of a row.
const maxLine = 1 << 20

// openTSV reads lines whose fields have tabs between; there are no quotes, and every line is a row.
func openTSV(r io.Reader, t *task.Task, columns []string) (*textSource, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	line := 0
	s := &textSource{null: null}
	s.read = func() (record, error) {
		line++
		text, long, err := readLine(in)
		rec := record{line: line}
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

// textWriter writes CSV or tab-delimited text.
type textWriter struct {
	csv  *csv.Writer // nil for tabs
	line []string
	to   *lines
}

func newTextWriter(w io.Writer, f Format, columns []Column, header bool) (*textWriter, error) {
	t := &textWriter{to: &lines{w: w}}
	if f == CSV {
		t.csv = csv.NewWriter(t.to)
	}
	if !header {
		return t, nil
	}
	for _, c := range columns {
		t.line = append(t.line, c.Name)
	}
	if err := t.put(); err != nil {
		return nil, err
	}
	return t, t.flush()
}

func (t *textWriter) write(cells []any) error {
	t.line = t.line[:0]
	for _, c := range cells {
		text, ok := cellText(c)
		if !ok && t.csv == nil {
			text = null
		}
		t.line = append(t.line, text)
	}
	return t.put()
}

// put writes t.line.
func (t *textWriter) put() error {
	if t.csv != nil {
		if err := t.csv.Write(t.line); err != nil {
			return err
		}
		t.csv.Flush()
		return t.to.end()
	}
	for i, text := range t.line {
		if i > 0 {
			t.to.row = append(t.to.row, '\t')
		}
		start := len(t.to.row)
		t.to.row = append(t.to.row, text...)
		for k, b := range t.to.row[start:] { // which end a field or a row
			if b == '\t' || b == '\n' || b == '\r' {
				t.to.row[start+k] = ' '
			}
		}
	}
	t.to.row = append(t.to.row, '\n')
	return t.to.end()
}

func (t *textWriter) flush() error { return t.to.flush() }

func (t *textWriter) close() error { return t.flush() }

// cellText is a cell as text; not ok for one that is missing.
func cellText(c any) (text string, ok bool) {
	switch x := c.(type) {
	case nil:
		return "", false
	case string:
		return x, true
	case float64:
		if math.IsNaN(x) {
			return "", false
		}
		return strconv.FormatFloat(x, 'g', -1, 64), true
	case []float32:
		if x == nil {
			return "", false
		}
		cells := make([]string, len(x))
		for i, v := range x {
			cells[i] = strconv.FormatFloat(float64(v), 'g', -1, 32)
		}
		return strings.Join(cells, " "), true
	}
	return fmt.Sprint(c), true
}

// atomic is how many bytes a pipe takes all or none of, PIPE_BUF of Linux.
const atomic = 4096

// lines hands on whole rows, in pieces that a pipe takes as a whole. So even a process that is killed leaves no part of
// a row, unless one alone is longer.
type lines struct {
	w     io.Writer
	ready []byte // whole rows
	row   []byte // the one that is being written
}

// Write adds to the row.
func (l *lines) Write(p []byte) (int, error) {
	l.row = append(l.row, p...)
	return len(p), nil
}

// end ends the row.
func (l *lines) end() error {
	if len(l.ready)+len(l.row) > atomic {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.ready, l.row = append(l.ready, l.row...), l.row[:0]
	return nil
}

func (l *lines) flush() error {
	if len(l.ready) == 0 {
		return nil
	}
	_, err := l.w.Write(l.ready)
	l.ready = l.ready[:0]
	return err
}

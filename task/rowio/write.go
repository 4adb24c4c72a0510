package rowio

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Writer writes rows of text. It hands on whole rows only.
type Writer struct {
	csv     *csv.Writer // nil for tabs
	columns int
	line    []string
	to      *lines
}

// NewWriter writes the head, a row with the names of the columns, if header is set.
func NewWriter(w io.Writer, f Format, columns []string, header bool) (*Writer, error) {
	out := &Writer{columns: len(columns), to: &lines{w: w}}
	switch f {
	case CSV:
		out.csv = csv.NewWriter(out.to)
	case TSV:
	default:
		return nil, fmt.Errorf("rows: unknown format %q", f)
	}
	if !header {
		return out, nil
	}
	out.line = append(out.line, columns...)
	if err := out.put(); err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	return out, out.Flush()
}

// Write takes the cells of a row: nil, int, float64, bool or string. A NaN is written as nil is, and a tab or an end of
// line in a cell of tab-delimited text as a blank. After an error the writer is of no more use.
func (w *Writer) Write(cells []any) error {
	if len(cells) != w.columns {
		return fmt.Errorf("rows: %d cells for %d columns", len(cells), w.columns)
	}
	w.line = w.line[:0]
	for _, c := range cells {
		text, ok := cellText(c)
		if !ok && w.csv == nil {
			text = null
		}
		w.line = append(w.line, text)
	}
	if err := w.put(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

func (w *Writer) put() error {
	if w.csv != nil {
		if err := w.csv.Write(w.line); err != nil {
			return err
		}
		w.csv.Flush()
		return w.to.end()
	}
	for i, text := range w.line {
		if i > 0 {
			w.to.row = append(w.to.row, '\t')
		}
		start := len(w.to.row)
		w.to.row = append(w.to.row, text...)
		for k, b := range w.to.row[start:] { // which end a field or a row
			if b == '\t' || b == '\n' || b == '\r' {
				w.to.row[start+k] = ' '
			}
		}
	}
	w.to.row = append(w.to.row, '\n')
	return w.to.end()
}

// Flush hands on all rows that were written.
func (w *Writer) Flush() error {
	if err := w.to.flush(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// Close is Flush at the end of all rows.
func (w *Writer) Close() error { return w.Flush() }

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

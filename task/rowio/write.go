package rowio

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// atomic is how many bytes a pipe takes all or none of, PIPE_BUF of Linux.
const atomic = 4096

// Writer writes rows of text. It hands on whole rows only, in pieces that a pipe takes as a whole: even a process that
// is killed leaves no part of a row, unless one alone is longer.
type Writer struct {
	out     *bufio.Writer
	row     bytes.Buffer
	csv     *csv.Writer // to row; nil for tabs
	blanks  *strings.Replacer
	columns int
	line    []string
}

// NewWriter writes the head, a row with the names of the columns, if header is set.
func NewWriter(w io.Writer, f Format, columns []string, header bool) (*Writer, error) {
	out := &Writer{columns: len(columns), out: bufio.NewWriterSize(w, atomic)}
	switch f {
	case CSV:
		out.csv = csv.NewWriter(&out.row)
	case TSV:
		out.blanks = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
	default:
		return nil, fmt.Errorf("rows: unknown format %q", f)
	}
	if !header {
		return out, nil
	}
	if err := out.put(columns); err != nil {
		return nil, err
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
	return w.put(w.line)
}

func (w *Writer) put(line []string) (err error) {
	w.row.Reset()
	if w.csv != nil {
		err = w.csv.Write(line)
		w.csv.Flush()
	} else {
		for i, text := range line {
			if i > 0 {
				w.row.WriteByte('\t')
			}
			_, _ = w.blanks.WriteString(&w.row, text)
		}
		w.row.WriteByte('\n')
	}
	if err == nil && w.row.Len() > w.out.Available() {
		err = w.out.Flush()
	}
	if err == nil {
		_, err = w.out.Write(w.row.Bytes())
	}
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// Flush hands on all rows that were written.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
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

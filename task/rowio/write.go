package rowio

import (
	"fmt"
	"io"
)

// Writer writes rows of typed columns. It hands on whole rows only.
type Writer struct {
	to interface {
		write(cells []any) error
		flush() error
		close() error
	}
	columns int
}

// NewWriter writes the head: of text a row with the names of the columns, if header is set.
func NewWriter(w io.Writer, f Format, columns []Column, header bool) (*Writer, error) {
	out := &Writer{columns: len(columns)}
	var err error
	switch f {
	case CSV, TSV:
		out.to, err = newTextWriter(w, f, columns, header)
	case Arrow:
		out.to = newArrowWriter(w, columns)
	default:
		err = fmt.Errorf("unknown format %q", f)
	}
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	return out, nil
}

// Write takes the cells of a row: nil, int, float64, bool, string or []float32. A NaN is written as nil is, and a tab
// or an end of line in a cell of tab-delimited text as a blank. After an error the writer is of no more use.
func (w *Writer) Write(cells []any) error {
	if len(cells) != w.columns {
		return fmt.Errorf("rows: %d cells for %d columns", len(cells), w.columns)
	}
	if err := w.to.write(cells); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// Flush hands on all rows that were written.
func (w *Writer) Flush() error {
	if err := w.to.flush(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// Close is Flush at the end of all rows.
func (w *Writer) Close() error {
	if err := w.to.close(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"cfq/task"
)

// Table counts the distinct fields of each column of a data file.
type Table struct {
	Data   task.Data // how the file is read; Columns only for a text without header
	Names  []string
	Rows   int // rows that were taken
	Broken int // rows that are not well-formed, or have another number of fields than there are columns
	cols   []column
}

// column counts the distinct fields of a column.
type column struct {
	name   string
	values []string // in order of appearance
	counts []int    // rows per value
	index  map[string]int
	rows   int
}

func newColumn(name string) column { return column{name: name, index: map[string]int{}} }

func (c *column) add(field string) {
	i, ok := c.index[field]
	if !ok {
		field = strings.Clone(field) // it shares memory with its whole record
		i = len(c.values)
		c.index[field] = i
		c.values, c.counts = append(c.values, field), append(c.counts, 0)
	}
	c.counts[i]++
	c.rows++
}

// Open reads the data file at path and finds out how it is to be read: delimiter, comment lines, lines before the header, blanks around
// fields. names are the columns of a text without header; nil takes them from its first row when that looks like a header, and numbers the
// columns otherwise. o selects rows.
func Open(ctx context.Context, path string, names []string, o task.ReadOptions) (*Table, error) {
	return task.FromFile(path, func(r io.Reader) (*Table, error) { return readFrom(ctx, r, names, o) })
}

func readFrom(ctx context.Context, r io.Reader, names []string, o task.ReadOptions) (*Table, error) {
	t := &Table{}
	rows, err := task.NewRows(r, func(head []byte) (*task.Data, error) {
		d, err := sniff(head, names)
		t.Data = d
		return &t.Data, err
	})
	if err != nil {
		return nil, err
	}
	if t.Names = t.Data.Columns; t.Names == nil {
		t.Names = rows.Names()
	}
	pick := task.NewSelection(o)
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rec, _, err := rows.Next()
		var bad *task.Problem
		switch {
		case errors.Is(err, io.EOF):
			if err := pick.End(); err != nil {
				return nil, err
			}
			return t, t.finish()
		case err != nil && (t.Names == nil || !errors.As(err, &bad)):
			return nil, err
		case t.Names == nil:
			for _, name := range rec {
				t.Names = append(t.Names, strings.TrimSpace(name))
			}
		case pick.Next():
			t.add(rec, err == nil)
		}
	}
}

func (t *Table) add(rec []string, whole bool) {
	if !whole || len(rec) != len(t.Names) {
		t.Broken++
		return
	}
	if t.cols == nil {
		for _, name := range t.Names {
			t.cols = append(t.cols, newColumn(name))
		}
	}
	for i, field := range rec {
		t.cols[i].add(field)
	}
	t.Rows++
}

// finish checks what was read.
func (t *Table) finish() error {
	if t.Rows == 0 {
		return errors.New("the file has no data rows that can be read")
	}
	for i := range t.cols {
		texts := append([]string{t.Names[i]}, t.cols[i].values...)
		if at := slices.IndexFunc(texts, func(s string) bool { return !utf8.ValidString(s) }); at >= 0 {
			return fmt.Errorf("column %q: %.40q is not UTF-8 text; save the file as UTF-8", t.Names[i], texts[at])
		}
	}
	return nil
}

// column returns the first column with the name, nil when there is none.
func (t *Table) column(name string) *column {
	for i := range t.cols {
		if t.cols[i].name == name {
			return &t.cols[i]
		}
	}
	return nil
}

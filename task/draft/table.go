package draft

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"cfq/task"
)

// Table holds the fields of a data file, column by column.
type Table struct {
	Data   task.Data // how the file is read; Columns only for a file without header
	Names  []string
	Rows   int // rows that were taken
	Broken int // rows that are not well-formed, or have another number of fields than there are columns
	cols   []column
}

// column holds the fields of a column as indices into its values.
type column struct {
	name   string
	values []string // distinct fields in order of appearance
	codes  []int32  // per row
	counts []int    // per value
	index  map[string]int32
}

// Open reads the data file at path, delimited text that may be compressed with gzip, and finds out how it is to be read: delimiter, comment
// lines, lines before the header, blanks around fields. names are the columns of a file without header; nil takes them from its first row when that looks like a
// header, and numbers the columns otherwise. Only and Except of o choose rows.
func Open(ctx context.Context, path string, names []string, o task.ReadOptions) (*Table, error) {
	return read(ctx, path, newPicker(o, nil), func(head []byte) (task.Data, error) { return sniff(head, names) })
}

// openAs reads some lines (counted from 1) of the data file at path as d says.
func openAs(ctx context.Context, path string, d *task.Data, lines []int) (*Table, error) {
	return read(ctx, path, newPicker(task.ReadOptions{}, lines), func([]byte) (task.Data, error) { return *d, nil })
}

// headSize is how much of a file is looked at to find out how it is read.
const headSize = 1 << 18

func read(ctx context.Context, path string, rows *picker, how func([]byte) (task.Data, error)) (*Table, error) {
	return task.FromFile(path, func(r io.Reader) (*Table, error) { return readFrom(ctx, r, rows, how) })
}

func readFrom(ctx context.Context, r io.Reader, rows *picker, how func([]byte) (task.Data, error)) (*Table, error) {
	text, err := task.PlainText(r)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(text, headSize)
	head, err := in.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil, fmt.Errorf("this is a binary file and no delimited text; it starts with %.16q", head)
	}
	d, err := how(head)
	if err != nil {
		return nil, err
	}
	t := &Table{Data: d}
	return t, t.fill(ctx, in, rows)
}

// fill reads the rows that are picked.
func (t *Table) fill(ctx context.Context, in *bufio.Reader, pick *picker) error {
	for range t.Data.Skip {
		if _, err := in.ReadString('\n'); err != nil {
			return errors.New("the file ends before its first row")
		}
	}
	rows := csv.NewReader(in)
	rows.Comma, rows.Comment, rows.TrimLeadingSpace = t.Data.Delimiter, t.Data.Comment, t.Data.Trim
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	t.Names = t.Data.Columns
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := rows.Read()
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return t.finish(pick)
		case errors.As(err, &bad) && t.Names == nil:
			return fmt.Errorf("the first row: %w", err)
		case err != nil && !errors.As(err, &bad):
			return err
		}
		if t.Names == nil {
			for _, name := range rec {
				t.Names = append(t.Names, strings.TrimSpace(name))
			}
			continue
		}
		line := t.Data.Skip
		if bad != nil {
			line += bad.StartLine
		} else {
			at, _ := rows.FieldPos(0)
			line += at
		}
		if !pick.next(line) {
			continue
		}
		if n := len(t.Names) - 1; err == nil && len(rec) == n && len(t.Data.Columns) > 0 && t.Names[n] == t.Data.Label {
			rec = append(rec, "") // people without outcome
		}
		if err != nil || len(rec) != len(t.Names) {
			t.Broken++
			continue
		}
		t.add(rec)
	}
}

// finish checks what was read.
func (t *Table) finish(p *picker) error {
	if t.Rows == 0 {
		return errors.New("the file has no data rows that can be read")
	}
	if p.last > p.row {
		return fmt.Errorf("row %d is selected, but the file has %d rows (numbered from 0); the selection belongs to other data", p.last, p.row+1)
	}
	for i := range t.cols {
		if !utf8.ValidString(t.Names[i]) {
			return fmt.Errorf("the name of column %d, %.40q, is not UTF-8 text; save the file as UTF-8", i+1, t.Names[i])
		}
		for _, v := range t.cols[i].values {
			if !utf8.ValidString(v) {
				return fmt.Errorf("column %q: %.40q is not UTF-8 text; save the file as UTF-8", t.Names[i], v)
			}
		}
	}
	return nil
}

func (t *Table) add(rec []string) {
	if t.cols == nil {
		t.cols = make([]column, len(t.Names))
		for i, name := range t.Names {
			t.cols[i] = column{name: name, index: map[string]int32{}}
		}
	}
	for i, field := range rec {
		if t.Data.Trim {
			field = strings.TrimRight(field, " \t")
		}
		c := &t.cols[i]
		code, ok := c.index[field]
		if !ok {
			field = strings.Clone(field) // it shares memory with its whole record
			code = int32(len(c.values))
			c.index[field] = code
			c.values, c.counts = append(c.values, field), append(c.counts, 0)
		}
		c.counts[code]++
		c.codes = append(c.codes, code)
	}
	t.Rows++
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

// picker decides which rows are taken.
type picker struct {
	row, last           int
	only, except, lines map[int]bool
}

// newPicker takes what o selects, of the given lines only unless they are nil.
func newPicker(o task.ReadOptions, lines []int) *picker {
	p := &picker{row: -1, last: -1}
	set := func(rows []int) map[int]bool {
		if rows == nil {
			return nil
		}
		m := make(map[int]bool, len(rows))
		for _, r := range rows {
			m[r] = true
		}
		return m
	}
	p.only, p.except, p.lines = set(o.Only), set(o.Except), set(lines)
	for _, r := range slices.Concat(o.Only, o.Except) {
		p.last = max(p.last, r)
	}
	return p
}

func (p *picker) next(line int) bool {
	p.row++
	return (p.only == nil || p.only[p.row]) && !p.except[p.row] && (p.lines == nil || p.lines[line])
}

package records

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
	"cfq/internal/lists"
	"cfq/task/rowio"
)

// parquetFormat is a format of tables; the others are those of rowio.
const parquetFormat rowio.Format = "parquet"

func formatOf(path string) (rowio.Format, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".parquet":
		return parquetFormat, nil
	case ".csv", ".tsv":
		return rowio.Format(ext[1:]), nil
	}
	return "", fmt.Errorf("the name of %s says no format: want .parquet, .csv or .tsv", path)
}

// Table makes the rows of a table.
type Table struct {
	run    string
	head   []tableColumn
	layout eval.Layout
	cells  []any
	last   [2]uint64 // row and hash of the last record
}

// NewTable makes rows of records that were made of the run.
func NewTable(run Run) (*Table, error) {
	run.Schema = schema
	text, err := json.Marshal(run)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	return &Table{run: string(text), head: head(&run), layout: run.layout(), last: [2]uint64{math.MaxUint64}}, nil
}

// Names are the names of the columns of the table.
func (t *Table) Names() []string {
	return lists.Map(t.head, func(c tableColumn) string { return c.name })
}

// Row are the cells of a record, which are valid until the next call of Row.
func (t *Table) Row(r *eval.Record) []any {
	rows := 1
	if row := [2]uint64{uint64(r.Row), r.Hash}; r.Issued != nil && row == t.last {
		rows = 0 // it stands there once more, for another promise
	} else {
		t.last = row
	}
	t.cells = append(t.cells[:0], t.run, nil, rows)
	for _, cell := range t.layout.Cells(r) {
		t.cells = append(t.cells, cellOf(cell, r))
	}
	return t.cells
}

// Count are the cells that say that so many rows of the data were not judged.
func (t *Table) Count(why Outcome, n int) []any {
	return append([]any{t.run, string(why), n}, make([]any, len(t.head)-3)...)
}

// Writer writes a table. It hands on whole rows only.
type Writer struct {
	*Table
	to interface {
		Write(cells []any) error
		Close() error
	}
}

// NewWriter writes the head of a table.
func NewWriter(w io.Writer, f rowio.Format, run Run) (*Writer, error) {
	t, err := NewTable(run)
	if err != nil {
		return nil, err
	}
	out := &Writer{Table: t}
	if f == parquetFormat {
		out.to = newParquetWriter(w, t.head)
	} else {
		out.to, err = rowio.NewWriter(w, f, t.Names(), true)
	}
	return out, err
}

// Write writes a record.
func (t *Writer) Write(r *eval.Record) error { return t.to.Write(t.Row(r)) }

// Counts writes what became of all rows that were not judged.
func (t *Writer) Counts(file eval.DataFile) error {
	file.LeftOut -= file.Filtered
	for _, why := range outcomes() {
		if n := *counted(&file, why); n > 0 {
			if err := t.to.Write(t.Count(why, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the table.
func (t *Writer) Close() error { return t.to.Close() }

// groupRows is how many rows of a Parquet file are one row group, which is in memory.
const groupRows = 32_768

type parquetWriter struct {
	*parquet.Writer
	places []int // of columns in the schema, which is in alphabetical order
	row    parquet.Row
}

func newParquetWriter(w io.Writer, columns []tableColumn) *parquetWriter {
	group := parquet.Group{}
	for _, c := range columns {
		group[c.name] = parquet.Optional(c.node)
	}
	schema := parquet.NewSchema("record", group)
	p := &parquetWriter{
		Writer: parquet.NewWriter(w, schema, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows)),
		row:    make(parquet.Row, len(columns)),
	}
	for _, c := range columns {
		leaf, _ := schema.Lookup(c.name) // which is there
		p.places = append(p.places, leaf.ColumnIndex)
	}
	return p
}

func (p *parquetWriter) Write(cells []any) error {
	for i, c := range cells {
		at := p.places[i]
		if c == nil {
			p.row[at] = parquet.NullValue().Level(0, 0, at)
		} else {
			p.row[at] = parquet.ValueOf(c).Level(0, 1, at)
		}
	}
	if _, err := p.WriteRows([]parquet.Row{p.row}); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return nil
}

package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
	"cfq/internal/lists"
	"cfq/internal/tempfile"
	"cfq/recourse"
	"cfq/task"
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

// filePeople is how many people are in one file of a folder, or a few more: all of a batch.
const filePeople = 16384

// Output is where an evaluation writes its records: a file, or a folder of files of some people each, from which an
// interrupted run resumes. An evaluation of one quantized model reads its people through [Output.Source], has
// [Output.Write] as its OnRecords, and ends with [Output.Finish]; [Output.Drop] follows in any case.
type Output struct {
	Task *task.Task
	Made func(s *eval.Settings, like *task.People) Run // what the records are made of

	path    string
	folder  bool
	format  rowio.Format
	stale   []string // files of an earlier run, which go when the first file is begun
	run     Run      // from the first batch on
	earlier earlierRecords
	part    recordFile
}

// earlierRecords are those of files of an earlier run, which are taken as they are.
type earlierRecords struct {
	files, read int // read are of the files, so far
	left        []eval.Record
	made        *Run // what they were made of
}

// recordFile is the file that is written, under another name until it is complete.
type recordFile struct {
	*Writer // nil before it is begun
	file    *os.File
	number  int
	people  int
}

// ResumeError is an error of earlier records that do not belong to this run.
type ResumeError struct{ Err error }

func (e *ResumeError) Error() string { return e.Err.Error() }
func (e *ResumeError) Unwrap() error { return e.Err }

// NewFile returns the output to a new file. Its name says the format.
func NewFile(path string) (*Output, error) {
	format, err := formatOf(path)
	return &Output{path: path, format: format}, err
}

// NewFolder returns the output to a folder, which need not exist. With resume, a run goes on from the records in it,
// else they go; old says whether there are any.
func NewFolder(path string, resume bool) (x *Output, old bool, err error) {
	x = &Output{path: path, folder: true, format: parquetFormat}
	if x.stale, err = filepath.Glob(filepath.Join(path, "part-*.parquet")); err != nil {
		return nil, false, err
	}
	if _, err := os.Stat(countsName(path)); err == nil {
		x.stale = append(x.stale, countsName(path))
	}
	for old = len(x.stale) > 0; resume && slices.Contains(x.stale, x.name()); x.part.number++ {
		x.stale = slices.DeleteFunc(x.stale, func(path string) bool { return path == x.name() })
	}
	x.earlier.files = x.part.number
	left, err := filepath.Glob(filepath.Join(path, ".cfq-*.tmp")) // of a run that was killed
	x.stale = append(x.stale, left...)
	return x, old, err
}

func countsName(folder string) string { return filepath.Join(folder, "rows.parquet") }

func partName(folder string, number int) string {
	return filepath.Join(folder, fmt.Sprintf("part-%06d.parquet", number))
}

// name is that of the file that is written.
func (x *Output) name() string {
	if !x.folder {
		return x.path
	}
	return partName(x.path, x.part.number)
}

// Source returns the people of another source with the records that an earlier run has made.
func (x *Output) Source(of eval.Source) eval.Source {
	return func(ctx context.Context, each func(*eval.Batch) error) error {
		x.earlier.read, x.earlier.left = 0, nil
		return of(ctx, func(b *eval.Batch) error {
			if err := x.known(ctx, b); err != nil {
				return &ResumeError{err}
			}
			return each(b)
		})
	}
}

func (x *Output) known(ctx context.Context, b *eval.Batch) error {
	n, known := b.People.N, &x.earlier
	if n == 0 || len(known.left) == 0 && known.read == known.files {
		return nil
	}
	if len(known.left) == 0 {
		if err := known.load(ctx, partName(x.path, known.read), x.Task); err != nil {
			return err
		}
	}
	if len(known.left) < n { // files end with a batch
		return x.Others()
	}
	for i := range n {
		if !isAbout(&known.left[i], b.People, b.Promises, i) {
			return x.Others()
		}
	}
	b.Records, known.left = known.left[:n], known.left[n:]
	return nil
}

func (x *earlierRecords) load(ctx context.Context, path string, t *task.Task) error {
	all, run, _, err := Read(ctx, []string{path}, t, func(r *eval.Record) { x.left = append(x.left, *r) })
	if err = errors.Join(err, all.Close()); err != nil {
		return err
	}
	if x.made != nil {
		if d := x.made.Differs(run); d != "" {
			return fmt.Errorf("%s was not made of the same as the files before it: %s", path, d)
		}
	}
	x.made, x.read = run, x.read+1
	return nil
}

func isAbout(r *eval.Record, people *task.People, promises []recourse.Action, i int) bool {
	id := ""
	if people.IDs != nil {
		id = people.IDs[i]
	}
	issued := promises != nil && promises[i].Status == recourse.Found
	return r.Hash == people.Content[i] && slices.Equal(r.Others, people.Others[i]) && r.Row == people.Row(i) &&
		r.ID == id && issued == (r.Issued != nil) &&
		(!issued || !r.Evaluated || slices.Equal(r.Issued.Point, promises[i].Point))
}

// Others is the error that the earlier records are about other people or promises than this run is.
func (x *Output) Others() error {
	return &ResumeError{fmt.Errorf("--resume: %s holds records of other people or promises than these files have", x.path)}
}

// Write writes the records of a batch, unless they are there.
func (x *Output) Write(b *eval.Batch, s *eval.Settings, list []eval.Record) error {
	if x.run.Full == "" { // the same for all batches
		x.run = x.Made(s, b.People)
	}
	if len(list) == 0 {
		return nil
	}
	if b.Records != nil {
		if d := x.earlier.made.Differs(&x.run); d != "" {
			return &ResumeError{fmt.Errorf("--resume: the records in %s and this run are not made of the same: %s", x.path, d)}
		}
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	for i := range list {
		if err := x.part.Write(&list[i]); err != nil {
			return err
		}
	}
	if x.part.people += len(list); x.folder && x.part.people >= filePeople {
		return x.place(x.name())
	}
	return nil
}

func (x *Output) begin() (err error) {
	if x.part.Writer != nil {
		return nil
	}
	if x.folder {
		if err := os.MkdirAll(x.path, 0o755); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	for _, path := range x.stale {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	x.stale = nil
	if x.part.file, err = tempfile.New(filepath.Dir(x.name())); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	x.part.Writer, err = NewWriter(x.part.file, x.format, x.run)
	return err
}

// Finish completes the output by the counts of rows that no record is about.
func (x *Output) Finish(file eval.DataFile) error {
	if x.earlier.read < x.earlier.files || len(x.earlier.left) > 0 {
		return x.Others()
	}
	path := x.path
	if x.folder {
		path = countsName(path)
		if x.part.Writer != nil {
			if err := x.place(x.name()); err != nil {
				return err
			}
		}
	}
	if x.run.Full == "" { // there was nobody
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	if err := x.part.Counts(file); err != nil {
		return err
	}
	return x.place(path)
}

func (x *Output) place(path string) error {
	err := x.part.Close()
	if err == nil {
		err = x.part.file.Sync()
	}
	if err == nil {
		err = tempfile.Place(x.part.file, path)
	}
	if err != nil {
		err = errors.Join(err, x.Drop())
	}
	x.part = recordFile{number: x.part.number + 1}
	return err
}

// Drop removes a file that is not complete.
func (x *Output) Drop() (err error) {
	if x.part.file != nil {
		err, x.part.file = tempfile.Remove(x.part.file), nil
	}
	return err
}

// Complete is an error when files of a folder, as an [Output] names them, are not all that the folder had: the people
// in the missing ones, and the rows that could not be read, would not count.
func Complete(files []string) error {
	parts := map[string]int{} // by folder
	for _, path := range files {
		if own, _ := filepath.Match("part-[0-9][0-9][0-9][0-9][0-9][0-9].parquet", filepath.Base(path)); own {
			parts[filepath.Dir(path)]++
		}
	}
	for folder, n := range parts {
		want := []string{countsName(folder)}
		for i := range n {
			want = append(want, partName(folder, i))
		}
		for _, path := range want {
			if !slices.Contains(files, path) {
				return fmt.Errorf("records: the folder %s is not complete: there is no %s", folder, filepath.Base(path))
			}
		}
	}
	return nil
}

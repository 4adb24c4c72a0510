package task

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"cfq/internal/config"
)

// FromFile opens a data file and returns what read makes of it; errors name the file.
func FromFile[T any](path string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return v, fmt.Errorf("data file: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	if v, err = read(f); err != nil {
		return v, fmt.Errorf("data file %s: %w", path, err)
	}
	return v, nil
}

// Rows are the records of a data file as text fields, one by one.
type Rows struct {
	Names []string // columns of a file that names them; nil for delimited text, whose first record may do so

	// Next returns a record, which is valid until the next call, and its line; of other files than text its row, from 1. A
	// record that is not well-formed comes with a *Problem as the error, and reading may go on; io.EOF ends the file and
	// any other error the reading.
	Next func() (fields []string, line int, err error)

	position   func(field int) (line, column int) // where a field of the last record begins; nil of images
	unreadable map[string]string                  // columns that the file has, and why they cannot be read
	count      int                                // rows; not known of delimited text
	folder     string                             // of the images whose names the records hold
	dims       []int                              // of the images that the records hold
}

// Each calls do with every record; one that is not well-formed has no fields but a problem.
func (r *Rows) Each(ctx context.Context, do func(fields []string, line int, bad *Problem) error) error {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fields, line, err := r.Next()
		var bad *Problem
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.As(err, &bad):
			return err
		}
		if err := do(fields, line, bad); err != nil {
			return err
		}
	}
}

// Problem is one with the record that Next returned with this line.
func (r *Rows) Problem(line int, reason string) *Problem {
	if r.Names != nil {
		return &Problem{Line: line - 1, Row: true, Reason: reason}
	}
	return &Problem{Line: line, Reason: reason}
}

const headSize = 1 << 16

// NewRows reads delimited text, gzip or not, or Parquet. how says how to read text, by its head; of Parquet it is nil.
func NewRows(r io.Reader, how func(head []byte) (*Data, error)) (*Rows, error) {
	in, err := plainText(r)
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(headSize)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case isParquet(head):
		if _, err := how(nil); err != nil {
			return nil, err
		}
		return newParquetRows(r)
	case bytes.IndexByte(head, 0) >= 0:
		return nil, fmt.Errorf("this is a binary file and no delimited text; it starts with %.16q", head)
	}
	d, err := how(head)
	if err != nil {
		return nil, err
	}
	return newTextRows(in, d)
}

func (d *Data) rows(r io.Reader) (*Rows, error) {
	return NewRows(r, func([]byte) (*Data, error) { return d, nil })
}

// TextRows reads delimited text, gzip or not, from a stream: a record is returned as soon as its line has arrived.
func (d *Data) TextRows(r io.Reader) (*Rows, error) {
	in, err := plainText(r)
	switch {
	case err != nil:
		return nil, err
	case starts(in, parquetMagic):
		return nil, errors.New("this is a Parquet file, which cannot be read from a stream")
	}
	return newTextRows(in, d)
}

// maxRecord bounds the bytes of one row, so that memory stays in proportion to what a file honestly holds.
const maxRecord = 1 << 20

type inflater struct{ r io.Reader }

func (f inflater) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("compressed data: %w", err)
	}
	return n, err
}

const gzipMagic = "\x1f\x8b"

// plainText returns the text in r: decompressed when it is gzip, without a byte order mark. UTF-16 is an error.
func plainText(r io.Reader) (*bufio.Reader, error) {
	plain := bufio.NewReaderSize(r, headSize)
	if starts(plain, gzipMagic) {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("compressed data: %w", err)
		}
		plain = bufio.NewReaderSize(inflater{z}, headSize)
	}
	if starts(plain, "\xef\xbb\xbf") {
		_, _ = plain.Discard(3)
	}
	if starts(plain, "\xff\xfe") || starts(plain, "\xfe\xff") {
		return nil, fmt.Errorf("the file is UTF-16; save it as UTF-8")
	}
	return plain, nil
}

// starts says whether what is to be read begins with mark. It waits for no more bytes than it needs to know.
func starts(r *bufio.Reader, mark string) bool {
	for i := range len(mark) {
		if head, _ := r.Peek(i + 1); len(head) <= i || head[i] != mark[i] {
			return false
		}
	}
	return true
}

type textRows struct {
	csv    *csv.Reader
	guard  *guard
	trim   bool
	offset int // lines before the first that csv saw
}

// guard ends the reading of a record that does not end.
type guard struct {
	r    io.Reader
	left int
}

var errLong = errors.New("longer than 1 MiB")

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errLong
	}
	n, err := g.r.Read(p)
	g.left -= n
	return n, err
}

func newTextRows(r io.Reader, d *Data) (*Rows, error) {
	t := &textRows{guard: &guard{r: r}, trim: d.Trim, offset: d.Skip}
	in := bufio.NewReaderSize(t.guard, headSize)
	for i := range d.Skip {
		t.guard.left = maxRecord
		_, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = errors.New("the file ends here")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d (data.skip = %d): %w", i+1, d.Skip, err)
		}
	}
	t.csv = csv.NewReader(in)
	t.csv.Comma, t.csv.Comment = d.Delimiter, d.Comment
	t.csv.FieldsPerRecord, t.csv.ReuseRecord = -1, true
	t.csv.TrimLeadingSpace = d.Trim
	return &Rows{Next: t.next, position: t.position}, nil
}

func (t *textRows) position(field int) (line, column int) {
	line, column = t.csv.FieldPos(field)
	return line + t.offset, column
}

func (t *textRows) next() ([]string, int, error) {
	t.guard.left = maxRecord
	before := t.csv.InputOffset()
	rec, err := t.csv.Read()
	var bad *csv.ParseError
	switch {
	case errors.Is(err, errLong):
		return nil, 0, fmt.Errorf("the row that starts at byte %d is longer than 1 MiB; a quote may be open, or this is no "+
			"delimited text", before)
	case errors.As(err, &bad):
		return nil, 0, t.malformed(bad)
	case err != nil:
		return nil, 0, err
	}
	if t.trim {
		for i, s := range rec {
			rec[i] = strings.TrimRight(s, " \t")
		}
	}
	line, _ := t.position(0)
	return rec, line, nil
}

// malformed turns what csv says about a record into a problem, or into an error when lines may be lost with it.
func (t *textRows) malformed(bad *csv.ParseError) error {
	start, end := bad.StartLine+t.offset, bad.Line+t.offset
	switch {
	case end > start:
		return fmt.Errorf("line %d: a quoted field never ends, or text follows its closing quote on line %d", start, end)
	case errors.Is(bad.Err, csv.ErrQuote):
		return &Problem{Line: start, Reason: "text follows a closing quote, or a quoted field never ends"}
	}
	return &Problem{Line: start, Reason: "a quote stands inside an unquoted field"}
}

// CountRows is how many of the rows of a data file the lists of o select, of text about, as if it had a header: for
// progress, and for how work is divided. 0 when that is not known.
func (o *ReadOptions) CountRows(path string) int {
	if o.Only != nil {
		return len(o.Only)
	}
	return max(0, countAll(path)-len(o.Except))
}

func countAll(path string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // read only
	rows, err := imageRows(f, []string{"", ""})
	if err == nil && rows == nil {
		rows, err = newParquetRows(f)
	}
	if err == nil {
		return rows.count
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0
	}
	buf := make([]byte, 1<<16)
	for first := true; ; first = false {
		k, err := f.Read(buf)
		if first && bytes.HasPrefix(buf[:k], []byte(gzipMagic)) {
			return 0
		}
		if n += bytes.Count(buf[:k], []byte{'\n'}); err != nil {
			return n - 1
		}
	}
}

// Selection decides which rows are read.
type Selection struct {
	row          int   // number of the row that Next was last asked about
	only, except []int // ascending
}

// Selection starts before the first row.
func (o *ReadOptions) Selection() *Selection {
	s := &Selection{row: -1, only: slices.Clone(o.Only), except: slices.Clone(o.Except)}
	slices.Sort(s.only)
	slices.Sort(s.except)
	return s
}

// Next moves to the next row and says whether it is selected.
func (s *Selection) Next() bool {
	s.row++
	_, only := slices.BinarySearch(s.only, s.row)
	_, except := slices.BinarySearch(s.except, s.row)
	return (s.only == nil || only) && !except
}

// End is called when the file ends: numbers beyond it mean that the selection belongs to other data.
func (s *Selection) End() error {
	if last := slices.Max(slices.Concat(s.only, s.except, []int{-1})); last > s.row {
		return fmt.Errorf("row %d is selected, but the file has %d rows (numbered from 0, after the filter); the selection "+
			"belongs to other data", last, s.row+1)
	}
	return nil
}

// LoadRows reads row numbers as ReadOptions counts them: a JSON list, or an object with the list "test_rows".
func LoadRows(path string) ([]int, error) { return config.Parsed("row list", path, parseRows) }

func parseRows(data []byte) ([]int, error) {
	list := data
	var split struct {
		Rows json.RawMessage `json:"test_rows"`
	}
	if err := json.Unmarshal(data, &split); err == nil && split.Rows != nil {
		list = split.Rows
	}
	var rows []int
	if err := json.Unmarshal(list, &rows); err != nil {
		return nil, fmt.Errorf("%w; want a JSON list of row numbers, or a JSON object with such a list as test_rows", err)
	}
	sorted := slices.Sorted(slices.Values(rows))
	for i, r := range sorted {
		if r < 0 {
			return nil, fmt.Errorf("%d is not a row number; rows are numbered from 0", r)
		}
		if i > 0 && r == sorted[i-1] {
			return nil, fmt.Errorf("row %d is listed twice", r)
		}
	}
	if rows == nil {
		rows = []int{}
	}
	return rows, nil
}

package task

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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

// Rows reads the records of a data file as text fields, one by one.
type Rows struct {
	text    *textRows    // nil for Parquet
	parquet *parquetRows // nil for delimited text
}

// headSize is how much of a text is shown to the function that says how to read it.
const headSize = 1 << 16

// NewRows reads delimited text, gzip or not, or Parquet. Of delimited text, how says how to read it, from its first 64
// KiB; of Parquet, it is given nil.
func NewRows(r io.Reader, how func(head []byte) (*Data, error)) (*Rows, error) {
	in, err := plainText(r)
	if err != nil {
		return nil, err
	}
	if head, _ := in.Peek(len(parquetMagic)); isParquet(head) {
		if _, err := how(nil); err != nil {
			return nil, err
		}
		p, err := newParquetRows(r)
		return &Rows{parquet: p}, err
	}
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
	text, err := newTextRows(in, d)
	if err != nil {
		return nil, err
	}
	return &Rows{text: text}, nil
}

// as is NewRows for a file of which is known how to read it.
func (d *Data) rows(r io.Reader) (*Rows, error) {
	return NewRows(r, func([]byte) (*Data, error) { return d, nil })
}

// Names returns the columns of a Parquet file; nil for delimited text, whose first record may name them.
func (r *Rows) Names() []string {
	if r.parquet != nil {
		return r.parquet.names
	}
	return nil
}

// Next returns a record, which is valid until the next call, and its line, of a Parquet file its row from 1. A record
// that is not well-formed comes with a *Problem as the error, and reading may go on; io.EOF ends the file and any other
// error the reading.
func (r *Rows) Next() ([]string, int, error) {
	if r.parquet != nil {
		return r.parquet.next()
	}
	return r.text.next()
}

// position returns the line, or the row of a Parquet file, and the column of a field of the record that was read last.
func (r *Rows) position(field int) (line, column int) {
	if r.parquet != nil {
		return r.parquet.row, field + 1
	}
	line, column = r.text.csv.FieldPos(field)
	return line + r.text.offset, column
}

// Limits on data files, so that memory stays in proportion to what a file honestly holds.
const (
	maxRecord = 1 << 20 // bytes of one row
	maxRatio  = 200     // a table compresses 5 to 30 times; deflate can pack zeros 1000 times
	ratioFrom = 1 << 24 // bytes from which maxRatio is looked at
)

// counter counts the bytes that are read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// inflater refuses a stream that expands out of proportion.
type inflater struct {
	packed *counter
	r      io.Reader
	n      int64
}

func (f *inflater) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.n += int64(n)
	if f.n > ratioFrom && f.n > maxRatio*f.packed.n {
		return n, fmt.Errorf("the compressed data expands more than %d times; decompress the file first if this is right",
			maxRatio)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("compressed data: %w", err)
	}
	return n, err
}

// plainText returns what delimited text in r is: decompressed when its content is gzip, without a byte order mark. What
// expands out of proportion, and UTF-16, is an error.
func plainText(r io.Reader) (*bufio.Reader, error) {
	packed := &counter{r: r}
	plain := bufio.NewReaderSize(packed, headSize)
	if head, _ := plain.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("compressed data: %w", err)
		}
		plain = bufio.NewReaderSize(&inflater{packed: packed, r: z}, headSize)
	}
	if head, _ := plain.Peek(3); bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, _ = plain.Discard(3)
	}
	if head, _ := plain.Peek(2); bytes.Equal(head, []byte("\xff\xfe")) || bytes.Equal(head, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("the file is UTF-16; save it as UTF-8")
	}
	return plain, nil
}

// textRows reads the records of delimited text.
type textRows struct {
	csv    *csv.Reader
	guard  *guard
	trim   bool
	offset int    // lines before the first that csv saw
	head   string // the first line, at most maxHead bytes of it
}

// guard ends the reading of a record that does not.
type guard struct {
	r     io.Reader
	left  int
	n     int64 // bytes read
	ended bool
}

var errLong = errors.New("longer than 1 MiB")

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errLong
	}
	n, err := g.r.Read(p)
	g.left, g.n, g.ended = g.left-n, g.n+int64(n), err == io.EOF
	return n, err
}

func newTextRows(r *bufio.Reader, d *Data) (*textRows, error) {
	for i := range d.Skip {
		if err := skipLine(r); err != nil {
			return nil, fmt.Errorf("line %d (data.skip = %d): %w", i+1, d.Skip, err)
		}
	}
	head, _ := r.Peek(maxHead) // what there is
	t := &textRows{
		head: firstLine(string(head), d.Comment), guard: &guard{r: r, left: maxRecord}, trim: d.Trim,
		offset: d.Skip,
	}
	t.csv = csv.NewReader(t.guard)
	t.csv.Comma, t.csv.Comment = d.Delimiter, d.Comment
	t.csv.FieldsPerRecord, t.csv.ReuseRecord = -1, true
	t.csv.TrimLeadingSpace = d.Trim
	return t, nil
}

// maxHead bounds what otherDelimiter looks at.
const maxHead = 8192

// firstLine returns the first line of text that is neither blank nor a comment.
func firstLine(text string, comment rune) string {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && (comment == 0 || !strings.HasPrefix(line, string(comment))) {
			return line
		}
	}
	return ""
}

// otherDelimiter says which delimiter line seems to have when it is one field with the given one; "" when nothing
// speaks for another.
func otherDelimiter(line string, given rune) string {
	best, most := GuessDelimiter(line)
	if best == 0 || delimiters(line, given) > 0 {
		return ""
	}
	return fmt.Sprintf("the first line is one field with data.delimiter %q and %d fields with %q; set data.delimiter: %q",
		given, most+1, best, string(best))
}

// GuessDelimiter returns the delimiter that stands in line most often, and how often; 0 when there is none.
func GuessDelimiter(line string) (best rune, most int) {
	for _, c := range ",;\t| " { // a blank is the last guess: it stands in names, too
		if n := delimiters(strings.TrimSpace(line), c); n > most && (c != ' ' || best == 0) {
			best, most = c, n
		}
	}
	return best, most
}

// delimiters counts c outside of quotes.
func delimiters(line string, c rune) int {
	n, quoted := 0, false
	for _, r := range line {
		switch r {
		case '"':
			quoted = !quoted
		case c:
			if !quoted {
				n++
			}
		}
	}
	return n
}

func skipLine(r *bufio.Reader) error {
	for n := 0; n < maxRecord; {
		part, err := r.ReadSlice('\n')
		n += len(part)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return errors.New("the file ends here")
		default:
			return err
		}
	}
	return errLong
}

func (t *textRows) next() ([]string, int, error) {
	t.guard.left = maxRecord
	before := t.csv.InputOffset()
	rec, err := t.csv.Read()
	var bad *csv.ParseError
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, 0, io.EOF
	case errors.Is(err, errLong):
		return nil, 0, fmt.Errorf(
			"the row that starts at byte %d is longer than 1 MiB; a quote may be open, or this is no delimited text",
			before,
		)
	case errors.As(err, &bad):
		return nil, 0, t.malformed(bad)
	default:
		return nil, 0, err
	}
	line, _ := t.csv.FieldPos(0)
	if t.trim {
		for i, s := range rec {
			rec[i] = strings.TrimRight(s, " \t")
		}
	}
	return rec, line + t.offset, nil
}

// malformed turns what csv says about a record into a problem, or into an error when an open quote has swallowed the
// rest of the file.
func (t *textRows) malformed(bad *csv.ParseError) error {
	start, end := bad.StartLine+t.offset, bad.Line+t.offset
	if !errors.Is(bad.Err, csv.ErrQuote) {
		return &Problem{Line: start, Reason: "a quote stands inside an unquoted field"}
	}
	if end == start {
		return &Problem{Line: start, Reason: "text follows a closing quote, or a quoted field never ends"}
	}
	if t.guard.ended && t.csv.InputOffset() == t.guard.n {
		return fmt.Errorf("line %d: a quoted field never ends; the lines from there to %d cannot be read", start, end)
	}
	return &Problem{Line: start, Reason: fmt.Sprintf("text follows a closing quote on line %d; lines %d to %d are lost",
		end, start, end)}
}

package task

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// rows reads the records of a delimited text file and knows the line of each.
type rows struct {
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

func newRows(r *bufio.Reader, d *Data) (*rows, error) {
	for i := range d.Skip {
		if err := skipLine(r); err != nil {
			return nil, fmt.Errorf("line %d (data.skip = %d): %w", i+1, d.Skip, err)
		}
	}
	head, _ := r.Peek(maxHead) // what there is
	t := &rows{head: firstLine(string(head), d.Comment), guard: &guard{r: r, left: maxRecord}, trim: d.Trim, offset: d.Skip}
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

// otherDelimiter says which delimiter line seems to have when it is one field with the given one; "" when nothing speaks for another.
func otherDelimiter(line string, given rune) string {
	if delimiters(line, given) > 0 {
		return ""
	}
	best, most := rune(0), 0
	for _, c := range ",;\t| " { // a blank is the last guess: it stands in names, too
		if n := delimiters(strings.TrimSpace(line), c); n > most && (c != ' ' || best == 0) {
			best, most = c, n
		}
	}
	if best == 0 {
		return ""
	}
	return fmt.Sprintf("the first line is one field with data.delimiter %q and %d fields with %q; set data.delimiter: %q", given, most+1, best, string(best))
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

// next returns a record and its line. A record that is not well-formed comes with a *Problem as the error, and reading may go on; io.EOF
// ends the file and any other error the reading.
func (t *rows) next() ([]string, int, error) {
	t.guard.left = maxRecord
	before := t.csv.InputOffset()
	rec, err := t.csv.Read()
	var bad *csv.ParseError
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, 0, io.EOF
	case errors.Is(err, errLong):
		return nil, 0, fmt.Errorf("the row that starts at byte %d is longer than 1 MiB; a quote may be open, or this is no delimited text", before)
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

// malformed turns what csv says about a record into a problem, or into an error when an open quote has swallowed the rest of the file.
func (t *rows) malformed(bad *csv.ParseError) error {
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
	return &Problem{Line: start, Reason: fmt.Sprintf("text follows a closing quote on line %d; lines %d to %d are lost", end, start, end)}
}

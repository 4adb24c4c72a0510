package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetMagic starts and ends every Parquet file.
const parquetMagic = "PAR1"

// parquetRows reads the rows of a Parquet file as the text fields that a CSV file of the same values has. It holds some
// rows of one row group at a time. A panic of the library, as over a damaged file, becomes an error.
type parquetRows struct {
	columns []parquetColumn // per leaf of the schema
	names   []string        // of the columns that can be read
	left    []parquet.RowGroup
	rows    parquet.Rows // of the current row group, nil before the first
	batch   []parquet.Row
	have    []parquet.Row // of batch, not yet returned
	row     int           // number of the row returned last, from 1
	fields  []string
}

// parquetColumn is a leaf of the schema.
type parquetColumn struct {
	name string
	text func(parquet.Value) (string, error) // nil when the column cannot be read
	why  string                              // it cannot
}

func isParquet(head []byte) bool { return strings.HasPrefix(string(head), parquetMagic) }

// newParquetRows opens a file, which must be one that can be read at any place.
func newParquetRows(r io.Reader) (p *parquetRows, err error) {
	defer recovered(&err)
	at, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	head := make([]byte, len(parquetMagic))
	if ok {
		_, _ = at.ReadAt(head, 0)
	}
	if !isParquet(head) {
		return nil, errors.New(
			"this is Parquet, which cannot be read from a gzip file or a stream: name the Parquet file itself",
		)
	}
	size, err := at.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	end := make([]byte, 8) // the length of the footer, and the mark again
	if _, err := at.ReadAt(end, max(0, size-8)); err != nil || size < 12 ||
		int64(binary.LittleEndian.Uint32(end)) > size-12 {
		return nil, errors.New("Parquet: the file is damaged or cut off: it has no footer")
	}
	f, err := parquet.OpenFile(at, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("Parquet: %w", err)
	}
	p = &parquetRows{left: f.RowGroups(), batch: make([]parquet.Row, 64)}
	for _, c := range f.Root().Columns() {
		p.add(c)
	}
	for i := range p.columns {
		if p.columns[i].text != nil {
			p.names = append(p.names, p.columns[i].name)
		}
	}
	p.fields = make([]string, len(p.names))
	return p, nil
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("Parquet: the file is damaged or of a kind that cannot be read: %v", r)
	}
}

// add appends the leaves of a column.
func (p *parquetRows) add(c *parquet.Column) {
	if c.Leaf() && !c.Repeated() {
		text, why := textOf(c.Type())
		p.columns = append(p.columns, parquetColumn{c.Name(), text, why})
		return
	}
	for range leaves(c) {
		p.columns = append(p.columns, parquetColumn{name: c.Name(), why: "it is nested or repeated"})
	}
}

func leaves(c *parquet.Column) (n int) {
	if c.Leaf() {
		return 1
	}
	for _, child := range c.Columns() {
		n += leaves(child)
	}
	return n
}

// unreadable says why a column that a file has cannot be read; "" for any other name.
func (p *parquetRows) unreadable(name string) string {
	for i := range p.columns {
		if c := &p.columns[i]; c.name == name && c.text == nil {
			return c.why
		}
	}
	return ""
}

// next returns a row and its number, from 1; see Rows.Next.
func (p *parquetRows) next() (fields []string, row int, err error) {
	defer recovered(&err)
	for len(p.have) == 0 {
		if p.rows == nil {
			if len(p.left) == 0 {
				return nil, 0, io.EOF
			}
			p.rows, p.left = p.left[0].Rows(), p.left[1:]
		}
		n, err := p.rows.ReadRows(p.batch)
		p.have = p.batch[:n]
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, fmt.Errorf("Parquet: after row %d: %w", p.row, err)
		case n > 0:
		case err == nil:
			return nil, 0, fmt.Errorf("Parquet: after row %d: the row group ends early", p.row)
		default:
			err := p.rows.Close()
			if p.rows = nil; err != nil {
				return nil, 0, fmt.Errorf("Parquet: after row %d: %w", p.row, err)
			}
		}
	}
	values := p.have[0]
	p.have = p.have[1:]
	p.row++
	return p.record(values)
}

// record returns the fields of a row.
func (p *parquetRows) record(values parquet.Row) ([]string, int, error) {
	clear(p.fields)
	at, next := 0, 0
	for i := range p.columns {
		c := &p.columns[i]
		for next < len(values) && values[next].Column() < i {
			next++
		}
		if c.text == nil {
			continue
		}
		if next == len(values) || values[next].Column() != i {
			return nil, 0, &Problem{Line: p.row, Row: true, Column: c.name, Reason: "the row has no value for the column"}
		}
		if v := values[next]; !v.IsNull() {
			var err error
			if p.fields[at], err = c.text(v); err != nil {
				return nil, 0, &Problem{Line: p.row, Row: true, Column: c.name, Reason: err.Error()}
			}
		}
		at++
	}
	return p.fields, p.row, nil
}

// textOf returns how the values of a type are written as text, or why they cannot be.
func textOf(t parquet.Type) (text func(parquet.Value) (string, error), why string) {
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	plain := func(f func(parquet.Value) string) func(parquet.Value) (string, error) {
		return func(v parquet.Value) (string, error) { return f(v), nil }
	}
	switch l := logical.(type) {
	case *format.DecimalType:
		return decimalText(int(l.Scale)), ""
	case *format.DateType:
		return plain(func(v parquet.Value) string {
			return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly)
		}), ""
	case *format.IntType:
		if !l.IsSigned && t.Kind() == parquet.Int32 {
			return plain(func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }), ""
		}
		if !l.IsSigned {
			return plain(func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }), ""
		}
	case nil, *format.StringType, *format.EnumType, *format.NullType:
	default:
		return nil, fmt.Sprintf("it holds values of the type %v; convert them to numbers or texts", l)
	}
	switch t.Kind() {
	case parquet.Boolean:
		return plain(func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }), ""
	case parquet.Int32:
		return plain(func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }), ""
	case parquet.Int64:
		return plain(func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }), ""
	case parquet.Float:
		return plain(func(v parquet.Value) string { return floatText(float64(v.Float()), 32) }), ""
	case parquet.Double:
		return plain(func(v parquet.Value) string { return floatText(v.Double(), 64) }), ""
	case parquet.ByteArray:
		return func(v parquet.Value) (string, error) {
			if b := v.ByteArray(); len(b) <= maxRecord {
				return string(b), nil
			}
			return "", errLong
		}, ""
	}
	return nil, fmt.Sprintf("it holds values of the type %v; convert them to numbers or texts", t)
}

// floatText is the shortest decimal that is read back as v; a NaN is a missing value, as data frames write one.
func floatText(v float64, bits int) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return ""
	case a >= 1e15 || a != 0 && a < 1e-6:
		return strconv.FormatFloat(v, 'g', -1, bits)
	}
	return strconv.FormatFloat(v, 'f', -1, bits)
}

// decimalText writes whole numbers of 10^-scale exactly.
func decimalText(scale int) func(parquet.Value) (string, error) {
	return func(v parquet.Value) (string, error) {
		whole := new(big.Int)
		switch v.Kind() {
		case parquet.Int32:
			whole.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			whole.SetInt64(v.Int64())
		default: // two's complement, the first byte is the highest
			b := v.ByteArray()
			if whole.SetBytes(b); len(b) > 0 && b[0] >= 0x80 {
				whole.Sub(whole, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		if scale < 0 || scale > 400 {
			return "", fmt.Errorf("a decimal with a scale of %d cannot be read", scale)
		}
		digits := whole.Text(10)
		sign := ""
		if digits[0] == '-' {
			sign, digits = "-", digits[1:]
		}
		if scale == 0 {
			return sign + digits, nil
		}
		digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
		cut := len(digits) - scale
		if fraction := strings.TrimRight(digits[cut:], "0"); fraction != "" {
			return sign + digits[:cut] + "." + fraction, nil
		}
		return sign + digits[:cut], nil
	}
}

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

const parquetMagic = "PAR1"

// parquetRows reads the rows of a Parquet file as the text fields that a CSV file of the same values has. It holds some
// rows of one row group at a time. A panic of the library, as over a damaged file, becomes an error.
type parquetRows struct {
	columns []parquetColumn // per leaf of the schema
	rows    parquet.Rows
	batch   []parquet.Row
	have    []parquet.Row // of batch, not yet returned
	row     int           // number of the row returned last, from 1
	fields  []string
}

type parquetColumn struct {
	name  string
	field int                                 // of a row, when it can be read
	text  func(parquet.Value) (string, error) // nil when the column cannot be read
}

func isParquet(head []byte) bool { return strings.HasPrefix(string(head), parquetMagic) }

func newParquetRows(r io.Reader) (rows *Rows, err error) {
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
	p := &parquetRows{rows: parquet.MultiRowGroup(f.RowGroups()...).Rows(), batch: make([]parquet.Row, 64)}
	rows = &Rows{Next: p.next, count: int(f.NumRows()), unreadable: map[string]string{}}
	rows.position = func(field int) (line, column int) { return p.row, field + 1 }
	for _, path := range f.Schema().Columns() {
		c, why := parquetColumn{name: path[0], field: len(rows.Names)}, "it is nested or repeated"
		if leaf, _ := f.Schema().Lookup(path...); len(path) == 1 && leaf.MaxRepetitionLevel == 0 {
			c.text, why = textOf(leaf.Node.Type())
		}
		if c.text != nil {
			rows.Names = append(rows.Names, c.name)
		} else {
			rows.unreadable[c.name] = why
		}
		p.columns = append(p.columns, c)
	}
	p.fields = make([]string, len(rows.Names))
	return rows, nil
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("Parquet: the file is damaged or of a kind that cannot be read: %v", r)
	}
}

func (p *parquetRows) next() (fields []string, row int, err error) {
	defer recovered(&err)
	if len(p.have) == 0 {
		n, err := p.rows.ReadRows(p.batch)
		p.have = p.batch[:n]
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, fmt.Errorf("Parquet: after row %d: %w", p.row, err)
		case n == 0 && err == nil:
			return nil, 0, fmt.Errorf("Parquet: after row %d: the file ends early", p.row)
		case n == 0:
			return nil, 0, io.EOF
		}
	}
	values := p.have[0]
	p.have = p.have[1:]
	p.row++
	clear(p.fields)
	for _, v := range values {
		c := &p.columns[v.Column()]
		if c.text == nil || v.IsNull() {
			continue
		}
		if p.fields[c.field], err = c.text(v); err != nil {
			return nil, 0, &Problem{Line: p.row - 1, Row: true, Column: c.name, Reason: err.Error()}
		}
	}
	return p.fields, p.row, nil
}

func textOf(t parquet.Type) (text func(parquet.Value) (string, error), why string) {
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	kind := t.Kind()
	switch l := logical.(type) {
	case *format.DecimalType:
		return func(v parquet.Value) (string, error) { return decimalText(v, int(l.Scale)) }, ""
	case *format.DateType:
		return func(v parquet.Value) (string, error) {
			return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly), nil
		}, ""
	case *format.IntType:
		if !l.IsSigned {
			return func(v parquet.Value) (string, error) {
				if kind == parquet.Int32 {
					return strconv.FormatUint(uint64(v.Uint32()), 10), nil
				}
				return strconv.FormatUint(v.Uint64(), 10), nil
			}, ""
		}
	case nil, *format.StringType, *format.EnumType, *format.NullType:
	default:
		kind = parquet.Int96 // a time or the like
	}
	if kind == parquet.Int96 || kind == parquet.FixedLenByteArray {
		return nil, fmt.Sprintf("it holds values of the type %v; convert them to numbers or texts", t)
	}
	return func(v parquet.Value) (string, error) {
		switch kind {
		case parquet.Float:
			return floatText(float64(v.Float()), 32), nil
		case parquet.Double:
			return floatText(v.Double(), 64), nil
		case parquet.ByteArray:
			if len(v.ByteArray()) > maxRecord {
				return "", errLong
			}
		}
		return v.String(), nil
	}, ""
}

// floatText is the shortest decimal that is read back as v; a NaN is a missing value, as data frames write one.
func floatText(v float64, bits int) string {
	if math.IsNaN(v) {
		return ""
	}
	return shortestDecimal(v, bits)
}

func decimalText(v parquet.Value, scale int) (string, error) {
	if scale < 0 || scale > 400 {
		return "", fmt.Errorf("a decimal with a scale of %d cannot be read", scale)
	}
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
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	text := new(big.Rat).SetFrac(whole, unit).FloatString(scale)
	if scale > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text, nil
}

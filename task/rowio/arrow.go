package rowio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"cfq/task"
)

// maxMessage bounds the bytes of one record batch, before and after decompression.
const maxMessage = 256 << 20

// limited refuses what a damaged stream asks for. The reader of the stream turns the panic into an error.
type limited struct{ memory.Allocator }

func (l limited) Allocate(size int) []byte {
	if size > maxMessage {
		panic(errors.New("a record batch is larger than 256 MiB; write smaller ones"))
	}
	return l.Allocator.Allocate(size)
}

func (l limited) Reallocate(size int, b []byte) []byte {
	if size > maxMessage {
		panic(errors.New("a record batch is larger than 256 MiB; write smaller ones"))
	}
	return l.Allocator.Reallocate(size, b)
}

// arrowSource reads an Arrow IPC stream as the text fields that a CSV file of the same values has.
type arrowSource struct {
	in      *ipc.Reader
	schema  *arrow.Schema
	columns []string
	kept    []int
	batch   []column // of the record batch that is being read
	rows    int      // of it
	at      int      // rows of it that were returned
	row     int      // of the stream, from 1
}

// column are the values of a column of a record batch as text: as the task reads them and as they are handed on.
type column struct {
	text      func(i int) string // nil when the task cannot read the type
	exact     func(i int) string
	isMissing func(i int) bool
}

func openArrow(r io.Reader) (s *arrowSource, err error) {
	defer recovered(&err)
	in, err := ipc.NewReader(&messages{r: r}, ipc.WithAllocator(limited{memory.DefaultAllocator}))
	if err != nil {
		return nil, fmt.Errorf("this is no Arrow stream, or a damaged one: %w", err)
	}
	s = &arrowSource{in: in, schema: in.Schema()}
	for _, f := range s.schema.Fields() {
		s.columns = append(s.columns, f.Name)
	}
	if s.columns == nil {
		return nil, errors.New("the schema has no columns")
	}
	return s, nil
}

// recovered turns a panic of the library into an error, as over a damaged stream.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the Arrow stream is damaged: %v", r)
	}
}

func (s *arrowSource) names() []string { return s.columns }

// unreadable says why a task cannot read a column.
func (s *arrowSource) unreadable(name string) string {
	for _, f := range s.schema.Fields() {
		if f.Name == name && !readable(f.Type) {
			return fmt.Sprintf("it holds values of the type %v; convert them to numbers or texts", f.Type)
		}
	}
	return ""
}

func (s *arrowSource) keep(columns []int) (kept []Column, err error) {
	s.kept = columns
	for _, i := range columns {
		f := s.schema.Field(i)
		as := plain(f.Type)
		further := []arrow.Type{arrow.TIMESTAMP, arrow.TIME32, arrow.TIME64, arrow.DURATION, arrow.FIXED_SIZE_BINARY}
		if !readable(as) && !slices.Contains(further, as.ID()) {
			return nil, fmt.Errorf("column %q cannot be kept: values of the type %v cannot", f.Name, f.Type)
		}
		kept = append(kept, Column{Name: f.Name, as: as})
	}
	return kept, nil
}

// plain is the type of the values of a dictionary, and any other type itself.
func plain(t arrow.DataType) arrow.DataType {
	if d, ok := t.(*arrow.DictionaryType); ok {
		return plain(d.ValueType)
	}
	return t
}

// readable says whether a task can read values of a type.
func readable(t arrow.DataType) bool {
	switch t := plain(t); t.ID() {
	case arrow.NULL, arrow.BOOL, arrow.DATE32, arrow.DATE64, arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW,
		arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		return true
	default:
		return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
	}
}

func (s *arrowSource) next() (rec record, err error) {
	defer recovered(&err)
	for s.at == s.rows {
		if !s.in.Next() {
			if err := s.in.Err(); err != nil {
				return record{}, fmt.Errorf("after row %d: %w", s.row, err)
			}
			return record{}, io.EOF
		}
		b := s.in.RecordBatch()
		s.batch, s.rows, s.at = s.batch[:0], int(b.NumRows()), 0
		for _, a := range b.Columns() {
			s.batch = append(s.batch, newColumn(a))
		}
	}
	i := s.at
	s.at++
	s.row++
	rec = record{fields: make([]string, len(s.batch)), line: s.row}
	for k := range s.batch {
		if c := &s.batch[k]; c.text != nil && !c.isMissing(i) {
			rec.fields[k] = c.text(i)
		}
	}
	for _, k := range s.kept {
		c := &s.batch[k]
		if c.isMissing(i) {
			rec.kept = append(rec.kept, nil)
		} else {
			rec.kept = append(rec.kept, c.exact(i))
		}
	}
	return rec, nil
}

// newColumn prepares the values of a column to be read.
func newColumn(a arrow.Array) column {
	c := column{exact: a.ValueStr, isMissing: a.IsNull}
	if readable(a.DataType()) {
		c.text = a.ValueStr
	}
	switch a := a.(type) {
	case *array.Dictionary:
		in := newColumn(a.Dictionary())
		of := func(text func(int) string) func(int) string {
			return func(i int) string { return text(a.GetValueIndex(i)) }
		}
		c.exact, c.isMissing = of(in.exact), func(i int) bool {
			return a.IsNull(i) || in.isMissing(a.GetValueIndex(i))
		}
		if in.text != nil {
			c.text = of(in.text)
		}
	case *array.Float16:
		c.text = func(i int) string { return number(float64(a.Value(i).Float32()), 32) }
	case *array.Float32:
		c.text = func(i int) string { return number(float64(a.Value(i)), 32) }
	case *array.Float64:
		c.text = func(i int) string { return number(a.Value(i), 64) }
	case *array.Binary:
		c.text = a.ValueString
	case *array.LargeBinary:
		c.text = a.ValueString
	case *array.BinaryView:
		c.text = a.ValueString
	case array.StringLike:
		c.text, c.exact = a.Value, a.Value
	default:
		if arrow.IsDecimal(a.DataType().ID()) {
			c.text = func(i int) string {
				whole, part, _ := strings.Cut(a.ValueStr(i), ".")
				return strings.TrimSuffix(whole+"."+strings.TrimRight(part, "0"), ".")
			}
		}
	}
	return c
}

// number is the shortest decimal that is read back as v; a NaN is a missing value, as data frames write one.
func number(v float64, bits int) string {
	if math.IsNaN(v) {
		return ""
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, bits), 64)
	return task.Decimal(v)
}

// arrowWriter writes an Arrow IPC stream.
type arrowWriter struct {
	to      io.Writer
	message bytes.Buffer // whole ones
	out     *ipc.Writer
	columns []Column
	rows    *array.RecordBuilder
	n       int
}

func newArrowWriter(w io.Writer, columns []Column) *arrowWriter {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.arrow(), Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	a := &arrowWriter{to: w, columns: columns, rows: array.NewRecordBuilder(memory.DefaultAllocator, schema)}
	a.out = ipc.NewWriter(&a.message, ipc.WithSchema(schema))
	return a
}

// arrow is the type of a column.
func (c *Column) arrow() arrow.DataType {
	if c.as != nil {
		return c.as
	}
	switch c.Kind {
	case Int:
		return arrow.PrimitiveTypes.Int64
	case Float:
		return arrow.PrimitiveTypes.Float64
	case Bool:
		return arrow.FixedWidthTypes.Boolean
	case Floats:
		return arrow.ListOf(arrow.PrimitiveTypes.Float32)
	}
	return arrow.BinaryTypes.String
}

func (a *arrowWriter) write(cells []any) error {
	for i, c := range cells {
		if err := appendCell(a.rows.Field(i), c); err != nil {
			return fmt.Errorf("column %q: %w", a.columns[i].Name, err)
		}
	}
	a.n++
	return nil
}

func appendCell(b array.Builder, cell any) error {
	switch x := cell.(type) {
	case nil:
		b.AppendNull()
		return nil
	case string:
		if b, ok := b.(array.StringLikeBuilder); ok {
			b.Append(x)
			return nil
		}
		return b.AppendValueFromString(x)
	case int:
		if b, ok := b.(*array.Int64Builder); ok {
			b.Append(int64(x))
			return nil
		}
	case bool:
		if b, ok := b.(*array.BooleanBuilder); ok {
			b.Append(x)
			return nil
		}
	case float64:
		if b, ok := b.(*array.Float64Builder); ok {
			if math.IsNaN(x) {
				b.AppendNull()
			} else {
				b.Append(x)
			}
			return nil
		}
	case []float32:
		if b, ok := b.(*array.ListBuilder); ok {
			b.Append(x != nil)
			b.ValueBuilder().(*array.Float32Builder).AppendValues(x, nil)
			return nil
		}
	}
	return fmt.Errorf("a cell of the type %T in a column of the type %v", cell, b.Type())
}

// flush writes the rows as one record batch.
func (a *arrowWriter) flush() error {
	if a.n > 0 {
		batch := a.rows.NewRecordBatch()
		defer batch.Release()
		a.n = 0
		if err := a.out.Write(batch); err != nil {
			return err
		}
	}
	return a.send()
}

// send hands on whole messages.
func (a *arrowWriter) send() error {
	_, err := a.to.Write(a.message.Bytes())
	a.message.Reset()
	return err
}

// close ends the stream, so that a reader knows that it is whole.
func (a *arrowWriter) close() error {
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.out.Close(); err != nil {
		return err
	}
	return a.send()
}

package rowio

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// stream is an Arrow stream of record batches with the columns of arrays.
func stream(t testing.TB, names []string, batches ...[]arrow.Array) []byte {
	t.Helper()
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: batches[0][i].DataType(), Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema), ipc.WithZstd())
	for _, arrays := range batches {
		if err := w.Write(array.NewRecordBatch(schema, arrays, int64(arrays[0].Len()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// values makes an array of texts, "-" for null.
func values(t testing.TB, as arrow.DataType, texts ...string) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, as)
	for _, text := range texts {
		if text == "-" {
			b.AppendNull()
		} else if err := appendCell(b, text); err != nil {
			t.Fatal(err)
		}
	}
	return b.NewArray()
}

func TestReadArrow(t *testing.T) {
	tk := parse(t, people)
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	in := stream(t, []string{"who", "age", "color"},
		[]arrow.Array{
			values(t, arrow.PrimitiveTypes.Int64, "7", "8", "-"), values(t, arrow.PrimitiveTypes.Float32, "30.1", "-", "3"),
			values(t, dict, "red", "blue", "red"),
		},
		[]arrow.Array{
			values(t, arrow.PrimitiveTypes.Int64, "10", "11"), values(t, arrow.PrimitiveTypes.Float32, "NaN", "95"),
			values(t, dict, "-", "blue"),
		})
	want := []string{
		`["7"] [30.1 1 0]`,
		`["8"] row 2, column "age": the value is missing`,
		`[<nil>] row 3, column "who": the field is empty: who is this row about?`,
		`["10"] row 4, column "age": the value is missing`,
		`["11"] filtered`,
	}
	got, _, err := read(t, bytes.NewReader(in), tk, Options{Format: Arrow})
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	// A stream that ends early gives the rows before, and an error.
	for cut := range len(in) - 8 {
		got, _, err := read(t, bytes.NewReader(in[:cut]), tk, Options{Format: Arrow})
		if cut > 0 && err == nil && len(got) != 0 && len(got) != 3 && len(got) != 5 {
			t.Errorf("cut off at %d of %d bytes: %q", cut, len(in), got)
		}
	}
}

// TestKeepArrow: what is kept has the type and the value that it came with, whatever the task reads of it.
func TestKeepArrow(t *testing.T) {
	day := arrow.Date32FromTime(time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	days := array.NewDate32Builder(memory.DefaultAllocator)
	days.Append(day)
	halves := array.NewFloat16Builder(memory.DefaultAllocator)
	halves.Append(float16.New(0.1))
	money := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 20, Scale: 4})
	money.Append(decimal128.FromI64(-125000))
	whole := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 20, Scale: 0})
	whole.Append(decimal128.FromI64(1200))
	tk := parse(t, "version: 1\ndata: {label: y, favourable: \"1\"}\nfeatures: [{name: c, kind: numeric}]")
	for _, c := range []struct {
		a    arrow.Array
		text string // that the task reads; "" when it cannot read the type
	}{
		{values(t, arrow.PrimitiveTypes.Int8, "-7"), "-7"},
		{values(t, arrow.PrimitiveTypes.Uint64, "18446744073709551615"), "18446744073709551615"},
		{values(t, arrow.PrimitiveTypes.Float32, "0.1"), "0.1"},
		{values(t, arrow.PrimitiveTypes.Float64, "0.1"), "0.1"},
		{values(t, arrow.PrimitiveTypes.Float64, "1e+300"), "1e+300"},
		{halves.NewArray(), "0.099975586"},
		{values(t, arrow.FixedWidthTypes.Boolean, "true"), "true"},
		{values(t, arrow.BinaryTypes.String, "(null)"), "(null)"},
		{values(t, arrow.BinaryTypes.LargeString, "ä"), "ä"},
		{values(t, arrow.BinaryTypes.StringView, "a longer text than a view holds"), "a longer text than a view holds"},
		{values(t, arrow.BinaryTypes.Binary, "YWI="), "ab"},
		{days.NewArray(), "2026-03-04"},
		{money.NewArray(), "-12.5"},
		{whole.NewArray(), "1200"},
		{values(t, arrow.FixedWidthTypes.Timestamp_us, "2026-03-04T05:06:07.000008Z"), ""},
		{values(t, &arrow.TimestampType{Unit: arrow.Second}, "2026-03-04 05:06:07"), ""},
		{values(t, arrow.FixedWidthTypes.Duration_ms, "90"), ""},
		{values(t, arrow.FixedWidthTypes.Time32s, "05:06:07"), ""},
		{values(t, &arrow.FixedSizeBinaryType{ByteWidth: 2}, "YWI="), ""},
	} {
		name := c.a.DataType().String()
		null := array.MakeArrayOfNull(memory.DefaultAllocator, c.a.DataType(), 1)
		in := stream(t, []string{"c", "kept"}, []arrow.Array{values(t, arrow.PrimitiveTypes.Int8, "1"), c.a},
			[]arrow.Array{values(t, arrow.PrimitiveTypes.Int8, "1"), null})
		r, err := Open(bytes.NewReader(in), tk, Options{Format: Arrow, Keep: []string{"kept"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := r.source.(*arrowSource).unreadable("kept"); (got == "") != (c.text != "") {
			t.Errorf("%s: %q", name, got)
		}
		if f := newColumn(c.a); f.text != nil && f.text(0) != c.text {
			t.Errorf("%s: read as %q, want %q", name, f.text(0), c.text)
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, Arrow, r.Kept(), true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Each(t.Context(), func(b *Batch) error {
			for _, row := range b.Rows {
				if err := w.Write(row.Kept); err != nil {
					return err
				}
			}
			return w.Flush()
		}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		back, err := ipc.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		var got []arrow.Array
		for back.Next() {
			a := back.RecordBatch().Column(0)
			a.Retain()
			got = append(got, a)
		}
		all, err := array.Concatenate(got, memory.DefaultAllocator)
		want, _ := array.Concatenate([]arrow.Array{c.a, null}, memory.DefaultAllocator)
		if err != nil || !array.Equal(all, want) {
			t.Errorf("%s: kept as %v, want %v (%v)", name, all, want, err)
		}
	}
	list := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	list.AppendNull()
	in := stream(t, []string{"c", "kept"}, []arrow.Array{values(t, arrow.PrimitiveTypes.Int8, "1"), list.NewArray()})
	if _, err := Open(bytes.NewReader(in), tk, Options{Format: Arrow, Keep: []string{"kept"}}); err == nil ||
		!strings.Contains(err.Error(), `column "kept" cannot be kept`) {
		t.Error(err)
	}
}

// TestWriteArrow: cells come back by type, and a stream without rows has its schema.
func TestWriteArrow(t *testing.T) {
	columns := []Column{{Name: "id"}, {"n", Int, nil}, {"x", Float, nil}, {"ok", Bool, nil}, {"at", Floats, nil}}
	for _, rows := range [][][]any{
		nil,
		{{"a", 7, 0.1, true, []float32{0.5, 2}}, {nil, nil, nil, nil, nil}, {"b", "8", "0.25", false, []float32{}}},
	} {
		var out pieces
		w, err := NewWriter(&out, Arrow, columns, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		back, err := ipc.NewReader(bytes.NewReader(bytes.Join(out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for back.Next() {
			b := back.RecordBatch()
			for i := range int(b.NumRows()) {
				var line []string
				for _, c := range b.Columns() {
					line = append(line, c.ValueStr(i))
				}
				got = append(got, strings.Join(line, " "))
			}
		}
		var want []string
		if rows != nil {
			want = []string{"a 7 0.1 true [0.5,2]", "(null) (null) (null) (null) (null)", "b 8 0.25 false []"}
		}
		if d := cmp.Diff(want, got); d != "" || back.Err() != nil {
			t.Error(d, back.Err())
		}
		if types := fmt.Sprint(back.Schema().Fields()[1].Type, back.Schema().Fields()[4].Type); types !=
			"int64 list<item: float32, nullable>" {
			t.Error(types)
		}
	}
	w, _ := NewWriter(&pieces{}, Arrow, columns, true)
	err := w.Write([]any{1, 2, 3.0, true, nil})
	if err == nil || !strings.Contains(err.Error(), `column "id": a cell of the`) {
		t.Error(err)
	}
}

func FuzzArrow(f *testing.F) {
	tk := parse(f, people)
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	f.Add(stream(f, []string{"who", "age", "color"}, []arrow.Array{
		values(f, arrow.PrimitiveTypes.Int64, "7", "-"), values(f, arrow.PrimitiveTypes.Float32, "30", "3"),
		values(f, dict, "red", "blue"),
	}))
	f.Add(stream(f, []string{"age", "who", "color"}, []arrow.Array{
		values(f, &arrow.Decimal128Type{Precision: 9, Scale: 2}, "7", "-"),
		values(f, arrow.BinaryTypes.LargeString, "30", "3"),
		values(f, arrow.BinaryTypes.StringView, "red", "blue"),
	}))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Open(bytes.NewReader(in), tk, Options{Format: Arrow, Keep: []string{"age", "color"}})
		if err != nil {
			return
		}
		rows := 0
		_, _ = r.Each(t.Context(), func(b *Batch) error {
			if rows += len(b.Rows); rows > 2*maxRows { // a batch of nulls is as long as it says
				return io.EOF
			}
			return nil
		})
	})
}

package task

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"cfq/internal/must"
)

func writeParquet(t testing.TB, columns parquet.Group, rows ...[]any) []byte {
	t.Helper()
	schema := parquet.NewSchema("people", columns)
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema, parquet.MaxRowsPerRowGroup(100))
	for _, row := range rows {
		rec := make(parquet.Row, len(row))
		for i, v := range row {
			defined := 0
			if v != nil && schema.Fields()[i].Optional() {
				defined = 1
			}
			rec[i] = parquet.ValueOf(v).Level(0, defined, i)
		}
		must.Get(w.WriteRows([]parquet.Row{rec}))(t)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

func TestParquetIsCSV(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "testdata", "loans", "train.csv")))(t)
	records := must.Get(csv.NewReader(bytes.NewReader(text)).ReadAll())(t)
	task := must.Get(Load(filepath.Join("..", "testdata", "loans", "task.yaml")))(t)
	names := records[0]
	order := slices.Sorted(slices.Values(names))
	columns := parquet.Group{}
	for _, n := range names {
		columns[n] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
		if _, ok := Number(records[1][slices.Index(names, n)]); !ok {
			columns[n] = parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
		}
	}
	columns["months"] = parquet.Int(64)
	columns["dependants"] = parquet.Int(32)
	var rows [][]any
	for _, rec := range records[1:] {
		row := make([]any, len(order))
		for i, n := range order {
			field := rec[slices.Index(names, n)]
			v, ok := Number(field)
			switch {
			case n == "months":
				row[i] = int64(v)
			case n == "dependants":
				row[i] = int32(v)
			case ok:
				row[i] = v
			case field != "":
				row[i] = field
			}
		}
		rows = append(rows, row)
	}
	file := writeParquet(t, columns, rows...)
	o := ReadOptions{Hash: true, Keep: []string{"income", "sex"}}
	want := must.Get(ReadFrom(t.Context(), bytes.NewReader(text), task, o))(t)
	got := must.Get(ReadFrom(t.Context(), bytes.NewReader(file), task, o))(t)
	for i := range want.Lines {
		want.Lines[i]-- // the header is no row
	}
	want.NoLines = true
	must.Same(t, want, got)
	path := filepath.Join(t.TempDir(), "train.csv") // the content decides, not the name
	must.Do(t, os.WriteFile(path, file, 0o600))
	must.Same(t, order, must.Get(task.Data.Header(path))(t))
	n := 0
	if _, err := Stream(t.Context(), path, task, ReadOptions{}, 300,
		func(p *People) error {
			must.Same(t, fmt.Sprint("row ", p.Rows[0]), p.Place(0))
			n += p.N
			return nil
		}); err != nil || n != want.N {
		t.Errorf("%d people, %v", n, err)
	}
}

func TestParquetTypes(t *testing.T) {
	t.Parallel()
	columns := parquet.Group{
		"bool":   parquet.Leaf(parquet.BooleanType),
		"date":   parquet.Date(),
		"dec":    parquet.Decimal(2, 9, parquet.Int32Type),
		"fixed":  parquet.Decimal(3, 20, parquet.FixedLenByteArrayType(9)),
		"double": parquet.Leaf(parquet.DoubleType),
		"float":  parquet.Leaf(parquet.FloatType),
		"null":   parquet.Optional(parquet.String()),
		"text":   parquet.String(),
		"u":      parquet.Uint(64),
	}
	fixed := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfb, 0x2e} // -1234
	rows := must.Get((&Data{}).rows(bytes.NewReader(writeParquet(t, columns, []any{
		true, int32(19716), int32(-1250), 0.1,
		fixed, float32(0.1), nil, "a,b", uint64(math.MaxUint64),
	}, []any{
		false, int32(-1), int32(5), 1e300, make([]byte, 9),
		float32(3), "x", " y", uint64(0),
	}, []any{
		false, int32(0), int32(100), math.NaN(), fixed, float32(1e-7), "x", "",
		uint64(7),
	}))))(t)
	for i, want := range []string{
		"true|2023-12-25|-12.5|0.1|-1.234|0.1||a,b|18446744073709551615",
		"false|1969-12-31|0.05|1e+300|0|3|x| y|0",
		"false|1970-01-01|1||-1.234|1e-07|x||7",
	} {
		rec, row, err := rows.Next()
		if got := strings.Join(rec, "|"); err != nil || row != i+1 || got != want {
			t.Errorf("row %d: %q, %v; want %q", row, got, err, want)
		}
	}
	if _, _, err := rows.Next(); err != io.EOF { //nolint:errorlint // as documented
		t.Errorf("the end: %v", err)
	}
}

func TestParquetThatCannotBeRead(t *testing.T) {
	t.Parallel()
	task := parse(t, "version: 1\nfeatures: [{name: age, kind: numeric}, {name: home, kind: onehot, values: [a, b]}]\n")
	good := writeParquet(t, parquet.Group{"age": parquet.Leaf(parquet.DoubleType), "home": parquet.String()},
		[]any{1.0, "a"}, []any{2.0, "c"})
	other := func(n parquet.Node, v any) []byte {
		return writeParquet(t, parquet.Group{"age": n, "home": parquet.String()}, []any{v, "a"})
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"gzip":  {zipped(t, good), "cannot be read from a gzip file or a stream"},
		"cut":   {good[:len(good)-9], "Parquet: the file is damaged or cut off"},
		"magic": {[]byte("PAR1"), "Parquet: "},
		"no column": {
			writeParquet(t, parquet.Group{"ag": parquet.String(), "home": parquet.String()}, []any{"1", "a"}),
			`there is no column "age" (feature age); did you mean "ag"?`,
		},
		"time": {
			other(parquet.Timestamp(parquet.Millisecond), int64(3)),
			`column "age" (feature age) cannot be read: it holds values of the type TIMESTAMP`,
		},
		"bytes": {
			other(parquet.Leaf(parquet.FixedLenByteArrayType(2)), []byte("ab")),
			`column "age" (feature age) cannot be read: it holds values of the type FIXED_LEN_BYTE_ARRAY`,
		},
		"list": {
			other(parquet.Repeated(parquet.Leaf(parquet.DoubleType)), 3.0),
			`column "age" (feature age) cannot be read: it is nested or repeated`,
		},
	} {
		path := filepath.Join(t.TempDir(), "people")
		must.Do(t, os.WriteFile(path, c.file, 0o600))
		if _, err := Read(t.Context(), path, task, ReadOptions{}); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	p, err := ReadFrom(t.Context(), bytes.NewReader(good), task, ReadOptions{})
	if err != nil || p.N != 1 || p.Failed != 1 ||
		p.Problems[0].Error() != `row 1, column "home": "c" is not a known value; one of: a, b` {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = ReadFrom(t.Context(), io.MultiReader(bytes.NewReader(good)), task, ReadOptions{})
	must.Fail(t, err, "stream")
}

func TestParquetOverrides(t *testing.T) {
	t.Parallel()
	task := parse(t, full)
	path := filepath.Join(t.TempDir(), "o.parquet")
	double := parquet.Optional(parquet.Leaf(parquet.DoubleType))
	file := writeParquet(t, parquet.Group{"feature": parquet.String(), "max": double, "row": parquet.Int(64)},
		[]any{"income", 25000.0, int64(3)}, []any{"housing", nil, int64(7)}, []any{"incom", nil, int64(8)})
	must.Do(t, os.WriteFile(path, file, 0o600))
	_, err := task.Overrides(path)
	must.Fail(t, err, `o.parquet:3:1: there is no feature "incom"`)
}

// FuzzParquet: any bytes that begin with the mark of Parquet are people or an error, never a panic.
func FuzzParquet(f *testing.F) {
	f.Add(writeParquet(f, parquet.Group{
		"age": parquet.Leaf(parquet.DoubleType), "color": parquet.Optional(parquet.String()), "member": parquet.String(),
	},
		[]any{30.0, "red", "yes"}, []any{40.5, nil, "no"}))
	f.Add([]byte(parquetMagic + "\x00\x00\x00\x00" + parquetMagic))
	task := must.Get(Parse("small.yaml", []byte(small)))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isParquet(data) {
			return
		}
		p, err := ReadFrom(context.Background(), bytes.NewReader(data), task, ReadOptions{})
		if err == nil && p.N+p.Failed+p.Filtered+p.Excluded+p.Undrawn != p.Total {
			t.Fatalf("%+v", p)
		}
	})
}

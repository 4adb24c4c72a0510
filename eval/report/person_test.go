package report

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
)

// A Parquet file has the cells of the CSV.
func TestParquetIsTheCSV(t *testing.T) {
	t.Parallel()
	d := complete()
	first := slices.IndexFunc(d.Result.Records, func(r eval.Record) bool { return r.Evaluated })
	d.Result.Records[first].Steps[1].Full.Point = []float32{0.1, -2, 1e-30}
	var text, data bytes.Buffer
	if err := CSV(&text, d); err != nil {
		t.Fatal(err)
	}
	if err := Parquet(&data, d); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]parquet.Row, len(lines))
	if n, _ := f.RowGroups()[0].Rows().ReadRows(rows); n != len(lines)-1 || f.NumRows() != int64(n) {
		t.Fatalf("%d rows, want %d", n, len(lines)-1)
	}
	for i, line := range lines[1:] {
		for j, name := range lines[0] {
			leaf := slices.IndexFunc(f.Schema().Columns(), func(path []string) bool { return path[0] == name })
			var cells []string
			for _, v := range rows[i] {
				if v.Column() == leaf && !v.IsNull() {
					cells = append(cells, v.String())
				}
			}
			if got := strings.Join(cells, " "); got != line[j] {
				t.Fatalf("line %d, %s: %q, want %q", i+1, name, got, line[j])
			}
		}
	}
}

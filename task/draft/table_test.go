package draft

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"cfq/internal/must"
	"cfq/task"
)

func TestHowAFileIsRead(t *testing.T) {
	numbered := []string{"column1", "column2", "column3"}
	for _, c := range []struct {
		name, text string
		names      []string
		want       task.Data
		columns    []string
		rows       int
	}{
		{"plain", "a,b\n1,x\n2,y\n", nil, task.Data{Delimiter: ','}, []string{"a", "b"}, 2},
		{"semicolons and quotes", "\"a;a\";b\n1;\"x,y\"\n2;z\n", nil, task.Data{Delimiter: ';'}, []string{"a;a", "b"}, 2},
		{"tabs", "a\tb\tc\n1\t2\t3,5\n1\t2\t3,6\n", nil, task.Data{Delimiter: '\t'}, []string{"a", "b", "c"}, 2},
		{
			"blanks around fields", "39, Private, 13\n50, Other, 9\n",
			[]string{"age", "work", "years"},
			task.Data{Delimiter: ',', Trim: true, Columns: []string{"age", "work", "years"}},
			[]string{"age", "work", "years"},
			2,
		},
		{
			"blanks between fields, no names", "A11 6 x\nA12 7 y\n", nil,
			task.Data{Delimiter: ' ', Columns: numbered[:3]},
			numbered[:3], 2,
		},
		{
			"comment", "|1x3 something\na,b,c\n1,2,3\n4,5,6\n", nil,
			task.Data{Delimiter: ',', Preamble: task.Preamble{Comment: '|'}},
			[]string{"a", "b", "c"},
			2,
		},
		{
			"texts without header", "yes,red\nno,blue\nyes,red\n", nil,
			task.Data{Delimiter: ',', Columns: numbered[:2]},
			numbered[:2], 3,
		},
		{"a broken row", "a,b\n1,2\n3\n4,5\n", nil, task.Data{Delimiter: ','}, []string{"a", "b"}, 2},
		{"one column", "a\n1\n2\n", nil, task.Data{Delimiter: ','}, []string{"a"}, 2},
		{"byte order mark, CRLF", "\xef\xbb\xbfa,b\r\n1,2\r\n", nil, task.Data{Delimiter: ','}, []string{"a", "b"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := open(t, c.text, c.names...)
			must.Same(t, c.want, table.Data)
			if !slices.Equal(table.Names, c.columns) || table.Rows != c.rows {
				t.Errorf("columns %q, %d rows; want %q, %d", table.Names, table.Rows, c.columns, c.rows)
			}
		})
	}
}

func TestTableReadsWhatTasksRead(t *testing.T) {
	text := "# made by hand\nage, home\n 30 , rent\n41,\"own, \"\n\n52, rent \n"
	table := open(t, text)
	d := table.Data
	if d.Comment != '#' || !d.Trim {
		t.Fatalf("%+v", d)
	}
	tk := &task.Task{Data: d, Features: []task.Feature{
		{Name: "age", Column: "age", Encoding: &task.Standardized{Std: 1}, Width: 1},
		{Name: "home", Column: "home", Encoding: &task.OneHot{Values: table.column("home").values}, Width: 2, Offset: 1},
	}}
	p, err := task.Read(t.Context(), write(t, "data.csv", text), tk, task.ReadOptions{})
	if err != nil || p.N != 3 || p.Failed > 0 {
		t.Fatalf("%v, %v", p, err)
	}
	want := []float32{30, 1, 0, 41, 0, 1, 52, 1, 0}
	must.Same(t, want, p.X)
}

func TestSelections(t *testing.T) {
	path := write(t, "data.csv", "a,b\n0,x\n1,y\n2,z\n3,u\n")
	for _, c := range []struct {
		s    task.ReadOptions
		want []string
	}{
		{task.ReadOptions{Only: []int{2, 0}}, []string{"0", "2"}},
		{task.ReadOptions{Except: []int{1, 2}}, []string{"0", "3"}},
	} {
		table := must.Get(readTable(t.Context(), Source{path, nil, c.s}))(t)
		must.Same(t, c.want, table.cols[0].values)
	}
	_, err := readTable(t.Context(), Source{path, nil, task.ReadOptions{Only: []int{1, 9}}})
	must.Fail(t, err, "row 9")
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("a,b\n1,2\n"))
	_ = z.Close()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":   {"", "empty"},
		"header":    {"a,b\n", "no data rows"},
		"utf16":     {"\xff\xfea\x00,\x00", "UTF-16"},
		"preface":   {"exported on Monday\n\na,b,c\n1,2,3\n", "as many fields as the first line"},
		"binary":    {"PK\x03\x04\x00\x00", "binary"},
		"latin1":    {"a,b\n1,caf\xe9\n", "UTF-8"},
		"truncated": {packed.String()[:packed.Len()-10], "EOF"},
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := readTable(t.Context(), Source{path, nil, task.ReadOptions{}})
		must.Fail(t, err, c.want)
		must.Fail(t, err, name)
	}
	path := filepath.Join(dir, "data.gz")
	must.Do(t, os.WriteFile(path, packed.Bytes(), 0o600))
	must.Same(t, 1, must.Get(readTable(t.Context(), Source{path, nil, task.ReadOptions{}}))(t).Rows)
	_, err := readTable(t.Context(), Source{path, []string{"one"}, task.ReadOptions{}})
	must.Fail(t, err, "1 columns are named")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(t, must.Err(readTable(ctx, Source{path, nil, task.ReadOptions{}})), "")
}

func TestParquet(t *testing.T) {
	type person struct {
		Age   float64 `parquet:"age"`
		Home  *string `parquet:"home,optional,dict"`
		Label bool    `parquet:"label"`
	}
	rent := "rent"
	path := filepath.Join(t.TempDir(), "people.parquet")
	must.Do(t, parquet.WriteFile(path, []person{{30.5, &rent, true}, {41, nil, false}, {52, &rent, true}}))
	table, err := readTable(t.Context(), Source{path, nil, task.ReadOptions{}})
	if err != nil || table.Rows != 3 || !slices.Equal(table.Names, []string{"age", "home", "label"}) {
		t.Fatalf("%+v, %v", table, err)
	}
	must.Same(t, []string{"30.5", "41", "52"}, table.column("age").values)
	p := draft(t, table, Options{Label: "label", Favourable: "true"})
	must.Same(t, []int8{1, 0, 1}, must.Get(task.Read(t.Context(), path, p.Task, task.ReadOptions{}))(t).Labels)
	_, err = readTable(t.Context(), Source{path, []string{"a"}, task.ReadOptions{}})
	must.Fail(t, err, "names its columns itself")
}

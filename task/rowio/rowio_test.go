package rowio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/task"
)

const people = `version: 1
data: {label: y, favourable: "1", missing: ["?"], id: who, filter: [{column: age, not: ["95"]}]}
features:
  - {name: age, kind: numeric}
  - {name: color, kind: onehot, values: [red, blue]}`

func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	return must.Get(task.Parse("task.yaml", []byte(text)))(t)
}

func read(t testing.TB, r io.Reader, tk *task.Task, o Options) (lines []string, n Counts, err error) {
	t.Helper()
	in, err := Open(r, tk, o)
	if err != nil {
		return nil, n, err
	}
	n, err = in.Each(t.Context(), func(b *Batch) error {
		if b.People.N*b.People.Dim != len(b.People.X) || len(b.Rows) == 0 || len(b.Rows) > maxRows {
			t.Errorf("a batch of %d rows with %d people, %d numbers", len(b.Rows), b.People.N, len(b.People.X))
		}
		next := 0
		for _, row := range b.Rows {
			must.Same(t, len(in.Kept()), len(row.Kept))
			line := strings.ReplaceAll(fmt.Sprintf("%q", row.Kept), "%!q(<nil>)", "<nil>")
			switch {
			case row.Problem != nil:
				line += " " + row.Problem.Error()
			case row.Person >= 0:
				must.Same(t, next, row.Person)
				line += fmt.Sprint(" ", b.People.X[next*b.People.Dim:(next+1)*b.People.Dim])
				next++
			default:
				line += " filtered"
			}
			lines = append(lines, line)
		}
		must.Same(t, b.People.N, next)
		return nil
	})
	if len(lines) != n.Rows {
		t.Errorf("%d rows, counted %+v", len(lines), n)
	}
	return lines, n, err
}

func TestRead(t *testing.T) {
	tk := parse(t, people)
	for name, c := range map[string]struct {
		o    Options
		in   string
		want []string
	}{
		"csv": {Options{Format: CSV, Keep: []string{"note", "who"}}, "\ufeffwho,age,note,color\r\n" +
			"7,30,\"a \"\"b\"\"\nc\",red\n8,95,,red\n9,old,x,red\n10,30\n\n11,30,x,green\n" +
			"12,30,x\"y,red\n,30,x,red\n13,40,z,?", []string{
			`["7" "a \"b\"\nc"] [30 1 0]`,
			`["8" ""] filtered`,
			`["9" "x"] line 5, column "age": "old" is not a number`,
			`[<nil> <nil>] line 6: 2 fields where 4 are expected`,
			`["11" "x"] line 8, column "color": "green" is not a known value; one of: red, blue`,
			`[<nil> <nil>] line 9: a quote stands inside an unquoted field`,
			`["" "x"] line 10, column "who": the field is empty: who is this row about?`,
			`["13" "z"] [40 0 0]`,
		}},
		"csv without header": {
			Options{Format: CSV, Columns: []string{"age", "color", "who"}},
			"30,red,a\n31,blue,b",
			[]string{`["a"] [30 1 0]`, `["b"] [31 0 1]`},
		},
		"tsv": {Options{Format: TSV, Keep: []string{"note"}}, "\ufeffwho\tage\tnote\tcolor\r\n" +
			"7\t30\t\\N\tred\r\n8\t\\N\t\"x\tred\n\n9\t30\t\t\\N\n10\t3", []string{
			`["7" <nil>] [30 1 0]`,
			`["8" "\"x"] line 3, column "age": the value is missing; where a program fills it in before the model, ` +
				`impute names what`,
			`[<nil> <nil>] line 4: 1 fields where 4 are expected`,
			`["9" ""] [30 0 0]`,
			`[<nil> <nil>] line 6: 2 fields where 4 are expected`,
		}},
		"tsv without header": {
			Options{Format: TSV, Columns: []string{"who", "age", "color"}},
			"7\t30\tblue\n",
			[]string{`["7"] [30 0 1]`},
		},
		"long": {
			Options{Format: TSV, Columns: []string{"who", "age", "color"}},
			strings.Repeat("x", 3<<20) + "\n7\t30\tblue\n",
			[]string{`[<nil>] line 1: the row is longer than 1 MiB`, `["7"] [30 0 1]`},
		},
		"no rows":    {Options{Format: CSV}, "who,age,color\n", nil},
		"no bytes":   {Options{Format: CSV, Keep: []string{"note"}}, "", nil},
		"empty part": {Options{Format: TSV, Columns: []string{"who", "age", "color"}}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, n, err := read(t, strings.NewReader(c.in), tk, c.o)
			must.Do(t, err)
			must.Same(t, c.want, got)
			must.Same(t, len(c.want), n.Rows)
		})
	}
}

func TestReadErrors(t *testing.T) {
	tk := parse(t, people)
	for in, c := range map[string]struct {
		o    Options
		want string
	}{
		"age,colour,who\n":                     {Options{Format: CSV}, `there is no column "color" (feature color)`},
		"who,age,color,x\n":                    {Options{Format: CSV, Keep: []string{"note"}}, `no column "note" to keep`},
		"PAR1....":                             {Options{Format: CSV}, "a Parquet file, which cannot be read from a stream"},
		"\xff\xfea\x00":                        {Options{Format: CSV}, "UTF-16"},
		"x":                                    {Options{Format: "json"}, `unknown format "json"`},
		"\"who,age,color\n":                    {Options{Format: CSV}, "the header: line 1"},
		"who,age,color\n7,\"3\n0\"x,red\n":     {Options{Format: CSV}, "line 2: a quoted field never ends"},
		"who,age,color\n\"" + long(1<<20) + "": {Options{Format: CSV}, "longer than 1 MiB"},
		strings.Repeat("x", 3<<20):             {Options{Format: TSV}, "the header: line 1: the row is longer than 1 MiB"},
	} {
		if _, _, err := read(t, strings.NewReader(in), tk, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %q", in, err, c.want)
		}
	}
	// What stands before is handed on.
	open := "who,age,color\n1,2,red\n7,\"3\n0\"x,red\n8,3,red\n"
	rows, _, err := read(t, strings.NewReader(open), tk, Options{Format: CSV})
	if err == nil || len(rows) != 1 {
		t.Errorf("%q, %v", rows, err)
	}
	boom := errors.New("boom")
	rows, _, err = read(t, io.MultiReader(strings.NewReader("who,age,color\n1,2,red\n"), iotest{boom}), tk,
		Options{Format: CSV})
	if !errors.Is(err, boom) || len(rows) != 1 {
		t.Errorf("%q, %v", rows, err)
	}
}

type iotest struct{ err error }

func (r iotest) Read([]byte) (int, error) { return 0, r.err }

func long(n int) string { return strings.Repeat("x\n", n) }

func TestStreamIsRead(t *testing.T) {
	tk := parse(t, strings.Replace(people, "id: who, ", "", 1))
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOf(rapid.SampledFrom([][]string{
			{"30", "red", "a"},
			{"40", "blue", ""},
			{"40", "?", "c"},
			{"95", "red", "0"},
			{"old", "red", "1"},
			{"50", "green", ""},
			{"", "red", "x y"},
			{"7", "", "z"},
		})).Draw(rt, "rows")
		texts := map[Format]*strings.Builder{CSV: {}, TSV: {}}
		texts[CSV].WriteString("age,color,note\n")
		texts[TSV].WriteString("age\tcolor\tnote\n")
		for _, r := range rows {
			texts[CSV].WriteString(strings.Join(r, ",") + "\n")
			line := strings.Join(r, "\t")
			if rapid.Bool().Draw(rt, "null") {
				line = strings.ReplaceAll("\t"+line+"\t", "\t\t", "\t\\N\t")
				line = line[1 : len(line)-1]
			}
			texts[TSV].WriteString(line + "\n")
		}
		want, err := task.ReadFrom(t.Context(), strings.NewReader(texts[CSV].String()), tk, task.ReadOptions{})
		for f, text := range texts {
			in, openErr := Open(strings.NewReader(text.String()), tk, Options{Format: f})
			must.Do(rt, openErr)
			got := &task.People{}
			n, streamErr := in.Each(t.Context(), func(b *Batch) error {
				got.X = append(got.X, b.People.X...)
				got.Lines = append(got.Lines, b.People.Lines...)
				got.Rows = append(got.Rows, b.People.Rows...)
				for _, row := range b.Rows {
					if row.Problem != nil {
						got.Problems = append(got.Problems, *row.Problem)
					}
				}
				return nil
			})
			must.Do(must.In(rt, f), streamErr)
			must.Same(must.In(rt, f), len(rows), n.Rows)
			if err != nil { // no row can be read
				if len(got.Rows) > 0 {
					rt.Fatalf("%s: %+v, want %v", f, n, err)
				}
				continue
			}
			if len(got.Rows) != want.N || n.Unreadable != want.Failed {
				rt.Fatalf("%s: %+v, want %d, %d", f, n, want.N, want.Failed)
			}
			for _, d := range []string{
				cmp.Diff(want.X, got.X), cmp.Diff(want.Lines, got.Lines), cmp.Diff(want.Rows, got.Rows),
				cmp.Diff(want.Problems, got.Problems),
			} {
				if d != "" {
					rt.Error(f, d)
				}
			}
		}
	})
}

func TestLatency(t *testing.T) {
	tk := parse(t, people)
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		rows := 0
		done := make(chan error)
		go func() {
			in, err := Open(r, tk, Options{Format: CSV})
			if err == nil {
				_, err = in.Each(t.Context(), func(b *Batch) error { rows += len(b.Rows); return nil })
			}
			done <- err
		}()
		fmt.Fprint(w, "who,age,color\n")
		for n := range 5 {
			fmt.Fprint(w, strings.Repeat("7,30,red\n", 3))
			if synctest.Wait(); rows != 3*(n+1) {
				t.Errorf("%d rows of %d", rows, 3*(n+1))
			}
		}
		w.Close()
		must.Do(t, <-done)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	tk := parse(t, people)
	for text, want := range map[string]int{
		strings.Repeat("7,30,red,\n", 2*maxRows+1):                       3,
		strings.Repeat("7,30,red,"+strings.Repeat("x", 1<<19)+"\n", 100): 4,
	} {
		o := Options{Format: CSV, Columns: []string{"who", "age", "color", "x"}}
		in := must.Get(Open(strings.NewReader(text), tk, o))(t)
		batches := 0
		n, err := in.Each(t.Context(), func(b *Batch) error {
			batches++
			time.Sleep(10 * time.Millisecond) // while others pile up
			return nil
		})
		if err != nil || batches < want || n.Rows != strings.Count(text, "\n") {
			t.Errorf("%d batches, %+v, %v", batches, n, err)
		}
	}
}

func TestStops(t *testing.T) {
	tk := parse(t, people)
	boom := errors.New("boom")
	for _, cancelled := range []bool{false, true} {
		r, w := io.Pipe()
		go fmt.Fprint(w, "who,age,color\n1,2,red\n")
		in := must.Get(Open(r, tk, Options{Format: CSV}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := in.Each(ctx, func(*Batch) error {
			if cancelled {
				cancel()
				return nil
			}
			return boom
		})
		if cancelled && !errors.Is(err, context.Canceled) || !cancelled && !errors.Is(err, boom) {
			t.Errorf("cancelled %v: %v", cancelled, err)
		}
		cancel()
		r.Close()
	}
}

type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, bytes.Clone(b))
	return len(b), nil
}

func TestWriteText(t *testing.T) {
	columns := []string{"id", "n", "x", "ok", "at"}
	rows := [][]any{
		{"a,\"b\"", 7, 0.1, true, "0.1 2"},
		{nil, nil, nil, nil, nil},
		{"tab\there\nand", "8", "0.25", false, ""},
	}
	for f, want := range map[Format]string{
		CSV: "id,n,x,ok,at\n\"a,\"\"b\"\"\",7,0.1,true,0.1 2\n,,,,\n\"tab\there\nand\",8,0.25,false,\n",
		TSV: "id\tn\tx\tok\tat\na,\"b\"\t7\t0.1\ttrue\t0.1 2\n\\N\t\\N\t\\N\t\\N\t\\N\ntab here and\t8\t0.25\tfalse\t\n",
	} {
		var b bytes.Buffer
		w := must.Get(NewWriter(&b, f, columns, true))(t)
		for _, r := range rows {
			must.Do(t, w.Write(r))
		}
		must.Do(t, w.Close())
		must.Same(t, want, b.String())
		must.Fail(t, w.Write(rows[0][:2]), "")
	}
}

func TestWholeRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p pieces
		w := must.Get(NewWriter(&p, rapid.SampledFrom([]Format{CSV, TSV}).Draw(rt, "format"), []string{"a", "b"},
			rapid.Bool().Draw(rt, "header")))(rt)
		for range rapid.IntRange(0, 20).Draw(rt, "rows") {
			text := strings.Repeat("x", rapid.IntRange(0, 5000).Draw(rt, "length"))
			must.Do(rt, w.Write([]any{text, "end"}))
			if rapid.IntRange(0, 9).Draw(rt, "flush") == 0 {
				_ = w.Close()
			}
		}
		_ = w.Close()
		for _, b := range p {
			if !bytes.HasSuffix(b, []byte("end\n")) && !bytes.HasSuffix(b, []byte("b\n")) {
				rt.Errorf("%.20q is no whole row", b[max(0, len(b)-20):])
			}
			if len(b) > atomic && bytes.Count(b, []byte("\n")) > 1 {
				rt.Errorf("%d bytes at once", len(b))
			}
		}
	})
}

func FuzzText(f *testing.F) {
	tk := parse(f, people)
	f.Add("who,age,color\n7,30,red\n", true, false)
	f.Add("7\t30\t\\N\n\n8", false, true)
	f.Fuzz(func(t *testing.T, in string, comma, columns bool) {
		o := Options{Format: TSV, Keep: []string{"age"}}
		if comma {
			o.Format = CSV
		}
		if columns {
			o.Columns = []string{"who", "age", "color"}
		}
		rows, n, err := read(t, strings.NewReader(in), tk, o)
		if o.Format == TSV && columns && err == nil {
			want := strings.Count(in, "\n")
			if in != "" && !strings.HasSuffix(in, "\n") {
				want++
			}
			must.Same(must.In(t, rows), want, n.Rows)
		}
	})
}

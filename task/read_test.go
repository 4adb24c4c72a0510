package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
)

func parse(t *testing.T, file string) *Task {
	t.Helper()
	return must.Get(Parse("test.yaml", []byte(file)))(t)
}

func read(t *testing.T, task *Task, data string, o ReadOptions) *People {
	t.Helper()
	return must.Get(ReadFrom(context.Background(), strings.NewReader(data), task, o))(t)
}

func TestReadEncodesAndAccountsForEveryRow(t *testing.T) {
	p := read(t, parse(t, small), "\xef\xbb\xbfincome,age,color,member,extra\r\n"+
		"high,30,red,yes,x\r\n"+ // line 2
		"low,5e+01,?,no,\"a\r\nb\"\r\n"+ // lines 3 and 4
		"low,old,red,no,\r\n"+ // 5
		"low,,red,no,\r\n"+ // 6
		"low,40,green,no,\r\n"+ // 7
		"low,40,red,maybe,\r\n"+ // 8
		"low,40,red,?,\r\n"+ // 9
		"low,40\r\n"+ // 10
		"low,40,r\"ed,no,\r\n"+ // 11
		",40,,no,\r\n", ReadOptions{}) // 12
	want := &People{
		X: []float32{-1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0}, Dim: 4, N: 3,
		Labels: []int8{1, 0, -1}, Lines: []int{2, 3, 12}, Rows: []int{0, 1, 9},
		Subgroups: []Subgroup{
			{Feature: "color", Values: []string{"red", "blue"}, Codes: []int32{0, -1, -1}},
			{Feature: "member", Values: []string{"no", "yes"}, Codes: []int32{1, 0, 0}},
		},
		Reading: Reading{Failed: 7, Total: 10, Problems: []Problem{
			{Line: 5, Column: "age", Reason: `"old" is not a number`},
			{Line: 6, Column: "age", Reason: missingValue().Error()},
			{Line: 7, Column: "color", Reason: `"green" is not a known value; one of: red, blue`},
			{Line: 8, Column: "member", Reason: `"maybe" is neither "yes" nor "no"`},
			{Line: 9, Column: "member", Reason: missingValue().Error()},
			{Line: 10, Column: "", Reason: "2 fields where 5 are expected"},
			{Line: 11, Column: "", Reason: "a quote stands inside an unquoted field"},
		}},
	}
	must.Same(t, want, p)
	sub := p.Subset([]int{2, 0})
	if d := cmp.Diff([]float32{0, 0, 0, 0, -1, 1, 0, 1}, sub.X); d != "" || sub.N != 2 || sub.Lines[0] != 12 ||
		sub.Subgroups[1].Codes[1] != 1 {
		t.Errorf("subset %+v", sub)
	}
}

func TestReadHeaderlessWithJunkLine(t *testing.T) {
	task := parse(t, `version: 1
data: {label: y, label_suffix: ".", favourable: ">50K", trim: true, comment: "|", missing: "?", columns: [age, work, y]}
features: [{name: age, kind: numeric}, {name: work, kind: onehot, values: [Private, State gov]}]`)
	for name, c := range map[string]struct {
		data   string
		lines  []int
		labels []int8
		notes  int
	}{
		"comment line": {
			"|1x3 Cross validator\n25, Private, <=50K.\n30, State gov , >50K.\n\n", []int{2, 3}, []int8{0, 1}, 0,
		},
		"no comment line": {"25, Private, <=50K\n30, \"State gov\", >50K\n", []int{1, 2}, []int8{0, 1}, 0},
		"header repeated": {"age, work, y\n25, Private, <=50K\n30, State gov, >50K\n", []int{2, 3}, []int8{0, 1}, 0},
		"no outcome":      {"25, Private\n30, State gov\n", []int{1, 2}, []int8{-1, -1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := read(t, task, c.data, ReadOptions{})
			must.Same(t, []float32{25, 1, 0, 30, 0, 1}, p.X)
			must.Same(t, c.lines, p.Lines)
			if d := cmp.Diff(c.labels, p.Labels); d != "" || len(p.Notes) != c.notes {
				t.Error(d, p.Notes)
			}
		})
	}
}

func TestReadFiltersAndSelects(t *testing.T) {
	task := parse(t, `version: 1
data: {subgroups: [race], filter: [{column: days, min: -30, max: 30}, {column: kind, not: [O, "-1"]}]}
features: [{name: a, kind: numeric}]`)
	data := "a,days,kind,race\n0,0,F,w\n1,,F,w\n2,31,F,b\n3,-30,O,b\n4,30,-1.0,b\nx,1,F,b\n6,2,F,b\n7,3,F,\n8,4,F,w\n"
	all := read(t, task, data, ReadOptions{})
	if d := cmp.Diff([]float32{0, 6, 7, 8}, all.X); d != "" || all.Filtered != 4 || all.Failed != 1 || all.Total != 9 {
		t.Error(d, all)
	}
	must.Same(t, []int{0, 2, 3, 4}, all.Rows)
	race := Subgroup{Feature: "race", Values: []string{"w", "b"}, Codes: []int32{0, 1, -1, 0}, Open: true}
	must.Same(t, []Subgroup{race}, all.Subgroups)
	only := read(t, task, data, ReadOptions{Only: []int{3, 0}})
	except := read(t, task, data, ReadOptions{Except: []int{3, 0}})
	if d := cmp.Diff([]float32{0, 7}, only.X); d != "" || only.Excluded != 3 {
		t.Error(d, only)
	}
	if d := cmp.Diff([]float32{6, 8}, except.X); d != "" || except.Excluded != 2 || except.Failed != 1 {
		t.Error(d, except)
	}
	if p := read(t, task, data, ReadOptions{Only: AllRows(3)}); p.N != 2 || p.Failed != 1 {
		t.Errorf("first three rows: %+v", p)
	}
	_, err := ReadFrom(context.Background(), strings.NewReader(data), task, ReadOptions{Only: []int{5}})
	must.Fail(t, err, "row 5 is selected, but the file has 5 rows")
}

func TestReadRepeatedColumns(t *testing.T) {
	task := parse(t, "version: 1\nfeatures: [{name: a, kind: numeric}]")
	p := read(t, task, "a,b,a,b\n1,x,1.0,y\n2,x,3,x\n", ReadOptions{})
	want := []Problem{{Line: 3, Column: "a", Reason: `the column occurs twice with different values, "2" and "3"`}}
	if d := cmp.Diff(want, p.Problems); d != "" || p.N != 1 {
		t.Error(d, p)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"empty":           {"", "the file is empty"},
		"header only":     {"age,color,member,income\n", "no data rows"},
		"missing columns": {"ages,color,Member\n1,2,3\n", `there is no column "age" (feature age); did you mean "ages"?`},
		"no such header":  {"a,b,c\n1,2,3\n", `there is no column "age" (feature age) and 2 more`},
		"its list":        {"ages,color,Member\n1,2,3\n", "the file's columns are: ages, color, Member"},
		"delimiter":       {"age;color;member\n1;red;no\n", "the first line is one field; is data.delimiter ',' right?"},
		"all rows fail":   {"age,color,member\nx,red,no\n", "none of 1 rows can be read:\n  line 2, column \"age\""},
		"open quote": {
			"age,color,member\n1,red,no\n2,\"red,no\n3,red,no\n",
			"line 3: a quoted field never ends, or text follows its closing quote on line 4",
		},
		"one endless line": {"age,color,member\n" + strings.Repeat("x", 2<<20), "longer than 1 MiB"},
		"UTF-16":           {"\xff\xfea\x00", "save it as UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadFrom(context.Background(), strings.NewReader(c.data), parse(t, small), ReadOptions{})
			must.Fail(t, err, c.want)
		})
	}
}

func TestReadCountsMoreProblemsThanItKeeps(t *testing.T) {
	p := read(t, parse(t, small), "age,color,member\n1,red,no\n"+strings.Repeat("x,red,no\n", 2500), ReadOptions{})
	if p.Failed != 2500 || len(p.Problems) != maxProblems || p.Total != 2501 {
		t.Errorf("%d failed, %d kept, %d in all", p.Failed, len(p.Problems), p.Total)
	}
}

func TestReadGzip(t *testing.T) {
	task := parse(t, small)
	packed := zipped(t, []byte("age,color,member\n30,red,no\n"))
	p, err := ReadFrom(context.Background(), bytes.NewReader(packed), task, ReadOptions{})
	if err != nil || p.N != 1 || p.Lines[0] != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = ReadFrom(context.Background(), bytes.NewReader(packed[:len(packed)-6]), task, ReadOptions{})
	must.Fail(t, err, "compressed data: unexpected EOF")
}

func TestReadStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ReadFrom(ctx, strings.NewReader("age,color,member\n30,red,no\n"), parse(t, small), ReadOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestParseRows(t *testing.T) {
	const want = "want a JSON list of row numbers, or a JSON object with such a list as test_rows"
	for data, want := range map[string]string{
		`{"test_rows": [3, 1], "seed": 0}`: "[3 1]",
		`[0, 2]`:                           "[0 2]",
		`{"rows": [1]}`:                    "json: cannot unmarshal object into Go value of type []int; " + want,
		"[1.5]":                            "json: cannot unmarshal number 1.5 into Go value of type int; " + want,
		`{"test_rows": "all"}`:             "json: cannot unmarshal string into Go value of type []int; " + want,
		"[1,":                              "unexpected end of JSON input; " + want,
		"[1, 1]":                           "row 1 is listed twice",
		"[-1]":                             "-1 is not a row number; rows are numbered from 0",
	} {
		rows, err := parseRows([]byte(data))
		if got := fmt.Sprint(rows); err == nil && got != want || err != nil && err.Error() != want {
			t.Errorf("%q: %s, %v, want %s", data, got, err, want)
		}
	}
}

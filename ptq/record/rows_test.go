package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

const someTask = `
version: 1
data: {label: ok, favourable: "yes"}
target: {class: favourable}
features:
  - {name: age, kind: numeric, mean: 40, std: 10, actionable: false}
  - {name: job, kind: onehot, values: [cook, clerk]}
`

func taskOf(t *testing.T, extra string) *task.Task {
	t.Helper()
	text := strings.Replace(someTask, `favourable: "yes"`, `favourable: "yes"`+extra, 1)
	return must.Get(task.Parse("task.yaml", []byte(text)))(t)
}

func read(t *testing.T, tk *task.Task, text string) *task.People {
	t.Helper()
	return must.Get(task.ReadFrom(t.Context(), strings.NewReader(text), tk, task.ReadOptions{Hash: true}))(t)
}

func inputHashes(p *task.People) (all []uint64) {
	for i := range p.N {
		all = append(all, task.InputHash(p.X[i*p.Dim:(i+1)*p.Dim]))
	}
	return all
}

var sum = strings.Repeat("ab", 32)

const train = "age,job,ok,id\n30,cook,yes,1\n40,clerk,no,2\n40,clerk,no,2\n50,,yes,3\n"

func TestRecognised(t *testing.T) {
	tk := taskOf(t, "")
	rows := New(sum, Data{"train.csv", sum}, inputHashes(read(t, tk, train)))
	if rows.Count != 4 || len(rows.hashes) != 3 {
		t.Errorf("%d rows, %d hashes", rows.Count, len(rows.hashes))
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, train)
	must.Do(t, z.Close())
	for _, c := range []struct {
		name, delimiter, text string
		want                  []int
	}{
		{"the same file", "", train, []int{0, 1, 2, 3}},
		{"gzip", "", zipped.String(), []int{0, 1, 2, 3}},
		{"other line endings", "", strings.ReplaceAll(train, "\n", "\r\n"), []int{0, 1, 2, 3}},
		{
			"some of them among others", "",
			"age,job,ok,id\n31,cook,yes,1\n40,clerk,no,2\n30,cook,no,1\n30,cook,yes,1\n30,cook,yes,4\n50,,no,9\n",
			[]int{1, 2, 3, 4, 5},
		},
		{"columns in another order", "", "ok,id,job,age\nyes,3,,50\nno,3,,50\nno,2,clerk,40\n", []int{0, 1, 2}},
		{"blanks around names and fields", ", trim: true", " age , job,ok,id\n30, cook,yes ,1\n", []int{0}},
		{"quotes", "", "\"age\",job,ok,id\n\"30\",\"cook\",yes,1\n", []int{0}},
		{"semicolons", `, delimiter: ";"`, "age;job;ok;id\n30;cook;yes;1\n", []int{0}},
		// What the fields say counts, and where they stand: not their text in one go.
		{"fields shifted", "", "age,job,ok,id\n3,cook,yes,01\n", nil},
		// A row is what the model sees of it: other formatting, columns and outcomes are the same person, or one like them.
		{"numbers written differently", "", "age,job,ok,id\n30.0,cook,yes,1\n4e1,clerk,no,2\n", []int{0, 1}},
		{"another column", "", "age,job,ok,id,branch\n30,cook,yes,1,Bonn\n", []int{0}},
		{"no label, no further columns", "", "age,job\n30,cook\n", []int{0}},
		{"nobody", "", "age,job,ok,id\n33,cook,yes,1\n", nil},
	} {
		var at []int
		for i, equal := range rows.Equal(read(t, taskOf(t, c.delimiter), c.text)) {
			if equal {
				at = append(at, i)
			}
		}
		must.Same(t, c.want, at)
	}
}

func TestHashesFollowTheirPeople(t *testing.T) {
	tk := taskOf(t, "")
	var text strings.Builder
	text.WriteString("age,job,ok\n")
	for i := range 500 {
		fmt.Fprintf(&text, "%d,cook,no\n", i)
	}
	path := filepath.Join(t.TempDir(), "data.csv")
	must.Do(t, os.WriteFile(path, []byte(text.String()), 0o600))
	all := must.Get(task.Read(t.Context(), path, tk, task.ReadOptions{Hash: true}))(t)
	same := func(what string, p *task.People) {
		t.Helper()
		for i, row := range p.Rows {
			must.Same(must.In(t, what), all.Hashes[row], p.Hashes[i])
		}
	}
	same("subset", all.Subset([]int{7, 3, 499}))
	drawn, err := task.Read(t.Context(), path, tk, task.ReadOptions{Hash: true, Most: 50, Seed: 3})
	if err != nil || drawn.N != 50 || len(drawn.Hashes) != 50 {
		t.Fatalf("%v, %+v", err, drawn)
	}
	same("sample", drawn)
	if slices.Sort(all.Hashes); len(slices.Compact(all.Hashes)) != 500 {
		t.Error("different rows have the same hash")
	}
	if p, err := task.Read(t.Context(), path, tk, task.ReadOptions{}); err != nil || p.Hashes != nil {
		t.Errorf("not asked for: %v, %v", p.Hashes, err)
	}
}

// A file without a header has its names from the task.
func TestWithoutHeader(t *testing.T) {
	named := read(t, taskOf(t, ""), "job,ok,age\ncook,yes,30\n")
	bare := read(t, taskOf(t, ", columns: [age, job, ok]"), "30,cook,yes\n")
	must.Same(t, bare.Hashes[0], named.Hashes[0])
}

func TestWrittenAndRead(t *testing.T) {
	r := New(sum, Data{"train.csv", sum}, []uint64{5, 1 << 63, 5, 7})
	var a, b bytes.Buffer
	must.Do(t, r.Write(&a))
	err := New(sum, Data{"train.csv", sum}, []uint64{7, 5, 1 << 63, 5}).Write(&b)
	must.Do(t, err)
	must.Same(t, b.String(), a.String())
	got, err := parse(b.Bytes())
	want := []uint64{5, 7, 1 << 63}
	if err != nil || got.Model != sum || got.Data != r.Data || got.Count != 4 || !slices.Equal(got.hashes, want) {
		t.Errorf("%+v, %v", got, err)
	}
	text := a.String()
	for _, c := range []struct{ old, new, want string }{
		{"cfq.rows/3", "cfq.rows/1", "another version"},
		{text[len(text)-20:], "", "not whole"},
		{sum, sum[1:], "no SHA-256"},
		{`"hashes": "BQ`, `"hashes": "CQ`, "not in order"},
		{`"rows": 4`, `"rows": 2`, "2 rows"},
		{`AAA`, `AA`, "not whole"},
		{text, "{}", "another file"},
		{text, "[]", "another file"},
		{text, "", "not whole"},
	} {
		_, err := parse([]byte(strings.Replace(text, c.old, c.new, 1)))
		must.Fail(t, err, c.want)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.rows")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	must.Do(f, New(sum, Data{"a", sum}, []uint64{1, 2, 3}).Write(&b))
	f.Add(b.String())
	f.Add(`{"schema":"cfq.rows/3","rows":0,"hashes":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse([]byte(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		must.Do(t, r.Write(&again))
		back, err := parse(again.Bytes())
		if err != nil || !slices.Equal(back.hashes, r.hashes) || back.Count != r.Count {
			t.Errorf("%+v, %+v, %v", r, back, err)
		}
	})
}

// Incomes in thousands passed for incomes: the record keeps what the inputs were.
func TestOutside(t *testing.T) {
	t.Parallel()
	var x []float32
	for i := range 100 {
		x = append(x, float32(1000+i), float32(i%2))
	}
	r := New(strings.Repeat("a", 64), Data{SHA256: strings.Repeat("b", 64)}, make([]uint64, 100))
	r.Span(&task.People{X: x, Dim: 2, N: 100})
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	got := must.Get(parse(b.Bytes()))(t)
	for _, c := range []struct {
		x           []float32
		outside, of int
	}{
		{[]float32{1000, 0, 1099, 1}, 0, 2},
		{[]float32{1.099, 1, 1100, 1, 1050, 2, float32(math.NaN()), 0, 1000, 1}, 4, 5},
	} {
		outside, of := got.Outside(&task.People{X: c.x, Dim: 2, N: c.of})
		must.Same(must.In(t, fmt.Sprint(c.x)), []int{c.outside, c.of}, []int{outside, of})
	}
	_, other := got.Outside(&task.People{X: make([]float32, 3), Dim: 3, N: 1})
	got.Count = 30 // one row in 15 is beyond the range of one number
	outside, of := got.Outside(&task.People{X: []float32{1190, 1, 1200, 1, 1.05, 0}, Dim: 2, N: 3})
	must.Same(t, []int{2, 3}, []int{outside, of})
	got.Count = 6
	_, few := got.Outside(&task.People{X: make([]float32, 2), Dim: 2, N: 1})
	must.Same(t, []int{0, 0}, []int{other, few})
}

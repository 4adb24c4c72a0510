package promise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/extsort"
	"cfq/internal/must"
	"cfq/task"
)

func batchesOf(ctx context.Context, path string, tk *task.Task, o task.ReadOptions, size int) Batches {
	return func(each func(*task.People) error) (*task.People, error) {
		return task.Stream(ctx, path, tk, o, size, each)
	}
}

func drawFile(t *rapid.T) string {
	values := rapid.SampledFrom([]string{
		"30,45,0,Private,no", "41,42,1000,self,yes", "x,1,1,self,no", "41,40,0,,no", "30,40,0,Private,no",
	})
	rows := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5", "6", "7.0", "8", "12", "70", "999999999", "-1", "a"})
	numbers := rapid.SampledFrom([]string{"", "1", "-0.5", "no"})
	form := rapid.SampledFrom([]string{
		"own", "numbered", "pairs", "numbered pairs", "IDs", "own IDs",
	}).Draw(t, "form")
	var b strings.Builder
	b.WriteString(map[string]string{
		"own":      "row,line,promise.status,method,cost,margin,before,action,",
		"own IDs":  "person,line,promise.status,method,cost,margin,before,action,",
		"numbered": "row,", "pairs": "id,role,", "numbered pairs": "row,role,", "IDs": "person,",
	}[form] + columns + "\n")
	for range rapid.IntRange(0, 30).Draw(t, "rows") {
		switch form {
		case "own", "own IDs":
			status := rapid.SampledFrom([]string{"found", "found", "found", "none found", "lost"}).Draw(t, "status")
			line := rapid.SampledFrom([]string{"", "2", "3", "4", "x"}).Draw(t, "line")
			fmt.Fprintf(&b, "%s,%s,%s,search,%s,%s,%s,,", rows.Draw(t, "row"), line, status, numbers.Draw(t, "cost"),
				numbers.Draw(t, "margin"), numbers.Draw(t, "before"))
		case "numbered", "IDs":
			fmt.Fprintf(&b, "%s,", rows.Draw(t, "row"))
		default:
			role := rapid.SampledFrom([]string{"factual", "counterfactual", "other"}).Draw(t, "role")
			fmt.Fprintf(&b, "%s,%s,", rows.Draw(t, "key"), role)
		}
		fmt.Fprintln(&b, values.Draw(t, "values"))
	}
	return b.String()
}

func TestStreamIsRead(t *testing.T) {
	tk, _ := parse(t, strings.Replace(jobs, "data: {", "data: {id: person, ", 1))
	dir := t.TempDir()
	path, data := filepath.Join(dir, "promises.csv"), filepath.Join(dir, "data.csv")
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		fmt.Fprintln(&text, columns+",status,person")
		for i := range 13 {
			fmt.Fprintln(&text, rapid.SampledFrom([]string{
				"30,40,0,Private,no,0", "41,38,1000,self,yes,1", "bad,1,1,self,no,0", fmt.Sprintf("50,%d,0,self,no,0", i),
			}).Draw(rt, "person")+","+rapid.SampledFrom([]string{fmt.Sprint(i), fmt.Sprint(i, ".0"), "7", ""}).Draw(rt, "ID"))
		}
		for name, content := range map[string]string{path: drawFile(rt), data: text.String() + "30,40,0,Private,no,0,x\n"} {
			must.Do(rt, os.WriteFile(name, []byte(content), 0o600))
		}
		o := task.ReadOptions{}
		if rapid.Bool().Draw(rt, "only") {
			o.Only = []int{1, 3, 4, 9, 12, 13}
		}
		all, err := task.Read(t.Context(), data, tk, o)
		if err != nil {
			return // nobody can be read
		}
		want, wantErr := Read(t.Context(), path, tk, all)
		size := rapid.IntRange(1, 6).Draw(rt, "size")
		q := newQueue(rapid.SampledFrom([]int{1, 2, 5, 100}).Draw(rt, "rows of a list"),
			rapid.SampledFrom([]int{0, 300, 1 << 20}).Draw(rt, "limit"))
		var got File
		var promises []Promise
		people := 0
		end, err := stream(t.Context(), path, tk, batchesOf(t.Context(), data, tk, o, size), func(f *File) error {
			if f.Made != len(f.Promises) || !slices.IsSortedFunc(f.Promises, func(a, b Promise) int { return a.Line - b.Line }) {
				rt.Errorf("%d promises of a batch: %v", f.Made, f.Promises)
			}
			for _, p := range f.Promises {
				p.Person += people
				promises = append(promises, p)
			}
			people += f.People.N
			return nil
		}, q)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			rt.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		got = *end
		if people != all.N || got.Promises != nil || got.People.N != all.N {
			rt.Errorf("%d people of %d, %d promises at the end", people, all.N, len(got.Promises))
		}
		slices.SortStableFunc(promises, func(a, b Promise) int { return a.Line - b.Line })
		got.Promises, got.People = promises, want.People
		checkCounts(t, &got)
		plain := func(f *File) string { // numbers that are none are equal
			return fmt.Sprintf("%+v %+v", f.Promises, *f)
		}
		got.Promises, want.Promises = slices.Concat(got.Promises), slices.Concat(want.Promises)
		must.Same(rt, strings.Fields(plain(want)), strings.Fields(plain(&got)))
	})
}

func TestStreamOfFileWithPeople(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, jobs)
	path := file(t, columns+",role,id\n30,40,0,Private,no,factual,a\n30,45,0,Private,no,counterfactual,a\n")
	calls := 0
	f, err := Stream(t.Context(), path, tk, nil, func(f *File) error {
		calls++
		if len(f.Promises) != 1 || f.People.N != 1 {
			t.Errorf("%+v", f)
		}
		return nil
	})
	if err != nil || calls != 1 || f.Made != 1 || f.People.N != 1 || f.Promises != nil {
		t.Errorf("%d calls, %+v: %v", calls, f, err)
	}
	numbered := file(t, "row,"+columns+"\n0,30,45,0,Private,no\n")
	_, err = Stream(t.Context(), numbered, tk, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "factual rows marked in a column role") {
		t.Error(err)
	}
}

// Errors of people and of the caller come back as they are, and leave no file behind.
func TestStreamErrors(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	tk, _ := parse(t, jobs)
	path := file(t, "row,"+columns+"\n"+strings.Repeat("0,30,45,0,Private,no\n", 100))
	boom := errors.New("boom")
	for _, people := range []Batches{
		batchesOf(t.Context(), file(t, fourPeople), tk, task.ReadOptions{}, 2),
		func(func(*task.People) error) (*task.People, error) { return nil, boom },
	} {
		_, err := stream(t.Context(), path, tk, people, func(*File) error { return boom }, newQueue(2, 0))
		if err != boom { //nolint:errorlint // as it is
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", "/nowhere")
	nobody := func(func(*task.People) error) (*task.People, error) { return &task.People{}, nil }
	if _, err := stream(t.Context(), path, tk, nobody, nil, newQueue(2, 0)); !errors.Is(err, extsort.ErrFile) {
		t.Error(err)
	}
}

// What is known of people by their IDs does not stay in memory: at a batch it is less than the IDs are.
func TestIDsWait(t *testing.T) {
	tk, _ := parse(t, strings.Replace(jobs, "data: {", "data: {id: person, ", 1))
	const batches, size, length = 50, 2000, 200
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, made := held(), uint64(0), 0
	path := file(t, fmt.Sprintf("person,%s\n%0*d,41,39,1000,self,yes\n", columns, length, batches*size-1))
	_, err := Stream(t.Context(), path, tk, func(each func(*task.People) error) (*task.People, error) {
		for b := range batches {
			p := &task.People{N: size, Dim: tk.Dim(), X: make([]float32, size*tk.Dim())}
			for i := range size {
				row := b*size + i
				p.Rows, p.Lines = append(p.Rows, row), append(p.Lines, row+2)
				p.IDs = append(p.IDs, fmt.Sprintf("%0*d", length, row))
			}
			if err := each(p); err != nil {
				return nil, err
			}
		}
		return &task.People{}, nil
	}, func(f *File) error {
		if made += f.Made; f.People.Rows[0] == 0 {
			most = held()
		}
		return nil
	})
	if err != nil || made != 1 || most > before+batches*size*length/2 {
		t.Errorf("%d promises, %d bytes more in memory: %v", made, most-before, err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, strings.Replace(jobs, "data: {", "data: {id: person, ", 1))
	data := people(t, tk, columns+",person\n30,40,0,Private,no,a\n41,38,1000,self,yes,7\n52,20,12.5,?,no,b\n"+
		"52,2,1,?,no,b\n")
	f := must.Get(Read(t.Context(), file(t, "person,"+columns+"\n7.0,41,39,1000,self,yes\nb,52,30,12.5,,no\n"+
		"c,30,40,0,self,no\n,30,40,0,self,no\na,30,41,0,Private,no\n"), tk, data))(t)
	checkCounts(t, f)
	want := []string{
		"2->1", "6->0",
		`bad line 3, column "person": several rows of the data have this ID; a column row would say which one is meant`,
		`bad line 5, column "person": the field is empty: who is this row about?`,
		`lost line 4, column "person": no person of the data has this ID`,
	}
	must.Same(t, want, said(f))
	_, err := Read(t.Context(), file(t, columns+"\n41,39,1000,self,yes\n"), tk, data)
	must.Fail(t, err, `the column "person" that data.id names`)
}

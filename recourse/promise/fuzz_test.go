package promise

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

// FuzzRead: whatever a promises file holds, every row of it is accounted for and every point is one that the task's
// data can hold; never a panic.
func FuzzRead(f *testing.F) {
	f.Add(
		[]byte(
			"row,line,promise.status,method,cost,margin,before,action,"+columns+
				"\n0,2,found,search,1,2,-1,,30,45,0,Private,no\n1,3,none found,search,,,,,41,38,1000,self,yes\n",
		),
		false,
	)
	f.Add([]byte(columns+",role,id\n30,40,0,Private,no,factual,a\n30,45,0,Private,no,cf,a\n30,45,0,Private,no,cf,b\n"),
		true)
	f.Add([]byte(",age,hours,gain,work=Private,\"work=State, gov\",work=self,member\n1,0.5,0,0,1,0,0,0\n"), false)
	f.Add([]byte("\x93NUMPY\x01\x00"), true)
	f.Add([]byte("person,"+columns+"\n7,30,45,0,Private,no\nb,30,45,0,Private,no\n"), false)
	tk, set := parse(f, strings.Replace(jobs, "data: {", "data: {id: person, ", 1))
	lines := strings.Split(strings.TrimSpace(fourPeople), "\n")
	for i, id := range []string{"person", "a", "7", "b", "b"} {
		lines[i] += "," + id
	}
	data := people(f, tk, strings.Join(lines, "\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, own bool) {
		path := filepath.Join(dir, "promises.csv")
		must.Do(t, os.WriteFile(path, text, 0o600))
		given := data
		if own {
			given = nil
		}
		file, err := Read(t.Context(), path, tk, given)
		var batches Batches
		if given != nil {
			batches = func(each func(*task.People) error) (*task.People, error) {
				return data, errors.Join(each(data.Subset([]int{0, 1})), each(data.Subset([]int{2, 3})))
			}
		}
		streamed, streamErr := Stream(t.Context(), path, tk, batches, func(*File) error { return nil })
		if (err == nil) != (streamErr == nil) {
			t.Fatalf("error %v, of a stream %v", err, streamErr)
		}
		if err != nil {
			return
		}
		checkCounts(t, file)
		if streamed.Made != file.Made || streamed.Failed != file.Failed || streamed.Missing != file.Missing {
			t.Fatalf("%+v of a stream, want %+v", streamed, file)
		}
		m := linear{w: make([]float32, tk.Dim())}
		verdicts := must.Get(Judge(t.Context(), m, set, file))(t)
		b := NewColumns(tk)
		for i := range file.Promises {
			p := &file.Promises[i]
			if p.Person < 0 || p.Person >= file.People.N {
				t.Fatalf("promise to person %d of %d", p.Person, file.People.N)
			}
			must.Get(b.texts(nil, p.Point))(t)
		}
		actions, further := file.Actions(verdicts)
		for _, a := range actions {
			if a.Status == recourse.Found {
				further++
			}
		}
		must.Same(t, len(file.Promises), further)
	})
}

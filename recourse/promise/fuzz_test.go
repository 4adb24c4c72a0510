package promise

import (
	"os"
	"path/filepath"
	"testing"

	"cfq/recourse"
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
	tk, set := parse(f, jobs)
	data := people(f, tk, fourPeople)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, own bool) {
		path := filepath.Join(dir, "promises.csv")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		given := data
		if own {
			given = nil
		}
		file, err := Read(t.Context(), path, tk, given)
		if err != nil {
			return
		}
		checkCounts(t, file)
		m := linear{w: make([]float32, tk.Dim())}
		verdicts, err := Judge(t.Context(), m, set, file)
		if err != nil {
			t.Fatal(err)
		}
		b := newTable(tk)
		for i := range file.Promises {
			p := &file.Promises[i]
			if p.Person < 0 || p.Person >= file.People.N {
				t.Fatalf("promise to person %d of %d", p.Person, file.People.N)
			}
			if _, err := b.texts(nil, p.Point); err != nil {
				t.Fatalf("a point that no file can hold: %v", err)
			}
		}
		actions, further := file.Actions(verdicts)
		for _, a := range actions {
			if a.Status == recourse.Found {
				further++
			}
		}
		if further != len(file.Promises) {
			t.Fatalf("%d promises became %d", len(file.Promises), further)
		}
	})
}

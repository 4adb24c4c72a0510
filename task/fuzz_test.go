package task

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: any input gives a task whose canonical form reads back to the same task, or mistakes; never a panic.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("..", "tasks", "compas.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(small))
	f.Add([]byte(`{"version": 1, "features": [{"name": "a", "kind": "numeric", "bounds": [null, 1e5]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := Parse("x.yaml", data)
		if err != nil {
			var list Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("not a list of mistakes: %v", err)
			}
			return
		}
		again, err := Parse("x.json", task.JSON())
		if err != nil {
			t.Fatalf("canonical form: %v\n%s", err, task.JSON())
		}
		if again.Hash() != task.Hash() {
			t.Fatalf("canonical form changes: %s", cmp.Diff(string(task.JSON()), string(again.JSON())))
		}
	})
}

// FuzzRead: any data file gives people with all rows accounted for, or an error; never a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte("age,color,member,income\n30,red,yes,high\n,blue,no,low\n\"4\n0\",?,no,\n"))
	f.Add([]byte("age,color=red,color=blue,member\n0.5,1,0,1\n"))
	f.Add([]byte("\x1f\x8b"))
	f.Add(npyBytes("<f4", false, 2, 4, make([]byte, 32)))
	task, err := Parse("small.yaml", []byte(small))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadFrom(context.Background(), bytes.NewReader(data), task, ReadOptions{})
		if err != nil {
			return
		}
		if p.Total != p.N+p.Failed+p.Filtered+p.Excluded || len(p.X) != p.N*p.Dim || len(p.Lines) != p.N || len(p.Rows) != p.N || len(p.Labels) != p.N {
			t.Fatalf("rows are not accounted for: %+v", p)
		}
		for _, g := range p.Subgroups {
			if len(g.Codes) != p.N {
				t.Fatalf("subgroup %s has %d codes for %d people", g.Feature, len(g.Codes), p.N)
			}
		}
		for i := range p.N {
			if prob := task.checkInputs(p.X[i*p.Dim : (i+1)*p.Dim]); prob != nil {
				t.Fatalf("person %d: %v", i, prob)
			}
		}
	})
}

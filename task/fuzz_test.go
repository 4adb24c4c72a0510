package task

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/config"
	"cfq/internal/must"
)

// FuzzParse: any input gives a task whose canonical form reads back to the same task, or mistakes; never a panic.
func FuzzParse(f *testing.F) {
	f.Add(must.Get(os.ReadFile(filepath.Join("..", "reproduce", "testdata", "tasks", "compas.yaml")))(f))
	f.Add([]byte(small))
	f.Add([]byte(full))
	f.Add([]byte(strings.ReplaceAll(full, "\n", "\r\n")))
	f.Add([]byte("version: 1\nfeatures: [{name: a, kind: numeric, bounds: [1, null], direction: increase, mad: 0}, " +
		"{name: b, kind: binary, one: x, actionable: false}]\n" +
		"links: [{from: a, to: b, map: {3: x, 1: y}}]\nconstraints: [\"`a` = 2\"]\ncost: {weights: inverse_mad}\n"))
	f.Add([]byte(`{"version": 1, "features": [{"name": "a", "kind": "numeric", "bounds": [null, 1e5]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := Parse("x.yaml", data)
		if err != nil {
			var list config.Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("not a list of mistakes: %v", err)
			}
			return
		}
		again := must.Get(Parse("x.json", task.JSON()))(t)
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
	task := must.Get(Parse("small.yaml", []byte(small)))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadFrom(context.Background(), bytes.NewReader(data), task, ReadOptions{})
		if err != nil {
			return
		}
		if p.Total != p.N+p.Failed+p.Filtered+p.Excluded || len(p.X) != p.N*p.Dim || len(p.Lines) != p.N ||
			len(p.Rows) != p.N || len(p.Labels) != p.N {
			t.Fatalf("rows are not accounted for: %+v", p)
		}
		for _, g := range p.Subgroups {
			must.Same(t, p.N, len(g.Codes))
		}
		for i := range p.N {
			if prob := task.checkInputs(p.X[i*p.Dim : (i+1)*p.Dim]); prob != nil {
				t.Fatalf("person %d: %v", i, prob)
			}
		}
	})
}

// FuzzOverrides: any table gives overrides of features that there are, each once for a person, or mistakes; never a
// panic.
func FuzzOverrides(f *testing.F) {
	f.Add([]byte("row,feature,actionable,direction,min,max,step,max_increase,weight\n0,income,true,none,1%,9,2,3,4\n" +
		"1,housing,false,,,,,,\n"))
	f.Add([]byte("feature,row\n\"in\ncome\",1\n"))
	task := must.Get(Parse("full.yaml", []byte(full)))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &overrideReader{d: newDecoder("o.csv", task), task: task, seen: map[[2]int]int{}}
		if err := o.read(bytes.NewReader(data)); err != nil || len(o.d.Errs) > 0 {
			return
		}
		seen := map[[2]int]bool{}
		for _, v := range o.all {
			if v.Row < 0 || v.Feature < 0 || v.Feature >= len(task.Features) || seen[[2]int{v.Row, v.Feature}] ||
				v.With.Bounds[0] > v.With.Bounds[1] {
				t.Fatalf("%+v", v)
			}
			seen[[2]int{v.Row, v.Feature}] = true
		}
	})
}

package ptq

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"cfq/calib"
	"cfq/internal/realdata"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

// Statistics read back are those that were computed, to the bit; another row, weight,
// grid, layer or wish is another key; a damaged file is written anew.
func TestStatsCache(t *testing.T) {
	e := orttest.Need(t)
	ctx := context.Background()
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := open(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"), filepath.Join(loans, "train.csv"))
	dir := filepath.Join(t.TempDir(), "not", "there yet")
	var stages []string
	collect := func(change func(q *job)) []calib.Stats {
		t.Helper()
		q, err := prepare(ctx, m, tk, Options{Engine: e, Cache: dir, Progress: func(ev Event) { stages = append(stages, ev.Stage) }})
		if err != nil {
			t.Fatal(err)
		}
		defer q.full.Close()
		onFacts(t, q, tk, people)
		if change != nil {
			change(q)
		}
		stages = nil
		s, err := q.statisticsFrom(ctx, 1e5)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := func(a, b []calib.Stats) bool { return bytes.Equal(calib.PackStats(a), calib.PackStats(b)) }
	hit := func() bool { return slices.Contains(stages, "statistics of the layers from the cache") }
	want := collect(func(q *job) { q.o.Cache = "" })
	if s := collect(func(q *job) { q.o.Cache = filepath.Join(dir, "..", "other") }); !same(want, s) {
		t.Error("the cache changes the statistics")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("no cache was asked for and there is one")
	}
	for _, c := range []struct {
		name   string
		change func(q *job)
		hit    bool
	}{
		{"first", nil, false},
		{"again", nil, true},
		{"workers", func(q *job) { q.o.Workers = 2 }, true},
		{"a row", func(q *job) { q.cal.X = slices.Clone(q.cal.X); q.cal.X[1]++ }, false},
		{"a weight", func(q *job) { q.cal.Weights = slices.Repeat([]float64{1}, q.cal.Rows()); q.cal.Weights[0] = 2 }, false},
		{"another weight", func(q *job) { q.cal.Weights = slices.Repeat([]float64{1}, q.cal.Rows()); q.cal.Weights[1] = 2 }, false},
		{"gradients", func(q *job) { q.o.ActRange = calib.Logits }, false},
		{"fewer layers", func(q *job) { q.wide = q.wide[1:] }, false},
		{"the grid", func(q *job) { g := *q.input; g.Scale *= 1.01; q.input = &g }, false},
		{"the model", func(q *job) { q.canonical = q.canonical.Clone(); q.canonical.Graph.Name += "2" }, false},
		{"threads", func(q *job) { q.o.Engine.Threads = 2 }, false},
		{"few rows", func(q *job) { q.cal = calib.FactualSet(people.X[:2*tk.Dim()], tk.Dim()) }, false},
		{"few rows again", func(q *job) { q.cal = calib.FactualSet(people.X[:2*tk.Dim()], tk.Dim()) }, false},
		{"after all", nil, true},
	} {
		got := collect(c.change)
		if hit() != c.hit {
			t.Errorf("%s: stages %q", c.name, stages)
		}
		if c.hit && !same(want, got) {
			t.Errorf("%s: other statistics", c.name)
		}
	}
	overwriteAll(t, dir, 9)
	for k, kept := range []bool{false, true} {
		got := collect(nil)
		if hit() != kept {
			t.Errorf("use %d after damage: %q", k, stages)
		}
		if !same(want, got) {
			t.Errorf("use %d after damage: other statistics", k)
		}
	}
}

// onFacts calibrates the job's input on the rows of the people alone.
func onFacts(t testing.TB, q *job, tk *task.Task, people *task.People) {
	t.Helper()
	q.people, q.all = people, people
	q.cal = calib.FactualSet(people.X, tk.Dim())
	q.union = q.cal
	if err := q.fitInput(context.Background(), tk); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkStatsCache measures the statistics of Adult's training rows computed and
// read back.
func BenchmarkStatsCache(b *testing.B) {
	e := orttest.Need(b)
	dir, err := realdata.Find()
	if err != nil {
		b.Skip(err)
	}
	m, t, people := open(b, filepath.Join(dir, "models", "adult", "mlp2-s0.onnx"), filepath.Join("..", "examples", "tasks", "adult.yaml"), filepath.Join(dir, "data", "adult", "adult.data.gz"))
	ctx := context.Background()
	q, err := prepare(ctx, m, t, Options{Engine: e, Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer q.full.Close()
	onFacts(b, q, t, people)
	for _, kind := range []string{calib.MSE, calib.Logits} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/cached=%v", kind, cached), func(b *testing.B) {
				q.o.ActRange, q.o.Cache = kind, ""
				if cached {
					q.o.Cache = b.TempDir()
				}
				if _, err := q.statistics(ctx); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := q.statistics(ctx); err != nil {
						b.Fatal(err)
					}
				}
				files, _ := filepath.Glob(filepath.Join(q.o.Cache, "*.cfq"))
				for _, f := range files {
					if info, err := os.Stat(f); err == nil && cached {
						b.ReportMetric(float64(info.Size()), "file-bytes")
					}
				}
			})
		}
	}
}

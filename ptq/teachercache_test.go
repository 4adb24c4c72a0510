package ptq

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/calib"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

// open reads a model with its task and rows.
func open(t testing.TB, model, taskFile, data string) (*graph.Model, *task.Task, *task.People) {
	t.Helper()
	m, err := codec.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	tk, err := task.Load(taskFile)
	if err != nil {
		t.Fatal(err)
	}
	people, err := task.Read(context.Background(), data, tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m, tk, people
}

// What is read back is what was computed, to the bit; another setting, task, model or
// row is another key; a damaged file is written anew.
func TestTeacherCache(t *testing.T) {
	e := orttest.Need(t)
	ctx := context.Background()
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := open(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"), filepath.Join(loans, "train.csv"))
	people = people.Subset(spread(0, people.N, 200))
	dir := filepath.Join(t.TempDir(), "not", "there yet")
	var stages []string
	calibrate := func(tk *task.Task, x []float32, change func(o *Options)) *calib.Set {
		t.Helper()
		o := Options{Engine: e, Workers: 1, Cache: dir, Progress: func(ev Event) { stages = append(stages, ev.Stage) }}
		o.Teacher.Steps = 300 // enough work to be kept
		if change != nil {
			change(&o)
		}
		q, err := prepare(ctx, m, tk, o)
		if err != nil {
			t.Fatal(err)
		}
		defer q.full.Close()
		if err := q.personal(people); err != nil {
			t.Fatal(err)
		}
		stages = nil
		s, err := q.counterfactual(ctx, tk, x, q.o.Teacher)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	hit := func() bool { return slices.Contains(stages, "teacher recourse from the cache") }
	want := calibrate(tk, people.X, func(o *Options) { o.Cache = "" })
	if _, err := os.Stat(dir); err == nil || want.Recourse == 0 {
		t.Fatalf("no cache was asked for and there is one, or %d recourse points", want.Recourse)
	}
	other := *tk
	other.Features = slices.Clone(tk.Features)
	other.Features[len(other.Features)-1].Weight = 2
	x := slices.Clone(people.X)
	x[0]++
	own := func(row int) func(o *Options) {
		f := tk.Features[3]
		f.Actionable = false
		return func(o *Options) { o.Overrides = []task.Override{{Row: row, Feature: 3, With: f}} }
	}
	for _, c := range []struct {
		name   string
		t      *task.Task
		x      []float32
		change func(o *Options)
		hit    bool
	}{
		{"first", tk, people.X, nil, false},
		{"again", tk, people.X, nil, true},
		{"workers", tk, people.X, func(o *Options) { o.Workers, o.Teacher.Workers = 2, 2 }, true},
		{"little work", tk, people.X, func(o *Options) { o.Teacher.Steps = 3 }, false},
		{"little work again", tk, people.X, func(o *Options) { o.Teacher.Steps = 3 }, false},
		{"steps", tk, people.X, func(o *Options) { o.Teacher.Steps = 301 }, false},
		{"noise", tk, people.X, func(o *Options) { o.Teacher.Noise = 0.1 }, false},
		{"seed", tk, people.X, func(o *Options) { o.Teacher.Seed = 1 }, false},
		{"threads", tk, people.X, func(o *Options) { o.Engine.Threads = 2 }, false},
		{"task", &other, people.X, nil, false},
		{"what a person can change", tk, people.X, own(people.Rows[0]), false},
		{"what another person can change", tk, people.X, own(people.Rows[2]), false},
		{"what nobody of them can change", tk, people.X, own(1_000_000), true},
		{"a row", tk, x, nil, false},
		{"fewer rows", tk, people.X[:len(people.X)-tk.Dim()], nil, false},
		{"after all", tk, people.X, nil, true},
	} {
		got := calibrate(c.t, c.x, c.change)
		if hit() != c.hit {
			t.Errorf("%s: stages %q", c.name, stages)
		}
		if d := cmp.Diff(want, got); c.hit && d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	overwriteAll(t, dir, 10)
	for k, kept := range []bool{false, true} {
		got := calibrate(tk, people.X, nil)
		if hit() != kept {
			t.Errorf("use %d after damage: %q", k, stages)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("use %d after damage: %s", k, d)
		}
	}
}

// overwriteAll puts something else into the n files of a folder.
func overwriteAll(t *testing.T, dir string, n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != n {
		t.Fatalf("%d files in the cache (%v)", len(files), err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("something else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Quantize writes the same bytes with a cold cache, a warm one, and none.
func TestQuantizeWithCache(t *testing.T) {
	e := orttest.Need(t)
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := open(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"), filepath.Join(loans, "train.csv"))
	people = people.Subset(spread(0, people.N, 200))
	o := Options{Engine: e, Refine: 1}
	o.Teacher.Steps, o.Teacher.Noise = 300, 0.1
	dir := t.TempDir()
	var want []byte
	for _, o.Cache = range []string{"", dir, dir} {
		r, err := Quantize(context.Background(), m, tk, people, o)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = r.Model
		}
		if !bytes.Equal(want, r.Model) {
			t.Errorf("other bytes with the cache %q", o.Cache)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("%d files in the cache", len(files))
	}
}

// Unpacking gives back what was packed, and refuses everything else without a panic.
func TestUnpackSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim, rows := rapid.IntRange(1, 5).Draw(t, "dim"), rapid.IntRange(1, 6).Draw(t, "rows")
		number := rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), 1, -2.5, float32(math.NaN()), float32(math.Inf(1))})
		s := &calib.Set{Dim: dim, Factual: rows, X: rapid.SliceOfN(number, rows*dim, rows*dim).Draw(t, "x")}
		x := slices.Clone(s.X)
		s.Source, s.Reached = []int{}, []bool{}
		for r := range rows {
			if rapid.Bool().Draw(t, "refused") {
				s.Source, s.Reached = append(s.Source, r), append(s.Reached, rapid.Bool().Draw(t, "reached"))
				s.X = append(s.X, rapid.SliceOfN(number, dim, dim).Draw(t, "point")...)
			}
		}
		s.Recourse = len(s.Source)
		packed := packSet(s)
		got, err := unpackSet(packed, x, dim)
		if err != nil {
			t.Fatal(err)
		}
		bits := cmp.Transformer("bits", math.Float32bits)
		if d := cmp.Diff(s, got, bits); d != "" {
			t.Fatal(d)
		}
		if _, err := unpackSet(packed[:rapid.IntRange(0, len(packed)-1).Draw(t, "cut")], x, dim); err == nil {
			t.Fatal("a cut set was taken")
		}
		if _, err := unpackSet(append(packed, 0), x, dim); err == nil {
			t.Fatal("a set with something behind was taken")
		}
		_, _ = unpackSet(rapid.SliceOf(rapid.Byte()).Draw(t, "noise"), x, dim)
	})
}

// BenchmarkTeacherCache measures the calibration set when the teacher's actions are
// computed, and when they are read back: for part of Adult's training rows, for all
// of them, and for all many times over.
func BenchmarkTeacherCache(b *testing.B) {
	e := orttest.Need(b)
	dir, err := realdata.Find()
	if err != nil {
		b.Skip(err)
	}
	m, t, people := open(b, filepath.Join(dir, "models", "adult", "mlp2-s0.onnx"), filepath.Join("..", "examples", "tasks", "adult.yaml"), filepath.Join(dir, "data", "adult", "adult.data.gz"))
	q, err := prepare(context.Background(), m, t, Options{Engine: e, Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer q.full.Close()
	for _, rows := range []int{3000, 10000, people.N, 4 * people.N} {
		x := people.X
		for len(x) < rows*t.Dim() {
			x = append(x, people.X...)
		}
		x = x[:rows*t.Dim()]
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/cached=%v", rows, cached), func(b *testing.B) {
				q.o.Cache, q.o.Workers = "", runtime.GOMAXPROCS(0)
				if cached {
					q.o.Cache = b.TempDir()
				}
				o := q.o.Teacher
				if _, err := q.counterfactual(context.Background(), t, x, o); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := q.counterfactual(context.Background(), t, x, o); err != nil {
						b.Fatal(err)
					}
				}
				if cached {
					files, _ := filepath.Glob(filepath.Join(q.o.Cache, "*"))
					for _, f := range files {
						if info, err := os.Stat(f); err == nil {
							b.ReportMetric(float64(info.Size()), "file-bytes")
						}
					}
				}
			})
		}
	}
}

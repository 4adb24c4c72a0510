package ptq

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/calib"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/recourse/constraint"
	"cfq/task"
)

// readAll reads a model with its task and rows.
func readAll(t testing.TB, model, taskFile, data string) (*graph.Model, *task.Task, *task.People) {
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
	t.Parallel()
	ctx := context.Background()
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := readAll(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"),
		filepath.Join(loans, "train.csv"))
	people = people.Subset(spread(0, people.N, 200))
	dir := filepath.Join(t.TempDir(), "not", "there yet")
	var stages []string
	o := Options{Workers: 1, Cache: dir, Progress: func(ev Event) { stages = append(stages, ev.Stage) }}
	o.Teacher.Steps = 300 // enough work to be kept
	whole, err := prepare(ctx, loaded(t, m), tk, o)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.full.Close()
	threads := 0 // of the engine, for one call
	calibrate := func(tk *task.Task, x []float32, change func(o *Options)) *calib.Set {
		t.Helper()
		p, model := *whole, *whole.opened
		p.opened, p.task = &model, tk
		if change != nil {
			change(&p.o)
		}
		model.engine.Threads, threads = threads, 0
		some := *people
		some.X, some.N = x, len(x)/tk.Dim()
		some.Rows = people.Rows[:some.N]
		set, err := constraint.Compile(tk)
		if err != nil {
			t.Fatal(err)
		}
		c := cohort{people: &some}
		if c.set, c.own, err = personal(set, p.o.Overrides, &some); err != nil {
			t.Fatal(err)
		}
		stages = nil
		s, err := p.counterfactual(ctx, &c, p.teacher())
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
	logged := func() *task.Task { // the same by content, in another place
		other := *tk
		other.Features = slices.Clone(tk.Features)
		i := slices.IndexFunc(tk.Features, func(f task.Feature) bool { return f.Kind == task.Numeric })
		other.Features[i].Log = &task.Log{Add: 100, Std: 1}
		return &other
	}
	x := slices.Clone(people.X)
	x[0]++
	own := func(row int) func(o *Options) {
		f := tk.Features[3]
		f.Actionable = false
		return func(o *Options) { o.Overrides = []task.Override{{Row: row, Feature: 3, With: f}} }
	}
	ownLog := func(o *Options) {
		f := tk.Features[3]
		f.Log = &task.Log{Add: 100, Std: 1}
		o.Overrides = []task.Override{{Row: people.Rows[0], Feature: 3, With: f}}
	}
	var before *calib.Set
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
		{"threads", tk, people.X, func(*Options) { threads = 2 }, false},
		{"task", &other, people.X, nil, false},
		{"logarithm", logged(), people.X, nil, false},
		{"logarithm again", logged(), people.X, nil, true},
		{"what a person can change", tk, people.X, own(people.Rows[0]), false},
		{"what another person can change", tk, people.X, own(people.Rows[2]), false},
		{"what none of them can change", tk, people.X, own(1_000_000), true},
		{"a logarithm of one's own", tk, people.X, ownLog, false},
		{"a logarithm of one's own again", tk, people.X, ownLog, true},
		{"a row", tk, x, nil, false},
		{"fewer rows", tk, people.X[:len(people.X)-tk.Dim()], nil, false},
		{"after all", tk, people.X, nil, true},
	} {
		got := calibrate(c.t, c.x, c.change)
		if hit() != c.hit {
			t.Errorf("%s: stages %q", c.name, stages)
		}
		computed := want
		if strings.HasSuffix(c.name, " again") {
			computed = before
		}
		if d := cmp.Diff(computed, got); c.hit && d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		before = got
	}
	overwriteAll(t, dir, 12)
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

// Statistics read back are those that were computed, to the bit; another row, weight,
// grid, layer or wish is another key; a damaged file is written anew.
func TestStatsCache(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := readAll(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"),
		filepath.Join(loans, "train.csv"))
	dir := filepath.Join(t.TempDir(), "not", "there yet")
	var stages []string
	whole, err := prepare(ctx, loaded(t, m), tk, Options{
		Cache: dir, Compute: ComputeInteger,
		Progress: func(ev Event) { stages = append(stages, ev.Stage) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.full.Close()
	onGrid := onFacts(t, whole, people)
	collect := func(change func(q *calibrated)) []calib.Stats {
		t.Helper()
		q, p, model, cal := *onGrid, *whole, *whole.opened, *onGrid.cal
		q.prepared, p.opened, q.cal = &p, &model, &cal
		if change != nil {
			change(&q)
		}
		stages = nil
		s, err := q.statistics(ctx, 1e5)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := func(a, b []calib.Stats) bool { return reflect.DeepEqual(a, b) }
	hit := func() bool { return slices.Contains(stages, "statistics of the layers from the cache") }
	want := collect(func(q *calibrated) { q.o.Cache = "" })
	if s := collect(func(q *calibrated) { q.o.Cache = filepath.Join(dir, "..", "other") }); !same(want, s) {
		t.Error("the cache changes the statistics")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("no cache was asked for and there is one")
	}
	for _, c := range []struct {
		name   string
		change func(q *calibrated)
		hit    bool
	}{
		{"first", nil, false},
		{"again", nil, true},
		{"workers", func(q *calibrated) { q.o.Workers = 2 }, true},
		{"a row", func(q *calibrated) { q.cal.X = slices.Clone(q.cal.X); q.cal.X[1]++ }, false},
		{"a weight", func(q *calibrated) {
			q.cal.Weights = slices.Repeat([]float64{1},
				q.cal.Rows())
			q.cal.Weights[0] = 2
		}, false},
		{"another weight", func(q *calibrated) {
			q.cal.Weights = slices.Repeat([]float64{1},
				q.cal.Rows())
			q.cal.Weights[1] = 2
		}, false},
		{"gradients", func(q *calibrated) { q.o.ActRange = calib.Logits }, false},
		{"fewer layers", func(q *calibrated) { q.grid.wide = q.grid.wide[1:] }, false},
		{"the grid", func(q *calibrated) { g := *q.grid.input; g.Scale *= 1.01; q.grid.input = &g }, false},
		{"the model", func(q *calibrated) { q.canonical = q.canonical.Clone(); q.canonical.Graph.Name += "2" }, false},
		{"threads", func(q *calibrated) { q.engine.Threads = 2 }, false},
		{"few rows", func(q *calibrated) { q.cal = calib.FactualSet(people.X[:2*tk.Dim()], tk.Dim()) }, false},
		{"few rows again", func(q *calibrated) { q.cal = calib.FactualSet(people.X[:2*tk.Dim()], tk.Dim()) }, false},
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

// Quantize writes the same bytes with a cold cache, a warm one, and none.
func TestQuantizeWithCache(t *testing.T) {
	t.Parallel()
	loans := filepath.Join("..", "testdata", "loans")
	m, tk, people := readAll(t, filepath.Join(loans, "model.onnx"), filepath.Join(loans, "task.yaml"),
		filepath.Join(loans, "train.csv"))
	people = people.Subset(spread(0, people.N, 200))
	o := Options{Refine: 1}
	o.Teacher.Steps, o.Teacher.Noise = 300, 0.1
	dir := t.TempDir()
	var want []byte
	for _, o.Cache = range []string{"", dir, dir} {
		r, err := Quantize(context.Background(), loaded(t, m), tk, people, o)
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

// BenchmarkTeacherCache measures the calibration set when the teacher's actions are
// computed, and when they are read back: for part of Adult's training rows, for all
// of them, and for all many times over.
func BenchmarkTeacherCache(b *testing.B) {
	dir, err := realdata.Find()
	if err != nil {
		b.Skip(err)
	}
	m, t, people := readAll(b, filepath.Join(dir, "models", "adult", "mlp2-s0.onnx"), filepath.Join("..", "examples",
		"tasks", "adult.yaml"), filepath.Join(dir, "data", "adult", "adult.data.gz"))
	q, err := prepare(context.Background(), loaded(b, m), t, Options{Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer q.full.Close()
	for _, rows := range []int{3000, 10000, people.N, 4 * people.N} {
		x := people.X
		for len(x) < rows*t.Dim() {
			x = append(x, people.X...)
		}
		c := cohort{people: &task.People{X: x[:rows*t.Dim()], N: rows, Dim: t.Dim()}, set: q.set}
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/cached=%v", rows, cached), func(b *testing.B) {
				q.o.Cache, q.o.Workers = "", runtime.GOMAXPROCS(0)
				if cached {
					q.o.Cache = b.TempDir()
				}
				if _, err := q.counterfactual(context.Background(), &c, q.teacher()); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := q.counterfactual(context.Background(), &c, q.teacher()); err != nil {
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

// onFacts returns the calibrated stage as it is before any statistics: the input's grid fitted to
// the rows of the people.
func onFacts(t testing.TB, p *prepared, people *task.People) *calibrated {
	t.Helper()
	c := &calibrated{prepared: p, cohort: cohort{all: people, people: people}, cal: calib.FactualSet(people.X, people.Dim)}
	c.union = c.cal
	if _, err := c.fitInput(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// BenchmarkStatsCache measures the statistics of Adult's training rows computed and
// read back.
func BenchmarkStatsCache(b *testing.B) {
	dir, err := realdata.Find()
	if err != nil {
		b.Skip(err)
	}
	m, t, people := readAll(b, filepath.Join(dir, "models", "adult", "mlp2-s0.onnx"), filepath.Join("..", "examples",
		"tasks", "adult.yaml"), filepath.Join(dir, "data", "adult", "adult.data.gz"))
	ctx := context.Background()
	p, err := prepare(ctx, loaded(b, m), t, Options{Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer p.full.Close()
	q := onFacts(b, p, people)
	for _, kind := range []Range{calib.MSE, calib.Logits} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/cached=%v", kind, cached), func(b *testing.B) {
				q.o.ActRange, q.o.Cache = kind, ""
				if cached {
					q.o.Cache = b.TempDir()
				}
				if _, err := q.statistics(ctx, minStatsWork); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := q.statistics(ctx, minStatsWork); err != nil {
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

// loaded opens a model in memory.
func loaded(tb testing.TB, g *graph.Model) *onnxio.Model {
	tb.Helper()
	m, err := onnxio.FromGraph(tb.Context(), g, orttest.Need(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

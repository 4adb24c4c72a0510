package certify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// promised are recourse points, and which inputs stand for numbers that actions may change.
type promised struct {
	points  []float32
	n, dim  int
	numbers []int
}

// boxes are the half widths of boxes of the radius around all points.
func (p *promised) boxes(radius float32) []float32 {
	half := make([]float32, len(p.points))
	for i := range p.n {
		for _, j := range p.numbers {
			half[i*p.dim+j] = radius
		}
	}
	return half
}

func read(t testing.TB, path string) *graph.Model {
	t.Helper()
	m, err := codec.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// promises solves the recourse of the first people who are refused.
func promises(t testing.TB, f *graph.Model, tk *task.Task, people *task.People, margin float64, most int,
	o ort.Options,
) *promised {
	t.Helper()
	ctx := context.Background()
	c, err := ptq.OpenFor(loaded(t, f), tk, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was written
	set, err := constraint.Compile(tk)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Margins(ctx, people.X)
	if err != nil {
		t.Fatal(err)
	}
	var rows []int
	for i, v := range m {
		if v < 0 && len(rows) < most {
			rows = append(rows, i)
		}
	}
	actions, err := recourse.Solve(ctx, c, set.Select(rows), people.Subset(rows).X, recourse.SolveOptions{Margin: margin})
	if err != nil {
		t.Fatal(err)
	}
	p := &promised{dim: c.Dim(), numbers: set.Numbers()}
	for _, a := range actions {
		if a.Status == recourse.Found {
			p.points = append(p.points, a.Point...)
			p.n++
		}
	}
	if p.n == 0 {
		t.Fatal("nobody is promised anything")
	}
	return p
}

// loanPair are the demo's model, quantized, and promises of margin.
func loanPair(t testing.TB, margin float64) (f, g *graph.Model, p *promised) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "loans")
	f = read(t, filepath.Join(dir, "model.onnx"))
	tk, people := peopleOf(t, filepath.Join(dir, "task.yaml"), filepath.Join(dir, "train.csv"))
	g = inFourBits(t, f, tk, people)
	tk, people = peopleOf(t, filepath.Join(dir, "task.yaml"), filepath.Join(dir, "test.csv"))
	return f, g, promises(t, f, tk, people, margin, 60, orttest.Need(t))
}

// adultPair are the same of the census model, where that is there.
func adultPair(t testing.TB, margin float64) (f, g *graph.Model, p *promised) {
	t.Helper()
	data := realdata.Dir(t, "data", "adult", "adult.test.gz")
	f = read(t, realdata.Dir(t, "models", "adult", "mlp2-s0.onnx"))
	tk, people := peopleOf(t, filepath.Join("..", "..", "reproduce", "testdata", "tasks", "adult.yaml"), data)
	rows := make([]int, 1000)
	for i := range rows {
		rows[i] = i
	}
	g = inFourBits(t, f, tk, people.Subset(rows))
	return f, g, promises(t, f, tk, people, margin, 40, orttest.Need(t))
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func peopleOf(t testing.TB, file, data string) (*task.Task, *task.People) {
	t.Helper()
	tk, err := task.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	people, err := task.Read(context.Background(), data, tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tk, people
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

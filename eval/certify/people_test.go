package certify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq/taskmodel"
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
	return must.Get(codec.ReadFile(path))(t)
}

// promises solves the recourse of the first people who are refused.
func promises(t testing.TB, f *graph.Model, tk *task.Task, people *task.People, margin float64, most int,
	o ort.Options,
) *promised {
	t.Helper()
	ctx := context.Background()
	c := must.Get(taskmodel.Open(loaded(t, f), tk, 1))(t)
	defer c.Close() //nolint:errcheck // nothing was written
	set := must.Get(constraint.Compile(tk))(t)
	m := must.Get(c.Margins(ctx, people.X))(t)
	var rows []int
	for i, v := range m {
		if v < 0 && len(rows) < most {
			rows = append(rows, i)
		}
	}
	actions, err := recourse.Solve(ctx, c, set.Select(rows), people.Subset(rows).X, recourse.SolveOptions{Margin: margin})
	must.Do(t, err)
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
	must.Do(t, os.WriteFile(path, data, 0o600))
}

func peopleOf(t testing.TB, file, data string) (*task.Task, *task.People) {
	t.Helper()
	tk := must.Get(task.Load(file))(t)
	people := must.Get(task.Read(context.Background(), data, tk, task.ReadOptions{}))(t)
	return tk, people
}

// loaded opens a model in memory.
func loaded(tb testing.TB, g *graph.Model) *onnxio.Model {
	tb.Helper()
	return must.Get(onnxio.FromGraph(tb.Context(), g, orttest.Need(tb)))(tb)
}

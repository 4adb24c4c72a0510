package ptq

import (
	"context"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

func loans(t testing.TB, file string) (*graph.Model, *task.Task, *task.People) {
	t.Helper()
	dir := filepath.Join("..", "testdata", "loans")
	m := must.Get(codec.ReadFile(filepath.Join(dir, "model.onnx")))(t)
	tk := must.Get(task.Load(filepath.Join(dir, "task.yaml")))(t)
	people := must.Get(task.Read(context.Background(), filepath.Join(dir, file), tk, task.ReadOptions{}))(t)
	return m, tk, people
}

// few are n of the people, evenly spread: enough where the numbers do not matter.
func few(people *task.People, n int) *task.People {
	rows := make([]int, n)
	for k := range rows {
		rows[k] = k * people.N / n
	}
	return people.Subset(rows)
}

// mustRecipe is NewRecipe of what is known to be right.
func mustRecipe(method MethodName, settings ...string) Recipe {
	r, err := NewRecipe(method, settings...)
	if err != nil {
		panic(err)
	}
	return r
}

func calibrated(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, r Recipe, run Run) *layerFits {
	t.Helper()
	n := must.Get(prepare(t.Context(), loaded(t, m), tk, r, run))(t)
	t.Cleanup(func() {
		if err := n.full.Close(); err != nil {
			t.Error(err)
		}
	})
	return must.Get(n.calibrate(t.Context(), people))(t)
}

func loaded(tb testing.TB, g *graph.Model) *onnxio.Model {
	tb.Helper()
	return must.Get(onnxio.FromGraph(tb.Context(), g, orttest.Need(tb)))(tb)
}

package ptq

import (
	"context"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

func readAll(t testing.TB, model, taskFile, data string) (*graph.Model, *task.Task, *task.People) {
	t.Helper()
	m := must.Get(codec.ReadFile(model))(t)
	tk := must.Get(task.Load(taskFile))(t)
	people := must.Get(task.Read(context.Background(), data, tk, task.ReadOptions{}))(t)
	return m, tk, people
}

// MustRecipe is NewRecipe of what is known to be right.
func MustRecipe(method MethodName, settings ...string) Recipe {
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

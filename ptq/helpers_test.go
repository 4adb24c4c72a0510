package ptq

import (
	"context"
	"testing"

	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
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

// MustRecipe is NewRecipe of what is known to be right.
func MustRecipe(method MethodName, settings ...string) Recipe {
	r, err := NewRecipe(method, settings...)
	if err != nil {
		panic(err)
	}
	return r
}

// calibrated fits the layers of a model, which is closed when the test ends.
func calibrated(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, r Recipe, run Run) *layerFits {
	t.Helper()
	n, err := prepare(t.Context(), loaded(t, m), tk, r, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.full.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := n.calibrate(t.Context(), people)
	if err != nil {
		t.Fatal(err)
	}
	return c
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

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

// half is a model in float16, with probabilities.
func half(m *graph.Model) *graph.Model {
	g := m.Graph
	for i, t := range g.Inits {
		v, _ := t.Floats()
		g.Inits[i] = graph.FromNumbers(t.Name, graph.Float16, v, t.Dims...)
	}
	b := graph.NewBuilder(g, "")
	g.Outputs[0].Name = b.Op("Softmax", []string{g.Outputs[0].Name}, graph.IntAttr("axis", 1))
	g.Inputs[0].DType, g.Outputs[0].DType = graph.Float16, graph.Float16
	return m
}

// TestHalf: promises of a float16 file are kept by the file itself, at margin 0, where probabilities of different
// logits are rounded to one.
func TestHalf(t *testing.T) {
	o := orttest.Need(t)
	m := half(must.Get(codec.ReadFile(loans("model.onnx")))(t))
	dir := t.TempDir()
	path, promises := filepath.Join(dir, "half.onnx"), filepath.Join(dir, "promises.csv")
	must.Do(t, os.WriteFile(path, must.Get(codec.Marshal(m))(t), 0o600))
	out, _, err := call(t.Context(), "inspect", path)
	must.Do(t, err)
	must.Has(t, out, "16.00 stored bits per weight")
	must.Has(t, out, "computes  the file works in float16")
	some := filepath.Join(dir, "rows.json")
	must.Do(t, os.WriteFile(some, must.Get(json.Marshal(task.AllRows(100)))(t), 0o600))
	_, said, err := call(t.Context(), "recourse", path, "-d", loans("test.csv"), "-t", loans("task.yaml"), "-o", promises,
		"--rows", some)
	must.Do(t, err)
	must.Has(t, said, "half.onnx: the file works in float16")

	p := must.Get(task.Read(t.Context(), promises, must.Get(task.Load(loans("task.yaml")))(t),
		task.ReadOptions{Keep: []string{"status"}}))(t)
	s := must.Get(ort.Open(m, o))(t)
	defer s.Close()
	found, room := 0, graph.FromNumbers("", graph.Float16, make([]float32, 2), 1, 2)
	for i, kept := range p.Kept {
		x := graph.FromNumbers("x", graph.Float16, p.X[i*p.Dim:(i+1)*p.Dim], 1, int64(p.Dim))
		must.Get(s.RunInto(t.Context(), []*graph.Tensor{x}, []*graph.Tensor{room}))(t)
		y := must.Get(room.Floats())(t)
		if kept[0] == "found" {
			if found++; !(y[1] > y[0]) {
				t.Errorf("row %d: the file answers %v", i, y)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d promises", found)
	}
}

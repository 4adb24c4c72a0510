package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

var committed = filepath.Join("..", "..", "..", "testdata", "loans")

// TestDrift holds the committed files against the generator.
func TestDrift(t *testing.T) {
	if err := run(committed, true); err != nil {
		t.Fatal(err)
	}
}

func TestCheckNamesFile(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir, false); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test.csv")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2]++
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, true); err == nil || err.Error() != path+" differs from what the generator makes" {
		t.Error(err)
	}
}

func TestExp(t *testing.T) {
	for x := -40.0; x <= 40; x += 0.37 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-13*want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestNormal(t *testing.T) {
	s := newSource(99)
	const n = 100000
	sum, squares := 0.0, 0.0
	for range n {
		v := s.normal()
		sum += v
		squares += v * v
	}
	if mean, variance := sum/n, squares/n; math.Abs(mean) > 0.015 || math.Abs(variance-1) > 0.02 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}

// TestGradient compares backpropagation with central differences.
func TestGradient(t *testing.T) {
	s := newSource(7)
	n := net{newDense(s, 4, 5), newDense(s, 5, 3), newDense(s, 3, 2)}
	x := []float64{0.3, -1.2, 0.7, 2.1}
	acts, grads := n.buffers(), n.buffers()
	loss := func() float64 {
		n.forward(x, acts)
		return math.Log1p(math.Exp(acts[2][0] - acts[2][1]))
	}
	n.gradient(x, true, 1, acts, grads)
	for l, d := range n {
		for _, p := range []parameter{d.w, d.b} {
			for i, was := range p.value {
				const h = 1e-6
				p.value[i] = was + h
				up := loss()
				p.value[i] = was - h
				down := loss()
				p.value[i] = was
				if want := (up - down) / (2 * h); math.Abs(p.grad[i]-want) > 1e-7 {
					t.Errorf("layer %d, parameter %d: gradient %v, want %v", l, i, p.grad[i], want)
				}
			}
		}
	}
}

// TestTaskAgrees reads the committed CSV by the committed task file and holds
// inputs and labels against those the model was trained on.
func TestTaskAgrees(t *testing.T) {
	tk, err := task.Load(filepath.Join(committed, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Read(t.Context(), filepath.Join(committed, "train.csv"), tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	people := populate(trainRows, 1)
	if got.N != len(people) || got.Failed != 0 {
		t.Fatalf("%d people, %d failed: %v", got.N, got.Failed, got.Problems)
	}
	encoders := fit(people)
	for i, p := range people {
		for j, v := range encode(encoders, p) {
			if have := float64(got.X[i*got.Dim+j]); math.Abs(have-v) > 1e-6*(1+math.Abs(v)) {
				t.Fatalf("row %d, input %s: %v, want %v", i, tk.InputNames()[j], have, v)
			}
		}
		if (got.Labels[i] == 1) != p.approved || got.Labels[i] < 0 {
			t.Fatalf("row %d: label %d, approved %v", i, got.Labels[i], p.approved)
		}
	}
}

// TestModel runs the committed file and holds its logits against the network
// that was trained.
func TestModel(t *testing.T) {
	options := orttest.Need(t)
	m, err := codec.ReadFile(filepath.Join(committed, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := ort.Open(m, options)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close() //nolint:errcheck // end of the test
	people, held := populate(trainRows, 1), populate(testRows, 2)
	encoders := fit(people)
	n := trained(encoders, people)
	var x []float32
	for _, p := range held {
		x = append(x, singles(encode(encoders, p))...)
	}
	in := graph.FromFloats("x", x, int64(len(held)), int64(n[0].in))
	out, err := session.Run(t.Context(), []*graph.Tensor{in}, "logits")
	if err != nil {
		t.Fatal(err)
	}
	logits, err := out[0].Floats()
	if err != nil {
		t.Fatal(err)
	}
	acts := n.buffers()
	right := 0
	for i, p := range held {
		n.forward(encode(encoders, p), acts)
		for k, want := range acts[2] {
			if got := float64(logits[2*i+k]); math.Abs(got-want) > 1e-4 {
				t.Fatalf("row %d, logit %d: %v, want %v", i, k, got, want)
			}
		}
		if (logits[2*i+1] > logits[2*i]) == p.approved {
			right++
		}
	}
	if share := float64(right) / float64(len(held)); share < 0.8 || share > 0.88 {
		t.Errorf("accuracy %v on the test rows", share)
	}
}

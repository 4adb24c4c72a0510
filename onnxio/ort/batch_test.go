package ort_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// scaled is y = x * k with x of shape in and k a whole input of shape [2].
func scaled(in graph.Shape) *graph.Model {
	inputs := []graph.Value{value("x", graph.Float, in), value("k", graph.Float, graph.Fixed(2))}
	return build(inputs, []graph.Value{value("y", graph.Float, in)}, func(b *graph.Builder) {
		b.Append(node("Mul", []string{"x", "k"}, "y"))
	})
}

// Any number of rows in any batches gives each row's own result, whether the
// model's number of rows is open or fixed.
func TestRunBatched(t *testing.T) {
	o := orttest.Need(t)
	sessions := map[int64]*ort.Session{
		-1: open(t, scaled(rows(2)), o),
		1:  open(t, scaled(graph.Fixed(1, 2)), o),
		3:  open(t, scaled(graph.Fixed(3, 2)), o),
	}
	rapid.Check(t, func(t *rapid.T) {
		fixed := rapid.SampledFrom([]int64{-1, 1, 3}).Draw(t, "fixed")
		n := rapid.IntRange(1, 11).Draw(t, "rows")
		batch := rapid.IntRange(0, 12).Draw(t, "batch")
		x, want := make([]float32, 2*n), make([]float32, 2*n)
		for i := range x {
			x[i] = float32(i + 1)
			want[i] = x[i] * []float32{2, -1}[i%2]
		}
		in := []*graph.Tensor{
			graph.FromFloats("k", []float32{2, -1}, 2),
			graph.FromFloats("x", x, int64(n), 2),
		}
		got, err := sessions[fixed].RunBatched(t.Context(), in, batch)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]*graph.Tensor{graph.FromFloats("y", want, int64(n), 2)}, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		if in[1].Dims[0] != int64(n) || len(in[1].Raw) != 8*n {
			t.Fatal("the input was changed")
		}
	})
}

func TestRunBatchedRefuses(t *testing.T) {
	o := orttest.Need(t)
	pair := open(t, sumAndDifference(rows(2)), o)
	fixed := open(t, scaled(graph.Fixed(3, 2)), o)
	total := open(t, build([]graph.Value{value("x", graph.Float, rows(2))}, []graph.Value{{Name: "total"}}, func(b *graph.Builder) {
		b.Append(node("ReduceSum", []string{"x"}, "total"))
	}), o)
	some := func(name string, n int64) *graph.Tensor {
		return graph.FromFloats(name, make([]float32, 2*n), n, 2)
	}
	for _, c := range []struct {
		name  string
		s     *ort.Session
		in    []*graph.Tensor
		batch int
		want  string
	}{
		{"rows differ", pair, []*graph.Tensor{some("a", 4), some("b", 5)}, 2, `"a" has 4 rows and input "b" has 5`},
		{"whole input", fixed, []*graph.Tensor{graph.FromFloats("x", make([]float32, 8), 4, 2), graph.FromFloats("k", make([]float32, 3), 3)}, 2, `"x" has 4 rows and input "k" has 3`},
		{"no rows", fixed, []*graph.Tensor{some("x", 0), graph.FromFloats("k", make([]float32, 2), 2)}, 2, `on none`},
		{"negative", pair, nil, -1, "-1"},
		{"missing", pair, []*graph.Tensor{some("a", 4)}, 2, `missing: "b"`},
		{"no row each", total, []*graph.Tensor{some("x", 4)}, 3, `output "total" is float[1 1] for 3 rows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.s.RunBatched(t.Context(), c.in, c.batch)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

func TestRunBatchedNoRows(t *testing.T) {
	s := open(t, scaled(rows(2)), orttest.Need(t))
	in := []*graph.Tensor{graph.FromFloats("x", nil, 0, 2), graph.FromFloats("k", []float32{1, 1}, 2)}
	got, err := s.RunBatched(t.Context(), in, 5)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int64{0, 2}, got[0].Dims); d != "" {
		t.Error(d)
	}
}

// A classifier exported from PyTorch gives the same logits in batches of 7 as
// in one, but for the last bits of the sums.
func TestRealClassifierInBatches(t *testing.T) {
	onnx, err := os.ReadFile(realdata.Dir(t, "models", "adult", "mlp2-s0.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := codec.Read(onnx, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ort.OpenBytes(onnx, orttest.Need(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := m.Graph.DataInputs()[0]
	dim := in.Shape[1].Size
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 50*dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	var logits [2][]float32
	for i, batch := range []int{0, 7} {
		out, err := s.RunBatched(t.Context(), []*graph.Tensor{graph.FromFloats(in.Name, x, 50, dim)}, batch)
		if err != nil {
			t.Fatal(err)
		}
		if logits[i], err = out[0].Floats(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range logits[0] {
		if d := logits[0][i] - logits[1][i]; d > 1e-4 || d < -1e-4 {
			t.Errorf("logit %d is %g in one run and %g in batches", i, logits[0][i], logits[1][i])
		}
	}
}

package ort_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// Any number of rows gives each row's own result, whether the
// model's number of rows is open or fixed.
func TestRunRows(t *testing.T) {
	o := orttest.Need(t)
	sessions := map[int64]*ort.Session{
		-1: open(t, scaled(rows(2)), o),
		1:  open(t, scaled(graph.Fixed(1, 2)), o),
		3:  open(t, scaled(graph.Fixed(3, 2)), o),
	}
	rapid.Check(t, func(t *rapid.T) {
		fixed := rapid.SampledFrom([]int64{-1, 1, 3}).Draw(t, "fixed")
		n := rapid.IntRange(1, 11).Draw(t, "rows")
		x, want := make([]float32, 2*n), make([]float32, 2*n)
		for i := range x {
			x[i] = float32(i + 1)
			want[i] = x[i] * []float32{2, -1}[i%2]
		}
		in := []*graph.Tensor{
			graph.FromFloats("k", []float32{2, -1}, 2),
			graph.FromFloats("x", x, int64(n), 2),
		}
		got, err := sessions[fixed].RunRows(t.Context(), in)
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

func TestRunRowsRefuses(t *testing.T) {
	o := orttest.Need(t)
	pair := open(t, sumAndDifference(rows(2)), o)
	fixed := open(t, scaled(graph.Fixed(3, 2)), o)
	total := open(t, build([]graph.Value{value("x", graph.Float, graph.Fixed(3, 2))}, []graph.Value{{Name: "total"}},
		func(b *graph.Builder) {
			b.Append(node("ReduceSum", []string{"x"}, "total"))
		}), o)
	some := func(name string, n int64) *graph.Tensor {
		return graph.FromFloats(name, make([]float32, 2*n), n, 2)
	}
	for _, c := range []struct {
		name string
		s    *ort.Session
		in   []*graph.Tensor
		want string
	}{
		{"rows differ", pair, []*graph.Tensor{some("a", 4), some("b", 5)}, `"a" has 4 rows and input "b" has 5`},
		{"whole input", fixed, []*graph.Tensor{
			graph.FromFloats("x", make([]float32, 8), 4, 2),
			graph.FromFloats("k", make([]float32, 3), 3),
		}, `"x" has 4 rows and input "k" has 3`},
		{"no rows", fixed, []*graph.Tensor{some("x", 0), graph.FromFloats("k", make([]float32, 2), 2)}, `on none`},
		{"missing", pair, []*graph.Tensor{some("a", 4)}, `missing: "b"`},
		{"no row each", total, []*graph.Tensor{some("x", 4)}, `output "total" is float[1 1] for 3 rows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.s.RunRows(t.Context(), c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

func TestRunRowsNoRows(t *testing.T) {
	s := open(t, scaled(rows(2)), orttest.Need(t))
	in := []*graph.Tensor{graph.FromFloats("x", nil, 0, 2), graph.FromFloats("k", []float32{1, 1}, 2)}
	got, err := s.RunRows(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int64{0, 2}, got[0].Dims); d != "" {
		t.Error(d)
	}
}

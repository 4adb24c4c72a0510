package ort_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// mlp is a classifier of the size of tabular ones: 104-64-32-2.
func mlp() *graph.Model {
	rng := rand.New(rand.NewPCG(1, 1))
	in, out := []graph.Value{value("x", graph.Float, rows(104))}, []graph.Value{value("y", graph.Float, rows(2))}
	return build(in, out, func(b *graph.Builder) {
		sizes, last := []int64{104, 64, 32, 2}, "x"
		for i, n := range sizes[1:] {
			w := make([]float32, n*sizes[i])
			for k := range w {
				w[k] = float32(rng.NormFloat64())
			}
			weight := b.Const(graph.FromFloats("w", w, n, sizes[i]))
			bias := b.Const(graph.FromFloats("b", make([]float32, n), n))
			last = b.Op("Gemm", []string{last, weight, bias}, graph.IntAttr("transB", 1))
			if n != 2 {
				last = b.Op("Relu", []string{last})
			}
		}
		b.Append(node("Identity", []string{last}, "y"))
	})
}

func BenchmarkRun(b *testing.B) {
	s := must.Get(ort.Open(mlp(), orttest.Need(b)))(b)
	defer s.Close()
	for _, n := range []int64{1, 32, 1024} {
		x := []*graph.Tensor{graph.FromFloats("x", make([]float32, n*104), n, 104)}
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

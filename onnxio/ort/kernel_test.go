package ort_test

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestSelfTest(t *testing.T) {
	o := orttest.Need(t)
	for level := ort.All; level <= ort.Disabled; level++ {
		o.Level = level
		if err := ort.SelfTest(t.Context(), o); err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
	o.Threads = 2
	if err := ort.SelfTest(t.Context(), o); err != nil {
		t.Errorf("two threads: %v", err)
	}
}

func TestOptimized(t *testing.T) {
	o := orttest.Need(t)
	onnx := must.Get(codec.Marshal(ort.SelfTestModel()))(t)
	for _, c := range []struct {
		level   ort.Level
		op, not string
	}{
		{ort.All, "QGemm", "Gemm"},
		{ort.Extended, "QGemm", "Gemm"},
		{ort.Basic, "Gemm", "QGemm"},
		{ort.Disabled, "Gemm", "QGemm"},
	} {
		o.Level = c.level
		m, err := ort.Optimized(onnx, o)
		if err != nil {
			t.Errorf("%s: %v", c.level, err)
			continue
		}
		has := func(op string) bool {
			return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == op })
		}
		if !has(c.op) || has(c.not) {
			var ops []string
			for _, n := range m.Graph.Nodes {
				ops = append(ops, n.Op)
			}
			t.Errorf("%s: the graph holds %v", c.level, ops)
		}
	}
}

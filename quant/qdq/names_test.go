package qdq_test

import (
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

// Hidden units in the order of their containers need no stored order, and short names change nothing: the model
// computes what it did in few bits.
func TestSmallBytes(t *testing.T) {
	t.Parallel()
	eng, m := orttest.Need(t), net(5, 9, 40, 30, 2)
	p := planFor(t, m, 8, true)
	for i := range p.Layers {
		l := &p.Layers[i]
		l.Bits, l.Act, l.Bias = 0, nil, make([]float32, len(l.Scales))
		for o := range l.Scales {
			l.RowBits, l.Scales[o] = append(l.RowBits, []int{4, 2, 8}[o%3]), 1./32
			l.Bias[o] = float32(o%7) / 16
		}
	}
	q := write(t, m, p, qdq.Options{})
	x, before := rows(3, 64, 9), len(must.Get(quant.FindLayers(m))(t))
	want := floats(t, run(t, write(t, m, p, qdq.Options{Plain: true}), eng, x)["y"])
	qdq.Shorten(q, must.Get(quant.FindLayers(m))(t))
	named, half, long := 0, 0, 0
	for _, n := range q.Graph.Nodes {
		if n.Name != "" {
			named++
		}
		for _, v := range n.Outputs {
			if len(v) > 1 {
				long++
			}
		}
		if n.Op == "Gather" {
			t.Errorf("%s: the order of units is stored", n.Label())
		}
	}
	for _, v := range q.Graph.Inits {
		if v.DType == graph.Float16 {
			half++
		}
	}
	must.Same(t, []int{before, 4}, []int{named, half})
	if long > 6 { // of more than 36 values
		t.Errorf("%d values have long names", long)
	}
	got := floats(t, run(t, q, eng, x)["y"])
	for i := range want {
		must.Near(t, want[i], got[i], 1e-5)
	}
}

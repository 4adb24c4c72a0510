package qdq_test

import (
	"testing"

	"cfq/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

func adultPlan(b failer, in int, perRow bool) (*graph.Model, *quant.Plan) {
	m := net(9, in, 64, 32, 2)
	p := planFor(b, m, 8, true)
	for k := range p.Layers {
		l := &p.Layers[k]
		l.Bits = 0
		for o := range l.Scales {
			l.RowBits = append(l.RowBits, []int{2, 3, 4, 8}[(o*7+k)%4])
			l.Scales[o], _ = quant.Half(l.Scales[o])
		}
	}
	return m, p
}

func BenchmarkZZSize(b *testing.B) {
	m, p := adultPlan(b, 104, true)
	s := size(b)
	for b.Loop() {
		if _, err := qdq.Write(m, p, qdq.Options{Size: s}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkZZPlain(b *testing.B) {
	m, p := adultPlan(b, 104, true)
	for b.Loop() {
		if _, err := qdq.Write(m, p, qdq.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

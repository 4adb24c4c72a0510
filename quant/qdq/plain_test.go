package qdq_test

import (
	"slices"
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

func likeAdult(t failer) (*graph.Model, *quant.Plan) {
	m := net(9, 104, 64, 32, 2)
	p := planFor(t, m, 8, true)
	for k := range p.Layers {
		l := &p.Layers[k]
		l.Bits = 0
		for o, s := range l.Scales {
			l.RowBits = append(l.RowBits, []int{2, 3, 4, 8}[(o*7+k)%4])
			l.Scales[o], _ = quant.Half(s)
		}
	}
	return m, p
}

func TestPlain(t *testing.T) {
	eng := orttest.Need(t)
	m, p := likeAdult(t)
	float := func(p *quant.Plan) {
		p.Layers[0].Act, p.Layers[2].Act = nil, nil // weight-only
		p.Layers[1].Float = true
	}
	for name, change := range map[string]func(p *quant.Plan){"integers": func(*quant.Plan) {}, "float": float} {
		c := &quant.Plan{Layers: slices.Clone(p.Layers)}
		change(c)
		plain := write(t, m, c,
			qdq.Options{Plain: true, Size: func(*graph.Model) int { t.Error("the size is asked"); return 0 }})
		for _, n := range plain.Graph.Nodes {
			if n.Op == "Cast" || n.Op == "Expand" || n.Op == "Unpack" || n.Op == "Concat" || n.Op == "Gather" || n.Op == "Mul" {
				t.Errorf("%s: %s is left for the runtime", name, n.Label())
			}
		}
		if len(plain.Functions) > 0 || plain.Opset("") != 21 {
			t.Errorf("%s: %d functions, opset %d", name, len(plain.Functions), plain.Opset(""))
		}
		small := write(t, m, c, qdq.Options{})
		if name == "integers" {
			wantFused(t, plain, c, eng)
		}
		x := rows(4, 300, 104)
		for _, level := range []ort.Level{ort.All, ort.Disabled} {
			eng.Level = level
			if a, b := floats(t, run(t, plain, eng, x)["y"]), floats(t, run(t, small, eng, x)["y"]); !slices.Equal(a, b) {
				t.Errorf("%s, optimizations %s: the results differ", name, level)
			}
		}
		eng.Level = ort.All
	}
}

func TestFewAlternatives(t *testing.T) {
	m, p := likeAdult(t)
	for runtime, most := range map[string]int{"1.20": 48, "1.24": 48} {
		n, weigh := 0, size(t)
		write(t, m, p, qdq.Options{Runtime: runtime, Size: func(m *graph.Model) int { n++; return weigh(m) }})
		if n > most || n < 10 {
			t.Errorf("%s: %d models were weighed; %d should do", runtime, n, most)
		}
	}
}

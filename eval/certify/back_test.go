package certify

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// plain is a network of layers without biases, and one logit.
func plain(rng *rand.Rand, act string, widths ...int) *graph.Model {
	g := &graph.Graph{Name: "plain"}
	rows := func(n int) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: int64(n)}} }
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(widths[0])}}
	g.Outputs = []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(1)}}
	value := "x"
	add := func(op, out string, in ...string) {
		g.Nodes = append(g.Nodes, &graph.Node{Name: "node " + out, Op: op, Inputs: in, Outputs: []string{out}})
		value = out
	}
	for i := 1; i < len(widths); i++ {
		w := make([]float32, widths[i]*widths[i-1])
		for j := range w {
			w[j] = float32(rng.NormFloat64() * 3 / float64(widths[i-1]))
		}
		name := fmt.Sprintf("w%d", i)
		g.Inits = append(g.Inits, graph.FromFloats(name, w, int64(widths[i-1]), int64(widths[i])))
		if i == len(widths)-1 {
			add("MatMul", "y", value, name)
			break
		}
		add("MatMul", fmt.Sprintf("h%d", i), value, name)
		add(act, fmt.Sprintf("a%d", i), value)
	}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
}

// Backward substitution is never above a margin in the box, and closer than the zonotopes where numbers change sign.
func TestSubstituted(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	const dim, boxes, samples, radius = 6, 20, 200, 0.4
	for act, gain := range map[string]float64{"Relu": 0.05, "LeakyRelu": 0.05, "Elu": -0.02, "Tanh": -0.02, "Gelu": 0} {
		rng := rand.New(rand.NewPCG(1, 2))
		m := plain(rng, act, dim, 32, 16, 1)
		k := must.Get(Open(t.Context(), loaded(t, m, o), loaded(t, m, o), 1))(t)
		defer k.Close() //nolint:errcheck // nothing was written
		var s noiseSymbols
		var raised, width float64
		for range boxes {
			point, half := make([]float32, dim), make([]float32, dim)
			for i := range point {
				point[i], half[i] = float32(rng.NormFloat64()), radius
			}
			s.reset()
			p := pass{noiseSymbols: &s}
			lo, hi := k.margin(k.quant.p.run(&p, s.box(point, half)), nil)
			lower := k.substituted(&p)
			raised, width = raised+lower-lo, width+(hi-lo)/2
			var x []float32
			for range samples {
				for _, v := range point {
					x = append(x, v+radius*float32(2*rng.Float64()-1))
				}
			}
			margins := must.Get(k.quant.c.Margins(t.Context(), x))(t)
			for _, v := range margins {
				if float64(v) < lower {
					t.Errorf("%s: a margin of %v was found where none is below %v", act, v, lower)
				}
			}
		}
		t.Logf("%s: %.3f above the zonotopes, which reach %.3f to each side", act, raised/boxes, width/boxes)
		if raised < gain*width {
			t.Errorf("%s: substitution raises the bounds by %v of %v", act, raised, width)
		}
	}
}

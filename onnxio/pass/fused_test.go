package pass_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// fusedForms are uses of ONNX Runtime's own operators, behind which the model has 6 numbers for each row of 6.
func fusedForms() map[string]func(*fusedBuilder) string {
	activated := func(op, a string, attrs ...graph.Attr) func(*fusedBuilder) string {
		return func(b *fusedBuilder) string {
			attrs := append(attrs, graph.StringAttr("activation", a))
			if op == "FusedGemm" {
				return b.own(op, []string{"x", b.random(6, 6), b.random(6)}, append(attrs, graph.IntAttr("transB", 1))...)
			}
			x := b.Op("Reshape", []string{"x", b.ints(0, 2, 3)})
			y := b.own(op, []string{x, b.random(2, 1, 3), b.random(2)}, append(attrs, graph.IntAttr("group", 2),
				graph.IntsAttr("pads", 1, 1))...)
			return b.Op("Flatten", []string{y})
		}
	}
	number := func(name string, v float32) graph.Attr { return graph.Attr{Name: name, Kind: graph.AttrFloat, F: v} }
	params := func(v ...float32) graph.Attr {
		return graph.Attr{Name: "activation_params", Kind: graph.AttrFloats, Floats: v}
	}
	return map[string]func(*fusedBuilder) string{
		"Gelu":      func(b *fusedBuilder) string { return b.own("Gelu", []string{"x"}) },
		"BiasGelu":  func(b *fusedBuilder) string { return b.own("BiasGelu", []string{"x", b.random(6)}) },
		"FastGelu":  func(b *fusedBuilder) string { return b.own("FastGelu", []string{"x", b.random(6)}) },
		"FastGelu1": func(b *fusedBuilder) string { return b.own("FastGelu", []string{"x"}) },
		"QuickGelu": func(b *fusedBuilder) string { return b.own("QuickGelu", []string{"x"}, number("alpha", 1.2)) },
		"FusedMatMul": func(b *fusedBuilder) string {
			x := b.Op("Reshape", []string{"x", b.ints(0, 2, 3)})
			y := b.own("FusedMatMul", []string{x, x}, graph.IntAttr("transB", 1), number("alpha", .5)) // [N, 2, 2]
			y = b.own("FusedMatMul", []string{y, x}, graph.IntAttr("transA", 1))
			return b.Op("Flatten", []string{b.own("FusedMatMul", []string{y, b.random(3, 3)})})
		},
		"FusedGemm":      activated("FusedGemm", "Relu"),
		"FusedGemmLeaky": activated("FusedGemm", "LeakyRelu", number("activation_alpha", .2)),
		"FusedConv":      activated("FusedConv", "Relu"),
		"FusedConvClip":  activated("FusedConv", "Clip", params(0, .5)),
		"FusedConvHard":  activated("FusedConv", "HardSigmoid", params(.3, .4)),
		"SkipLayerNormalization": func(b *fusedBuilder) string {
			x := b.Op("Reshape", []string{"x", b.ints(0, 2, 3)})
			out := []string{b.Name("n"), "", "", b.Name("s")}
			b.Append(&graph.Node{
				Op: "SkipLayerNormalization", Domain: "com.microsoft", Outputs: out,
				Inputs: []string{x, b.Op("Neg", []string{b.Op("Tanh", []string{x})}), b.random(3), b.random(3), b.random(3)},
				Attrs:  []graph.Attr{number("epsilon", 1e-3)},
			})
			return b.Op("Flatten", []string{b.Op("Add", []string{out[0], out[3]})})
		},
		"SkipSimplifiedLayerNormalization": func(b *fusedBuilder) string {
			x := b.Op("Reshape", []string{"x", b.ints(0, 2, 3)})
			y := b.own("SkipSimplifiedLayerNormalization", []string{x, b.Op("Tanh", []string{x}), b.random(3), b.random(3)},
				number("epsilon", 1e-3))
			y = b.Op("SimplifiedLayerNormalization", []string{y, b.random(3)}, number("epsilon", 1e-2))
			return b.Op("Flatten", []string{y})
		},
	}
}

type fusedBuilder struct {
	*graph.Builder
	rng *rand.Rand
}

func (b *fusedBuilder) random(dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(b.rng.NormFloat64())
	}
	return b.Const(graph.FromFloats("w", v, dims...))
}

func (b *fusedBuilder) ints(v ...int64) string { return b.Const(graph.FromInts("n", v, int64(len(v)))) }

func (b *fusedBuilder) own(op string, inputs []string, attrs ...graph.Attr) string {
	out := b.Name("own")
	b.Append(&graph.Node{Op: op, Domain: "com.microsoft", Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
	return out
}

func TestFused(t *testing.T) {
	eng := orttest.Need(t)
	for name, form := range fusedForms() {
		t.Run(name, func(t *testing.T) {
			m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 17}, {Domain: "com.microsoft", Version: 1}}}
			x6 := graph.Value{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 6}}}
			m.Graph = &graph.Graph{Name: "g", Inputs: []graph.Value{x6}}
			b := &fusedBuilder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(1, 2))}
			y := b.Op("MatMul", []string{form(b), b.random(6, 2)})
			m.Graph.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
			opened := must.Get(onnxio.FromGraph(t.Context(), m, eng))(t)
			for _, n := range opened.Graph().Graph.Nodes {
				if !n.Standard() || strings.HasPrefix(n.Op, "Simplified") {
					t.Errorf("%s of %q is left", n.Label(), n.Domain)
				}
			}
			x := make([]float32, 24)
			for i := range x {
				x[i] = float32(b.rng.NormFloat64())
			}
			in := graph.FromFloats("x", x, 4, 6)
			want, _ := orttest.Run(t, m, eng, in)[0].Doubles()
			got, _ := orttest.Run(t, opened.Graph(), eng, in)[0].Doubles()
			for k := range want {
				if !(math.Abs(want[k]-got[k]) <= 1e-5*(1+math.Abs(want[k]))) {
					t.Fatalf("output %d is %v, want %v", k, got[k], want[k])
				}
			}
		})
	}
}

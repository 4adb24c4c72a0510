package certify_test

import (
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

// Every operator that certificates know, in one network with two branches that come together.
func TestOperators(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 9))
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	g := &graph.Graph{
		Name:    "operators",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(6)}},
		Outputs: []graph.Value{{Name: "p", DType: graph.Float, Shape: rows(3)}},
	}
	b := graph.NewBuilder(g, "")
	draw := func(dims ...int64) string {
		n := 1
		for _, d := range dims {
			n *= int(d)
		}
		return b.Const(graph.FromFloats("c", normal(rng, n, 0.7), dims...))
	}
	positive := func(n int64) string {
		v := make([]float32, n)
		for i := range v {
			v[i] = 0.3 + rng.Float32()
		}
		return b.Const(graph.FromFloats("c", v, n))
	}
	ints := func(v ...int64) string { return b.Const(graph.FromInts("i", v, int64(len(v)))) }
	scalar := func(v float32) string { return b.Const(graph.FromFloats("s", []float32{v})) }
	axis := graph.IntAttr("axis", 1)
	shape := b.Op("Shape", []string{"x"})
	batch := b.Op("Gather", []string{shape, b.Const(graph.FromInts("i", []int64{0}, 1))})
	image := b.Op("Reshape", []string{"x", b.Op("Concat", []string{batch, ints(2, 3)}, graph.IntAttr("axis", 0))})
	turned := b.Op("Transpose", []string{image}, graph.IntsAttr("perm", 0, 2, 1))
	turned = b.Op("Mul", []string{turned, draw(3, 1)})
	flat := b.Op("Flatten", []string{turned}, axis)
	b.Append(&graph.Node{
		Op: "Split", Inputs: []string{flat, ints(2, 4)}, Outputs: []string{"left", "right"},
		Attrs: []graph.Attr{axis},
	})
	some := b.Op("Gather", []string{"right", ints(3, 0, 2)}, axis)
	rest := b.Op("Slice", []string{"x", ints(1), ints(6), ints(1), ints(2)})
	both := b.Op("Concat", []string{"left", some, b.Op("Neg", []string{rest})}, axis)
	both = b.Op("Identity", []string{b.Op("Dropout", []string{both})})
	both = b.Op("Div", []string{b.Op("Sub", []string{both, draw(8)}), positive(8)})
	h := b.Op("Gemm", []string{both, draw(8, 10), draw(1, 10)}, graph.FloatAttr("alpha", 0.5), graph.FloatAttr("beta", 2))
	h = b.Op("BatchNormalization", []string{h, positive(10), draw(10), draw(10), positive(10)})
	h = b.Op("Min", []string{b.Op("Max", []string{draw(10), h, scalar(-0.2)}), scalar(0.9)})
	k := b.Op("Tanh", []string{b.Op("MatMul", []string{both, draw(8, 10)})})
	h = b.Op("Sub", []string{b.Op("Add", []string{h, k}), b.Op("Sigmoid", []string{k})})
	h = b.Op("Cast", []string{b.Op("Cast", []string{h}, graph.IntAttr("to", int64(graph.Double)))},
		graph.IntAttr("to", int64(graph.Float)))
	zero := b.Const(&graph.Tensor{Name: "z", DType: graph.Int8, Raw: []byte{3}})
	q := b.Op("QuantizeLinear", []string{h, scalar(0.015), zero})
	h = b.Op("DequantizeLinear", []string{q, scalar(0.015), zero})
	h = b.Op("LeakyRelu", []string{b.Op("Sub", []string{scalar(0.1), h})}, graph.FloatAttr("alpha", 0.2))
	z := b.Op("Squeeze", []string{b.Op("Unsqueeze", []string{b.Op("Gemm", []string{h, draw(10, 3)}), ints(2)}), ints(2)})
	b.Append(&graph.Node{Op: "Softmax", Inputs: []string{z}, Outputs: []string{"p"}, Attrs: []graph.Attr{axis}})
	m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
	p := opened(t, m, m, 2)
	must.Do(t, p.k.Check())
	const n = 40
	points, half := normal(rng, n*6, 1), make([]float32, n*6)
	for i := range half {
		half[i] = []float32{0, 0.01, 0.2, 1}[rng.IntN(4)] * float32(min(1, i/60))
	}
	proofs := must.Get(p.k.Prove(t.Context(), points, half, n))(t)
	attacked := make([]found, n)
	x := make([]float32, n*6)
	for try := range 300 {
		for i := range x {
			v := rng.Float64()*2 - 1
			if try%2 == 0 {
				v = float64(rng.IntN(2)*2 - 1)
			}
			x[i] = within(points[i], half[i], float64(points[i])+v*float64(half[i]))
		}
		margins := must.Get(p.g.Margins(t.Context(), x))(t)
		for i, v := range margins {
			if try == 0 || float64(v) < attacked[i].lower {
				attacked[i].lower = float64(v)
			}
		}
	}
	holds(t, "operators", proofs, attacked)
	for i := range 10 { // these have no width
		if loose := attacked[i].lower - float64(proofs[i].Lower); loose > 0.01 {
			t.Errorf("row %d: the bound is %v below the margin", i, loose)
		}
	}
}

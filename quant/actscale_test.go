package quant_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// The gradients by the scale of activations are those of the published formulas, by learned step size and by
// parameterized clipping.
func TestActivationScale(t *testing.T) {
	t.Parallel()
	const rows, dim, scale, zero = 16, 5, 0.25, 3
	r := rand.New(rand.NewPCG(5, 5))
	x, g := make([]float32, rows*dim), make([]float32, rows*dim)
	for k := range x {
		// Codes from -5 to 20, and never near where rounding jumps.
		x[k] = scale * float32(math.Round(25*r.Float64())-5+0.8*(r.Float64()-0.5)-zero)
		g[k] = float32(r.NormFloat64())
	}
	for name, c := range map[string]struct {
		clip, pact bool
	}{"8 bits": {}, "4 bits": {clip: true}, "4 bits, PACT": {clip: true, pact: true}} {
		largest := 255.0
		if c.clip {
			largest = 15
		}
		var want float64
		clipped := 0
		for k, v := range x {
			ratio := float64(v) / scale
			code := math.RoundToEven(ratio) + zero
			by := code - zero - ratio
			if outside := ratio+zero < 0 || ratio+zero > largest; outside {
				by = min(max(code, 0), largest) - zero
				clipped++
			} else if c.pact {
				by = 0
			}
			want += by * float64(g[k])
		}
		if clipped == 0 {
			t.Fatal("nothing is clipped: the case is too easy")
		}
		m, from := scaledModel(t, rows, dim, zero, c.clip, c.pact)
		got := must.Get(ort.FloatsOf(orttest.Run(t, m, orttest.Need(t), graph.FromFloats("x", x, rows, dim),
			graph.FromFloats("g", g, rows, dim), graph.FromFloats("s", []float32{scale}))[0]))(t)
		near(t, name+": gradient by the scale", got, []float64{want}, 1e-5)
		if quant.SetScale(from, "s") {
			t.Error("the scale of a node that is no quantizer was set")
		}
	}
}

// scaledModel is the gradient by s of sum(quantized(x) * g), and a node that quantizes nothing.
func scaledModel(t *testing.T, rows, dim int64, zero uint8, clip, pact bool) (*graph.Model, *graph.Node) {
	t.Helper()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "acts"}}
	types := graph.Types{}
	for name, shape := range map[string]graph.Shape{"x": graph.Fixed(rows, dim), "g": graph.Fixed(rows, dim), "s": nil} {
		types[name] = graph.Type{DType: graph.Float, Shape: shape}
	}
	for _, name := range []string{"x", "g", "s"} {
		m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: name, DType: graph.Float, Shape: types[name].Shape})
	}
	b := graph.NewBuilder(m.Graph, "t.")
	code := func(v uint8) string {
		return b.Const(&graph.Tensor{Name: "z", DType: graph.Uint8, Raw: []byte{v}})
	}
	scale, point := b.Const(graph.FromFloats("fixed", []float32{1})), code(zero)
	types[scale], types[point] = graph.Type{DType: graph.Float}, graph.Type{DType: graph.Uint8}
	q := b.Op("QuantizeLinear", []string{"x", scale, point})
	if clip {
		lo, hi := code(0), code(15)
		types[lo], types[hi] = types[point], types[point]
		q = b.Op("Clip", []string{q, lo, hi})
	}
	y := b.Op("DequantizeLinear", []string{q, scale, point})
	types[y] = types["x"]
	rules := quant.StraightThrough(m)
	if pact {
		quant.ClipScales(rules)
	}
	at := slices.IndexFunc(m.Graph.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Outputs, y) })
	if !quant.SetScale(m.Graph.Nodes[at], "s") {
		t.Fatal("no quantizer was found")
	}
	product := b.Op("Mul", []string{y, "g"})
	grads, err := autodiff.Gradients(m.Graph, types, product, []string{"s"}, autodiff.Options{Prefix: "d.", Policy: rules})
	must.Do(t, err)
	m.Graph.Outputs = []graph.Value{{Name: grads[0], DType: graph.Float}}
	return m, m.Graph.Nodes[len(m.Graph.Nodes)-1]
}

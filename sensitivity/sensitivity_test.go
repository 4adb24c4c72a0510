package sensitivity

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// chain is a model of layers that read one another: Gemm nodes, of the weights named w and b and a number, and others.
func chain(inputs int, weights []*graph.Tensor, nodes ...*graph.Node) *graph.Model {
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name: "net", Inits: weights, Nodes: nodes,
		Inputs: []graph.Value{{
			Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(inputs)}},
		}},
		Outputs: []graph.Value{{Name: nodes[len(nodes)-1].Outputs[0], DType: graph.Float}},
	}}
}

func gemm(in, out string, weights ...string) *graph.Node {
	return &graph.Node{
		Op: "Gemm", Name: out, Inputs: append([]string{in}, weights...), Outputs: []string{out},
		Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
	}
}

func unary(op, in, out string) *graph.Node {
	return &graph.Node{Op: op, Name: out, Inputs: []string{in}, Outputs: []string{out}}
}

// normal draws a tensor of normal numbers.
func normal(r *rand.Rand, deviation float64, name string, dims ...int64) *graph.Tensor {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(deviation * r.NormFloat64())
	}
	return graph.FromFloats(name, v, dims...)
}

func network() *graph.Model {
	r := rand.New(rand.NewPCG(1, 2))
	return chain(3, []*graph.Tensor{
		normal(r, 1, "w1", 4, 3), normal(r, 1, "b1", 4), normal(r, 1, "w2", 2, 4), normal(r, 1, "b2", 2),
	}, gemm("x", "h", "w1", "b1"), unary("Tanh", "h", "a"), gemm("a", "z", "w2", "b2"))
}

func open(t *testing.T, m *graph.Model) *classifier.Model {
	t.Helper()
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	c := must.Get(classifier.New(loaded, classifier.Options{}))(t)
	t.Cleanup(func() {
		must.Do(t, c.Close())
	})
	return c
}

func nudged(m *graph.Model, name string, i int, by float32) *graph.Model {
	c := m.Clone()
	for k, t := range c.Graph.Inits {
		if t.Name == name {
			v, err := t.Floats()
			if err != nil {
				panic(err)
			}
			v[i] += by
			c.Graph.Inits[k] = graph.FromFloats(name, v, t.Dims...)
		}
	}
	return c
}

// The scores against their definition, eq. cfptq_sensitivity: the mean over rows of the l1 norm of central differences
// of the row's loss by every single weight, of dense layers and of a convolution.
func TestGradientIsTheDefinition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m       *graph.Model
		x       []float32 // three rows
		classes []int
		checked int // layers
	}{
		{network(), []float32{.2, -.4, 1, -1, .3, .6, .8, .8, -.2}, []int{1, 0, 1}, 2},
		{picture("Tanh"), pixels(3), nil, 1},
	} {
		c, layers := open(t, tt.m), layersOf(t, tt.m)
		got := must.Get(Gradient(t.Context(), c, layers, tt.x, tt.classes))(t)
		loss := func(m *graph.Model) []float64 {
			margins := must.Get(c.With(m).Margins(t.Context(), tt.x))(t)
			out := make([]float64, len(margins))
			for i, v := range margins {
				if tt.classes != nil && tt.classes[i] == 0 {
					v = -v
				}
				out[i] = math.Log1p(math.Exp(-float64(v)))
			}
			return out
		}
		for k, l := range layers[:tt.checked] {
			var want float64
			for i := range l.W {
				const h = 2e-2
				up, down := loss(nudged(tt.m, l.Weight, i, h)), loss(nudged(tt.m, l.Weight, i, -h))
				for r := range up {
					want += math.Abs(up[r]-down[r]) / (2 * h) / 3
				}
			}
			must.Near(must.In(t, l.Node), want, got[k], 2e-3*want)
		}
	}
}

func TestMeasured(t *testing.T) {
	t.Parallel()
	m := network()
	c := open(t, m)
	layers := layersOf(t, m)
	// A quantizer that adds 1/bits to the first weight of the layer.
	formats := quant.Formats()
	openWith := func(layer, format int) (*classifier.Model, error) {
		return c.With(nudged(m, layers[layer].Weight, 0, 1/float32(formats[format].Bits))), nil
	}
	x := []float32{.2, -.4, 1, -1, .3, .6}
	got := must.Get(Measured(t.Context(), c, x, len(layers), len(formats), openWith))(t)
	before := must.Get(c.Margins(context.Background(), x))(t)
	worst := must.Get(openWith(1, 0))(t)
	after := must.Get(worst.Margins(context.Background(), x))(t)
	var want float64
	for i := range after {
		want += math.Pow(float64(after[i]-before[i]), 2) / 2
	}
	if math.Abs(got[1][0]-want) > 1e-9 || got[1][0] <= got[1][3] {
		t.Errorf("margin error %v, want %v at 2 bits", got[1], want)
	}
}

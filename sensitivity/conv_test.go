package sensitivity

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// picture is a convolution of two groups with strides, dilations and uneven padding,
// then the activation act, if any, and a dense layer.
func picture(act string) *graph.Model {
	r := rand.New(rand.NewPCG(6, 6))
	draw := func(name string, dims ...int64) *graph.Tensor { return normal(r, 1./3, name, dims...) }
	size := func(n int64) graph.Dim { return graph.Dim{Size: n} }
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name: "picture",
		Inputs: []graph.Value{{
			Name: "x", DType: graph.Float,
			Shape: graph.Shape{{Size: -1, Param: "N"}, size(4), size(5), size(6)},
		}},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float}},
		Inits:   []*graph.Tensor{draw("w1", 6, 2, 2, 3), draw("b1", 6), draw("w2", 2, 6*5*4), draw("b2", 2)},
	}}
	b := graph.NewBuilder(m.Graph, "")
	b.Append(&graph.Node{
		Op: "Conv", Name: "conv", Inputs: []string{"x", "w1", "b1"}, Outputs: []string{"h"},
		Attrs: []graph.Attr{
			graph.IntAttr("group", 2), graph.IntsAttr("strides", 1, 2), graph.IntsAttr("dilations", 2, 1),
			graph.IntsAttr("pads", 1, 2, 1, 1),
		},
	})
	last := "h"
	if act != "" {
		last = b.Op(act, []string{last})
	}
	last = b.Op("Flatten", []string{last}, graph.IntAttr("axis", 1))
	b.Append(&graph.Node{
		Op: "Gemm", Name: "dense", Inputs: []string{last, "w2", "b2"}, Outputs: []string{"z"},
		Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
	})
	return m
}

func pixels(rows int) []float32 {
	r := rand.New(rand.NewPCG(7, 7))
	x := make([]float32, rows*4*5*6)
	for i := range x {
		x[i] = float32(2*r.Float64() - 1)
	}
	return x
}

func found(t *testing.T, m *graph.Model) []quant.LayerInfo {
	t.Helper()
	layers := layersOf(t, m)
	if len(layers) != 2 || layers[0].Conv == nil || layers[0].Fixed != "" {
		t.Fatalf("layers %+v", layers)
	}
	return layers
}

// With weights alone in few bits and all linear behind it, a convolution has its exact margin error.
func TestFirstOrderOfAConvolution(t *testing.T) {
	t.Parallel()
	m := picture("")
	c := open(t, m)
	layers := found(t, m)
	plan := planned(layers[0], quant.Formats()[1])
	plan.Act = nil
	compareFirstOrder(t, c, m, layers[0], pixels(20), quant.Plan{Layers: []quant.Layer{plan}}, 1e-3)
}

// The scores of single weights are the means of |w dm/dw| by central differences of the rows' margins, of a convolution
// and of a dense layer.
func TestWeights(t *testing.T) {
	t.Parallel()
	const few = 5 // one of so many weights
	m := picture("Tanh")
	c := open(t, m)
	layers := found(t, m)
	x := pixels(3)
	got := must.Get(Weights(context.Background(), c, layers, x))(t)
	margins := func(m *graph.Model) []float32 {
		return must.Get(c.With(m).Margins(context.Background(), x))(t)
	}
	for l, name := range []string{layers[0].Weight, layers[1].Weight} {
		largest, wants := 0.0, make([]float64, len(layers[l].W))
		for i := 0; i < len(wants); i += few {
			const h = 2e-2
			w := layers[l].W[i]
			up, down := margins(nudged(m, name, i, h)), margins(nudged(m, name, i, -h))
			for r := range up {
				wants[i] += math.Abs(float64(w)*float64(up[r]-down[r])) / (2 * h) / 3
			}
			largest = max(largest, wants[i])
		}
		for i := 0; i < len(wants); i += few {
			must.Near(must.In(t, l, i), wants[i], got[l][i], 3e-3*largest)
		}
	}
}

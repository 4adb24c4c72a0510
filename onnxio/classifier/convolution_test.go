package classifier

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// TestFoldTransposed compares a ConvTranspose with the convolution that it becomes, with groups, pads and kernels that
// are not square, and leaves those with strides alone.
func TestFoldTransposed(t *testing.T) {
	for _, c := range []struct {
		in, out, group, rows, columns int64
		pads                          []int64
		strides, ops                  int64 // ops: Conv nodes afterwards
	}{
		{3, 5, 1, 3, 3, []int64{1, 1, 1, 1}, 1, 1},
		{4, 4, 4, 3, 3, []int64{1, 1, 1, 1}, 1, 1},
		{4, 6, 2, 2, 3, []int64{0, 1, 1, 2}, 1, 1},
		{6, 3, 1, 1, 1, nil, 1, 1},
		{3, 3, 1, 3, 3, nil, 1, 1},
		{3, 3, 1, 3, 3, []int64{1, 1, 1, 1}, 2, 0},
	} {
		rng := rand.New(rand.NewPCG(7, 8))
		draw := func(n int64) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
			return v
		}
		dims := []int64{c.in, c.out / c.group, c.rows, c.columns}
		w := graph.FromFloats("w", draw(dims[0]*dims[1]*dims[2]*dims[3]), dims...)
		attrs := []graph.Attr{graph.IntAttr("group", c.group), graph.IntsAttr("strides", c.strides, c.strides)}
		if c.pads != nil {
			attrs = append(attrs, graph.IntsAttr("pads", c.pads...))
		}
		x := graph.FromFloats("x", draw(2*c.in*7*6), 2, c.in, 7, 6)
		run := func(fold bool) ([]float32, int64) {
			g := &graph.Graph{
				Name: "g", Inits: []*graph.Tensor{w},
				Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Fixed(2, c.in, 7, 6)}},
				Outputs: []graph.Value{{Name: "y"}},
				Nodes: []*graph.Node{{
					Op: "ConvTranspose", Inputs: []string{"x", "w"}, Outputs: []string{"y"}, Attrs: attrs,
				}},
			}
			if fold {
				must.Do(t, foldTransposed(g))
			}
			convs := int64(0)
			for _, n := range g.Nodes {
				if n.Op == "Conv" {
					convs++
				}
			}
			s, err := ort.Open(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 18}}, Graph: g}, ort.Options{})
			must.Do(t, err)
			defer s.Close() //nolint:errcheck // nothing is lost
			out := must.Get(s.Run(t.Context(), []*graph.Tensor{x}))(t)
			y := must.Get(out[0].Floats())(t)
			return y, convs
		}
		name := fmt.Sprintf("%+v", c)
		want, _ := run(false)
		got, convs := run(true)
		if convs != c.ops || len(got) != len(want) {
			t.Fatalf("%s: %d convolutions, %d numbers instead of %d", name, convs, len(got), len(want))
		}
		for i, v := range want {
			if math.Abs(float64(v-got[i])) > 1e-4 {
				t.Fatalf("%s: number %d is %v, and was %v", name, i, got[i], v)
			}
		}
	}
}

package classifier

import (
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
)

// tokens makes a classifier x [N, 6] that reads three tokens of two numbers: t holds those of a row together or, where
// the batch is the second axis, apart.
func tokens(batch graph.Dim, apart bool) *graph.Model {
	return build(graph.Shape{batch, {Size: 6}}, 21, func(b *graph.Builder) string {
		reshape := func(v string, to ...int64) string { return b.Op("Reshape", []string{v, int64s(b, to...)}) }
		swap := func(v string) string { return b.Op("Transpose", []string{v}, graph.IntsAttr("perm", 1, 0, 2)) }
		h := reshape("x", -1, 3, 2)
		if apart {
			h = swap(h)
		}
		b.Append(&graph.Node{Op: "Reshape", Inputs: []string{h, int64s(b, -1, 2)}, Outputs: []string{"t"}})
		h = b.Op("Tanh", []string{b.Op("Gemm", []string{"t", floats32(b, "w", []float32{1, -2, 0.5, 3, 1, 1}, 2, 3)})})
		if apart {
			h = swap(reshape(h, 3, -1, 3))
		}
		return b.Op("Gemm", []string{reshape(h, -1, 9), floats32(b, "w", normals(2, 18), 9, 2)})
	})
}

func TestObserveTokens(t *testing.T) {
	x := normals(5, 7*6)
	for _, apart := range []bool{false, true} {
		for _, batch := range []graph.Dim{{Size: -1, Param: "N"}, {Size: 4}} {
			c := open(t, tokens(batch, apart), Options{Batch: 4})
			if n, ok := c.PerRow("t"); n != 6 || !ok {
				t.Errorf("%d numbers for each row (%v)", n, ok)
			}
			var values, grads []float32
			err := c.Observe(t.Context(), x, Probe{Values: []string{"t"}, Grads: []string{"t"}, Margin: true},
				func(_, _ int, v, g [][]float32) error {
					values, grads = append(values, v[0]...), append(grads, g[0]...)
					return nil
				})
			must.Do(t, err)
			_, want, err := c.MarginGrads(t.Context(), x) // t is x
			must.Do(t, err)
			if !slices.Equal(values, x) {
				t.Errorf("apart %v, batch %v: values %v, want %v", apart, batch, values[:12], x[:12])
			}
			for i, v := range want {
				if !(math.Abs(float64(grads[i]-v)) < 1e-5) {
					t.Fatalf("apart %v, batch %v: gradients %v, want %v", apart, batch, grads[:12], want[:12])
				}
			}
		}
	}
}

func TestUndefinedLogit(t *testing.T) {
	for classes := 1; classes <= 3; classes++ {
		m := build(graph.Shape{rows(), {Size: int64(classes)}}, 21,
			func(b *graph.Builder) string { return b.Op("Sqrt", []string{"x"}) })
		c := open(t, m, Options{Output: onnxio.Logits})
		for place := range classes {
			x := slices.Repeat([]float32{4}, classes)
			x[place] = -1
			plain := must.Get(c.Margins(t.Context(), x))(t)
			same, _, err := c.MarginGrads(t.Context(), x)
			must.Do(t, err)
			if !math.IsNaN(float64(plain[0])) || !math.IsNaN(float64(same[0])) {
				t.Errorf("%d classes, no number in place %d: margins %v and %v", classes, place, plain, same)
			}
		}
	}
}

package classifier

import (
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// tokens makes a classifier x [N, 6] that reads three tokens of two numbers: t holds those of a row together or, where
// the batch is the second axis, apart.
func tokens(batch graph.Dim, apart bool) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{batch, {Size: 6}}}}
	b := graph.NewBuilder(m.Graph, "")
	reshape := func(v string, to ...int64) string {
		return b.Op("Reshape", []string{v, b.Const(graph.FromInts("n", to, int64(len(to))))})
	}
	swap := func(v string) string { return b.Op("Transpose", []string{v}, graph.IntsAttr("perm", 1, 0, 2)) }
	h := reshape("x", -1, 3, 2)
	if apart {
		h = swap(h)
	}
	flat := &graph.Node{
		Op: "Reshape", Inputs: []string{h, b.Const(graph.FromInts("n", []int64{-1, 2}, 2))}, Outputs: []string{"t"},
	}
	b.Append(flat)
	w := graph.FromFloats("w", []float32{1, -2, 0.5, 3, 1, 1}, 2, 3)
	h = b.Op("Tanh", []string{b.Op("Gemm", []string{"t", b.Const(w)})})
	if apart {
		h = swap(reshape(h, 3, -1, 3))
	}
	last := graph.FromFloats("w", []float32{1, 2, -1, 3, 1, 0, 2, -2, 1, 1, 1, -3, 0, 1, 2, 1, 1, 1}, 9, 2)
	z := b.Op("Gemm", []string{reshape(h, -1, 9), b.Const(last)})
	m.Graph.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
	return m
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
	engine := orttest.Need(t)
	for classes := int64(1); classes <= 3; classes++ {
		m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
		shape := graph.Shape{{Size: -1, Param: "N"}, {Size: classes}}
		m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}
		z := graph.NewBuilder(m.Graph, "").Op("Sqrt", []string{"x"})
		m.Graph.Outputs = []graph.Value{{Name: z, DType: graph.Float, Shape: shape}}
		c := must.Get(Open(t.Context(), m, engine, Options{Output: onnxio.Logits}))(t)
		for place := range int(classes) {
			x := slices.Repeat([]float32{4}, int(classes))
			x[place] = -1
			plain := must.Get(c.Margins(t.Context(), x))(t)
			same, _, err := c.MarginGrads(t.Context(), x)
			must.Do(t, err)
			if !math.IsNaN(float64(plain[0])) || !math.IsNaN(float64(same[0])) {
				t.Errorf("%d classes, no number in place %d: margins %v and %v", classes, place, plain, same)
			}
		}
		must.Do(t, c.Close())
	}
}

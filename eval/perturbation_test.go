package eval

import (
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// layered opens a network of two inputs, a hidden layer of two units with the activation, and one logit.
func layered(t *testing.T, activation string, target int, w1, b1, w2, b2 []float32) *classifier.Model {
	t.Helper()
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	transposed := []graph.Attr{graph.IntAttr("transB", 1)}
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name:    "layered",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(2)}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(1)}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w1", w1, 2, 2), graph.FromFloats("b1", b1, 2), graph.FromFloats("w2", w2, 1, 2),
			graph.FromFloats("b2", b2, 1),
		},
		Nodes: []*graph.Node{
			{Name: "one", Op: "Gemm", Inputs: []string{"x", "w1", "b1"}, Outputs: []string{"h"}, Attrs: transposed},
			{Name: "bend", Op: activation, Inputs: []string{"h"}, Outputs: []string{"a"}},
			{Name: "two", Op: "Gemm", Inputs: []string{"a", "w2", "b2"}, Outputs: []string{"y"}, Attrs: transposed},
		},
	}}
	file := must.Get(onnxio.FromGraph(t.Context(), m, orttest.Need(t)))(t)
	c := must.Get(classifier.New(file, classifier.Options{Target: &target}))(t)
	t.Cleanup(func() { must.Do(t, c.Close()) })
	return c
}

// With f(x) = 3 relu(2 x1) + 4 relu(x2 + 1) and g(x) = 3 relu(2.5 x1) + 4 relu(x2 + 1) + 0.25, at (1, 2):
// f = 6 + 12 = 18, g = 7.5 + 12.25 = 19.75. The difference has the gradient (1.5, 0).
func TestPerturbationByHand(t *testing.T) {
	t.Parallel()
	for target := range 2 { // it turns the margin's sign, not the logits
		f := layered(t, "Relu", target, []float32{2, 0, 0, 1}, []float32{0, 1}, []float32{3, 4}, []float32{0})
		g := layered(t, "Relu", target, []float32{2.5, 0, 0, 1}, []float32{0, 1}, []float32{3, 4}, []float32{0.25})
		eps := must.Get(PerturbationBetween(f, g, 0.2, 4000, 1)(t.Context(), []float32{1, 2}, 1))(t)[0]
		must.Near(t, 1.75, eps[0], 1e-6)
		must.Near(t, 1.75+0.2*1.5, eps[1], 0.01)
		must.Near(t, 1.75+0.2*1.5, eps[2], 1e-6)
		_, err := PerturbationBetween(f, g, 0.2, 10, 1)(t.Context(), []float32{1, 2, 3}, 1)
		must.Fail(t, err, "perturbation: 3 numbers for 1 rows of 2 inputs")
	}
}

// The ball holds its middle. In a small one, a smooth function is as its gradient says. A point's numbers depend on the
// point and the seed, not on its company.
func TestPerturbationAround(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	draw := func(n int, size float64) (v []float32) {
		for range n {
			v = append(v, float32(size*rng.NormFloat64()))
		}
		return v
	}
	w1, b1, w2, b2 := draw(4, 1), draw(2, 1), draw(2, 1), draw(1, 1)
	f := layered(t, "Tanh", 1, w1, b1, w2, b2)
	g := layered(t, "Tanh", 1, draw(4, 1), b1, draw(2, 1), b2)
	points := draw(20, 1)
	at := func(radius float64, seed uint64, points []float32) [][]Float {
		return must.Get(PerturbationBetween(f, g, radius, 1000, seed)(t.Context(), points, len(points)/2))(t)
	}
	for _, radius := range []float64{0, 0.02} {
		for i, e := range at(radius, 1, points) {
			grown, said := float64(e[1]-e[0]), float64(e[2]-e[0])
			if grown < 0 || said < 0 || grown > 1.1*said+1e-5 || grown < 0.9*said-1e-5 {
				t.Errorf("radius %v, row %d: in the ball %v more than at its middle, by gradients %v", radius, i, grown, said)
			}
		}
	}
	all := at(0.3, 4, points)
	must.Same(t, all[1:2], at(0.3, 4, points[2:4]))
	if other := at(0.3, 5, points); other[1][1] == all[1][1] {
		t.Error("another seed gives the same")
	}
}

package certify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

// byHand is a network of two inputs, two hidden numbers and one logit.
func byHand(w1, b1, w2, b2 []float32) *graph.Model {
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name:    "hand",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(2)}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(1)}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w1", w1, 2, 2), graph.FromFloats("b1", b1, 2), graph.FromFloats("w2", w2, 1, 2),
			graph.FromFloats("b2", b2, 1),
		},
		Nodes: []*graph.Node{
			{
				Name: "one", Op: "Gemm", Inputs: []string{"x", "w1", "b1"}, Outputs: []string{"h"},
				Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
			},
			{Name: "bend", Op: "Relu", Inputs: []string{"h"}, Outputs: []string{"a"}},
			{
				Name: "two", Op: "Gemm", Inputs: []string{"a", "w2", "b2"}, Outputs: []string{"y"},
				Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
			},
		},
	}}
}

// With f(x) = 3 relu(2 x1) + 4 relu(x2 + 1) and g(x) = 3 relu(2.5 x1) + 4 relu(x2 + 1) + 0.25, at (1, 2):
// f = 6 + 12 = 18, g = 7.5 + 12.25 = 19.75. The difference has the gradient (1.5, 0).
func TestPerturbByHand(t *testing.T) {
	t.Parallel()
	f := byHand([]float32{2, 0, 0, 1}, []float32{0, 1}, []float32{3, 4}, []float32{0})
	g := byHand([]float32{2.5, 0, 0, 1}, []float32{0, 1}, []float32{3, 4}, []float32{0.25})
	p := opened(t, f, g, 1)
	eps := must.Get(p.k.Perturb(0.2, 4000, 1)(t.Context(), []float32{1, 2}, 1))(t)
	want := []float64{1.75, 1.75 + 0.2*1.5, 1.75 + 0.2*1.5}
	for i, tolerance := range []float64{1e-6, 0.01, 1e-6} {
		if got := float64(eps[0][i]); math.Abs(got-want[i]) > tolerance {
			t.Errorf("%d: %v, want %v", i, got, want[i])
		}
	}
	// A target of 0 turns the margin's sign, not the logits.
	other, err := opened(t, f, g, 0).k.Perturb(0.2, 10, 1)(t.Context(), []float32{1, 2}, 1)
	if err != nil || other[0][0] != eps[0][0] || other[0][2] != eps[0][2] {
		t.Errorf("for the other class: %v, %v", other, err)
	}
}

// What is found in the ball is at least what is at its middle.
func TestPerturbOrder(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		net  shape
		ways ways
	}{
		{shape{widths: []int{4, 8, 6, 3}, act: "Relu"}, ways{bits: 4, act: 8, channels: true}},
		{shape{widths: []int{5, 8, 2}, act: "Relu", scaled: true}, ways{bits: 8, act: 4, grid: true}},
		{shape{widths: []int{6, 8, 1}, act: "Clip"}, ways{bits: 8, act: 8, grid: true}},
		{shape{widths: []int{4, 8, 2}, act: "Tanh", matmul: true}, ways{bits: 3, weightOnly: true}},
		{shape{widths: []int{3, 2}, act: "Relu"}, ways{bits: 8, act: 8}},
	} {
		rng := rand.New(rand.NewPCG(5, uint64(i)))
		f := net(rng, c.net)
		p := opened(t, f, quantized(t, f, c.ways), 1)
		points := normal(rng, 20*c.net.widths[0], 2)
		for _, radius := range []float64{0, 0.01, 3} {
			eps := must.Get(p.k.Perturb(radius, 60, 9)(t.Context(), points, 20))(t)
			for row, e := range eps {
				at, ball, first := e[0], e[1], e[2]
				if !(at <= ball && at <= first) {
					t.Errorf("%d: %+v %+v, radius %v, row %d: %v at the point, %v in the ball, %v by gradients", i, c.net, c.ways,
						radius, row, at, ball, first)
				}
			}
		}
	}
}

// In a small ball a smooth function is as its gradient says.
func TestPerturbFirstOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	f := net(rng, shape{widths: []int{2, 8, 2}, act: "Tanh"})
	p := opened(t, f, quantized(t, f, ways{bits: 2, weightOnly: true}), 1)
	const radius = 0.02
	eps := must.Get(p.k.Perturb(radius, 4000, 1)(t.Context(), normal(rng, 20, 1), 10))(t)
	for i, e := range eps {
		grown, said := float64(e[1]-e[0]), float64(e[2]-e[0])
		// The class that is farthest apart need not be the one with the steepest difference: then less is found.
		if grown > 1.1*said+1e-5 {
			t.Errorf("row %d: in the ball %v more than at its middle, by gradients %v", i, grown, said)
		}
	}
}

// A point's numbers depend on the point and the seed, not on its company.
func TestPerturbSeed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 2))
	f := net(rng, shape{widths: []int{3, 8, 2}, act: "Relu"})
	p := opened(t, f, quantized(t, f, ways{bits: 4, act: 8}), 1)
	points := normal(rng, 9, 1)
	all := must.Get(p.k.Perturb(0.3, 50, 4)(t.Context(), points, 3))(t)
	one, err := p.k.Perturb(0.3, 50, 4)(t.Context(), points[3:6], 1)
	if err != nil || one[0][1] != all[1][1] {
		t.Errorf("alone %v, in company %v: %v", one, all[1], err)
	}
	if other, err := p.k.Perturb(0.3, 50, 5)(t.Context(), points, 3); err != nil || other[1][1] == all[1][1] {
		t.Errorf("another seed gives the same: %v, %v", other, err)
	}
}

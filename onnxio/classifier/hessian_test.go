package classifier

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

// secondLoss returns the Hessian of the mean cross-entropy by w, which is a slice of
// the network n that is changed in place, times v: second differences of the loss
// computed by hand.
func secondLoss(n *mlp, logits func([]float64) []float64, x []float32, classes []int, w, v []float32) []float64 {
	// Steps of powers of two are exact in float32.
	const h = 1. / 1024
	loss := func() float64 {
		var sum float64
		for i, class := range classes {
			at := make([]float64, n.in)
			for j := range at {
				at[j] = float64(x[i*n.in+j])
			}
			sum += trueLoss(logits(at), class)
		}
		return sum / float64(len(classes))
	}
	step := func(i int, d float32) func() {
		old := w[i]
		w[i] += d
		return func() { w[i] = old }
	}
	hv := make([]float64, len(w))
	for i := range w {
		for j := range w {
			var d float64
			for _, s := range []struct{ a, b float32 }{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				back := step(i, s.a*h)
				back2 := step(j, s.b*h)
				d += float64(s.a*s.b) * loss()
				back2()
				back()
			}
			hv[i] += d / (4 * h * h) * float64(v[j])
		}
	}
	return hv
}

// rounded makes the weights multiples of 1/64, so that steps of 1/1024 are exact.
func (n *mlp) rounded() *mlp {
	for _, w := range [][]float32{n.w1, n.b1, n.w2, n.b2} {
		for i := range w {
			w[i] = float32(math.Round(float64(w[i])*64) / 64)
		}
	}
	return n
}

func TestHessianVector(t *testing.T) {
	dynamic := graph.Dim{Size: -1, Param: "batch"}
	for _, tt := range []struct {
		name  string
		out   int
		batch graph.Dim
		head  []*graph.Node
	}{
		{"logits", 2, dynamic, nil},
		{"fixed batch", 2, graph.Dim{Size: 4}, nil},
		{"softmax", 3, dynamic, []*graph.Node{node("Softmax", "z", "p", graph.IntAttr("axis", 1))}},
		{"log softmax", 3, graph.Dim{Size: 1}, []*graph.Node{node("LogSoftmax", "z", "p", graph.IntAttr("axis", 1))}},
		{"one logit", 1, dynamic, []*graph.Node{node("Sigmoid", "z", "p")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newMLP(3, tt.out, 11).rounded()
			r := rand.New(rand.NewPCG(5, 6))
			const rows = 7
			x, classes := make([]float32, rows*3), make([]int, rows)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for i := range classes {
				classes[i] = r.IntN(max(tt.out, 2))
			}
			m := n.model(tt.batch, tt.head...)
			for name, w := range map[string][]float32{"w1": n.w1, "b1": n.b1, "w2": n.w2, "b2": n.b2} {
				v := make([]float32, len(w))
				for i := range v {
					v[i] = float32(2*r.IntN(2) - 1)
				}
				var first []float32
				for _, workers := range []int{1, 3} {
					c := open(t, m, Options{Batch: 2, Workers: workers})
					got := must.Get(c.HessianVector(t.Context(), x, classes, name, v))(t)
					if first == nil {
						first = got
						for i, want := range secondLoss(n, n.logits, x, classes, w, v) {
							near(t, name+": H v", float64(got[i]), want, 2e-5)
						}
					} else if !slices.Equal(got, first) {
						t.Errorf("%s: %v with one worker, %v with three", name, first, got)
					}
				}
			}
		})
	}
}

// reluNet is mlp with MatMul, Add and Relu in place of Gemm and Tanh: between its
// kinks it is linear in each weight, and all curvature is that of the cross-entropy.
type reluNet struct{ *mlp }

func (n reluNet) logits(x []float64) []float64 {
	z := make([]float64, n.out)
	for o := range z {
		z[o] = float64(n.b2[o])
	}
	for k := range n.hidden {
		h := float64(n.b1[k])
		for j := range x {
			h += x[j] * float64(n.w1[j*n.hidden+k])
		}
		for o := range z {
			z[o] += max(h, 0) * float64(n.w2[k*n.out+o])
		}
	}
	return z
}

func (n reluNet) model() *graph.Model {
	g := &graph.Graph{
		Name: "relu",
		Inputs: []graph.Value{{
			Name: "x", DType: graph.Float,
			Shape: graph.Shape{{Size: -1, Param: "batch"}, {Size: int64(n.in)}},
		}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w1", n.w1, int64(n.in), 5), graph.FromFloats("b1", n.b1, 5),
			graph.FromFloats("w2", n.w2, 5, int64(n.out)), graph.FromFloats("b2", n.b2, int64(n.out)),
		},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float}},
	}
	b := graph.NewBuilder(g, "")
	h := b.Op("Relu", []string{b.Op("Add", []string{b.Op("MatMul", []string{"x", "w1"}), "b1"})})
	b.Append(&graph.Node{
		Op: "Add", Name: "out", Inputs: []string{b.Op("MatMul", []string{h, "w2"}), "b2"},
		Outputs: []string{"z"},
	})
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
}

func TestHessianVectorOfPiecewiseLinear(t *testing.T) {
	n := reluNet{newMLP(3, 3, 5).rounded()}
	c := open(t, n.model(), Options{})
	// No hidden unit is within a step of its kink at these rows.
	x, classes := []float32{.5, -.25, 1, 1, .5, -1, -.75, .25, .5}, []int{2, 0, 1}
	for i := range classes {
		for k := range n.hidden {
			h := float64(n.b1[k])
			for j := range 3 {
				h += float64(x[i*3+j] * n.w1[j*5+k])
			}
			if math.Abs(h) < 0.01 {
				t.Fatalf("row %d is at a kink of unit %d", i, k)
			}
		}
	}
	for name, w := range map[string][]float32{"w1": n.w1, "b1": n.b1, "w2": n.w2} {
		v := make([]float32, len(w))
		for i := range v {
			v[i] = float32(i%3) - 1
		}
		got := must.Get(c.HessianVector(t.Context(), x, classes, name, v))(t)
		var size float64
		for i, want := range secondLoss(n.mlp, n.logits, x, classes, w, v) {
			near(t, name+": H v", float64(got[i]), want, 2e-5)
			size += math.Abs(want)
		}
		if size < 0.01 {
			t.Errorf("%s: the curvature is zero", name)
		}
	}
}

func TestHessianVectorErrors(t *testing.T) {
	c := open(t, newMLP(3, 2, 1).model(rows()), Options{})
	x := make([]float32, 6)
	for _, tt := range []struct {
		x       []float32
		classes []int
		weight  string
		v       []float32
		want    string
	}{
		{x, nil, "w3", nil, `no initializer "w3"`},
		{x, nil, "b2", make([]float32, 3), `3 numbers for the 2 of initializer "b2"`},
		{x[:4], nil, "b2", make([]float32, 2), "4 numbers are not rows of 3 inputs"},
		{x, []int{1}, "b2", make([]float32, 2), "1 classes for 2 rows"},
		{x, []int{1, 2}, "b2", make([]float32, 2), "row 1 is of class 2"},
	} {
		if _, err := c.HessianVector(t.Context(), tt.x, tt.classes, tt.weight, tt.v); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want it to say %q", err, tt.want)
		}
	}
}

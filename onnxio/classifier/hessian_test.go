package classifier

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

// secondLoss returns the Hessian of the mean cross-entropy by w, which is a slice of the network n that is changed in
// place, times v: second differences of the loss computed by hand.
func secondLoss(n *mlp, x []float32, classes []int, w, v []float32) []float64 {
	// Steps of powers of two are exact in float32.
	const h = 1. / 1024
	loss := func() float64 {
		var sum float64
		for i, class := range classes {
			at := make([]float64, n.in)
			for j := range at {
				at[j] = float64(x[i*n.in+j])
			}
			sum += trueLoss(n.logits(at), class)
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
						for i, want := range secondLoss(n, x, classes, w, v) {
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

func TestHessianVectorOfNothing(t *testing.T) {
	c := open(t, newMLP(3, 2, 1).model(rows()), Options{})
	must.Fail(t, must.Err(c.HessianVector(t.Context(), make([]float32, 6), nil, "w3", nil)), `no initializer "w3"`)
}

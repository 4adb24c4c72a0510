package certify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

// A network of one hidden layer over two inputs bends at lines; its margin, and its distance from that of
// another one that bends at other lines, are linear between them. So the extremes in a box are at corners, and
// where lines cross each other or an edge.
func TestExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 4))
	var lower, apart, distance, width float64
	const nets = 20
	for range nets {
		f := net(rng, shape{widths: []int{2, 6, 1}, act: "Relu"})
		g := f.Clone()
		for i, w := range g.Graph.Inits {
			v := must.Get(w.Floats())(t)
			for j := range v {
				v[j] += float32(rng.NormFloat64() * 0.04)
			}
			g.Graph.Inits[i] = graph.FromFloats(w.Name, v, w.Dims...)
		}
		p := opened(t, f, g, 1)
		point, half := normal(rng, 2, 0.7), []float32{0.3, 0.3}
		proofs := must.Get(p.k.Prove(t.Context(), point, half, 1))(t)
		lines := append(bent(t, f), bent(t, g)...)
		x0, x1, y0, y1 := float64(point[0]-half[0]), float64(point[0]+half[0]), float64(point[1]-half[1]),
			float64(point[1]+half[1])
		lines = append(lines, line{1, 0, -x0}, line{1, 0, -x1}, line{0, 1, -y0}, line{0, 1, -y1})
		least, most, far := math.Inf(1), math.Inf(-1), 0.0
		for i, a := range lines {
			for _, b := range lines[:i] {
				det := a.x*b.y - a.y*b.x
				x, y := (a.y*b.c-b.y*a.c)/det, (b.x*a.c-a.x*b.c)/det
				if math.Abs(det) < 1e-9 || x < x0-1e-9 || x > x1+1e-9 || y < y0-1e-9 || y > y1+1e-9 {
					continue
				}
				mf, mg := output(t, f, x, y), output(t, g, x, y)
				least, most, far = math.Min(least, mg), math.Max(most, mg), math.Max(far, math.Abs(mg-mf))
			}
		}
		if float64(proofs[0].Lower) > least+1e-6 || float64(proofs[0].Apart) < far-1e-6 {
			t.Errorf("proved %+v, but the least margin is %v and the largest distance %v", proofs[0], least, far)
		}
		lower += least - float64(proofs[0].Lower)
		apart += float64(proofs[0].Apart) - far
		distance += far
		width += most - least
	}
	t.Logf("on average the bound is %.3f below the least margin, of margins that span %.3f, "+
		"and %.3f above the largest distance of %.3f",
		lower/nets, width/nets, apart/nets, distance/nets)
	if lower > 0.4*width || apart > 0.8*distance {
		t.Errorf("the bounds are loose: by %v of %v, and by %v of %v", lower, width, apart, distance)
	}
}

// line is where x*X + y*Y + c = 0.
type line struct{ x, y, c float64 }

// bent are the lines at which the hidden numbers of a network of two inputs turn from off to on.
func bent(t testing.TB, m *graph.Model) []line {
	t.Helper()
	w, b := weights(t, m, "w1"), weights(t, m, "b1")
	var out []line
	for i, c := range b {
		out = append(out, line{w[2*i], w[2*i+1], c})
	}
	return out
}

func weights(t testing.TB, m *graph.Model, name string) []float64 {
	t.Helper()
	return must.Get(m.Graph.Init(name).Doubles())(t)
}

// output computes the logit of a network of one hidden layer.
func output(t testing.TB, m *graph.Model, x, y float64) float64 {
	v := weights(t, m, "b2")[0]
	w := weights(t, m, "w2")
	for i, l := range bent(t, m) {
		v += w[i] * math.Max(0, l.x*x+l.y*y+l.c)
	}
	return v
}

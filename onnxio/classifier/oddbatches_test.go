package classifier_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestOddBatches(t *testing.T) {
	orttest.Need(t)
	for name, n := range map[string]struct {
		dims    []int64
		classes int64
		body    func(w weights, x string) string
	}{
		"cnn":         {[]int64{1, 28, 28}, 10, cnn},
		"transformer": {[]int64{12}, 2, transformer},
		"dense": {[]int64{9}, 2, func(w weights, x string) string {
			return w.dense(w.Op("Tanh", []string{w.dense(x, 9, 5)}), 5, 2)
		}},
	} {
		m := must.Get(onnxio.FromGraph(t.Context(), network(n.dims, n.classes, n.body), ort.Options{Threads: 1}))(t)
		for _, batch := range []int{1, 3} {
			c := must.Get(classifier.New(m, classifier.Options{Batch: batch}))(t)
			const rows, step = 5, 0.01
			rng := rand.New(rand.NewPCG(6, 4))
			x, up, down := make([]float32, rows*c.Dim()), make([]float32, rows*c.Dim()), make([]float32, rows*c.Dim())
			direction := make([]float64, len(x))
			for i := range x {
				x[i], direction[i] = float32(rng.NormFloat64()), rng.NormFloat64()/math.Sqrt(float64(c.Dim()))
				up[i], down[i] = x[i]+float32(step*direction[i]), x[i]-float32(step*direction[i])
			}
			margins, grads, err := c.MarginGrads(t.Context(), x)
			must.Do(t, err)
			_, losses, err := c.LossGrads(t.Context(), x)
			must.Do(t, err)
			above, below := must.Get(c.Margins(t.Context(), up))(t), must.Get(c.Margins(t.Context(), down))(t)
			for r := range rows {
				want, got, loss, size := float64(above[r]-below[r])/(2*step), 0.0, 0.0, 0.0
				for i := r * c.Dim(); i < (r+1)*c.Dim(); i++ {
					got += float64(grads[i]) * direction[i]
					loss += float64(losses[i]) * direction[i]
					size += float64(grads[i]) * float64(grads[i])
				}
				near := 0.02*math.Sqrt(size) + 1e-5
				if math.Abs(got-want) > near || size == 0 {
					t.Errorf("%s, batch %d, row %d: margin's derivative %v, want %v", name, batch, r, got, want)
				}
				if want := -want / (1 + math.Exp(float64(margins[r]))); n.classes == 2 && math.Abs(loss-want) > near {
					t.Errorf("%s, batch %d, row %d: loss's derivative %v, want %v", name, batch, r, loss, want)
				}
			}
			must.Do(t, c.Close())
		}
	}
}

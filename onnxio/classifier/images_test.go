package classifier

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// convNet is a small classifier of images of one channel and 6 x 6 elements: convolutions with padding, strides,
// groups, batch normalization, an activation, two pools and the head. Its input is rows x features when flat, rows x 1
// x 6 x 6 otherwise.
type convNet struct {
	batch     graph.Dim
	flat      bool
	act, pool string
	classes   int64
	head      string // "gemm"; "pool": a class per channel, flattened; "image": not flattened
}

func (n convNet) model() *graph.Model {
	shape := graph.Shape{n.batch, {Size: 1}, {Size: 6}, {Size: 6}}
	if n.flat {
		shape = graph.Shape{n.batch, {Size: 36}}
	}
	return build(shape, 17, func(b *graph.Builder) string {
		seed := uint64(20)
		draw := func(name string, dims ...int64) string {
			seed++
			v := normals(seed, graph.FromInts("", nil, dims...).Len())
			for i := range v {
				if v[i] /= 2; name == "var" {
					v[i] = 1 + v[i]*v[i]
				}
			}
			return floats32(b, name, v, dims...)
		}
		h := "x"
		if n.flat {
			h = b.Op("Reshape", []string{h, int64s(b, -1, 1, 6, 6)})
		}
		h = b.Op("Conv", []string{h, draw("w1", 4, 1, 3, 3), draw("b1", 4)}, graph.IntsAttr("pads", 1, 0, 1, 1))
		h = b.Op("BatchNormalization", []string{h, draw("scale", 4), draw("shift", 4), draw("mean", 4), draw("var", 4)})
		h = b.Op(n.act, []string{h})
		h = b.Op(n.pool, []string{h}, graph.IntsAttr("kernel_shape", 3, 2), graph.IntsAttr("pads", 1, 0, 1, 0),
			graph.IntsAttr("strides", 1, 2))
		h = b.Op("Conv", []string{h, draw("w2", 6, 2, 2, 2), draw("b2", 6)}, graph.IntAttr("group", 2),
			graph.IntsAttr("strides", 2, 1))
		h = b.Op(n.act, []string{h})
		if n.head == "gemm" {
			h = b.Op("Flatten", []string{b.Op("GlobalAveragePool", []string{h})})
			return b.Op("Gemm", []string{h, draw("w3", n.classes, 6), draw("b3", n.classes)}, graph.IntAttr("transB", 1))
		}
		h = b.Op("Conv", []string{h, draw("w3", n.classes, 6, 1, 1), draw("b3", n.classes)})
		h = b.Op("GlobalAveragePool", []string{h})
		if n.head == "pool" {
			h = b.Op("Flatten", []string{h})
		}
		return b.Op("Softmax", []string{h}, graph.IntAttr("axis", 1))
	})
}

func images(rows int) []float32 { return normals(8, rows*36) }

func TestImages(t *testing.T) {
	e := orttest.Need(t)
	any, four := rows(), graph.Dim{Size: 4}
	for name, n := range map[string]convNet{
		"images":       {any, false, "Relu", "MaxPool", 3, "gemm"},
		"rows":         {any, true, "Relu", "MaxPool", 2, "gemm"},
		"fixed batch":  {four, false, "Relu", "AveragePool", 2, "gemm"},
		"one logit":    {any, true, "LeakyRelu", "AveragePool", 1, "gemm"},
		"pooled":       {any, false, "Relu", "MaxPool", 3, "pool"},
		"pooled image": {any, true, "Relu", "MaxPool", 2, "image"},
	} {
		t.Run(name, func(t *testing.T) {
			m, x := n.model(), images(4)
			c := open(t, m, Options{Batch: 3, Workers: 2})
			margins := must.Get(c.Margins(t.Context(), x))(t)
			for i, want := range directMargins(t, m, e, c, x, n) {
				near(t, "margin", float64(margins[i]), want, 1e-5)
			}
			gradientsNear(t, c, x, 5e-4)
		})
	}
}

// directMargins runs the model itself and reads the margin off its output: logits, or
// probabilities, whose logarithms differ by the margin for the target class 1.
func directMargins(t *testing.T, m *graph.Model, e ort.Options, c *Model, x []float32, n convNet) []float64 {
	t.Helper()
	z := must.Get(orttest.Run(t, m, e, c.Feed(x))[0].Floats())(t)
	k := int(n.classes)
	var out []float64
	for row := range slices.Chunk(z, k) {
		v := make([]float64, k)
		for i, p := range row {
			if v[i] = float64(p); n.head != "gemm" {
				v[i] = math.Log(v[i])
			}
		}
		out = append(out, trueMargin(v, 1))
	}
	return out
}

// gradientsNear holds gradients against central differences, of which a few may straddle a kink.
func gradientsNear(t *testing.T, c *Model, x []float32, tol float64) {
	t.Helper()
	_, margins, err := c.MarginGrads(t.Context(), x)
	must.Do(t, err)
	_, losses, err := c.LossGrads(t.Context(), x)
	must.Do(t, err)
	const h = 1. / 1024
	var points []float32
	for i := range x {
		row := i / c.Dim()
		for _, s := range []float32{h, -h} {
			p := slices.Clone(x[row*c.Dim() : (row+1)*c.Dim()])
			p[i%c.Dim()] += s
			points = append(points, p...)
		}
	}
	z, k, err := c.Logits(t.Context(), points)
	must.Do(t, err)
	at := func(i int, f func([]float64, int) float64) float64 {
		v := make([]float64, k)
		for j := range v {
			v[j] = float64(z[i*k+j])
		}
		return f(v, c.Target())
	}
	bad := 0
	for i := range x {
		for _, p := range []struct {
			got float32
			f   func([]float64, int) float64
		}{{margins[i], trueMargin}, {losses[i], trueLoss}} {
			want := (at(2*i, p.f) - at(2*i+1, p.f)) / (2 * h)
			if !(math.Abs(float64(p.got)-want) <= tol*(1+math.Abs(want))) {
				bad++
			}
		}
	}
	if bad > len(x)/10 {
		t.Errorf("%d of %d gradients differ from central differences", bad, 2*len(x))
	}
}

func TestHessianVectorOfConvolutions(t *testing.T) {
	for _, n := range []convNet{
		{graph.Dim{Size: -1}, false, "Tanh", "AveragePool", 3, "gemm"},
		{graph.Dim{Size: 3}, true, "Tanh", "AveragePool", 2, "pool"},
	} {
		const rows = 8
		x, classes := images(rows), make([]int, rows)
		for i := range classes {
			classes[i] = i % int(n.classes)
		}
		m := n.model()
		c := open(t, m, Options{Batch: 3})
		r := rand.New(rand.NewPCG(2, 3))
		for _, name := range []string{"w1", "b1", "w2", "scale", "w3"} {
			w := m.Graph.Init(name)
			v := make([]float32, w.Len())
			for i := range v {
				v[i] = float32(2*r.IntN(2) - 1)
			}
			hv := must.Get(c.HessianVector(t.Context(), x, classes, name, v))(t)
			var got float64
			for i := range v {
				got += float64(hv[i]) * float64(v[i])
			}
			const h = 1. / 64
			loss := func(step float32) float64 { return meanLoss(t, c, m, name, v, step, x, classes) }
			// The logits' rounding leaves about 2e-4 of it; the curvatures are up to one.
			// The fourth-order formula: kernels of many weights make long steps.
			want := (16*(loss(h)+loss(-h)) - (loss(2*h) + loss(-2*h)) - 30*loss(0)) / (12 * h * h)
			near(t, name+": v H v", got, want, 5e-4)
		}
	}
}

func meanLoss(t *testing.T, c *Model, m *graph.Model, name string, v []float32, step float32, x []float32,
	classes []int,
) float64 {
	t.Helper()
	moved := m.Clone()
	i := slices.IndexFunc(moved.Graph.Inits, func(w *graph.Tensor) bool { return w.Name == name })
	w := must.Get(moved.Graph.Inits[i].Floats())(t)
	for k := range w {
		w[k] += step * v[k]
	}
	moved.Graph.Inits[i] = graph.FromFloats(name, w, moved.Graph.Inits[i].Dims...)
	other := c.With(moved)
	defer other.Close()
	z, k, err := other.Logits(t.Context(), x)
	must.Do(t, err)
	var sum float64
	for i, class := range classes {
		row := make([]float64, k)
		for j := range row {
			row[j] = float64(z[i*k+j])
		}
		sum += trueLoss(row, class)
	}
	return sum / float64(len(classes))
}

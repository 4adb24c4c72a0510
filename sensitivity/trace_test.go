package sensitivity

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/quant"
)

func traced(t *testing.T, c *classifier.Model, layers []quant.LayerInfo, x []float32, classes []int, o TraceOptions) (
	traces, errs []float64,
) {
	t.Helper()
	traces, errs, err := Trace(t.Context(), c, layers, x, classes, o)
	must.Do(t, err)
	return traces, errs
}

func hessian(t *testing.T, m *graph.Model, l quant.LayerInfo, x []float32, classes []int) [][]float64 {
	t.Helper()
	c := open(t, m)
	h := make([][]float64, len(l.W))
	for i := range h {
		e := make([]float32, len(l.W))
		e[i] = 1
		column := must.Get(c.HessianVector(context.Background(), x, classes, l.Weight, e))(t)
		for _, v := range column {
			h[i] = append(h[i], float64(v))
		}
	}
	return h
}

// The estimate against the trace by second differences of the loss, which knows of no Hessian; its standard error
// against the variance that v' H v has for random signs v, 2 x the sum of the squares beside the diagonal.
func TestTraceIsTheTrace(t *testing.T) {
	t.Parallel()
	m := network()
	c := open(t, m)
	layers := layersOf(t, m)
	x := []float32{.2, -.4, 1, -1, .3, .6, .8, .8, -.2, -.5, -.9, .1}
	classes := []int{1, 0, 1, 0}
	loss := func(m *graph.Model) float64 {
		margins := must.Get(c.With(m).Margins(context.Background(), x))(t)
		var sum float64
		for i, v := range margins {
			if classes[i] == 0 {
				v = -v
			}
			sum += math.Log1p(math.Exp(-float64(v))) / float64(len(margins))
		}
		return sum
	}
	const probes = 400
	got, errs := traced(t, c, layers, x, classes, TraceOptions{Probes: probes, Seed: 3})
	for k, l := range layers {
		const h = 0.0625
		var trace float64
		for i := range l.W {
			trace += (loss(nudged(m, l.Weight, i, h)) - 2*loss(m) + loss(nudged(m, l.Weight, i, -h))) / (h * h)
		}
		var diagonal, off float64
		for i, row := range hessian(t, m, l, x, classes) {
			for j, v := range row {
				if i == j {
					diagonal += v
				} else {
					off += v * v
				}
			}
		}
		must.Near(must.In(t, l.Node), trace, diagonal, 5e-3*(1+math.Abs(trace)))
		if e := math.Sqrt(2 * off / probes); math.Abs(errs[k]-e) > 0.2*e {
			t.Errorf("layer %q: standard error %v, in truth %v", l.Node, errs[k], e)
		}
		if d := math.Abs(got[k] - diagonal); d > 3*errs[k] || d == 0 {
			t.Errorf("layer %q: trace %v +- %v, exact %v", l.Node, got[k], errs[k], diagonal)
		}
	}
}

func line(w []float32, outputs int64, head ...*graph.Node) *graph.Model {
	in := int64(len(w)) / outputs
	return chain(int(in), []*graph.Tensor{graph.FromFloats("w", w, outputs, in)},
		append([]*graph.Node{gemm("x", "z", "w")}, head...)...)
}

// A linear model has its trace in closed form: with one logit and p its probability, the mean of p(1-p) |x|^2; with one
// logit for each class, of sum_k p_k(1-p_k) |x|^2. Classes make no difference.
func TestTraceOfALinearModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 5))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	const rows, in = 50, 6
	x := draw(rows * in)
	for _, tt := range []struct {
		name    string
		outputs int
		head    []*graph.Node
	}{
		{"one logit", 1, []*graph.Node{unary("Sigmoid", "z", "p")}},
		{"two logits", 2, nil},
		{"three logits", 3, nil},
	} {
		w := draw(tt.outputs * in)
		m := line(w, int64(tt.outputs), tt.head...)
		layers := layersOf(t, m)
		var want float64
		for i := range rows {
			row := x[i*in : (i+1)*in]
			var norm float64
			for _, v := range row {
				norm += float64(v) * float64(v)
			}
			z := make([]float64, tt.outputs)
			for o := range z {
				for j, v := range row {
					z[o] += float64(v) * float64(w[o*in+j])
				}
			}
			if len(z) == 1 {
				p := 1 / (1 + math.Exp(-z[0]))
				want += p * (1 - p) * norm / rows
				continue
			}
			var sum float64
			for _, v := range z {
				sum += math.Exp(v)
			}
			for _, v := range z {
				p := math.Exp(v) / sum
				want += p * (1 - p) * norm / rows
			}
		}
		classes := make([]int, rows)
		for i := range classes {
			classes[i] = r.IntN(max(2, tt.outputs))
		}
		for _, cl := range [][]int{nil, classes} {
			got, errs := traced(t, open(t, m), layers, x, cl, TraceOptions{Probes: 200})
			if d := math.Abs(got[0] - want); d > 3*errs[0] || errs[0] > 0.1*want {
				t.Errorf("%s: trace %v +- %v, in closed form %v", tt.name, got[0], errs[0], want)
			}
		}
	}
}

// A layer's estimate depends on its own draws only.
func TestTraceDraws(t *testing.T) {
	t.Parallel()
	m := network()
	c := open(t, m)
	layers := layersOf(t, m)
	x := slices.Repeat([]float32{.2, -.4, 1}, 100)
	trace := func(layers []quant.LayerInfo, x []float32, o TraceOptions) []float64 {
		traces, _ := traced(t, c, layers, x, nil, o)
		return traces
	}
	all := trace(layers, x[:3], TraceOptions{Probes: 4})
	must.Same(t, all[1], trace(layers[1:], x[:3], TraceOptions{Probes: 4})[0])
	many := trace(layers[:1], x, TraceOptions{Probes: 4})
	must.Near(t, all[0], many[0], 1e-5*math.Abs(all[0]))
	if other := trace(layers[:1], x[:3], TraceOptions{Probes: 4, Seed: 1}); other[0] == all[0] {
		t.Error("the seed makes no difference")
	}
}

func TestTraceRows(t *testing.T) {
	t.Parallel()
	for weights, want := range map[int]int{100: 1024, 1 << 22: 256, 1 << 30: 128} {
		must.Same(t, want, TraceRows([]quant.LayerInfo{{In: weights, Out: 1, LayerUse: quant.LayerUse{Positions: 1}}}))
	}
}

func TestRademacher(t *testing.T) {
	t.Parallel()
	const n = 20000
	a, b := rademacher(n, 1, "a", 0), rademacher(n, 1, "a", 1)
	var sum, product, next float64
	for i := range a {
		if a[i] != 1 && a[i] != -1 {
			t.Fatalf("number %d is %v", i, a[i])
		}
		sum += float64(a[i])
		product += float64(a[i] * b[i])
		next += float64(a[i] * a[(i+1)%n])
	}
	for what, s := range map[string]float64{"mean": sum, "two probes": product, "neighbours": next} {
		if math.Abs(s) > 4*math.Sqrt(n) {
			t.Errorf("%s: a sum of %v over %d", what, s, n)
		}
	}
}

package classifier_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

type weights struct {
	*graph.Builder
	rng *rand.Rand
}

func (w weights) of(dims ...int64) string {
	n, last := int64(1), dims[0]
	for _, d := range dims {
		n *= d
		last = d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(w.rng.NormFloat64()) / float32(last)
	}
	return w.Const(graph.FromFloats("w", v, dims...))
}

func (w weights) shape(v ...int64) string { return w.Const(graph.FromInts("s", v, int64(len(v)))) }

func (w weights) dense(x string, in, out int64) string {
	return w.Op("Add", []string{w.Op("MatMul", []string{x, w.of(in, out)}), w.of(out)})
}

func (w weights) norm(x string, d int64) string {
	return w.Op("LayerNormalization", []string{x, w.of(d), w.of(d)}, graph.IntAttr("axis", -1))
}

func network(dims []int64, classes int64, body func(w weights, x string) string) *graph.Model {
	g := &graph.Graph{Name: "network"}
	g.Inputs = []graph.Value{{
		Name: "x", DType: graph.Float, Shape: append(graph.Shape{{Param: "n", Size: -1}}, graph.Fixed(dims...)...),
	}}
	out := body(weights{graph.NewBuilder(g, "net."), rand.New(rand.NewPCG(1, 2))}, "x")
	g.Outputs = []graph.Value{{
		Name: out, DType: graph.Float, Shape: append(graph.Shape{{Param: "n", Size: -1}}, graph.Fixed(classes)...),
	}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 18}}, Graph: g}
}

func cnn(w weights, x string) string {
	at := x
	for _, c := range [][3]int64{{1, 16, 2}, {16, 32, 2}, {32, 32, 1}} {
		at = w.Op("Conv", []string{at, w.of(c[1], c[0], 3, 3), w.of(c[1])}, graph.IntsAttr("kernel_shape", 3, 3),
			graph.IntsAttr("pads", 1, 1, 1, 1), graph.IntsAttr("strides", c[2], c[2]))
		at = w.Op("Relu", []string{at})
	}
	return w.dense(w.Op("Flatten", []string{at}, graph.IntAttr("axis", 1)), 32*7*7, 10)
}

// transformer is an FT-Transformer of 12 numbers: each becomes a token of 64 numbers, followed by three blocks of
// attention with 8 heads and a feed-forward layer of 128.
func transformer(w weights, x string) string {
	const tokens, d, heads, hidden = 12, 64, 8, 128
	at := w.Op("Unsqueeze", []string{x, w.shape(2)})
	at = w.Op("Add", []string{w.Op("Mul", []string{at, w.of(tokens, d)}), w.of(tokens, d)})
	split := func(v string, perm ...int64) string {
		v = w.Op("Reshape", []string{v, w.shape(0, tokens, heads, d/heads)})
		return w.Op("Transpose", []string{v}, graph.IntsAttr("perm", perm...))
	}
	scale := w.Const(graph.FromFloats("scale", []float32{0.35}))
	for range 3 {
		in := w.norm(at, d)
		q, k := split(w.dense(in, d, d), 0, 2, 1, 3), split(w.dense(in, d, d), 0, 2, 3, 1)
		v := split(w.dense(in, d, d), 0, 2, 1, 3)
		scores := w.Op("Softmax", []string{w.Op("Mul", []string{w.Op("MatMul", []string{q, k}), scale})},
			graph.IntAttr("axis", -1))
		mixed := w.Op("Transpose", []string{w.Op("MatMul", []string{scores, v})}, graph.IntsAttr("perm", 0, 2, 1, 3))
		mixed = w.Op("Reshape", []string{mixed, w.shape(0, tokens, d)})
		at = w.Op("Add", []string{at, w.dense(mixed, d, d)})
		ff := w.dense(w.Op("Relu", []string{w.dense(w.norm(at, d), d, hidden)}), hidden, d)
		at = w.Op("Add", []string{at, ff})
	}
	return w.dense(w.norm(w.Op("ReduceMean", []string{at, w.shape(1)}, graph.IntAttr("keepdims", 0)), d), d, 2)
}

// BenchmarkGradientRatio compares the margin's gradient by the inputs of 256 rows, and the loss's, with one forward run
// of ONNX Runtime on the same rows, on one thread: medians of turns. A classifier runs fewer rows at once where they
// are wide, forward as well: chosen-forward is what it takes then. bench/torch_gradient.py measures PyTorch.
func BenchmarkGradientRatio(b *testing.B) {
	mlp := "../../testdata/loans/model.onnx"
	if shared := os.Getenv("CFQ_SHARED"); shared != "" {
		mlp = filepath.Join(shared, "models", "adult", "mlp2-s0.onnx")
	}
	for name, open := range map[string]func() (*onnxio.Model, error){
		"mlp": func() (*onnxio.Model, error) { return onnxio.Load(context.Background(), mlp, ort.Options{Threads: 1}) },
		"cnn": func() (*onnxio.Model, error) {
			return onnxio.FromGraph(context.Background(), network([]int64{1, 28, 28}, 10, cnn), ort.Options{Threads: 1})
		},
		"transformer": func() (*onnxio.Model, error) {
			return onnxio.FromGraph(context.Background(), network([]int64{12}, 2, transformer), ort.Options{Threads: 1})
		},
	} {
		b.Run(name, func(b *testing.B) {
			m, err := open()
			must.Do(b, err)
			var models [2]*classifier.Model // one run for the 256 rows, and as many as the classifier chooses
			for i, batch := range []int{256, 0} {
				if models[i], err = classifier.New(m, classifier.Options{Batch: batch}); err != nil {
					b.Fatal(err)
				}
				defer models[i].Close()
			}
			compareRuns(b, models[0], models[1])
		})
	}
}

func compareRuns(b *testing.B, whole, c *classifier.Model) {
	b.Helper()
	const batch, rounds = 256, 60
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, batch*c.Dim())
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	ctx := context.Background()
	runs := []func() error{
		func() error { _, _, err := whole.Logits(ctx, x); return err },
		func() error { _, _, err := c.Logits(ctx, x); return err },
		func() error { _, _, err := c.MarginGrads(ctx, x); return err },
		func() error { _, _, err := c.LossGrads(ctx, x); return err },
	}
	var took [4][]time.Duration
	for b.Loop() {
		for range rounds {
			for i, run := range runs {
				start := time.Now()
				must.Do(b, run())
				took[i] = append(took[i], time.Since(start))
			}
		}
	}
	var median [4]float64
	for i, all := range took {
		slices.Sort(all)
		median[i] = float64(all[len(all)/2].Microseconds())
	}
	b.ReportMetric(median[0], "µs/forward")
	b.ReportMetric(median[1], "µs/chosen-forward")
	b.ReportMetric(median[2]/median[0], "margin-grad/forward")
	b.ReportMetric(median[3]/median[0], "loss-grad/forward")
}

package ptq

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

func drawing(rng *rand.Rand) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "drawing"}}
	m.Graph.Inputs = []graph.Value{{
		Name: "image", DType: graph.Float, Shape: append(graph.Shape{{Size: -1, Param: "N"}}, graph.Fixed(1, 8, 8)...),
	}}
	b := graph.NewBuilder(m.Graph, "")
	gemm := func(x string, in, out int) string {
		w := make([]float32, in*out)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(in)))
		}
		return b.Op("Gemm", []string{
			x, b.Const(graph.FromFloats("w", w, int64(out), int64(in))),
			b.Const(graph.FromFloats("b", make([]float32, out), int64(out))),
		}, graph.IntAttr("transB", 1))
	}
	h := b.Op("Relu", []string{gemm(b.Op("Flatten", []string{"image"}), 64, 64)})
	m.Graph.Outputs = []graph.Value{{Name: gemm(h, 64, 2), DType: graph.Float}}
	return m
}

// Recourse may paint pixels that are black in all images of the data: the quantized model must read them as the
// original does.
func TestBlackPixels(t *testing.T) {
	t.Parallel()
	tk := must.Get(task.Parse("task.yaml", []byte("version: 1\ntarget: {index: 1}\nfeatures:\n"+
		"  - {name: pixel, kind: image, shape: [1, 8, 8], std: 60, bounds: [0, 255], step: 1}\n")))(t)
	rng := rand.New(rand.NewPCG(8, 8))
	m := drawing(rng)
	people := &task.People{N: 400, Dim: 64, X: make([]float32, 400*64)}
	painted := make([]float32, len(people.X))
	for i := range people.X {
		if k := i % 64; k/8 > 0 && k/8 < 7 && k%8 > 0 && k%8 < 7 {
			people.X[i] = float32(rng.IntN(256)) / 60
		}
		if painted[i] = people.X[i]; rng.IntN(4) == 0 {
			painted[i] = float32(rng.IntN(256)) / 60
		}
	}
	ctx := context.Background()
	r := must.Get(Quantize(ctx, loaded(t, m), tk, people, mustRecipe(CFPTQ, "allocate.budget=8",
		"write.compute=integer", "write.input=int8", "refine.rounds=0"), Run{}))(t)
	written := must.Get(onnxio.LoadBytes(ctx, r.Model, orttest.Need(t)))(t)
	var margins [2][]float32
	for i, m := range []*onnxio.Model{loaded(t, m), written} {
		c, err := OpenFor(m, tk, 1)
		must.Do(t, err)
		defer c.Close()
		if margins[i], err = c.Margins(ctx, painted); err != nil {
			t.Fatal(err)
		}
	}
	var sum float64
	for i, want := range margins[0] {
		sum += math.Pow(float64(margins[1][i]-want), 2)
	}
	if rms := math.Sqrt(sum / float64(people.N)); rms > 0.1 { // 0.39 when they are read as 0
		t.Errorf("margin error of painted images: %.3f logits (rms)", rms)
	}
}

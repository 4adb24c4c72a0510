package ptq

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/task"
)

func drawing() *graph.Model {
	b := newNet(8, 1, 8, 8)
	gemm := func(x string, in, out int64) string {
		zeros := b.Const(graph.FromFloats("b", make([]float32, out), out))
		return b.Op("Gemm", []string{x, b.draw(0, math.Sqrt(2/float64(in)), in, out), zeros})
	}
	h := b.Op("Relu", []string{gemm(b.Op("Flatten", []string{"x"}), 64, 64)})
	return b.model(gemm(h, 64, 2))
}

// Recourse may paint pixels that are black in all images of the data: the quantized model must read them as the
// original does.
func TestBlackPixels(t *testing.T) {
	t.Parallel()
	tk := must.Get(task.Parse("task.yaml", []byte("version: 1\ntarget: {index: 1}\nfeatures:\n"+
		"  - {name: pixel, kind: image, shape: [1, 8, 8], std: 60, bounds: [0, 255], step: 1}\n")))(t)
	rng := rand.New(rand.NewPCG(8, 8))
	m := drawing()
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
	r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=8", "write.compute=integer", "write.input=int8",
		"refine.rounds=0"))
	written := must.Get(codec.Read(r.Model, ""))(t)
	rms := difference(marginsOf(t, m, tk, painted), marginsOf(t, written, tk, painted))
	if rms > 0.15 { // 0.39 when they are read as 0
		t.Errorf("margin error of painted images: %.3f logits (rms)", rms)
	}
}

package ptq

import (
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/task"
)

func recurrentLoans(tk *task.Task) *graph.Model {
	const width = 24
	f := int64(tk.Dim())
	b := newNet(9, f)
	weights := func(in, out int64) string { return b.draw(0, 1/math.Sqrt(float64(in)), in, out) }
	h := b.Op("Relu", []string{b.Op("Gemm", []string{"x", weights(f, width)})})
	one := weights(width, width)
	copied := *b.G.Inits[len(b.G.Inits)-1]
	for _, w := range []string{one, one, b.Const(&copied)} {
		h = b.Op("Add", []string{h, b.Op("Relu", []string{b.Op("MatMul", []string{h, w})})})
	}
	return b.model(b.Op("Gemm", []string{h, weights(width, 2), b.Const(graph.FromFloats("b", []float32{0, 0}, 2))}))
}

// Weights that several layers use are quantized and stored once.
func TestQuantizeSharedWeights(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	m := recurrentLoans(tk)
	balance(t, m, tk, people)
	r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=5"), Run{Workers: 2})
	if len(r.Layers) != 5 {
		t.Fatalf("%d layers", len(r.Layers))
	}
	first := r.Plan.Layer(r.Layers[1].Node)
	for _, l := range r.Layers[2:4] {
		p := r.Plan.Layer(l.Node)
		if !slices.Equal(p.Codes, first.Codes) || !slices.Equal(p.Scales, first.Scales) {
			t.Errorf("layer %q has codes or scales of its own", l.Node)
		}
	}
	if !(r.Bits <= 5) {
		t.Errorf("%v bits", r.Bits)
	}
	written := must.Get(codec.Read(r.Model, ""))(t)
	stored := 0
	for _, w := range written.Graph.Inits {
		if w.DType.Bits() <= 8 {
			stored += w.Len()
		}
	}
	f := tk.Dim()
	if most := (f*24+24*24+24*2)*11/10 + 100; stored > most {
		t.Errorf("%d codes are stored, want at most %d", stored, most)
	}
	if got := agreement(t, m, r.Model, tk, people); got < 0.9 {
		t.Errorf("%.3f of the decisions are the same", got)
	}
}

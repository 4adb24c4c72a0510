package ptq

import (
	"math"
	"math/rand/v2"
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
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "uses"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: f}}}}
	b := graph.NewBuilder(m.Graph, "")
	rng := rand.New(rand.NewPCG(4, 9))
	random := func(dims ...int64) []float32 {
		v := make([]float32, dims[0]*dims[len(dims)-1])
		for i := range v {
			v[i] = float32(rng.NormFloat64() / math.Sqrt(float64(dims[0])))
		}
		return v
	}
	h := b.Op("Relu", []string{b.Op("Gemm", []string{"x", b.Const(graph.FromFloats("w", random(f, width), f, width))})})
	shared := random(width, width)
	one := b.Const(graph.FromFloats("shared", shared, width, width))
	for _, w := range []string{one, one, b.Const(graph.FromFloats("copy", shared, width, width))} {
		h = b.Op("Add", []string{h, b.Op("Relu", []string{b.Op("MatMul", []string{h, w})})})
	}
	last := b.Const(graph.FromFloats("w", random(width, 2), width, 2))
	y := b.Op("Gemm", []string{h, last, b.Const(graph.FromFloats("b", []float32{0, 0}, 2))})
	m.Graph.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
	return m
}

// Weights that several layers use are quantized and stored once.
func TestQuantizeSharedWeights(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	m := recurrentLoans(tk)
	sorted := differences(t, m, tk, people)
	slices.Sort(sorted)
	for i, w := range m.Graph.Inits {
		if w.Name == "b" {
			m.Graph.Inits[i] = graph.FromFloats("b", []float32{sorted[people.N/2], 0}, 2)
		}
	}
	r := must.Get(Quantize(t.Context(), loaded(t, m), tk, people,
		mustRecipe(CFPTQ, "allocate.budget=5"), Run{Workers: 2}))(t)
	if err := r.Verified.Err(); err != nil {
		t.Error(err)
	}
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

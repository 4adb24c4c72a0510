package ptq

import (
	"math"
	"slices"
	"testing"

	"cfq/onnxio/graph"
	"cfq/task"
)

// attentiveLoans is a random transformer on the loans' inputs, each of which is a token: one block of attention, whose
// first product reads [tokens, rows, features] as PyTorch writes it, and one of two layers with a Gelu.
func attentiveLoans(tk *task.Task) *graph.Model {
	const width = 16
	f := int64(tk.Dim())
	b := newNet(7, f)
	random := func(dims ...int64) string { return b.draw(0, 1/math.Sqrt(float64(dims[0])), dims...) }
	ones := b.Const(graph.FromFloats("one", slices.Repeat([]float32{1}, width), width))
	norm := func(v string) string { return b.Op("LayerNormalization", []string{v, ones}) }
	product := func(v string, in, out int64) string {
		return b.Op("Add", []string{b.Op("MatMul", []string{v, random(in, out)}), random(out)})
	}
	swap := func(v string) string { return b.Op("Transpose", []string{v}, graph.IntsAttr("perm", 1, 0, 2)) }
	shape := func(v string, to ...int64) string {
		return b.Op("Reshape", []string{v, b.Const(graph.FromInts("shape", to, int64(len(to))))})
	}
	h := b.Op("Add", []string{b.Op("Mul", []string{shape("x", -1, f, 1), random(f, width)}), random(f, width)})
	qkv := product(swap(norm(h)), width, 3*width)
	b.Append(&graph.Node{Op: "Split", Inputs: []string{qkv}, Outputs: []string{"q", "k", "v"}, Attrs: []graph.Attr{
		graph.IntAttr("axis", 2), graph.IntAttr("num_outputs", 3),
	}})
	keys := b.Op("Transpose", []string{"k"}, graph.IntsAttr("perm", 1, 2, 0))
	scores := b.Op("Softmax", []string{b.Op("MatMul", []string{swap("q"), keys})})
	h = b.Op("Add", []string{h, product(b.Op("MatMul", []string{scores, swap("v")}), width, width)})
	inner := product(norm(h), width, 2*width)
	erf := b.Op("Erf", []string{b.Op("Div", []string{inner, b.Const(graph.FromFloats("c", []float32{math.Sqrt2}))})})
	half := b.Const(graph.FromFloats("c", []float32{0.5}))
	gelu := b.Op("Mul", []string{b.Op("Mul", []string{inner, b.Op("Add", []string{erf, b.Const(
		graph.FromFloats("c", []float32{1}))})}), half})
	h = b.Op("Add", []string{h, product(gelu, 2*width, width)})
	axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
	mean := b.Op("ReduceMean", []string{norm(h), axes}, graph.IntAttr("keepdims", 0))
	return b.model(b.Op("Gemm", []string{mean, random(width, 2), b.Const(graph.FromFloats("b", []float32{0, 0}, 2))}))
}

// A transformer is quantized like any other: its products with stored weights are layers, those of two activations
// stay as they are.
func TestQuantizeTokens(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	m := attentiveLoans(tk)
	balance(t, m, tk, people)
	cases := map[string]struct {
		o     Recipe
		agree float64
		run   string
	}{
		"8 bits":   {mustRecipe("ptq", "allocate.budget=8"), 0.97, "map[Gemm:5]"},
		"4 bits":   {mustRecipe("mixed-ptq", "allocate.budget=4", "round.rule=gptq"), 0.7, "map[Gemm:5]"},
		"integers": {mustRecipe("ptq", "allocate.budget=8", "write.compute=integer"), 0.9, "map[QGemm:5]"},
		"recourse": {mustRecipe(CFPTQ, "allocate.budget=4"), 0.95, "map[Gemm:5]"},
		"trained": {
			mustRecipe("cfq-qat", "allocate.budget=4", "train.steps=160"), 0.95, "map[Gemm:5]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			train := people
			if c.o.Round.Scales = scalesPerChannel; c.o.Train != nil {
				c.o.Train.Batch, train = 64, few(people, 20) // recourse of a transformer takes most of the time
			}
			r := quantized(t, m, tk, train, c.o, Run{Workers: 2})
			if got := kernelsOf(r); got != c.run {
				t.Errorf("kernels %v, want %v", got, c.run)
			}
			if got := agreement(t, m, r.Model, tk, people); got < c.agree {
				t.Errorf("%.3f of the decisions are the same, want %.3f", got, c.agree)
			}
		})
	}
}

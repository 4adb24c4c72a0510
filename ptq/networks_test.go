package ptq

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

func convolutionalLoans(tk *task.Task) *graph.Model {
	f := int64(tk.Dim())
	b := newNet(4, f)
	weights := func(shift float64, dims ...int64) string {
		fan := 1.0
		for _, d := range dims[1:] {
			fan *= float64(d)
		}
		return b.draw(shift, 1/math.Sqrt(fan), dims...)
	}
	h := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", []int64{-1, 1, f}, 3))})
	h = b.Op("Conv", []string{h, weights(0, 16, 1, 5)}, graph.IntsAttr("pads", 2, 2))
	ones := b.Const(graph.FromFloats("v", []float32{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 16))
	h = b.Op("BatchNormalization", []string{h, weights(1, 16), weights(0, 16), weights(0, 16), ones})
	h = b.Op("MaxPool", []string{b.Op("Relu", []string{h})}, graph.IntsAttr("kernel_shape", 2),
		graph.IntsAttr("strides", 2))
	h = b.Op("Conv", []string{h, weights(0, 32, 8, 3), weights(0, 32)}, graph.IntAttr("group", 2))
	flat := b.Op("Flatten", []string{b.Op("Relu", []string{h})})
	zeros := b.Const(graph.FromFloats("b", []float32{0, 0}, 2))
	return b.model(b.Op("Gemm", []string{flat, weights(0, 2, 32*(f/2-2)), zeros}, graph.IntAttr("transB", 1)))
}

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

// Models with convolutions and transformers are quantized like any other: on the kernels that were asked for, deciding
// as they did, the same bytes every time. A transformer's products with stored weights are layers, those of two
// activations stay as they are.
func TestQuantizeNetworks(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 40)
	conv, tokens := convolutionalLoans(tk), attentiveLoans(tk)
	balance(t, conv, tk, people)
	balance(t, tokens, tk, people)
	const (
		eight, four, channels    = "allocate.budget=8", "allocate.budget=4", "round.scales=per-channel"
		gptq, integers, kernels  = "round.rule=gptq", "write.compute=integer", "map[QGemm:1 QLinearConv:2]"
		uniform, low, floatGemms = "allocate.rule=uniform", "write.act-bits=4", "map[Gemm:5]"
	)
	for name, c := range map[string]struct {
		m     *graph.Model
		o     Recipe
		agree float64 // share of the decisions
		run   string
	}{
		"conv, 8 bits":       {conv, mustRecipe("ptq", eight, integers), 0.94, kernels},
		"conv, channels":     {conv, mustRecipe("ptq", eight, integers, channels, gptq), 0.95, kernels},
		"conv, 4 bits":       {conv, mustRecipe("ptq", four, integers, channels, gptq), 0.8, kernels},
		"conv, recourse":     {conv, mustRecipe(CFPTQ, eight, integers, uniform, "refine.rounds=1"), 0.95, kernels},
		"conv, activations":  {conv, mustRecipe("ptq", eight, integers, low), 0.6, kernels},
		"conv, by shape":     {conv, mustRecipe("ptq", eight), 0.95, "map[FusedConv:2 Gemm:1]"},
		"tokens, 8 bits":     {tokens, mustRecipe("ptq", eight, channels), 0.97, floatGemms},
		"tokens, 4 bits":     {tokens, mustRecipe("ptq", four, channels, gptq), 0.9, floatGemms},
		"tokens, mixed":      {tokens, mustRecipe("mixed-ptq", "allocate.budget=5", channels, gptq), 0.8, floatGemms},
		"tokens, on integer": {tokens, mustRecipe("ptq", eight, channels, integers), 0.9, "map[QGemm:5]"},
		"tokens, recourse":   {tokens, mustRecipe(CFPTQ, four, "refine.rounds=1"), 0.9, floatGemms},
		"tokens, trained":    {tokens, mustRecipe("cfq-qat", four, "train.steps=160"), 0.95, floatGemms},
	} {
		if !slices.Contains([]string{"conv, by shape", "conv, recourse", "tokens, on integer"}, name) &&
			!long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			train := people
			if c.o.Calibrate.Points != onFactual {
				train = few(people, 8) // recourse of a transformer takes most of the time
			}
			if c.o.Train != nil {
				c.o.Train.Batch = 64
			}
			r := quantized(t, c.m, tk, train, c.o, Run{Workers: 2})
			must.Same(t, c.run, kernelsOf(r))
			if l := r.Layers[1]; c.m == conv && l.Params != 32*8*3 {
				t.Errorf("the second layer has %d weights: %+v", l.Params, l)
			}
			if got := agreement(t, c.m, r.Model, tk, people); got < c.agree {
				t.Errorf("%.3f of the decisions are the same, want %.3f", got, c.agree)
			}
			if name == "conv, channels" && !bytes.Equal(r.Model, quantized(t, c.m, tk, people, c.o).Model) {
				t.Error("the file depends on the number of workers")
			}
		})
	}
}

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
	people = few(people, 40)
	m := recurrentLoans(tk)
	balance(t, m, tk, people)
	r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=7", "refine.rounds=1"), Run{Workers: 2})
	must.Same(t, 5, len(r.Layers))
	first := r.Plan.Layer(r.Layers[1].Node)
	for _, l := range r.Layers[2:4] {
		p := r.Plan.Layer(l.Node)
		if !slices.Equal(p.Codes, first.Codes) || !slices.Equal(p.Scales, first.Scales) {
			t.Errorf("layer %q has codes or scales of its own", l.Node)
		}
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

func differences(t *testing.T, m *graph.Model, tk *task.Task, people *task.People) []float32 {
	t.Helper()
	x := graph.FromFloats("x", people.X, int64(people.N), int64(tk.Dim()))
	z := must.Get(orttest.Run(t, m, orttest.Need(t), x)[0].Floats())(t)
	out := make([]float32, people.N)
	for i := range out {
		out[i] = z[2*i+1] - z[2*i]
	}
	return out
}

func agreement(t *testing.T, m *graph.Model, quantized []byte, tk *task.Task, people *task.People) float64 {
	t.Helper()
	q := must.Get(codec.Read(quantized, ""))(t)
	same := 0
	b := differences(t, q, tk, people)
	for i, v := range differences(t, m, tk, people) {
		if (v > 0) == (b[i] > 0) {
			same++
		}
	}
	return float64(same) / float64(people.N)
}

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

package footprint

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
	"cfq/quant/qdq"
	"cfq/task"
)

// network is a model from "x", a batch of rows of that size, to "y".
func network(size []int64, inits []*graph.Tensor, nodes ...*graph.Node) *graph.Model {
	x := graph.Value{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}}}
	for _, n := range size {
		x.Shape = append(x.Shape, graph.Dim{Size: n})
	}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name: "network", Inputs: []graph.Value{x}, Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
		Inits: inits, Nodes: nodes,
	}}
}

func op(op, out, in string, attrs ...graph.Attr) *graph.Node {
	return &graph.Node{Name: op + out, Op: op, Inputs: strings.Fields(in), Outputs: []string{out}, Attrs: attrs}
}

func zeros(name string, dims ...int64) *graph.Tensor {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return graph.FromFloats(name, make([]float32, n), dims...)
}

// handmade is a network of two layers: 3 inputs, 4 hidden ones in int8 weights behind codes of bits activation bits, 2
// outputs in float weights.
func handmade(bits int) *graph.Model {
	byteOf := func(name string, v byte) *graph.Tensor {
		return &graph.Tensor{Name: name, DType: graph.Uint8, Dims: []int64{}, Raw: []byte{v}}
	}
	return network([]int64{3}, []*graph.Tensor{
		graph.FromFloats("s", []float32{0.1}), byteOf("z", 0), byteOf("lo", 0), byteOf("hi", byte(1<<bits-1)),
		{Name: "w1", DType: graph.Int8, Dims: []int64{4, 3}, Raw: []byte{100, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		graph.FromFloats("s1", []float32{1, 2, 3, 4}, 4),
		{Name: "z1", DType: graph.Int8, Dims: []int64{4}, Raw: make([]byte, 4)},
		zeros("w2", 2, 4),
	}, op("QuantizeLinear", "q", "x s z"), op("Clip", "c", "q lo hi"), op("DequantizeLinear", "d", "c s z"),
		op("DequantizeLinear", "dw", "w1 s1 z1", graph.IntAttr("axis", 0)),
		op("Gemm", "h", "d dw", graph.IntAttr("transB", 1)), op("Relu", "r", "h"),
		op("Gemm", "y", "r w2", graph.IntAttr("transB", 1)))
}

func float() *graph.Model {
	return network([]int64{3}, []*graph.Tensor{zeros("w1", 3, 4), zeros("w2", 4, 2)},
		op("MatMul", "h", "x w1"), op("Relu", "r", "h"), op("MatMul", "y", "r w2"))
}

func opened(t *testing.T, m *graph.Model) *onnxio.Model {
	t.Helper()
	return must.Get(onnxio.FromGraph(t.Context(), m, orttest.Need(t)))(t)
}

// A row of three tokens uses the weights of a product three times, one of features with a matrix each once.
func TestTokens(t *testing.T) {
	m := network([]int64{6}, []*graph.Tensor{
		graph.FromInts("three", []int64{-1, 3, 2}, 3), graph.FromInts("flat", []int64{-1, 12}, 2),
		zeros("w", 2, 5), zeros("v", 3, 5, 4), zeros("u", 12, 2),
	}, op("Reshape", "t", "x three"), op("MatMul", "h", "t w"),
		op("Einsum", "e", "h v", graph.StringAttr("equation", "btd,tde->bte")),
		op("Reshape", "f", "e flat"), op("MatMul", "y", "f u"))
	f, err := Measure(opened(t, m), opened(t, m), 1, 1)
	if want := (3*10 + 60 + 24) * 32. * 32; err != nil || f.Full.BOPs != want {
		t.Errorf("%+v, %v; want %v", f, err, want)
	}
}

func TestByHand(t *testing.T) {
	for _, bits := range []int{8, 5, 2} {
		f := must.Get(Measure(opened(t, float()), opened(t, handmade(bits)), 1000, 300))(t)
		must.Same(t, map[int]int{8: 1}[bits], f.Saturating)
		must.Same(t, eval.Weight{Bytes: 1000, StoredBits: 32, BOPs: 20 * 32 * 32}, f.Full)
		// 12 codes, 4 scales and 4 zero points make 32 bytes for 12 weights; 8 weights are floats.
		want := eval.Weight{Bytes: 300, StoredBits: (8*32 + 32*8) / 20., BOPs: float64(12*8*bits + 8*32*32)}
		must.Same(must.In(t, bits), want, f.Quant)
	}
}

// convolution is 1 x 6 x 5 numbers through two 3 x 3 kernels, padded by one below and at the right only, and
// four outputs behind, averaged.
func convolution() *graph.Model {
	return network([]int64{1, 6, 5}, []*graph.Tensor{zeros("k", 2, 1, 3, 3)},
		op("Conv", "c", "x k", graph.IntsAttr("pads", 0, 0, 1, 1)), op("GlobalAveragePool", "p", "c"),
		op("Flatten", "y", "p"))
}

// The output has (6+1-3+1) x (5+1-3+1) = 5 x 4 places.
func TestConvolution(t *testing.T) {
	full := convolution()
	q := full.Clone()
	q.Graph.Inits = []*graph.Tensor{
		{Name: "k8", DType: graph.Int8, Dims: []int64{2, 1, 3, 3}, Raw: make([]byte, 18)},
		graph.FromFloats("s", []float32{1}),
		{Name: "z", DType: graph.Uint8, Dims: []int64{}, Raw: []byte{0}},
		{Name: "z8", DType: graph.Int8, Dims: []int64{}, Raw: []byte{0}},
	}
	q.Graph.Nodes = append([]*graph.Node{
		op("QuantizeLinear", "q", "x s z"), op("DequantizeLinear", "d", "q s z"), op("DequantizeLinear", "k", "k8 s z8"),
	}, q.Graph.Nodes...)
	q.Graph.Nodes[3].Inputs = []string{"d", "k"}
	f := must.Get(Measure(opened(t, full), opened(t, q), 1, 1))(t)
	notes := must.Get(qdq.Layers(q))(t)
	must.Same(t, 1, len(notes))
	must.Same(t, 20.*18*32*32, f.Full.BOPs)
	if want := 20. * 18 * 8 * 8; notes[0].Bits != 2 || f.Quant.BOPs != want {
		t.Errorf("quantized: %v, want %v", f.Quant.BOPs, want)
	}
}

func TestLoans(t *testing.T) {
	full := read(t, "model.onnx")
	f := must.Get(Measure(opened(t, full), opened(t, full), 10, 10))(t)
	if f.Full != f.Quant || f.Full.StoredBits != 32 || f.Full.BOPs != 1024*multiplications(t, full) {
		t.Errorf("%+v", f)
	}
}

func multiplications(t *testing.T, m *graph.Model) float64 {
	t.Helper()
	n := 0
	for _, c := range m.Graph.Inits {
		if len(c.Dims) == 2 {
			n += c.Len()
		}
	}
	if n == 0 {
		t.Fatal("no matrices")
	}
	return float64(n)
}

func read(t *testing.T, name string) *graph.Model {
	t.Helper()
	return must.Get(codec.ReadFile(filepath.Join("..", "..", "testdata", "loans", name)))(t)
}

func TestNoLayers(t *testing.T) {
	m := network([]int64{2}, nil, op("Relu", "y", "x"))
	f, err := Measure(opened(t, m), opened(t, m), 7, 7)
	if err != nil || fmt.Sprint(f.Full) != "{7 0 0}" || math.IsNaN(f.Full.StoredBits) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAsQuantize(t *testing.T) {
	tk := must.Get(task.Load(filepath.Join("..", "..", "testdata", "loans", "task.yaml")))(t)
	people := must.Get(task.Read(t.Context(), filepath.Join("..", "..", "testdata", "loans", "train.csv"), tk,
		task.ReadOptions{Only: task.AllRows(400)}))(t)
	full := read(t, "model.onnx")
	loaded := must.Get(onnxio.FromGraph(t.Context(), full, orttest.Need(t)))(t)
	for _, settings := range [][]string{
		{"allocate.budget=4", "write.compute=integer"},
		{"allocate.budget=8", "write.act-bits=6", "write.compute=integer"},
		{"allocate.budget=4", "write.compute=float"},
	} {
		recipe := must.Get(ptq.NewRecipe("ptq", settings...))(t)
		r := must.Get(ptq.Quantize(t.Context(), loaded, tk, people, recipe, ptq.Run{}))(t)
		m := must.Get(codec.Read(r.Model, ""))(t)
		f := must.Get(Measure(loaded, opened(t, m), int64(r.FloatBytes), int64(r.Bytes)))(t)
		var want float64
		for i, l := range r.Layers {
			p := r.Plan.Layer(l.Node)
			products, width := float64(l.Params), 8.
			switch {
			case recipe.Write.Compute == "float":
				width = 32
			case p.Act != nil:
				width = float64(p.Act.Bits)
			}
			if i == 0 && r.Plan.Input != nil && recipe.Write.Compute != "float" {
				products = products / float64(people.Dim) * float64(len(r.Plan.Input.Columns))
			}
			want += products * l.Bits * width
		}
		if math.Abs(f.Quant.BOPs-want) > 1e-6*want || math.Abs(f.Quant.StoredBits-r.Stored) > 1e-9 {
			t.Errorf("%+v: %+v, want %v BOPs and %v bits", settings, f.Quant, want, r.Stored)
		}
	}
}

package ptq

import (
	"bytes"
	"math"
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

// A model with convolutions is quantized like any other: on integer kernels, deciding
// as it did, the same bytes every time.
func TestQuantizeConvolutions(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	m := convolutionalLoans(tk)
	const integers = "map[QGemm:1 QLinearConv:2]"
	balance(t, m, tk, people)
	cases := map[string]struct {
		o     Recipe
		agree float64
		run   string
	}{
		"ptq at 8 bits": {mustRecipe("ptq", "allocate.budget=8"), 0.94, integers},
		"ptq by channel": {
			mustRecipe("ptq", "allocate.budget=8", "round.scales=per-channel", "round.rule=gptq"),
			0.95, integers,
		},
		"ptq at 4 bits": {
			mustRecipe("ptq", "allocate.budget=4", "round.scales=per-channel", "round.rule=gptq"),
			0.8, integers,
		},
		"cf-ptq": {mustRecipe("cf-ptq", "allocate.budget=8", "allocate.rule=uniform"), 0.95, integers},
		"4-bit activations": {
			mustRecipe("ptq", "allocate.budget=8", "write.act-bits=4", "write.compute=integer"), 0.6,
			integers,
		},
		"by shape": {
			mustRecipe("ptq", "allocate.budget=8", "write.compute=auto"),
			0.95,
			"map[FusedConv:2 Gemm:1]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if name != "by shape" {
				c.o.Write.Compute = computeInteger
			}
			r := quantized(t, m, tk, people, c.o, Run{Workers: 2})
			if got := kernelsOf(r); got != c.run {
				t.Errorf("kernels %v, want %v", got, c.run)
			}
			if l := r.Layers[1]; l.Params != 32*8*3 {
				t.Errorf("the second layer has %d weights: %+v", l.Params, l)
			}
			if got := agreement(t, m, r.Model, tk, people); got < c.agree {
				t.Errorf("%.3f of the decisions are the same, want %.3f", got, c.agree)
			}
			if name != "ptq by channel" {
				return
			}
			again := quantized(t, m, tk, people, c.o)
			if !bytes.Equal(r.Model, again.Model) {
				t.Error("the file depends on the number of workers")
			}
		})
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

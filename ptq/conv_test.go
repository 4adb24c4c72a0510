package ptq

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
	"cfq/task"
)

func convolutionalLoans(tk *task.Task) *graph.Model {
	f := int64(tk.Dim())
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "conv"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: f}}}}
	b := graph.NewBuilder(m.Graph, "")
	rng := rand.New(rand.NewPCG(4, 4))
	random := func(shift float64, dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(shift + rng.NormFloat64()/math.Sqrt(float64(n/dims[0])))
		}
		return b.Const(graph.FromFloats("w", v, dims...))
	}
	h := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", []int64{-1, 1, f}, 3))})
	h = b.Op("Conv", []string{h, random(0, 16, 1, 5)}, graph.IntsAttr("pads", 2, 2))
	ones := b.Const(graph.FromFloats("v", []float32{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 16))
	h = b.Op("BatchNormalization", []string{h, random(1, 16), random(0, 16), random(0, 16), ones})
	h = b.Op("MaxPool", []string{b.Op("Relu", []string{h})}, graph.IntsAttr("kernel_shape", 2),
		graph.IntsAttr("strides", 2))
	h = b.Op("Relu", []string{b.Op("Conv", []string{h, random(0, 32, 8, 3), random(0, 32)}, graph.IntAttr("group", 2))})
	y := b.Op("Gemm", []string{
		b.Op("Flatten", []string{h}), random(0, 2, 32*(f/2-2)),
		b.Const(graph.FromFloats("b", []float32{0, 0}, 2)),
	}, graph.IntAttr("transB", 1))
	m.Graph.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
	return m
}

// A model with convolutions is quantized like any other: on integer kernels, deciding
// as it did, the same bytes every time.
func TestQuantizeConvolutions(t *testing.T) {
	t.Parallel()
	_, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	m := convolutionalLoans(tk)
	const integers = "map[QGemm:1 QLinearConv:2]"
	// Half of the people shall be favoured.
	sorted := differences(t, m, tk, people)
	slices.Sort(sorted)
	for i, w := range m.Graph.Inits {
		if w.Name == "b" {
			m.Graph.Inits[i] = graph.FromFloats("b", []float32{sorted[people.N/2], 0}, 2)
		}
	}
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
			r := must.Get(Quantize(t.Context(), loaded(t, m), tk, people, c.o, Run{Workers: 2}))(t)
			if err := r.Verified.Err(); err != nil {
				t.Error(err)
			}
			kernels := map[string]int{}
			for _, l := range r.Verified.Layers {
				kernels[l.Kernel]++
			}
			if got := fmt.Sprint(kernels); got != c.run {
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
			again := must.Get(Quantize(context.Background(), loaded(t, m), tk, people, c.o, Run{}))(t)
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

func TestCanonicalKeepsConvolutions(t *testing.T) {
	t.Parallel()
	_, tk, _ := loans(t, "train.csv")
	c, _, err := pass.Canonical(convolutionalLoans(tk), nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(c))(t)
	if len(layers) != 3 || layers[0].Positions != tk.Dim() || layers[1].Conv.Group != 2 || layers[2].Conv != nil {
		t.Errorf("layers %+v", layers)
	}
}

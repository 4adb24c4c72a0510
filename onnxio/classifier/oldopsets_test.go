package classifier

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// oldNodes are operators in the forms of opsets 7 and 8, from x (rows of six) to h (rows of six).
func oldNodes() map[string][]*graph.Node {
	node := func(op, in, out string, attrs ...graph.Attr) *graph.Node {
		return &graph.Node{Op: op, Inputs: strings.Fields(in), Outputs: strings.Fields(out), Attrs: attrs}
	}
	num, real, ints := graph.IntAttr, graph.FloatAttr, graph.IntsAttr
	return map[string][]*graph.Node{
		"Dropout":             {node("Dropout", "x", "h", real("ratio", .4))},
		"BatchNormalization":  {node("BatchNormalization", "x v u u w", "h", real("epsilon", 1e-2), num("spatial", 1))},
		"Gemm, one addend":    {node("Gemm", "x m one", "h", real("alpha", .5), real("beta", 2))},
		"Gemm, a row":         {node("Gemm", "x m v", "h", num("transB", 1))},
		"Softmax":             {node("Softmax", "x", "h")},
		"LogSoftmax":          {node("LogSoftmax", "x", "h", num("axis", 1))},
		"Softmax of a matrix": {node("Reshape", "x wide", "r"), node("Softmax", "r", "s"), node("Flatten", "s", "h")},
		"Clip":                {node("Clip", "x", "h", real("min", -.5), real("max", .75))},
		"Clip, one side":      {node("Clip", "x", "h", real("max", .5))},
		"PRelu":               {node("PRelu", "x w", "h")},
		"LeakyRelu":           {node("LeakyRelu", "x", "h", real("alpha", .3))},
		"Sum and Max":         {node("Mul", "x v", "q"), node("Sum", "x q x", "s"), node("Max", "s q", "h")},
		"Pow":                 {node("Mul", "x x", "q"), node("Pow", "q one", "h")},
		"Slice and Pad": {
			node("Slice", "x", "s", ints("axes", 1), ints("starts", 1), ints("ends", 5)),
			node("Pad", "s", "h", ints("pads", 0, 1, 0, 1), real("value", .5)),
		},
		"Split":                 {node("Split", "x", "a b", num("axis", 1)), node("Concat", "b a", "h", num("axis", 1))},
		"Squeeze and Unsqueeze": {node("Unsqueeze", "x", "s", ints("axes", 1)), node("Squeeze", "s", "h", ints("axes", 1))},
		"ReduceMean":            {node("ReduceMean", "x", "s", ints("axes", 1), num("keepdims", 1)), node("Sub", "x s", "h")},
		"ReduceSum":             {node("ReduceSum", "x", "s", ints("axes", 1)), node("Mul", "x s", "h")},
	}
}

func TestOldOpsets(t *testing.T) {
	e := orttest.Need(t)
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	for name, nodes := range oldNodes() {
		for _, opset := range []int64{7, 8} {
			rng := rand.New(rand.NewPCG(5, 6))
			random := func(label string, dims ...int64) *graph.Tensor {
				v := make([]float32, 1)
				for _, d := range dims {
					v = append(v[:0], make([]float32, len(v)*int(d))...)
				}
				for i := range v {
					v[i] = float32(rng.NormFloat64())
				}
				return graph.FromFloats(label, v, dims...)
			}
			g := &graph.Graph{
				Name: "old", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(6)}},
				Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(2)}},
				Nodes:   append(nodes, &graph.Node{Op: "Gemm", Inputs: []string{"h", "head", "pair"}, Outputs: []string{"y"}}),
				Inits: []*graph.Tensor{
					random("m", 6, 6), random("v", 6), random("u", 6), random("head", 6, 2), random("pair", 2),
					graph.FromFloats("w", []float32{.5, 1, 1.5, 2, 2.5, 3}, 6), graph.FromFloats("one", []float32{1}, 1),
					graph.FromInts("wide", []int64{-1, 2, 3}, 3),
				},
			}
			m := &graph.Model{IRVersion: 4, Opsets: []graph.Opset{{Version: opset}}, Graph: g}
			old := m.Clone()
			c, err := Open(t.Context(), m, e, Options{})
			if err != nil {
				t.Errorf("%s, opset %d: %v", name, opset, err)
				continue
			}
			label := fmt.Sprintf("%s, opset %d", name, opset)
			x := random("x", 8, 6)
			at, _ := x.Floats()
			margins, grads, err := c.MarginGrads(t.Context(), at)
			if err != nil {
				t.Errorf("%s: %v", label, err)
				continue
			}
			plain := func(v []float32) []float32 {
				z, err := orttest.Run(t, old, e, graph.FromFloats("x", v, int64(len(v)/6), 6))[0].Floats()
				if err != nil {
					t.Fatal(label, err)
				}
				m := make([]float32, len(z)/2)
				for i := range m {
					m[i] = z[2*i+1] - z[2*i]
				}
				return m
			}
			for i, want := range plain(at) {
				if d := math.Abs(float64(margins[i] - want)); d > 1e-4*(1+math.Abs(float64(want))) {
					t.Errorf("%s: margin %v, the model has %v", label, margins[i], want)
				}
			}
			const eps = 4e-3
			for j := range 6 {
				up, down := append([]float32{}, at...), append([]float32{}, at...)
				for i := j; i < len(at); i += 6 {
					up[i] += eps
					down[i] -= eps
				}
				high, low := plain(up), plain(down)
				for i := range high {
					want, got := float64(high[i]-low[i])/(2*eps), float64(grads[6*i+j])
					if math.Abs(got-want) > 0.02*(1+math.Abs(want)) {
						t.Errorf("%s: row %d, input %d: gradient %v, central difference %v", label, i, j, got, want)
					}
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

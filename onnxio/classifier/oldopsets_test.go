package classifier

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
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
	for _, opset := range []int64{7, 8} {
		for name, nodes := range oldNodes() {
			t.Run(fmt.Sprint(name, " ", opset), func(t *testing.T) {
				m := build(graph.Shape{rows(), {Size: 6}}, opset, func(b *graph.Builder) string {
					floats32(b, "v", normals(1, 6), 6)
					floats32(b, "u", normals(2, 6), 6)
					floats32(b, "m", normals(5, 36), 6, 6)
					floats32(b, "one", []float32{1}, 1)
					floats32(b, "w", []float32{.5, 1, 1.5, 2, 2.5, 3}, 6)
					b.Const(graph.FromInts("wide", []int64{-1, 2, 3}, 3))
					for _, n := range nodes {
						b.Append(n)
					}
					head, pair := floats32(b, "head", normals(6, 12), 6, 2), floats32(b, "pair", normals(7, 2), 2)
					return b.Op("Gemm", []string{"h", head, pair})
				})
				m.IRVersion = 4
				old := m.Clone()
				c := open(t, m, Options{})
				at := normals(8, 4*6)
				margins, grads, err := c.MarginGrads(t.Context(), at)
				must.Do(t, err)
				plain := func(v []float32) (out []float64) {
					x := graph.FromFloats("x", v, int64(len(v)/6), 6)
					z := must.Get(orttest.Run(t, old, orttest.Need(t), x)[0].Floats())(t)
					for row := range slices.Chunk(z, 2) {
						out = append(out, float64(row[1]-row[0]))
					}
					return out
				}
				for i, want := range plain(at) {
					near(t, "margin", float64(margins[i]), want, 1e-4)
				}
				const eps = 4e-3
				for j := range 6 {
					up, down := slices.Clone(at), slices.Clone(at)
					for i := j; i < len(at); i += 6 {
						up[i] += eps
						down[i] -= eps
					}
					high, low := plain(up), plain(down)
					for i := range high {
						near(t, fmt.Sprintf("row %d, gradient by %d", i, j), float64(grads[6*i+j]), (high[i]-low[i])/(2*eps), 0.02)
					}
				}
			})
		}
	}
}

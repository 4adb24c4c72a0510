package classifier

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
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

// tokens makes a classifier x [N, 6] that reads three tokens of two numbers: t holds those of a row together or, where
// the batch is the second axis, apart.
func tokens(batch graph.Dim, apart bool) *graph.Model {
	return build(graph.Shape{batch, {Size: 6}}, 21, func(b *graph.Builder) string {
		reshape := func(v string, to ...int64) string { return b.Op("Reshape", []string{v, int64s(b, to...)}) }
		swap := func(v string) string { return b.Op("Transpose", []string{v}, graph.IntsAttr("perm", 1, 0, 2)) }
		h := reshape("x", -1, 3, 2)
		if apart {
			h = swap(h)
		}
		b.Append(&graph.Node{Op: "Reshape", Inputs: []string{h, int64s(b, -1, 2)}, Outputs: []string{"t"}})
		h = b.Op("Tanh", []string{b.Op("Gemm", []string{"t", floats32(b, "w", []float32{1, -2, 0.5, 3, 1, 1}, 2, 3)})})
		if apart {
			h = swap(reshape(h, 3, -1, 3))
		}
		return b.Op("Gemm", []string{reshape(h, -1, 9), floats32(b, "w", normals(2, 18), 9, 2)})
	})
}

func TestObserveTokens(t *testing.T) {
	x := normals(5, 7*6)
	for _, apart := range []bool{false, true} {
		for _, batch := range []graph.Dim{{Size: -1, Param: "N"}, {Size: 4}} {
			c := open(t, tokens(batch, apart), Options{Batch: 4})
			if n, ok := c.PerRow("t"); n != 6 || !ok {
				t.Errorf("%d numbers for each row (%v)", n, ok)
			}
			var values, grads []float32
			err := c.Observe(t.Context(), x, Probe{Values: []string{"t"}, Grads: []string{"t"}, Margin: true},
				func(_, _ int, v, g [][]float32) error {
					values, grads = append(values, v[0]...), append(grads, g[0]...)
					return nil
				})
			must.Do(t, err)
			_, want, err := c.MarginGrads(t.Context(), x) // t is x
			must.Do(t, err)
			must.Same(must.In(t, apart, batch), x, values)
			for i, v := range want {
				if !(math.Abs(float64(grads[i]-v)) < 1e-5) {
					t.Fatalf("apart %v, batch %v: gradients %v, want %v", apart, batch, grads[:12], want[:12])
				}
			}
		}
	}
}

func TestUndefinedLogit(t *testing.T) {
	for classes := 1; classes <= 3; classes++ {
		m := build(graph.Shape{rows(), {Size: int64(classes)}}, 21,
			func(b *graph.Builder) string { return b.Op("Sqrt", []string{"x"}) })
		c := open(t, m, Options{Output: onnxio.Logits})
		for place := range classes {
			x := slices.Repeat([]float32{4}, classes)
			x[place] = -1
			plain := must.Get(c.Margins(t.Context(), x))(t)
			same, _, err := c.MarginGrads(t.Context(), x)
			must.Do(t, err)
			if !math.IsNaN(float64(plain[0])) || !math.IsNaN(float64(same[0])) {
				t.Errorf("%d classes, no number in place %d: margins %v and %v", classes, place, plain, same)
			}
		}
	}
}

func quantized(m *graph.Model, step float32, clip bool) *graph.Model {
	q := m.Clone()
	q.SetOpset("", 21)
	q.IRVersion = 10
	r := graph.NewRewriter(q, nil)
	code := func(v byte) string { return r.Const(&graph.Tensor{Name: "c", DType: graph.Uint8, Raw: []byte{v}}) }
	s, z, lo, hi := r.Const(graph.FromFloats("s", []float32{step})), code(128), code(1), code(254)
	r.Rebuild(func(n *graph.Node) {
		if n.Op == "Gemm" {
			v := r.Op("QuantizeLinear", []string{n.Inputs[0], s, z})
			if clip {
				v = r.Op("Clip", []string{v, lo, hi})
			}
			n.Inputs[0] = r.Op("DequantizeLinear", []string{v, s, z})
		}
		r.Append(n)
	})
	return q
}

func TestStraightThrough(t *testing.T) {
	float := newMLP(3, 2, 7).model(rows())
	x := normals(3, 30)
	x[0] = 50 // far outside the quantizer's range
	want, truth, err := open(t, float, Options{}).MarginGrads(t.Context(), x)
	must.Do(t, err)
	for _, clip := range []bool{false, true} {
		q := open(t, quantized(float, 1./24, clip), Options{Through: quant.StraightThrough})
		margins, grads, err := q.MarginGrads(t.Context(), x)
		must.Do(t, err)
		plain := must.Get(q.Margins(t.Context(), x))(t)
		must.Same(must.In(t, clip), 0, grads[0])
		same := 0
		for i := range margins {
			near(t, "margin beside that without gradients", float64(margins[i]), float64(plain[i]), 0.05)
			if margins[i] == want[i] {
				same++
			}
			for j := 3 * i; j < 3*i+3 && i > 0; j++ {
				near(t, "gradient", float64(grads[j]), float64(truth[j]), 0.15)
			}
		}
		if same > 1 {
			t.Errorf("clip %v: %d margins are those of the float model: nothing was quantized", clip, same)
		}
	}
}

func TestQuantizersNeedRules(t *testing.T) {
	m := quantized(newMLP(3, 2, 7).model(graph.Dim{Size: -1, Param: "N"}), 1./24, false)
	q := open(t, m, Options{})
	must.Get(q.Margins(t.Context(), make([]float32, 3)))(t)
	if _, _, err := q.MarginGrads(t.Context(), make([]float32, 3)); err == nil {
		t.Error("a gradient without rules for quantizers")
	}
}

func TestIntegerOperatorsAreRefused(t *testing.T) {
	m := newMLP(3, 2, 7).model(rows())
	m.Graph.Nodes[1].Op = "QLinearMatMul"
	must.Fail(t, opaque(m.Graph, m.Graph.Inputs[0].Name, m.Graph.Outputs[0].Name), "")
}

package classifier_test

import (
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestSeparateRows(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	axis, keep := graph.IntAttr("axis", 0), graph.IntAttr("keepdims", 1)
	sub := func(w weights, h string, of ...string) string { return w.Op("Sub", append([]string{h}, of...)) }
	perRow := func(w weights, h, scale string) string {
		return w.Op("Mul", []string{h, w.Op("Add", []string{scale, scale})})
	}
	bias := func(w weights, n int64) string { return w.Const(graph.FromInts("n", []int64{n}, 1)) }
	for name, c := range map[string]struct {
		node string // "" for rows that are on their own
		body func(w weights, h string) string
	}{
		"softmax": {"Softmax", func(w weights, h string) string { return perRow(w, h, w.Op("Softmax", []string{h}, axis)) }},
		"a large graph": {"Softmax", func(w weights, h string) string {
			for range ort.LargeGraph {
				h = w.Op("Identity", []string{h})
			}
			return w.Op("Softmax", []string{h}, axis)
		}},
		"mean": {"ReduceMean", func(w weights, h string) string {
			return sub(w, h, w.Op("ReduceMean", []string{h, bias(w, 0)}, keep))
		}},
		"maximum": {"ReduceMax", func(w weights, h string) string {
			return w.Op("Div", []string{h, w.Op("ReduceMax", []string{h, bias(w, 0)}, keep)})
		}},
		"norm": {"LpNormalization", func(w weights, h string) string { return w.Op("LpNormalization", []string{h}, axis) }},
		"largest": {"TopK", func(w weights, h string) string {
			in, out := []string{h, bias(w, 1)}, []string{"top", "at"}
			w.Append(&graph.Node{Op: "TopK", Inputs: in, Outputs: out, Attrs: []graph.Attr{axis}})
			return sub(w, h, "top")
		}},
		"where the largest is": {"ArgMax", func(w weights, h string) string {
			at := w.Op("ArgMax", []string{h}, axis, keep)
			return sub(w, h, w.Op("Cast", []string{at}, graph.IntAttr("to", int64(graph.Float))))
		}},
		"sums": {"CumSum", func(w weights, h string) string {
			return w.Op("CumSum", []string{h, w.Const(graph.FromInts("axis", []int64{0}))})
		}},
		"attention": {"MatMul", func(w weights, h string) string {
			other := w.Op("Transpose", []string{h}, graph.IntsAttr("perm", 1, 0))
			return w.Op("MatMul", []string{w.Op("Softmax", []string{w.Op("MatMul", []string{h, other})}), h})
		}},
		"a fold": {"ReduceMean", func(w weights, h string) string {
			all := w.Op("Reshape", []string{h, w.shape(1, -1)})
			all = sub(w, all, w.Op("ReduceMean", []string{all, bias(w, 1)}, keep))
			return w.Op("Reshape", []string{all, w.shape(-1, 6)})
		}},
		"training": {"BatchNormalization", func(w weights, h string) string {
			one := w.Const(graph.FromFloats("one", []float32{1, 1, 1, 1, 1, 1}, 6))
			w.Append(&graph.Node{
				Op: "BatchNormalization", Inputs: []string{h, one, one, one, one}, Outputs: []string{"normed", "mean", "var"},
				Attrs: []graph.Attr{graph.IntAttr("training_mode", 1)},
			})
			return "normed"
		}},
		"dynamic quantization": {"DynamicQuantizeLinear", func(w weights, h string) string {
			w.Append(&graph.Node{Op: "DynamicQuantizeLinear", Inputs: []string{h}, Outputs: []string{"code", "scale", "zero"}})
			return w.Op("DequantizeLinear", []string{"code", "scale", "zero"})
		}},
		"the size alone": {"Shape", func(w weights, h string) string {
			rows := w.Op("Slice", []string{w.Op("Shape", []string{h}), bias(w, 0), bias(w, 1)})
			return sub(w, h, w.Op("Cast", []string{rows}, graph.IntAttr("to", int64(graph.Float))))
		}},
		"the 1,000th": {"Slice", func(w weights, h string) string {
			late := w.Op("Slice", []string{h, bias(w, 999), bias(w, 1000), bias(w, 0)})
			return sub(w, h, w.Op("ReduceSum", []string{late, bias(w, 0)}, keep))
		}},
		"nothing":  {"", func(_ weights, h string) string { return h }},
		"features": {"", func(w weights, h string) string { return w.norm(w.Op("Softmax", []string{h}), 6) }},
		"look-up": {"", func(w weights, h string) string {
			i := w.Op("Cast", []string{"x"}, graph.IntAttr("to", int64(graph.Int64)))
			return w.Op("Add", []string{h, w.Op("ReduceSum", []string{w.Op("Gather", []string{w.of(1, 6), i}), bias(w, 1)},
				graph.IntAttr("keepdims", 0))})
		}},
		"static codes": {"", func(w weights, h string) string {
			scale := w.Const(graph.FromFloats("s", []float32{0.01}))
			zero := w.Const(&graph.Tensor{DType: graph.Int8, Raw: []byte{0}})
			return w.Op("DequantizeLinear", []string{w.Op("QuantizeLinear", []string{h, scale, zero}), scale, zero})
		}},
		"cancellation": {"", func(w weights, h string) string { // float32 rounds to whole numbers here
			big := w.Const(graph.FromFloats("big", []float32{3e6, 3e6, 3e6, 3e6, 3e6, 3e6}, 6))
			return sub(w, w.Op("Add", []string{w.dense(w.Op("Add", []string{h, big}), 6, 6), big}), big)
		}},
	} {
		g := network([]int64{4}, 2, func(w weights, x string) string { return w.dense(c.body(w, w.dense(x, 4, 6)), 6, 2) })
		m := must.Get(onnxio.FromGraph(t.Context(), g, ort.Options{Threads: 1}))(must.In(t, name))
		o := must.Get(classifier.New(m, classifier.Options{}))(t)
		must.Do(must.In(t, name), o.SeparateRows(t.Context()))
		x := o.Mixes()
		if (x != nil) != (c.node != "") || x != nil && !strings.Contains(x.Error(), "from "+c.node+" node") {
			t.Errorf("%s: %v", name, x)
		}
		rows := []float32{0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0.1}
		together := must.Get(o.Margins(t.Context(), rows))(t)
		if x != nil && name != "training" { // whose kernel keeps its sums
			alone := must.Get(o.Margins(t.Context(), rows[8:]))(t)
			must.Same(must.In(t, name), math.Float32bits(alone[0]), math.Float32bits(together[2]))
		}
		must.Do(t, o.Close())
		_, _, err := o.MarginGrads(t.Context(), nil) // of no rows, gradients are not opened
		if err != nil && strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

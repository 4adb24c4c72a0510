package classifier

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// served is a file of a type, or of float32 between Casts from and to it, that decides for class 1 where decides says
// so of its output.
type served struct {
	name    string
	of      graph.DType
	outside graph.DType // of inputs and outputs
	columns int         // of the logits
	head    func(b *graph.Builder, z string) string
	decides func(p []float64) bool
	o       Options
}

func plainHead(_ *graph.Builder, z string) string { return z }

func headOf(op string, attrs ...graph.Attr) func(*graph.Builder, string) string {
	return func(b *graph.Builder, z string) string { return b.Op(op, []string{z}, attrs...) }
}

func filesServed() []served {
	half, float, wide := graph.Float16, graph.Float, graph.Double
	more := func(p []float64) bool { return p[1] > p[0] }
	above := func(cut float64) func(p []float64) bool { return func(p []float64) bool { return p[0] > cut } }
	softmax, sigmoid := headOf("Softmax", graph.IntAttr("axis", 1)), headOf("Sigmoid")
	label := func(p []float64) bool { return p[0] == 1 }
	first, favourable := 0, Options{}
	favourable.Target = &first
	return []served{
		{"logits", half, half, 2, plainHead, more, Options{}},
		{"logit", half, half, 1, plainHead, above(0), Options{}},
		{"logit, other class", half, half, 1, plainHead, func(p []float64) bool { return p[0] < 0 }, favourable},
		{"softmax", half, half, 2, softmax, more, Options{}},
		{"sigmoid", half, half, 1, sigmoid, above(0.5), Options{}},
		{"sigmoid, other class", half, half, 1, sigmoid, func(p []float64) bool { return p[0] < 0.5 }, favourable},
		{"softmax, other class", half, half, 2, softmax, func(p []float64) bool { return p[0] >= p[1] }, favourable},
		{"log softmax", half, half, 2, headOf("LogSoftmax", graph.IntAttr("axis", 1)), more, Options{}},
		{"threshold", half, half, 1, sigmoid, above(0.501), Options{Output: onnxio.Probabilities, Threshold: 0.501}},
		{"threshold of a logit", half, half, 1, plainHead, above(0.001), Options{Output: onnxio.Logits, Threshold: 0.001}},
		{"three classes", half, half, 3, softmax, func(p []float64) bool { return p[1] > p[0] && p[1] >= p[2] }, Options{}},
		{"[p, 1-p]", half, half, 1, func(b *graph.Builder, z string) string {
			p := b.Op("Sigmoid", []string{z})
			q := b.Op("Sub", []string{b.Const(graph.FromNumbers("c", half, []float32{1}, 1)), p})
			return b.Op("Concat", []string{q, p}, graph.IntAttr("axis", 1))
		}, more, Options{}},
		{"label", half, half, 2, headOf("ArgMax", graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)), label, Options{}},
		{"float outside", half, float, 2, softmax, more, Options{}},
		{"autocast", half, float, 1, sigmoid, above(0.5), Options{}},
		{"float inside", float, half, 1, sigmoid, above(0.5), Options{}},
		{"bfloat16 outside", float, graph.BFloat16, 2, softmax, more, Options{}},
		{"double", wide, wide, 2, plainHead, more, Options{}},
		{"double outside", half, wide, 1, sigmoid, above(0.5), Options{}},
	}
}

func (s *served) model() *graph.Model {
	m := build(graph.Shape{rows(), {Size: 3}}, 17, func(b *graph.Builder) string {
		cast := func(v string, to graph.DType) string {
			if s.of == s.outside {
				return v
			}
			return b.Op("Cast", []string{v}, graph.IntAttr("to", int64(to)))
		}
		v := func(seed uint64, dims ...int64) string {
			n := int(dims[0] * dims[1])
			w := normals(seed, n)
			for i := range w {
				w[i] /= 30
			}
			if s.name == "autocast" {
				return cast(b.Const(graph.FromFloats("w", w, dims...)), s.of)
			}
			return b.Const(graph.FromNumbers("w", s.of, w, dims...))
		}
		h := b.Op("Relu", []string{b.Op("MatMul", []string{cast("x", s.of), v(3, 3, 4)})})
		y := s.head(b, b.Op("MatMul", []string{h, v(4, 4, int64(s.columns))}))
		if b.G.Nodes[len(b.G.Nodes)-1].Is("ArgMax") {
			return y
		}
		return cast(y, s.outside)
	})
	m.Graph.Inputs[0].DType, m.Graph.Outputs[0].DType = s.outside, s.outside
	if m.Graph.Producers()[m.Graph.Outputs[0].Name].Is("ArgMax") {
		m.Graph.Outputs[0].DType = graph.Int64
	}
	return m
}

// TestFileJudges: the sign of a margin is the decision of the file by itself, alone and in a batch, and next to a
// gradient.
func TestFileJudges(t *testing.T) {
	const n = 300
	other := 0 // decisions of the copy
	for _, s := range filesServed() {
		t.Run(s.name, func(t *testing.T) {
			m := s.model()
			c := open(t, m, s.o)
			file := must.Get(ort.Open(m, orttest.Need(t)))(t)
			defer file.Close() //nolint:errcheck // nothing was written
			x := normals(7, 3*n)
			margins := must.Get(c.Margins(t.Context(), x))(t)
			again, grads, err := c.MarginGrads(t.Context(), x)
			must.Do(t, err)
			for i, m := range again {
				must.Near(t, margins[i], m, 1e-6)
			}
			must.Has(t, c.Rounding(), "differ by up to ")
			inFloat := c.With(c.Graph())
			defer inFloat.Close() //nolint:errcheck // nothing was written
			copied := must.Get(inFloat.Margins(t.Context(), x))(t)
			for i := range n {
				row := graph.FromNumbers("x", s.outside, x[3*i:3*i+3], 1, 3)
				got := must.Get(file.RunInto(t.Context(), []*graph.Tensor{row}, c.FileRoom(1)))(t)
				said := s.decides(must.Get(got[0].Numbers())(t))
				if said != (margins[i] > 0) || slices.Max(grads) == 0 {
					t.Fatalf("row %d: the margin is %v, and the file approves: %v", i, margins[i], said)
				}
				if said != (copied[i] > 0) {
					other++
				}
			}
		})
	}
	if other < 100 {
		t.Errorf("the copy decides %d rows otherwise", other)
	}
}

// TestFileBehind: rows pass the step in front of a file, and fill its batch.
func TestFileBehind(t *testing.T) {
	s := filesServed()[3]
	m := s.model()
	x := normals(8, 3*8)
	want := must.Get(open(t, m, s.o).Margins(t.Context(), x))(t)
	m = m.Clone()
	m.Graph.Inputs[0].Shape[0] = graph.Dim{Size: 5}
	fixed := must.Get(onnxio.FromGraph(t.Context(), m, orttest.Need(t)))(t)
	front := onnxio.NewFront(3, 3)
	for i := range 3 {
		front.Matrix[4*i] = 2
	}
	c := must.Get(New(must.Get(fixed.WithInputTransform(front))(t), s.o))(t)
	defer c.Close() //nolint:errcheck // nothing was written
	for i := range x {
		x[i] /= 2
	}
	must.Same(t, want, must.Get(c.Margins(t.Context(), x))(t))
}

package autodiff_test

import (
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func gradientAt(t *testing.T, rt ort.Options, s sample, x ...float64) (gx, second []float64) {
	t.Helper()
	dtype := graph.Double
	if s.single {
		dtype = graph.Float
	}
	b := newBench(t, rt, dtype, s.opset, 1)
	s.in[0].values = x
	vars, outs := b.add(s)
	b.like("v", outs[0])
	for i := range b.in["v"] {
		b.in["v"][i] = float64(i + 1)
	}
	g := b.grads(outs[0], vars[:1], autodiff.Options{Seed: "v"})
	h := b.grads(g[0], vars[:1], autodiff.Options{})
	out := b.open(g[0], h[0]).run()
	return out[g[0]], out[h[0]]
}

func TestConventions(t *testing.T) {
	rt := orttest.Need(t)
	k := func(v ...float64) operand {
		return operand{constant: graph.FromNumbers("", graph.Double, v, int64(len(v)))}
	}
	point := func(v float64) operand { return operand{constant: graph.FromNumbers("", graph.Double, []float64{v})} }
	for _, c := range []struct {
		s    sample
		x    []float64
		want []float64 // with the seed 1, 2, 3, ...
	}{
		{sample{op: "Relu", in: []operand{in("3")}}, []float64{-1, 0, 1}, []float64{0, 0, 3}},
		{
			sample{op: "LeakyRelu", in: []operand{in("2")}, attrs: []graph.Attr{graph.FloatAttr("alpha", 0.5)}},
			[]float64{0, 1},
			[]float64{0.5, 2},
		},
		{sample{op: "Abs", in: []operand{in("3")}}, []float64{-1, 0, 1}, []float64{-1, 0, 3}},
		{sample{op: "Sqrt", in: []operand{in("2")}}, []float64{0, 4}, []float64{0, 0.5}},
		{sample{op: "Pow", in: []operand{in("2"), point(0.5)}}, []float64{0, 4}, []float64{0, 0.5}},
		{sample{op: "Pow", in: []operand{in("2"), point(2)}}, []float64{0, -3}, []float64{0, -12}},
		{sample{op: "Pow", in: []operand{in("2"), point(3)}}, []float64{0, -1}, []float64{0, 6}},
		{sample{op: "Pow", in: []operand{in("3"), k(0, 0.5, 2)}}, []float64{0, 0, 0}, []float64{0, 0, 0}},
		{sample{op: "Clip", in: []operand{in("4"), point(-1), point(1)}}, []float64{-1, 1, 1.5, 0}, []float64{1, 2, 0, 4}},
		{sample{op: "Max", in: []operand{in("3"), k(0, 0, 0)}}, []float64{-1, 0, 1}, []float64{0, 2, 3}},
		{sample{op: "Min", in: []operand{in("3"), k(0, 0, 0)}}, []float64{-1, 0, 1}, []float64{1, 2, 0}},
		{sample{op: "ReduceMax", in: []operand{in("4")}}, []float64{5, 1, 5, 0}, []float64{0.5, 0, 0.5, 0}},
		{sample{op: "ReduceL2", in: []operand{in("2 2"), ints(1)}}, []float64{0, 0, 3, 4}, []float64{0, 0, 1.2, 1.6}},
		{sample{op: "ReduceL1", in: []operand{in("3")}}, []float64{0, -2, 2}, []float64{0, -1, 1}},
		// Windows that overlap add up; of equal elements the first takes all, in each window.
		{
			sample{op: "MaxPool", note: "overlap", in: []operand{in("1 1 4")}, attrs: spatial("kernel_shape=2")},
			[]float64{0, 2, 1, 1},
			[]float64{0, 3, 3, 0},
		},
		{
			sample{op: "MaxPool", note: "ties", in: []operand{in("1 1 2 2")}, attrs: spatial("kernel_shape=2,2")},
			[]float64{0, 1, 1, 1},
			[]float64{0, 1, 0, 0},
		},
		{
			sample{op: "GlobalMaxPool", in: []operand{in("1 1 4")}, single: true},
			[]float64{5, 1, 5, 0},
			[]float64{0.5, 0, 0.5, 0},
		},
	} {
		t.Run(c.s.name(), func(t *testing.T) {
			got, second := gradientAt(t, rt, c.s, c.x...)
			near(t, "gradient", got, c.want, 1e-12)
			finite(t, second)
		})
	}
}

func finite(t *testing.T, v []float64) {
	t.Helper()
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Errorf("not finite: %v", v)
			return
		}
	}
}

func TestExtremes(t *testing.T) {
	rt := orttest.Need(t)
	for _, c := range []struct {
		op   string
		x    []float64
		want []float64
	}{
		{"Sigmoid", []float64{-1000, 1000, 0}, []float64{0, 0, 0.75}},
		{"Tanh", []float64{-1000, 1000, 0}, []float64{0, 0, 3}},
		{"Softplus", []float64{-1000, 1000, 0}, []float64{0, 2, 1.5}},
		{"Elu", []float64{-1000, 1000, 2}, []float64{0, 2, 3}},
		{"Softmax", []float64{1000, -1000, 0}, []float64{0, 0, 0}},
		{"LogSoftmax", []float64{1000, -1000, 0}, []float64{-5, 2, 3}},
		{"ReduceLogSumExp", []float64{1000, 1000, -1000}, []float64{0.5, 0.5, 0}},
	} {
		t.Run(c.op, func(t *testing.T) {
			got, second := gradientAt(t, rt, sample{op: c.op, in: []operand{in("3")}}, c.x...)
			near(t, "gradient", got, c.want, 1e-12)
			finite(t, second)
		})
	}
}

func TestSingle(t *testing.T) {
	rt := orttest.Need(t)
	x := []float64{-1.5, -0.25, 0.5, 2}
	phi := func(v float64) float64 { return math.Exp(-v*v/2) / math.Sqrt(2*math.Pi) }
	for _, c := range []struct {
		s sample
		f func(v float64) float64
	}{
		{sample{op: "Erf"}, func(v float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-v*v) }},
		{sample{op: "Gelu", opset: 20}, func(v float64) float64 { return (1+math.Erf(v/math.Sqrt2))/2 + v*phi(v) }},
	} {
		t.Run(c.s.op, func(t *testing.T) {
			c.s.in, c.s.single = []operand{in("4")}, true
			got, _ := gradientAt(t, rt, c.s, x...)
			want := make([]float64, len(x))
			for i, v := range x {
				want[i] = float64(i+1) * c.f(v)
			}
			near(t, "gradient", got, want, 1e-6)
		})
	}
}

func TestExpand(t *testing.T) {
	rt := orttest.Need(t)
	composite := map[string]bool{}
	for _, op := range autodiff.Operators() {
		composite[op.Name] = op.Kind == autodiff.Composite
	}
	for _, s := range samples() {
		if !composite[s.op] {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			b := newBench(t, rt, graph.Float, s.opset, 3)
			vars, used := b.add(s)
			outs := slices.Clone(b.g.Nodes[0].Outputs)
			want := b.open(outs...).run()
			y := outs[0]
			if len(used) > 1 {
				y = b.join(used)
			}
			b.grads(y, vars[:1], autodiff.Options{})
			got := b.open(outs...).run()
			for _, n := range b.g.Nodes {
				if composite[n.Op] {
					t.Errorf("%s is still there", n.Label())
				}
			}
			for _, o := range outs {
				near(t, o, got[o], want[o], 2e-6)
			}
		})
	}
}

func TestInferShapes(t *testing.T) {
	b := newBench(t, ort.Options{}, graph.Float, 18, 3)
	b.input("x", in("N 2 3"))
	nb := graph.NewBuilder(b.g, "")
	shape := nb.Op("Shape", []string{"x"})
	zero, axes := nb.Const(graph.FromInts("zero", []int64{0})), nb.Const(graph.FromInts("axes", []int64{0}, 1))
	rows := nb.Op("Unsqueeze", []string{nb.Op("Gather", []string{shape, zero}), axes})
	rest := nb.Op("Constant", nil, graph.IntsAttr("value_ints", -1))
	to := nb.Op("Concat", []string{rows, rest}, graph.IntAttr("axis", 0))
	flat := nb.Op("Reshape", []string{"x", to})
	sum := nb.Op("ReduceSum", []string{flat, nb.Const(graph.FromInts("last", []int64{-1}, 1))},
		graph.IntAttr("keepdims", 0))
	old := nb.Op("Squeeze", []string{nb.Op("Unsqueeze", []string{flat}, graph.IntsAttr("axes", 1, 3))},
		graph.IntsAttr("axes", 1))
	number := func(v int64) string { return nb.Const(graph.FromInts("n", []int64{v}, 1)) }
	columns := nb.Op("Slice", []string{shape, number(2), number(9)}) // 3
	for _, step := range []struct {
		op string
		by int64
	}{{"Mul", 8}, {"Sub", 3}, {"Add", 9}, {"Div", 4}, {"Mod", 4}, {"Mul", 2}, {"Mul", 1}} {
		columns = nb.Op(step.op, []string{columns, number(step.by)}) // ends with 6
	}
	counted := nb.Op("Reshape", []string{"x", nb.Op("Concat", []string{rows, columns}, graph.IntAttr("axis", 0))})
	must.Do(t, autodiff.Infer(b.g, b.types))
	for v, want := range map[string]string{
		counted: "float[N,6]", flat: "float[N,6]", sum: "float[N]", old: "float[N,6,1]", to: "int64[2]",
	} {
		if got := b.types[v].String(); got != want {
			t.Errorf("%s is %s, want %s", v, got, want)
		}
	}
	gx := b.grads(sum, []string{"x"}, autodiff.Options{})
	if got := b.types[gx[0]].String(); got != "float[N,2,3]" {
		t.Errorf("the gradient is %s", got)
	}
}

func TestTies(t *testing.T) {
	b := newBench(t, orttest.Need(t), graph.Double, 18, 1)
	x := in("2")
	x.values = []float64{1, 1}
	vars, outs := b.add(sample{op: "Max", in: []operand{x, x, x}})
	g := b.grads(outs[0], vars, autodiff.Options{})
	out := b.open(g...).run()
	near(t, "first", out[g[0]], []float64{1, 1}, 0)
	near(t, "second", out[g[1]], []float64{0, 0}, 0)
	near(t, "third", out[g[2]], []float64{0, 0}, 0)
}

package autodiff_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// TestConventions states what the gradient is where the derivative does not exist or the function saturates, and that
// the gradient of the gradient is a number there. Operators that ONNX Runtime has in float only are held against closed
// forms, closer than differences in float can.
func TestConventions(t *testing.T) {
	rt := orttest.Need(t)
	erf := func(v float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-v*v) }
	gelu := func(v float64) float64 { return (1+math.Erf(v/math.Sqrt2))/2 + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi) }
	for _, c := range []struct {
		s    sample
		want []float64 // with the seed 1, 2, 3, ...
	}{
		{use("Relu", "3 :-1 :0 :1", ""), []float64{0, 0, 3}},
		{use("LeakyRelu", "2 :0 :1", "alpha=0.5"), []float64{0.5, 2}},
		{use("Abs", "3 :-1 :0 :1", ""), []float64{-1, 0, 3}},
		{use("Sqrt", "2 :0 :4", ""), []float64{0, 0.5}},
		{use("Pow", "2 :0 :4; =0.5", ""), []float64{0, 0.5}},
		{use("Pow", "2 :0 :-3; =2", ""), []float64{0, -12}},
		{use("Pow", "2 :0 :-1; =3", ""), []float64{0, 6}},
		{use("Pow", "3 :0 :0 :0; 3=0 0.5 2", ""), []float64{0, 0, 0}},
		{use("Clip", "4 :-1 :1 :1.5 :0; =-1; =1", ""), []float64{1, 2, 0, 4}},
		{use("Max", "3 :-1 :0 :1; 3=0 0 0", ""), []float64{0, 2, 3}},
		{use("Min", "3 :-1 :0 :1; 3=0 0 0", ""), []float64{1, 2, 0}},
		{use("ReduceMax", "4 :5 :1 :5 :0", ""), []float64{0.5, 0, 0.5, 0}},
		{use("ReduceL2", "2 2 :0 :0 :3 :4; [1]", ""), []float64{0, 0, 1.2, 1.6}},
		{use("ReduceL1", "3 :0 :-2 :2", ""), []float64{0, -1, 1}},
		// Windows that overlap add up; of equal elements the first takes all, in each window.
		{use("MaxPool", "1 1 4 :0 :2 :1 :1", "kernel_shape=2"), []float64{0, 3, 3, 0}},
		{use("MaxPool", "1 1 2 2 :0 :1 :1 :1", "kernel_shape=2,2"), []float64{0, 1, 0, 0}},
		{use("GlobalMaxPool", "1 1 4 :5 :1 :5 :0", "").inFloat(), []float64{0.5, 0, 0.5, 0}},
		{use("Sigmoid", "3 :-1000 :1000 :0", ""), []float64{0, 0, 0.75}},
		{use("Tanh", "3 :-1000 :1000 :0", ""), []float64{0, 0, 3}},
		{use("Softplus", "3 :-1000 :1000 :0", ""), []float64{0, 2, 1.5}},
		{use("Elu", "3 :-1000 :1000 :2", ""), []float64{0, 2, 3}},
		{use("Softmax", "3 :1000 :-1000 :0", ""), []float64{0, 0, 0}},
		{use("LogSoftmax", "3 :1000 :-1000 :0", ""), []float64{-5, 2, 3}},
		{use("ReduceLogSumExp", "3 :1000 :1000 :-1000", ""), []float64{0.5, 0.5, 0}},
		{use("Erf", "3 :-1.5 :-0.25 :2", "").inFloat(), []float64{erf(-1.5), 2 * erf(-0.25), 3 * erf(2)}},
		{use("Gelu", "3 :-1.5 :-0.25 :2", "").inFloat().since(20), []float64{gelu(-1.5), 2 * gelu(-0.25), 3 * gelu(2)}},
	} {
		t.Run(c.s.name(), func(t *testing.T) {
			dtype, tol := graph.Double, 1e-12
			if c.s.single {
				dtype, tol = graph.Float, 1e-6
			}
			b := newBench(t, rt, dtype, c.s.opset, 1)
			vars, outs := b.add(c.s)
			b.like("v", outs[0])
			for i := range b.in["v"] {
				b.in["v"][i] = float64(i + 1)
			}
			g := b.grads(outs[0], vars[:1], autodiff.Options{Seed: "v"})
			h := b.grads(g[0], vars[:1], autodiff.Options{})
			out := b.open(g[0], h[0]).run()
			near(t, "gradient", out[g[0]], c.want, tol)
			if second := out[h[0]]; slices.ContainsFunc(second, func(x float64) bool { return math.IsNaN(x - x) }) {
				t.Errorf("the gradient of the gradient is %v", second)
			}
		})
	}
}

// TestExpand: the simpler operators that a composite is differentiated as compute what ONNX Runtime's own kernel does,
// under the same names.
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
			vars, outs := b.add(s)
			want := b.open(outs...).run()
			b.grads(outs[0], vars[:1], autodiff.Options{})
			got := b.open(outs...).run()
			for _, n := range b.g.Nodes {
				if composite[n.Op] {
					t.Errorf("%s is still there", n.Label())
				}
			}
			near(t, outs[0], got[outs[0]], want[outs[0]], 2e-6)
		})
	}
}

func TestInferShapes(t *testing.T) {
	b := newBench(t, ort.Options{}, graph.Float, 18, 3)
	b.input("x", in("N 2 3"))
	nb := graph.NewBuilder(b.g, "")
	shape := nb.Op("Shape", []string{"x"})
	ints := func(v ...int64) string { return nb.Const(graph.FromInts("n", v, int64(len(v)))) }
	zero := nb.Const(graph.FromInts("zero", []int64{0}))
	rows := nb.Op("Unsqueeze", []string{nb.Op("Gather", []string{shape, zero}), ints(0)})
	rest := nb.Op("Constant", nil, graph.IntsAttr("value_ints", -1))
	to := nb.Op("Concat", []string{rows, rest}, graph.IntAttr("axis", 0))
	flat := nb.Op("Reshape", []string{"x", to})
	sum := nb.Op("ReduceSum", []string{flat, ints(-1)}, graph.IntAttr("keepdims", 0))
	old := nb.Op("Squeeze", []string{nb.Op("Unsqueeze", []string{flat}, graph.IntsAttr("axes", 1, 3))},
		graph.IntsAttr("axes", 1))
	columns := nb.Op("Slice", []string{shape, ints(2), ints(9)}) // 3
	for _, step := range []struct {
		op string
		by int64
	}{{"Mul", 8}, {"Sub", 3}, {"Add", 9}, {"Div", 4}, {"Mod", 4}, {"Mul", 2}, {"Mul", 1}} {
		columns = nb.Op(step.op, []string{columns, ints(step.by)}) // ends with 6
	}
	counted := nb.Op("Reshape", []string{"x", nb.Op("Concat", []string{rows, columns}, graph.IntAttr("axis", 0))})
	must.Do(t, autodiff.Infer(b.g, b.types))
	gx := b.grads(sum, []string{"x"}, autodiff.Options{})
	for v, want := range map[string]string{
		counted: "float[N,6]", flat: "float[N,6]", sum: "float[N]", old: "float[N,6,1]", to: "int64[2]",
		gx[0]: "float[N,2,3]",
	} {
		must.Same(t, want, b.types[v].String())
	}
}

// TestTies: of three equal inputs the first takes the whole gradient.
func TestTies(t *testing.T) {
	b := newBench(t, orttest.Need(t), graph.Double, 18, 1)
	vars, outs := b.add(use("Max", "2 :1 :1; 2 :1 :1; 2 :1 :1", ""))
	g := b.grads(outs[0], vars, autodiff.Options{})
	out := b.open(g...).run()
	for i, want := range [][]float64{{1, 1}, {0, 0}, {0, 0}} {
		near(t, vars[i], out[g[i]], want, 0)
	}
}

// TestWindowErrors: what cannot be differentiated is refused, with the node and the reason.
func TestWindowErrors(t *testing.T) {
	for _, c := range []struct {
		op, operands, attrs string
		y                   string // shape of the result, where it cannot be inferred
		want                string
	}{
		{"Conv", "N 1 H 4; 2 1 3 3", "", "N 2 H 2", "size of axis 2 of the image"},
		{"Conv", "N 1 4 4; 2 1 3 3", "auto_pad=SAME", "N 2 4 4", "auto_pad SAME"},
		{"Conv", "N 1 2 4; 2 1 3 3", "", "N 2 1 2", "does not fit"},
		{"Conv", "N 3 4 4; 2 1 3 3", "group=2", "N 2 2 2", "2 groups of the image"},
		{"Conv", "N 3 4 4; 2 3 3 3", "strides=1", "N 2 2 2", "strides [1] for 2 spatial axes"},
		{"Conv", "N 3 4 4; 2 3 3 3", "strides=0,1", "N 2 2 2", "strides [0 1]"},
		{"Conv", "N 3; 2 3", "", "N 2", "an image double[N,3]"},
		{"ConvTranspose", "N 1 2; 1 2 2", "strides=2 auto_pad=SAME_UPPER", "N 2 4", "write pads and output_padding"},
		{"ConvTranspose", "N 1 2; 1 2 2", "output_shape=4", "N 2 4", "write pads and output_padding"},
		{"ConvTranspose", "N 1 1; 1 2 2", "pads=1,1", "N 2 0", "nothing is left"},
		{"AveragePool", "N 1 5", "kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1", "", "ceil_mode adds a window"},
		{"AveragePool", "N 1 2", "", "N 1 1", "kernel_shape is missing"},
		{"AveragePool", "1 1 2000000", "kernel_shape=2000000", "", "too large"},
		{"Dropout", "N 3; _; ?1", "", "", "training mode"},
		{"BatchNormalization", "N 3; 3; 3; 3; 3", "training_mode=1", "", "training mode"},
		{"Concat", "N 3; N 3", "axis=0", "", "axis 0 is not constant"},
		{"Mul", "N 3; M 3", "", "N 3", "not known"},
		{"Gather", "N 3; [2 0 3]", "axis=1", "", "index 3 into axis 1"},
	} {
		t.Run(c.op+" "+c.operands+" "+c.attrs, func(t *testing.T) {
			b := newBench(t, ort.Options{}, graph.Double, 19, 2)
			if c.y != "" {
				b.types["y0"] = graph.Type{DType: graph.Double, Shape: shapeOf(c.y)}
			}
			vars, outs := b.add(use(c.op, c.operands, c.attrs))
			before := dump(b.g)
			_, err := autodiff.Gradients(b.g, b.types, outs[0], vars, autodiff.Options{})
			if err == nil || !strings.Contains(err.Error(), c.op+` node "node"`) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want it to name the node and say %q", err, c.want)
			}
			must.Same(t, before, dump(b.g))
		})
	}
}

// Where nothing strides, the gradient of a Conv whose kernel is stored is a Conv, of the same numbers.
func TestStoredKernel(t *testing.T) {
	for _, c := range []struct {
		x, w  string
		convs int
		attrs []graph.Attr
	}{
		{"N 3 7 6", "5 3 3 3", 3, attrs(list("pads", 1, 1, 1, 1))},
		{"N 4 7 6", "4 1 3 3", 3, attrs(number("group", 4), list("dilations", 2, 1))},
		{"N 4 7 6", "6 2 2 3", 3, attrs(number("group", 2), list("pads", 0, 1, 1, 2))},
		{"N 6 7", "3 6 1", 3, nil},
		{"N 3 7 6", "5 3 1 2", 2, attrs(list("pads", 1, 0, 0, 0))}, // nothing but padding is read there
		{"N 3 7 6", "3 3 3 3", 2, attrs(list("pads", 1, 1, 1, 1), list("strides", 2, 2))},
	} {
		b := newBench(t, orttest.Need(t), graph.Float, 18, 2)
		b.input("x", in(c.x))
		b.input("w", in(c.w))
		nb := graph.NewBuilder(b.g, "")
		stored := nb.Const(graph.FromNumbers("stored", b.dtype, b.in["w"], b.dims(shapeOf(c.w))...))
		y, z := nb.Op("Conv", []string{"x", "w"}, c.attrs...), nb.Op("Conv", []string{"x", stored}, c.attrs...)
		must.Do(t, autodiff.Infer(b.g, b.types))
		want := b.grads(y, []string{"x"}, autodiff.Options{})[0]
		got := b.grads(z, []string{"x"}, autodiff.Options{})[0]
		must.Same(t, c.convs, strings.Count(dump(b.g), " = Conv("))
		out := b.open(want, got).run()
		near(t, c.x+", "+c.w, out[got], out[want], 1e-5)
	}
}

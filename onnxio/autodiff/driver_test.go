package autodiff_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// build makes a bench with the float inputs that are given as "name: shape" and lets f add nodes.
func build(t *testing.T, rt ort.Options, f func(nb *graph.Builder) string, inputs ...string) (*bench, string) {
	t.Helper()
	b := newBench(t, rt, graph.Double, 18, 2)
	for _, s := range inputs {
		name, shape, _ := strings.Cut(s, ":")
		b.input(name, in(shape))
	}
	y := f(graph.NewBuilder(b.g, ""))
	_ = autodiff.Infer(b.g, b.types) // what it cannot infer is the point of some tests
	return b, y
}

func TestFanOut(t *testing.T) {
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		sq := nb.Op("Mul", []string{"x", "x"})
		cube := nb.Op("Mul", []string{sq, "x"})
		return nb.Op("Sum", []string{"x", sq, cube, nb.Op("Sub", []string{cube, "x"})})
	}, "x:N 2")
	b.like("v", y)
	b.check(y, "v", []string{"x"}, b.grads(y, []string{"x"}, autodiff.Options{Seed: "v"}), false)
}

func TestNames(t *testing.T) {
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		return nb.Op("Add", []string{"a", nb.Op("Mul", []string{"b", "k"})})
	}, "a:N 2", "b:N 2", "k:N 2", "c:N 3", "d:4")
	wrt := []string{"a", "b", "c", "d", y, "a", "k"}
	got := b.grads(y, wrt, autodiff.Options{Prefix: "p/"})
	for i, g := range got {
		if slices.Contains(got[:i], g) || !strings.HasPrefix(g, "p/") {
			t.Errorf("the gradient by %s is called %s, of %v", wrt[i], g, got)
		}
		if have, want := b.types[g].String(), b.types[wrt[i]].String(); have != want {
			t.Errorf("the gradient by %s is %s, not %s", wrt[i], have, want)
		}
	}
	out := b.open(got...).run()
	ones := []float64{1, 1, 1, 1}
	for i, want := range [][]float64{ones, b.in["k"], {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0}, ones, ones, b.in["b"]} {
		near(t, wrt[i], out[got[i]], want, 0)
	}
}

// ONNX Runtime infers no size of a seed of ones, and looks for memory of unknown sizes in quadratic time.
func TestDeclared(t *testing.T) {
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		return nb.Op("Relu", []string{nb.Op("Mul", []string{"x", "x"})})
	}, "x:N 2")
	before := b.g.Producers()
	b.grads(y, []string{"x"}, autodiff.Options{})
	declared := map[string]string{}
	for _, v := range b.g.Values {
		declared[v.Name] = graph.Type{DType: v.DType, Shape: v.Shape}.String()
	}
	for name := range b.g.Producers() {
		if before[name] == nil {
			must.Same(t, b.types[name].String(), declared[name])
		}
	}
}

func TestOnes(t *testing.T) {
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		return nb.Op("ReduceSum", []string{nb.Op("Exp", []string{"x"}), nb.Const(graph.FromInts("axes", []int64{1}, 1))},
			graph.IntAttr("keepdims", 0))
	}, "x:N 3")
	got := b.grads(y, []string{"x"}, autodiff.Options{})
	if strings.Contains(dump(b.g), "Mul(") {
		t.Errorf("there is a Mul:\n%s", dump(b.g))
	}
	out := b.open(got[0], "exp").run()
	near(t, "gradient", out[got[0]], out["exp"], 0)
}

func TestIntermediate(t *testing.T) {
	var h string
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		h = nb.Op("Exp", []string{"x"})
		return nb.Op("Mul", []string{h, nb.Op("Tanh", []string{h})})
	}, "x:N 2")
	got := b.grads(y, []string{"x", h}, autodiff.Options{})
	out := b.open(got[0], got[1], h).run()
	want := make([]float64, 4)
	for i := range want {
		want[i] = out[got[1]][i] * out[h][i]
	}
	near(t, "chain", out[got[0]], want, 1e-12)
}

func TestPolicy(t *testing.T) {
	b, y := build(t, orttest.Need(t), func(nb *graph.Builder) string {
		return nb.Op("Mul", []string{nb.Op("Round", []string{nb.Op("Mul", []string{"x", "s"})}), "s"})
	}, "x:N 2", "s:2")
	through := func(c *autodiff.Call, _ int) string { return c.Grad() }
	if n := autodiff.Stop(b.g, b.types, y, "x", nil); n == nil || n.Op != "Round" {
		t.Errorf("the gradient stops at %v", n)
	}
	if n := autodiff.Stop(b.g, b.types, y, "x", map[string]autodiff.Rule{"Round": through}); n != nil {
		t.Errorf("the gradient stops at %v in spite of the policy", n)
	}
	if n := autodiff.Stop(b.g, b.types, y, "s", nil); n != nil { // which is also a factor
		t.Errorf("the gradient by s stops at %v", n)
	}
	plain := b.grads(y, []string{"x"}, autodiff.Options{})
	ste := b.grads(y, []string{"x"}, autodiff.Options{Policy: map[string]autodiff.Rule{"Round": through}})
	out := b.open(plain[0], ste[0]).run()
	s := b.in["s"]
	near(t, "zero", out[plain[0]], []float64{0, 0, 0, 0}, 0)
	near(t, "straight", out[ste[0]], []float64{s[0] * s[0], s[1] * s[1], s[0] * s[0], s[1] * s[1]}, 1e-15)

	b, y = build(t, ort.Options{}, func(nb *graph.Builder) string {
		nb.Append(&graph.Node{Op: "Fake", Domain: "test", Inputs: []string{"x"}, Outputs: []string{"f"}})
		return nb.Op("Neg", []string{"f"})
	}, "x:N 2")
	b.types["f"], b.types[y] = b.types["x"], b.types["x"]
	must.Fail(t, must.Err(autodiff.Gradients(b.g, b.types, y, []string{"x"}, autodiff.Options{})), "Fake node")
	b.grads(y, []string{"x"}, autodiff.Options{Policy: map[string]autodiff.Rule{"test.Fake": through}})
}

// network is the loss of a classifier with batch normalization: a number for any number of rows.
func network(nb *graph.Builder, act string) string {
	z := nb.Op("Gemm", []string{"x", "w0", "b0"}, graph.IntAttr("transB", 1))
	z = nb.Op("BatchNormalization", []string{z, "scale", "shift", "mean", "var"})
	z = nb.Op("Add", []string{nb.Op("MatMul", []string{nb.Op(act, []string{z}), "w1"}), "b1"})
	return nb.Op("ReduceMean", []string{nb.Op("Mul", []string{nb.Op("LogSoftmax", []string{z}), "target"})},
		graph.IntAttr("keepdims", 0))
}

func networkInputs() []string {
	return []string{"x:N 3", "w0:4 3", "b0:4", "scale:4", "shift:4", "mean:4", "var:4", "w1:4 2", "b1:2", "target:N 2"}
}

// TestNetwork differentiates by the input and by every weight, twice.
func TestNetwork(t *testing.T) {
	rt := orttest.Need(t)
	for _, act := range []string{"Relu", "Tanh"} {
		b, loss := build(t, rt, func(nb *graph.Builder) string { return network(nb, act) }, networkInputs()...)
		for i, v := range b.in["var"] {
			b.in["var"][i] = 0.5 + v*v
		}
		b.like("v", loss)
		var wrt []string
		for _, v := range b.g.Inputs[:10] {
			wrt = append(wrt, v.Name)
		}
		b.check(loss, "v", wrt, b.grads(loss, wrt, autodiff.Options{Seed: "v"}), false)
	}
}

func TestDeterministic(t *testing.T) {
	var first string
	for range 5 {
		b, loss := build(t, ort.Options{}, func(nb *graph.Builder) string { return network(nb, "Relu") }, networkInputs()...)
		b.grads(loss, []string{"w0", "x", "b1", "w1", "b0"}, autodiff.Options{})
		before := dump(b.g)
		b.grads(loss, []string{"x"}, autodiff.Options{})
		text := dump(b.g)
		if first == "" {
			first = text
		}
		must.Same(t, first, text)
		for _, line := range strings.Split(strings.TrimSpace(before), "\n") {
			must.Has(t, text, line+"\n")
		}
	}
}

func TestErrors(t *testing.T) {
	add := func(ops ...string) func(nb *graph.Builder) string {
		return func(nb *graph.Builder) string {
			nb.Op("NotOnThePath", []string{"x"})
			var parts []string
			for _, op := range ops {
				parts = append(parts, nb.Op(op, []string{"x", "s", "s", "s", "s"}, graph.IntAttr("training_mode", 1)))
			}
			return nb.Op("Sum", parts)
		}
	}
	for _, c := range []struct {
		f         func(nb *graph.Builder) string
		wrt, seed string
		want      []string
	}{
		{add("Foo", "Bar"), "x", "", []string{"no gradient rule for Foo", `Foo node "n_Foo"`, `Bar node "n_Bar"`}},
		{add("BatchNormalization", "Foo"), "x", "", []string{"Foo node"}},
		{add("BatchNormalization", "BatchNormalization"), "x", "", []string{
			`BatchNormalization node "n_BatchNormalization"`, `BatchNormalization node "n_BatchNormalization_1"`,
		}},
		{func(nb *graph.Builder) string {
			return nb.Op("Cast", []string{"x"}, graph.IntAttr("to", int64(graph.Int64)))
		}, "x", "", []string{"int64[N,3]", "floating-point"}},
		{func(*graph.Builder) string { return "nothing" }, "x", "", []string{`"nothing"`, "not known"}},
		{func(*graph.Builder) string { return "s" }, "z", "", []string{`variable "z"`, "not known"}},
		{func(*graph.Builder) string { return "x" }, "x", "s", []string{`seed "s" is double[3]`, "double[N,3]"}},
		{func(nb *graph.Builder) string {
			from := nb.Op("Cast", []string{"s"}, graph.IntAttr("to", int64(graph.Int64)))
			return nb.Op("Slice", []string{"x", from, from})
		}, "x", "", []string{"Slice node", "not known"}},
	} {
		b, y := build(t, ort.Options{}, c.f, "x:N 3", "s:3")
		before, types := dump(b.g), maps.Clone(b.types)
		_, err := autodiff.Gradients(b.g, b.types, y, []string{c.wrt}, autodiff.Options{Seed: c.seed})
		must.Fail(must.In(t, c.want), err, "")
		lines := strings.Split(strings.TrimPrefix(err.Error(), "autodiff: "), "\n")
		if slices.Sort(lines); len(slices.Compact(slices.Clone(lines))) < len(lines) {
			t.Errorf("twice the same: %v", err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "NotOnThePath") {
				t.Errorf("error %v, want it to say %q and nothing of what is not on the path", err, want)
			}
		}
		if dump(b.g) != before || len(types) != len(b.types) {
			t.Error("the graph or the types are changed")
		}
	}
}

func TestMissing(t *testing.T) {
	known := map[string]bool{}
	for _, op := range autodiff.Operators() {
		known[op.Name] = true
	}
	_, page, _ := strings.Cut(autodiff.Markdown(), "## Refused by name")
	for _, c := range []struct{ domain, op, want string }{
		{"", "Compress", "mask"},
		{"", "NonZero", "mask"},
		{"", "Unique", "mask"},
		{"", "GridSample", "in front of the model"},
		{"", "RoiAlign", "in front of the model"},
		{"", "Det", "in front of the model"},
		{"", "Col2Im", "ConvTranspose"},
		{"", "MaxUnpool", "ConvTranspose"},
		{"com.microsoft", "Attention", "without its optimizer"},
		{"com.microsoft.nchwc", "Conv", "without its optimizer"},
	} {
		n := &graph.Node{Name: "here", Op: c.op, Domain: c.domain, Inputs: []string{"x"}, Outputs: []string{"y"}}
		g := &graph.Graph{Nodes: []*graph.Node{n}}
		float := graph.Type{DType: graph.Float, Shape: graph.Fixed(2, 3)}
		_, err := autodiff.Gradients(g, graph.Types{"x": float, "y": float}, "y", []string{"x"}, autodiff.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.op+` node "here"`) {
			t.Errorf("%s: %v", c.op, err)
		}
		if c.domain == "" && (known[c.op] || !strings.Contains(page, c.op)) {
			t.Errorf("%s has a rule, or is not on the page of operators", c.op)
		}
	}
}

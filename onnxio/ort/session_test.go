package ort_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func rows(sizes ...int64) graph.Shape {
	return append(graph.Shape{{Size: -1, Param: "N"}}, graph.Fixed(sizes...)...)
}

func value(name string, t graph.DType, s graph.Shape) graph.Value {
	return graph.Value{Name: name, DType: t, Shape: s}
}

func build(in, out []graph.Value, fill func(b *graph.Builder)) *graph.Model {
	g := &graph.Graph{Name: "test", Inputs: in, Outputs: out}
	fill(graph.NewBuilder(g, "t_"))
	return &graph.Model{IRVersion: 9, Opsets: []graph.Opset{{Version: 18}}, Graph: g}
}

func node(op string, inputs []string, outputs ...string) *graph.Node {
	return &graph.Node{Op: op, Inputs: inputs, Outputs: outputs}
}

func open(t *testing.T, m *graph.Model, o ort.Options) *ort.Session {
	t.Helper()
	s := must.Get(ort.Open(m, o))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

func sumAndDifference(in graph.Shape) *graph.Model {
	values := func(names ...string) (out []graph.Value) {
		for _, n := range names {
			out = append(out, value(n, graph.Float, in))
		}
		return out
	}
	return build(values("a", "b"), values("sum", "difference"), func(b *graph.Builder) {
		b.Append(node("Add", []string{"a", "b"}, "sum"))
		b.Append(node("Sub", []string{"a", "b"}, "difference"))
	})
}

func TestUnloaded(t *testing.T) {
	o := orttest.Need(t)
	for name, c := range map[string]struct {
		change func(m *graph.Model)
		want   string
	}{
		"IR":        {func(m *graph.Model) { m.IRVersion = 99 }, "IR version 99, and this ONNX Runtime reads"},
		"new":       {func(m *graph.Model) { m.Opsets[0].Version = 99 }, "operator set 99 of ai.onnx, and this ONNX"},
		"old":       {func(m *graph.Model) { m.Opsets[0].Version = 6 }, "operator set 6, and ONNX Runtime has operators"},
		"undefined": {func(m *graph.Model) { m.Graph.Nodes[0].Op = "Plus" }, "Plus"},
	} {
		m := sumAndDifference(rows(2))
		c.change(m)
		_, err := ort.Open(m, o)
		var why *ort.Unloaded
		if known := errors.As(err, &why); known != (name != "undefined") || err == nil ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "onnxruntime_src") {
			t.Errorf("%s: %v", name, err)
		}
		if why != nil && why.Instead == "" {
			t.Errorf("%s: %q does not say what to do", name, why)
		}
	}
}

func TestRunNamesInputsAndOutputs(t *testing.T) {
	s := open(t, sumAndDifference(rows(2)), orttest.Need(t))
	a := graph.FromFloats("a", []float32{1, 2, 3, 4}, 2, 2)
	b := graph.FromFloats("b", []float32{10, 20, 30, 40}, 2, 2)
	sum := graph.FromFloats("sum", []float32{11, 22, 33, 44}, 2, 2)
	diff := graph.FromFloats("difference", []float32{-9, -18, -27, -36}, 2, 2)
	for _, c := range []struct {
		ask  []string
		want []*graph.Tensor
	}{
		{nil, []*graph.Tensor{sum, diff}},
		{[]string{"difference"}, []*graph.Tensor{diff}},
		{[]string{"difference", "sum", "difference"}, []*graph.Tensor{diff, sum, diff}},
	} {
		// The order of the inputs must not matter.
		got := must.Get(s.Run(t.Context(), []*graph.Tensor{b, a}, c.ask...))(t)
		must.Same(t, c.want, got)
	}
}

func TestRunInto(t *testing.T) {
	s := open(t, sumAndDifference(graph.Shape{{Size: -1}}), orttest.Need(t))
	sum := make([]float32, 2)
	for _, k := range []float32{1, 10} {
		in := []*graph.Tensor{graph.FromFloats("a", []float32{k, 2}, 2), graph.FromFloats("b", []float32{5, 6}, 2)}
		got := must.Get(s.RunInto(t.Context(), in, []*graph.Tensor{ort.ViewFloats("", sum, 2), nil}))(t)
		into, err := ort.FloatsOf(got[0])
		if err != nil || &into[0] != &sum[0] || !slices.Equal(sum, []float32{k + 5, 8}) {
			t.Errorf("the sum is %v in other memory than %v, %v", into, sum, err)
		}
		must.Same(t, graph.FromFloats("difference", []float32{k - 5, -4}, 2), got[1])
	}
	short := []*graph.Tensor{ort.ViewFloats("", sum[:1], 1)}
	in := []*graph.Tensor{graph.FromFloats("a", sum, 2), graph.FromFloats("b", sum, 2)}
	must.Fail(t, must.Err(s.RunInto(t.Context(), in, short)), "")
}

func TestRunRefusesWrongInputs(t *testing.T) {
	s := open(t, sumAndDifference(rows(2)), orttest.Need(t))
	good := func(name string) *graph.Tensor { return graph.FromFloats(name, []float32{1, 2}, 1, 2) }
	of := func(name string, dims ...int64) *graph.Tensor {
		return graph.FromFloats(name, make([]float32, graph.FromInts("", nil, dims...).Len()), dims...)
	}
	short := good("b")
	short.Raw = short.Raw[:7]
	a, b := good("a"), good("b")
	for _, c := range []struct {
		in   []*graph.Tensor
		ask  []string
		want []string
	}{
		{[]*graph.Tensor{a}, nil, []string{`inputs are ["a" "b"], not ["a"]`}},
		{[]*graph.Tensor{a, good("c")}, nil, []string{`inputs are ["a" "b"], not ["a" "c"]`}},
		{[]*graph.Tensor{a, b, a}, nil, []string{`inputs are ["a" "b"], not ["a" "b" "a"]`}},
		{[]*graph.Tensor{a, of("b", 1, 3)}, nil, []string{"invalid dimensions for input: b"}},
		{[]*graph.Tensor{a, of("b", 2)}, nil, []string{"Invalid rank for input: b"}},
		{[]*graph.Tensor{a, graph.FromInts("b", []int64{1, 2}, 1, 2)}, nil, []string{"Unexpected input data type"}},
		{[]*graph.Tensor{a, short}, nil, []string{`input "b"`, "7 bytes"}},
		{[]*graph.Tensor{a, b}, []string{"product"}, []string{`no output "product"`, `["sum" "difference"]`}},
	} {
		_, err := s.Run(t.Context(), c.in, c.ask...)
		for _, w := range c.want {
			must.Fail(t, err, w)
		}
	}
}

func TestElementTypes(t *testing.T) {
	o := orttest.Need(t)
	for _, dt := range []graph.DType{
		graph.Float, graph.Double, graph.Int8, graph.Uint8, graph.Int16, graph.Uint16,
		graph.Int32, graph.Uint32, graph.Int64, graph.Uint64, graph.Bool,
	} {
		for _, dims := range [][]int64{{2, 3}, {}, {0, 3}} {
			in := &graph.Tensor{Name: "x", DType: dt, Dims: dims}
			in.Raw = make([]byte, dt.RawSize(in.Len()))
			for i := range in.Raw {
				in.Raw[i] = byte(i) // no NaN, which need not survive a copy bit for bit
				if dt == graph.Bool {
					in.Raw[i] = byte(i % 2)
				}
			}
			shape := graph.Fixed(dims...)
			m := build([]graph.Value{value("x", dt, shape)}, []graph.Value{value("y", dt, shape)}, func(b *graph.Builder) {
				b.Append(node("Identity", []string{"x"}, "y"))
			})
			got, err := open(t, m, o).Run(t.Context(), []*graph.Tensor{in})
			if err != nil {
				t.Errorf("%s%v: %v", dt, dims, err)
				continue
			}
			want := *in
			want.Name = "y"
			must.Same(must.In(t, dt, dims), &want, got[0])
		}
	}
}

func TestMisalignedInput(t *testing.T) {
	s := open(t, sumAndDifference(rows(2)), orttest.Need(t))
	a := graph.FromFloats("a", []float32{1, 2}, 1, 2)
	a.Raw = append([]byte{99}, a.Raw...)[1:]
	got := must.Get(s.Run(t.Context(), []*graph.Tensor{a, graph.FromFloats("b", []float32{5, 6}, 1, 2)}, "sum"))(t)
	must.Same(t, graph.FromFloats("sum", []float32{6, 8}, 1, 2), got[0])
}

func TestUndeclaredScalars(t *testing.T) {
	o := orttest.Need(t)
	in := []graph.Value{value("x", graph.Float, rows(2))}
	out := []graph.Value{{Name: "double"}, {Name: "total"}, {Name: "negative"}, {Name: "count"}}
	m := build(in, out, func(b *graph.Builder) {
		b.Append(node("Add", []string{"x", "x"}, "double"))
		b.Append(&graph.Node{
			Op: "ReduceSum", Inputs: []string{"x"}, Outputs: []string{"total"},
			Attrs: []graph.Attr{graph.IntAttr("keepdims", 0)},
		})
		b.Append(node("Neg", []string{"x"}, "negative"))
		b.Append(node("Size", []string{"x"}, "count"))
	})
	unknown, expected := open(t, m, o), open(t, m, o)
	expected.Expect(graph.Types{"total": {DType: graph.Float, Shape: graph.Shape{}}, "double": {DType: graph.Float}})
	for _, s := range []*ort.Session{unknown, unknown, expected} {
		got := must.Get(s.Run(t.Context(), []*graph.Tensor{graph.FromFloats("x", []float32{1, 2, 3, 4}, 2, 2)}))(t)
		want := []*graph.Tensor{
			graph.FromFloats("double", []float32{2, 4, 6, 8}, 2, 2),
			graph.FromFloats("total", []float32{10}, []int64{}...),
			graph.FromFloats("negative", []float32{-1, -2, -3, -4}, 2, 2),
			graph.FromInts("count", []int64{4}, []int64{}...),
		}
		must.Same(t, want, got)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	o := orttest.Need(t)
	in, out := []graph.Value{value("x", graph.Float, rows(2))}, []graph.Value{value("y", graph.Undefined, nil)}
	double := []graph.Value{value("x", graph.Double, rows(2))}
	for _, c := range []struct {
		op, want string
		in       []graph.Value
		o        ort.Options
	}{
		{op: "Frobnicate", in: in, o: o, want: "Frobnicate"},
		{op: "Acosh", in: double, o: o, want: `input "x" is double: export the model with float inputs`},
		{op: "Neg", o: o, want: "0 inputs"},
	} {
		m := build(c.in, out, func(b *graph.Builder) { b.Append(node(c.op, []string{"x"}, "y")) })
		must.Fail(t, must.Err(ort.Open(m, c.o)), c.want)
	}
	must.Fail(t, must.Err(ort.OpenBytes([]byte("no model"), o)), "")
}

func TestHalf(t *testing.T) {
	m := build([]graph.Value{value("x", graph.Float, rows(2))}, []graph.Value{{Name: "y"}}, func(b *graph.Builder) {
		n := node("Cast", []string{"x"}, "y")
		n.Attrs = []graph.Attr{graph.IntAttr("to", int64(graph.Float16))}
		b.Append(n)
	})
	_, err := open(t, m, orttest.Need(t)).Run(t.Context(), []*graph.Tensor{graph.FromFloats("x", []float32{1, 2}, 1, 2)})
	must.Fail(t, err, `output "y" holds 16-bit floats`)
}

func TestSelfTest(t *testing.T) {
	o := orttest.Need(t)
	for level := ort.All; level <= ort.Disabled; level++ {
		o.Level = level
		must.Do(must.In(t, level), ort.SelfTest(t.Context(), o))
	}
	o.Threads = 2
	must.Do(t, ort.SelfTest(t.Context(), o))
}

func TestOptimized(t *testing.T) {
	o := orttest.Need(t)
	onnx := ort.SelfTestModel()
	for _, c := range []struct {
		level   ort.Level
		op, not string
	}{
		{ort.All, "QGemm", "Gemm"},
		{ort.Disabled, "Gemm", "QGemm"},
	} {
		o.Level = c.level
		m, err := ort.Optimized(onnx, o)
		if err != nil {
			t.Errorf("%s: %v", c.level, err)
			continue
		}
		has := func(op string) bool {
			return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == op })
		}
		if !has(c.op) || has(c.not) {
			var ops []string
			for _, n := range m.Graph.Nodes {
				ops = append(ops, n.Op)
			}
			t.Errorf("%s: the graph holds %v", c.level, ops)
		}
	}
}

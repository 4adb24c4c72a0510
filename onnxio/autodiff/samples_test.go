package autodiff_test

import (
	"slices"

	"cfq/onnxio/graph"
)

func samples() []sample {
	return slices.Concat(arithmeticSamples(), activationSamples(), selectionSamples(), linearSamples(), convSamples(),
		poolSamples(), reduceSamples(), shapeSamples(), indexSamples(), normSamples(), moreNormSamples(),
		trigonometrySamples(), moreSamples(), productSamples(), resizeSamples(), scatterSamples())
}

func unary(op string, o operand, single bool, attrs ...graph.Attr) []sample {
	var out []sample
	for _, shape := range []string{"", "N 3"} {
		o.shape = shape
		out = append(out, sample{op: op, in: []operand{o}, single: single, attrs: attrs})
	}
	return out
}

func binary(op string, a, b operand) []sample {
	var out []sample
	patterns := [][2]string{{"N 3", "3"}, {"", "N 2"}, {"2 1 2", "1 3 1"}}
	if op == "Add" {
		patterns = append(patterns, [][2]string{
			{"2 3", "2 3"}, {"3", "N 3"}, {"N 3", "N 1"}, {"N 1", "1 3"}, {"N 2", ""}, {"2 1 3", "4 1"}, {"1 1", "2 2"},
		}...)
	}
	for _, p := range patterns {
		a.shape, b.shape = p[0], p[1]
		out = append(out, sample{op: op, in: []operand{a, b}})
	}
	return out
}

func arithmeticSamples() []sample {
	positive := in("").within(0.3, 2)
	out := slices.Concat(
		binary("Add", in(""), in("")), binary("Sub", in(""), in("")), binary("Mul", in(""), in("")),
		binary("Div", in(""), positive), binary("Pow", positive, in("")),
		unary("Neg", in(""), false), unary("Abs", in("").avoid(0), false), unary("Reciprocal", positive, false),
		unary("Exp", in(""), false), unary("Log", positive, false), unary("Sqrt", positive, false),
		unary("Erf", in(""), true),
	)
	for _, p := range []float64{0, 1, 2, 3, 0.5, -1, 2.5} {
		k := operand{constant: graph.FromNumbers("", graph.Double, []float64{p})}
		out = append(out, sample{op: "Pow", note: k.note(), in: []operand{positive.of("N 3"), k}})
	}
	whole := operand{constant: graph.FromNumbers("", graph.Double, []float64{2, 3, 1}, 3)}
	return append(out,
		sample{op: "Pow", note: "negative base", in: []operand{in("2 3").within(-2, -0.3), whole}},
		sample{op: "Pow", note: "integer exponent", in: []operand{in("2 3"), ints(2, 3, 1)}},
		sample{op: "Sum", in: []operand{in("N 3"), in("3"), in("N 1")}},
		sample{op: "Sum", in: []operand{in("2")}},
	)
}

func (o operand) of(shape string) operand { o.shape = shape; return o }

func (o operand) note() string {
	return contents(o.constant)
}

func activationSamples() []sample {
	kink := in("").avoid(0)
	out := slices.Concat(
		unary("Relu", kink, false), unary("Sigmoid", in(""), false), unary("Tanh", in(""), false),
		unary("LeakyRelu", kink, false), unary("LeakyRelu", kink, false, graph.FloatAttr("alpha", -0.3)),
		unary("Softplus", in(""), false),
		unary("Elu", kink, false, graph.FloatAttr("alpha", 0.7)), unary("Selu", kink, false),
		unary("HardSigmoid", in("").within(-4, 4).avoid(-2.5, 2.5), false),
		unary("HardSwish", in("").within(-5, 5).avoid(-3, 3), false),
		unary("Mish", in(""), false),
		softmaxSamples(),
	)
	for _, slope := range []string{"N 3", "3", "1"} {
		out = append(out, sample{op: "PRelu", in: []operand{kink.of("N 3"), in(slope)}})
	}
	for _, form := range []string{"none", "tanh"} {
		out = append(out, sample{
			op: "Gelu", note: form, in: []operand{in("N 3")}, opset: 20, single: form == "none",
			attrs: []graph.Attr{graph.StringAttr("approximate", form)},
		})
	}
	return out
}

func softmaxSamples() []sample {
	var out []sample
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		out = append(out,
			sample{op: op, in: []operand{in("N 4")}},
			sample{op: op, note: "axis 1", in: []operand{in("2 3 2")}, attrs: []graph.Attr{graph.IntAttr("axis", 1)}},
			sample{op: op, note: "axis 0", in: []operand{in("3 2")}, attrs: []graph.Attr{graph.IntAttr("axis", 0)}},
			sample{op: op, in: []operand{in("3")}},
		)
	}
	return out
}

func selectionSamples() []sample {
	out := slices.Concat(binary("Max", in(""), in("").within(-2.03, 1.97)), binary("Min", in(""), in("")))
	for _, op := range []string{"Max", "Min"} {
		out = append(out,
			sample{op: op, note: "three", in: []operand{in("N 3"), in("3"), in("N 1")}},
			sample{op: op, note: "one", in: []operand{in("2")}},
		)
	}
	lo, hi := in("").within(-1, -0.8), in("").within(0.8, 1)
	x := in("N 4").avoid(-0.9, 0.9)
	x.values = []float64{-1.5, 0.2, 1.7, 0.5}
	return append(out,
		sample{op: "Clip", in: []operand{x, lo, hi}},
		sample{op: "Clip", note: "min", in: []operand{x, lo}},
		sample{op: "Clip", note: "max", in: []operand{x, absent(), hi}},
		sample{op: "Clip", note: "none", in: []operand{x}},
		sample{op: "Where", in: []operand{mask([]byte{1, 0, 1}, 3), in("N 3"), in("N 1")}},
		sample{op: "Where", note: "mask wider", in: []operand{mask([]byte{1, 0, 1, 0, 0, 1}, 2, 3), in("3"), in("")}},
	)
}

func linearSamples() []sample {
	var out []sample
	for _, ta := range []int64{0, 1} {
		for _, tb := range []int64{0, 1} {
			biases := []string{"1 4"}
			if ta+tb == 0 {
				biases = []string{"2 4", "4", "1 4", "2 1", "1", ""}
			}
			for _, c := range biases {
				a, b := "2 3", "3 4"
				if ta == 1 {
					a = "3 2"
				}
				if tb == 1 {
					b = "4 3"
				}
				attrs := []graph.Attr{graph.IntAttr("transA", ta), graph.IntAttr("transB", tb)}
				if c != "4" {
					attrs = append(attrs, graph.FloatAttr("alpha", 0.5), graph.FloatAttr("beta", -1.5))
				}
				out = append(out, sample{
					op: "Gemm", note: attributes(&graph.Node{Attrs: attrs}),
					in: []operand{in(a), in(b), in(c)}, attrs: attrs,
				})
			}
		}
	}
	out = append(out,
		sample{op: "Gemm", in: []operand{in("N 3"), in("3 2")}},
		sample{op: "Gemm", in: []operand{in("N 3"), in("3 2"), in("2")}},
	)
	for _, p := range [][2]string{
		{"N 3", "3 2"},
		{"3", "3"},
		{"3", "3 2"},
		{"N 3", "3"},
		{"N 2 3", "3 4"},
		{"N 2 3", "3"},
		{"3", "2 3 4"},
		{"2 2 3", "2 3 2"},
		{"1 2 3", "N 3 2"},
		{"2 1 2 3", "3 3 2"},
		{"2 3", "N 3 2"},
		{"N 3 2 2", "2 1"},
	} {
		out = append(out, sample{op: "MatMul", in: []operand{in(p[0]), in(p[1])}})
	}
	return out
}

func normSamples() []sample {
	vec, pos := in("3"), in("3").within(0.3, 2)
	norm := func(shape string) []operand { return []operand{in(shape), vec, vec, vec, pos} }
	return []sample{
		{op: "BatchNormalization", in: norm("N 3")},
		{op: "BatchNormalization", in: norm("2 3 2"), attrs: []graph.Attr{graph.FloatAttr("epsilon", 0.01)}},
		{op: "LayerNormalization", in: []operand{in("N 3"), vec, vec}},
		{op: "LayerNormalization", note: "no bias", in: []operand{in("2 2 3"), vec}},
		{
			op: "LayerNormalization", note: "two axes", in: []operand{in("N 2 2"), in("2 2"), in("2 2")},
			attrs: []graph.Attr{graph.IntAttr("axis", 1)},
		},
	}
}

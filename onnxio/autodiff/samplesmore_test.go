package autodiff_test

import (
	"slices"

	"cfq/onnxio/graph"
)

func attrs(a ...graph.Attr) []graph.Attr { return a }

func number(name string, v int64) graph.Attr  { return graph.IntAttr(name, v) }
func real(name string, v float32) graph.Attr  { return graph.FloatAttr(name, v) }
func word(name, v string) graph.Attr          { return graph.StringAttr(name, v) }
func list(name string, v ...int64) graph.Attr { return graph.IntsAttr(name, v...) }
func table(dims []int64, v ...int64) operand {
	return operand{constant: graph.FromInts("", v, dims...)}
}

func reals(v ...float32) operand { return operand{constant: graph.FromFloats("", v, int64(len(v)))} }

func doubles(v []float64, dims ...int64) operand {
	return operand{constant: graph.FromNumbers("", graph.Double, v, dims...)}
}

func trigonometrySamples() []sample {
	inside, above := in("").within(-0.6, 0.6), in("").within(1.5, 3)
	return slices.Concat(
		unary("Sin", in(""), false), unary("Cos", in(""), true), unary("Tan", in("").within(-1, 1), true),
		unary("Asin", inside, true), unary("Acos", inside, true), unary("Atan", in(""), true),
		unary("Sinh", in(""), true), unary("Cosh", in(""), true), unary("Asinh", in(""), true),
		unary("Acosh", above, true), unary("Atanh", inside, true),
	)
}

func moreSamples() []sample {
	kinks := func(k ...float64) operand { return in("").avoid(k...) }
	return slices.Concat(
		unary("Softsign", kinks(0), false), unary("Celu", kinks(0), false, real("alpha", 0.6)),
		unary("ThresholdedRelu", kinks(0.5), false, real("alpha", 0.5)),
		unary("Shrink", kinks(-0.4, 0.4), false, real("lambd", 0.4), real("bias", 0.1)),
		[]sample{
			{op: "Swish", in: []operand{in("N 3")}, opset: 24, attrs: attrs(real("alpha", 0.7))},
			{op: "Mean", in: []operand{in("N 3"), in("3"), in("N 1")}},
			{
				op: "Mod", in: []operand{in("3").having(1.7, -0.9, 0.4), in("3").having(0.5, 0.7, -0.3)},
				attrs: attrs(number("fmod", 1)),
			},
		})
}

func (o operand) having(v ...float64) operand { o.values = v; return o }

func productSamples() []sample {
	einsum := func(equation string, shapes ...string) sample {
		s := sample{op: "Einsum", note: equation, attrs: attrs(word("equation", equation))}
		for _, shape := range shapes {
			s.in = append(s.in, in(shape))
		}
		return s
	}
	heads := attrs(number("q_num_heads", 4), number("kv_num_heads", 2))
	return []sample{
		einsum("nh,hk->nk", "N 3", "3 2"), einsum("abc,cde->abde", "N 2 3", "3 2 2"),
		einsum("aecd,abcd->acbe", "N 2 2 3", "N 3 2 3"), einsum("...i,ij", "N 2 3", "3 2"),
		einsum("ij,jk,k->i", "2 3", "3 2", "2"),
		einsum("ij->", "2 3"), einsum("ab,b->ab", "N 3", "3"), einsum("i,j->ji", "2", "3"), einsum("bi,bi->b", "N 3", "N 3"),
		{op: "Attention", opset: 23, in: []operand{in("N 2 3 4"), in("N 2 2 4"), in("N 2 2 3")}},
		{
			op: "Attention", note: "mask", opset: 23, attrs: append(heads, real("scale", 0.3)),
			in: []operand{in("N 3 8"), in("N 2 6").of("N 2 4"), in("N 2 6"), in("3 2")},
		},
		{
			op: "Attention", note: "causal", opset: 23, attrs: attrs(number("is_causal", 1)),
			in: []operand{in("N 1 3 2"), in("N 1 3 2"), in("N 1 3 2")},
		},
		{op: "RotaryEmbedding", opset: 23, in: []operand{in("2 2 3 4"), in("2 3 2"), in("2 3 2")}},
		{
			op: "RotaryEmbedding", note: "interleaved", opset: 23,
			attrs: attrs(number("interleaved", 1), number("num_heads", 2), number("rotary_embedding_dim", 4)),
			in:    []operand{in("2 3 12"), in("5 2"), in("5 2"), table([]int64{2, 3}, 0, 1, 2, 4, 3, 2)},
		},
	}
}

func resizeSamples() []sample {
	scales := reals(1, 1, 2, 1.5)
	pool := func(note string, attrs ...graph.Attr) sample {
		return sample{
			op: "LpPool", note: note, in: []operand{in("N 2 4 3").avoid(0)}, single: true,
			attrs: append(attrs, list("kernel_shape", 2, 2), list("strides", 2, 1)),
		}
	}
	return []sample{
		{op: "Resize", note: "nearest", in: []operand{in("N 1 2 3"), absent(), scales}},
		{op: "Resize", note: "linear", in: []operand{in("N 1 2 3"), absent(), scales}, attrs: attrs(word("mode", "linear"))},
		{
			op: "Resize", note: "sizes", in: []operand{in("2 1 4 4"), absent(), absent(), ints(2, 1, 3, 6)},
			attrs: attrs(word("mode", "cubic"), word("coordinate_transformation_mode", "align_corners")),
		},
		{op: "DepthToSpace", in: []operand{in("N 8 1 2")}, attrs: attrs(number("blocksize", 2))},
		{
			op: "DepthToSpace", note: "CRD", in: []operand{in("N 4 2 1")},
			attrs: attrs(number("blocksize", 2), word("mode", "CRD")),
		},
		{op: "SpaceToDepth", in: []operand{in("N 2 2 4")}, attrs: attrs(number("blocksize", 2))},
		pool(""), pool("p 3", number("p", 3)),
		{op: "GlobalLpPool", in: []operand{in("N 2 2 3").avoid(0)}, attrs: attrs(number("p", 3))},
		{op: "GlobalLpPool", note: "2", in: []operand{in("N 2 3")}},
	}
}

func scatterSamples() []sample {
	add := word("reduction", "add")
	places := table([]int64{2, 2}, 0, 1, 1, -1)
	number := func(v float64) operand { return doubles([]float64{v}) }
	return []sample{
		{
			op: "ScatterElements", note: "add", in: []operand{in("2 3"), table([]int64{2, 2}, 0, 2, 2, 2), in("2 2")},
			attrs: attrs(graph.IntAttr("axis", 1), add),
		},
		{op: "ScatterElements", in: []operand{in("2 3"), table([]int64{1, 2}, 1, 0), in("1 2")}},
		{op: "ScatterND", in: []operand{in("2 3 2"), places, in("2 2")}},
		{
			op: "ScatterND", note: "add", in: []operand{in("2 3 2"), table([]int64{2, 1}, 1, 1), in("2 3 2")},
			attrs: attrs(add),
		},
		{op: "GatherND", in: []operand{in("2 3 2"), places}},
		{
			op: "GatherND", note: "batch", in: []operand{in("2 3 2"), table([]int64{2, 2, 1}, 0, -1, 1, 1)},
			attrs: attrs(graph.IntAttr("batch_dims", 1)),
		},
		{op: "TopK", in: []operand{in("2 5").steps(10), ints(2)}, outs: 2, use: []int{0}},
		{
			op: "TopK", note: "smallest", in: []operand{in("4 2").steps(8), ints(3)}, outs: 2, use: []int{0},
			attrs: attrs(graph.IntAttr("axis", 0), graph.IntAttr("largest", 0)),
		},
		{op: "CumSum", in: []operand{in("N 3"), index(1)}},
		{
			op: "CumSum", note: "reverse", in: []operand{in("N 3"), index(-1)},
			attrs: attrs(graph.IntAttr("reverse", 1), graph.IntAttr("exclusive", 1)),
		},
		{op: "ReverseSequence", in: []operand{in("4 3"), ints(1, 4, 2)}},
		{op: "Trilu", in: []operand{in("N 3 3")}},
		{op: "Trilu", note: "lower", in: []operand{in("2 4"), index(1)}, attrs: attrs(graph.IntAttr("upper", 0))},
		{op: "OneHot", in: []operand{ints(1, 0, 2), index(4), in("2")}, single: true, grid: grid},
		{op: "Range", in: []operand{in("").having(0.3), number(2), in("").having(0.5)}},
		{op: "CastLike", in: []operand{in("N 3"), number(1)}},
		{op: "ReduceProd", in: []operand{in("2 3"), ints(1)}, opset: 18},
		{
			op: "ReduceProd", note: "of zeros", in: []operand{in("2 5").having(0, 1, 2, 0, 3, 1, 2, 0, 2, 1)},
			attrs: attrs(graph.IntAttr("keepdims", 0)),
		},
		{op: "Pad", note: "edge", in: []operand{in("N 3"), ints(0, 1, 0, 2)}, attrs: attrs(word("mode", "edge"))},
		{op: "Pad", note: "reflect", in: []operand{in("2 3"), ints(1, 2, 0, 2)}, attrs: attrs(word("mode", "reflect"))},
		{op: "Pad", note: "value", in: []operand{in("N 3"), ints(0, -1, 0, 2), in("")}},
	}
}

func moreNormSamples() []sample {
	vec := in("4")
	return []sample{
		{op: "RMSNormalization", in: []operand{in("N 4"), vec}, opset: 23},
		{op: "InstanceNormalization", in: []operand{in("N 4 2 2"), vec, vec}},
		{op: "GroupNormalization", in: []operand{in("N 4 3"), vec, vec}, opset: 21, attrs: attrs(number("num_groups", 2))},
		{op: "MeanVarianceNormalization", in: []operand{in("2 3 2 2")}},
		{op: "MeanVarianceNormalization", note: "axes", in: []operand{in("N 3 2")}, attrs: attrs(list("axes", 1, -1))},
		{op: "LpNormalization", in: []operand{in("N 4")}},
		{
			op: "LpNormalization", note: "p 1", in: []operand{in("3 2").avoid(0)},
			attrs: attrs(number("p", 1), number("axis", 0)),
		},
		{
			op: "LRN", in: []operand{in("N 4 2 1")},
			attrs: attrs(number("size", 3), real("alpha", 0.5), real("beta", 0.6), real("bias", 0.8)),
		},
	}
}

package autodiff_test

import (
	"slices"
	"strconv"
	"strings"

	"cfq/onnxio/graph"
)

// use is a sample of an operator. Operands are separated by semicolons:
//
//	N 3 @0.3~2 !1     a variable of that shape, from 0.3 to 2 and not near 1; "*" is a scalar
//	2 5 ^10           one with 10 different values, none within half a unit of another
//	3 :1.7 :-0.9 :0   one with these values; "float" as a further word makes it float
//	[1 2] 2x2[0 1 1 2] <1>   integers: a vector, a matrix, a scalar
//	=0.5 3=1 2 3 ~1 2 3?1 0 1   doubles, floats and booleans alike
//	_                 nothing
//
// Attributes are name=value.
func use(op, operands, attributes string) sample {
	s := sample{op: op, note: attributes, attrs: parseAttributes(attributes)}
	for _, text := range strings.Split(operands, ";") {
		o := parseOperand(strings.TrimSpace(text))
		if s.in = append(s.in, o); o.constant != nil {
			s.note += " " + strings.TrimSpace(text)
		}
	}
	return s
}

func (s sample) since(opset int64) sample { s.opset = opset; return s }

func (s sample) inFloat() sample { s.single = true; return s }

// exact is in float, on a grid on which only averages round.
func (s sample) exact(rounds bool) sample { s.single, s.grid, s.rounds = true, grid, rounds; return s }

func (s sample) outputs(n int, used ...int) sample { s.outs, s.use = n, used; return s }

// ONNX Runtime convolves in float only. The operands lie on a grid, so that sums of products are exact all the same.
const grid = 1. / 8

func parseOperand(text string) operand {
	if text == "_" {
		return absent()
	}
	if i := strings.IndexAny(text, "[<=~?"); i >= 0 && !strings.Contains(text, "@") {
		return parseConstant(text[:i], text[i], strings.Trim(text[i+1:], "]>"))
	}
	o := in("")
	var shape []string
	for _, f := range strings.Fields(text) {
		switch f[0] {
		case '*':
		case '@':
			lo, hi, _ := strings.Cut(f[1:], "~")
			o = o.within(real64(lo), real64(hi))
		case '!':
			o.away = append(o.away, real64(f[1:]))
		case ':':
			o.values = append(o.values, real64(f[1:]))
		case '^':
			n := int(real64(f[1:]))
			for i := range n {
				o.values = append(o.values, float64(i*7%n)/2)
			}
		case 'f':
			o.dtype = graph.Float
		default:
			shape = append(shape, f)
		}
	}
	o.shape = strings.Join(shape, " ")
	return o
}

func parseConstant(shape string, kind byte, values string) operand {
	var v []float64
	for _, f := range strings.Fields(values) {
		v = append(v, real64(f))
	}
	var dims []int64
	if shape != "" {
		for _, d := range strings.Split(shape, "x") {
			dims = append(dims, int64(real64(d)))
		}
	} else if kind == '[' || kind == '~' {
		dims = []int64{int64(len(v))}
	}
	types := map[byte]graph.DType{
		'[': graph.Int64, '<': graph.Int64, '=': graph.Double, '~': graph.Float, '?': graph.Bool,
	}
	return operand{constant: graph.FromValues("", types[kind], v, dims...)}
}

func parseAttributes(text string) (out []graph.Attr) {
	lists := []string{"axes", "dilations", "kernel_shape", "output_padding", "output_shape", "pads", "perm", "strides"}
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		if slices.Contains(lists, name) {
			var v []int64
			for _, s := range strings.Split(value, ",") {
				v = append(v, int64(real64(s)))
			}
			out = append(out, list(name, v...))
		} else if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			out = append(out, number(name, n))
		} else if x, err := strconv.ParseFloat(value, 32); err == nil {
			out = append(out, real(name, float32(x)))
		} else {
			out = append(out, word(name, value))
		}
	}
	return out
}

func real64(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// samples lists uses of every operator that has a rule.
func samples() []sample {
	return slices.Concat(functionSamples(), elementwiseSamples(), productSamples(), imageSamples(), reduceSamples(),
		shapeSamples(), indexSamples(), normSamples())
}

func functionSamples() (out []sample) {
	add := func(single bool, options, attrs string, ops ...string) {
		for _, op := range ops {
			for _, shape := range []string{"* ", "N 3 "} {
				s := use(op, shape+options, attrs)
				s.single = single
				out = append(out, s)
			}
		}
	}
	add(false, "", "", "Neg", "Exp", "Sigmoid", "Tanh", "Softplus", "Mish", "Sin", "Identity")
	add(false, "@0.3~2", "", "Reciprocal", "Log", "Sqrt")
	add(false, "!0", "", "Abs", "Relu", "LeakyRelu", "Selu", "Softsign")
	add(true, "", "", "Erf", "Cos", "Atan", "Sinh", "Cosh", "Asinh")
	add(true, "@-0.6~0.6", "", "Asin", "Acos", "Atanh", "Tan")
	add(true, "@1.5~3", "", "Acosh")
	add(true, "!0", "", "Relu") // by another operator than in double
	add(false, "!0", "alpha=-0.3", "LeakyRelu")
	add(false, "!0", "alpha=0.6", "Elu", "Celu")
	add(false, "!0", "alpha=0.5 gamma=0.7", "Selu")
	add(false, "@-4~4 !-2.5 !2.5", "", "HardSigmoid")
	add(false, "@-4~4 !-0.6 !1.4", "alpha=0.5 beta=0.3", "HardSigmoid")
	add(false, "@-5~5 !-3 !3", "", "HardSwish")
	add(false, "!-0.5", "alpha=-0.5", "ThresholdedRelu")
	add(false, "!-0.4 !0.4", "lambd=0.4 bias=0.1", "Shrink")
	return append(out, use("Gelu", "N 3", "approximate=none").since(20).inFloat(),
		use("Gelu", "N 3", "approximate=tanh").since(20), use("Swish", "N 3", "alpha=-1.5").since(24))
}

func elementwiseSamples() (out []sample) {
	patterns := [][2]string{
		{"N 3", "3"},
		{"*", "N 2"},
		{"2 1 2", "1 3 1"},
		{"2 3", "2 3"},
		{"3", "N 3"},
		{"N 3", "N 1"},
		{"N 1", "1 3"},
		{"N 2", "*"},
		{"2 1 3", "4 1"},
		{"1 1", "2 2"},
	}
	for _, c := range [][3]string{
		{"Add"}, {"Sub"}, {"Mul"}, {"Div", "", "@0.3~2"}, {"Pow", "@0.3~2"}, {"Max", "", "@-2.03~1.97"}, {"Min"},
	} {
		for i, p := range patterns {
			if i < 3 || c[0] == "Add" { // the driver sums up alike
				out = append(out, use(c[0], p[0]+" "+c[1]+";"+p[1]+" "+c[2], ""))
			}
		}
	}
	for _, p := range []string{"0", "1", "2", "3", "0.5", "-1", "2.5"} {
		out = append(out, use("Pow", "N 3 @0.3~2; ="+p, ""))
	}
	for _, slope := range []string{"N 3", "3", "1"} {
		out = append(out, use("PRelu", "N 3 !0; "+slope, ""))
	}
	for _, op := range []string{"Sum", "Mean", "Max", "Min"} {
		out = append(out, use(op, "N 3; 3; N 1", ""), use(op, "2", ""))
	}
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		out = append(out, use(op, "N 4", ""), use(op, "2 3 2", "axis=1"), use(op, "3 2", "axis=0"), use(op, "3", ""))
	}
	return append(out, use("Pow", "2 3 @-2~-0.3; 3=2 3 1", ""), use("Pow", "2 3; [2 3 1]", ""), use("Mod",
		"3 :1.7 :-0.9 :0.4; 3 :0.5 :0.7 :-0.3", "fmod=1"), use("Clip", "N 4 !-0.9 !0.9; * @-1~-0.8; * @0.8~1", ""),
		use("Clip", "N 4 !-0.9; * @-1~-0.8", ""), use("Clip", "N 4 !0.9; _; * @0.8~1", ""), use("Clip", "N 4", ""),
		use("Where", "3?1 0 1; N 3; N 1", ""), use("Where", "2x3?1 0 1 0 0 1; 3; *", ""))
}

func productSamples() []sample {
	return []sample{
		use("Gemm", "2 3; 3 4; 4", ""), use("Gemm", "3 2; 4 3; 1 4", "transA=1 transB=1 alpha=0.5 beta=-1.5"),
		use("Gemm", "2 3; 4 3; 2 1", "transB=1 alpha=0.5 beta=-1.5"), use("Gemm", "3 2; 3 4; *", "transA=1 alpha=0.5"),
		use("Gemm", "N 3; 3 2", ""), use("Gemm", "N 3; 3 2; 2", ""),
		use("MatMul", "N 3; 3 2", ""), use("MatMul", "3; 3", ""), use("MatMul", "3; 3 2", ""), use("MatMul", "N 3; 3", ""),
		use("MatMul", "N 2 3; 3 4", ""), use("MatMul", "3; 2 3 4", ""), use("MatMul", "1 2 3; N 3 2", ""),
		use("MatMul", "2 1 2 3; 3 3 2", ""), use("MatMul", "N 3 2 2; 2 1", ""),
		use("Einsum", "N 3; 3 2", "equation=nh,hk->nk"), use("Einsum", "N 2 3; 3 2 2", "equation=abc,cde->abde"),
		use("Einsum", "N 2 2 3; N 3 2 3", "equation=aecd,abcd->acbe"), use("Einsum", "N 2 3; 3 2", "equation=...i,ij"),
		use("Einsum", "2 3; 3 2; 2", "equation=ij,jk,k->i"), use("Einsum", "2 3", "equation=ij->"),
		use("Einsum", "N 3; 3", "equation=ab,b->ab"), use("Einsum", "2; 3", "equation=i,j->ji"),
		use("Attention", "N 2 3 4; N 2 2 4; N 2 2 3", "").since(23),
		use("Attention", "N 3 8; N 2 4; N 2 6; 3 2", "q_num_heads=4 kv_num_heads=2 scale=0.3").since(23),
		use("Attention", "N 1 3 2; N 1 3 2; N 1 3 2", "is_causal=1").since(23),
		use("RotaryEmbedding", "2 2 3 4; 2 3 2; 2 3 2", "").since(23),
		use("RotaryEmbedding", "2 3 12; 5 2; 5 2; 2x3[0 1 2 4 3 2]",
			"interleaved=1 num_heads=2 rotary_embedding_dim=4").since(23),
	}
}

func imageSamples() []sample {
	out := []sample{
		use("LpPool", "N 2 4 3 !0", "kernel_shape=2,2 strides=2,1").inFloat(),
		use("LpPool", "N 2 4 3 !0", "p=3 kernel_shape=2,2 strides=2,1").inFloat(),
		use("GlobalLpPool", "N 2 2 3 !0", "p=3"), use("GlobalLpPool", "N 2 3", ""),
		use("Resize", "N 1 2 3; _; ~1 1 2 1.5", ""), use("Resize", "N 1 2 3; _; ~1 1 2 1.5", "mode=linear"),
		use("Resize", "2 1 4 4; _; _; [2 1 3 6]", "mode=cubic coordinate_transformation_mode=align_corners"),
		use("DepthToSpace", "N 8 1 2", "blocksize=2"), use("DepthToSpace", "N 4 2 1", "blocksize=2 mode=CRD"),
		use("SpaceToDepth", "N 2 2 4", "blocksize=2"),
		use("MaxPool", "2 2 3 4", "kernel_shape=2,2").outputs(2, 0),
		use("MaxPool", "2 2 3 4", "kernel_shape=2,2 storage_order=1").outputs(2, 0),
		use("AveragePool", "2 1 6", "kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1").exact(false),
	}
	for _, k := range [][2]string{
		{"N 2 3 3; 2 2 2 2; 2", ""},
		{"2 2 4 3; 3 2 1 1", "strides=2,2 kernel_shape=1,1"},
		{"2 1 6 7; 2 1 3 3", "strides=3,2"},
		{"2 1 5 4; 2 1 3 2", "pads=0,2,1,1 dilations=2,1"},
		{"2 1 7 6; 1 1 2 3", "strides=4,3 dilations=3,2 pads=1,0,0,2"},
		{"2 4 5 4; 2 2 3 2", "group=2 strides=2,3 dilations=1,2 pads=2,1,0,1"},
		{"N 3 4 3; 3 1 3 2", "group=3 pads=1,0,1,1 strides=2,1"},
		{"2 2 3 3; 4 1 2 2; 4", "group=2 auto_pad=VALID"},
		{"2 1 5 6; 2 1 2 3", "auto_pad=SAME_UPPER strides=2,3"},
		{"2 1 5 5; 1 1 2 2", "auto_pad=SAME_LOWER strides=1,2"},
		{"N 2 7; 3 2 3; 3", "strides=2 pads=1,0 dilations=2"},
		{"1 2 3 2 3; 1 2 2 1 2", "pads=1,0,0,0,0,1 strides=2,1,1"},
	} {
		out = append(out, use("Conv", k[0], k[1]).exact(false))
	}
	for _, k := range [][2]string{
		{"N 2 2 2; 2 2 2 2; 2", ""},
		{"2 2 2 3; 2 1 3 2", "strides=3,2 pads=0,1,1,0"},
		{"2 1 3 2; 1 2 2 3", "strides=2,3 output_padding=1,2 pads=1,0,0,1"},
		{"2 1 2 2; 1 1 2 2", "strides=2,3 dilations=3,2 output_padding=1,2"},
		{"N 4 2 2; 4 1 2 2; 2", "group=2 strides=2,2 pads=1,1,1,1 output_padding=1,0"},
		{"2 2 3; 2 1 2", "strides=2 auto_pad=VALID"},
	} {
		out = append(out, use("ConvTranspose", k[0], k[1]).exact(false))
	}
	for _, k := range [][2]string{
		{"N 2 4 4", "kernel_shape=2,2 strides=2,2"},
		{"2 2 4 3", "kernel_shape=3,3 pads=1,1,1,1"},
		{"2 1 5 4", "kernel_shape=2,3 pads=0,1,1,2 strides=2,1 dilations=2,1"},
		{"2 1 5 6", "kernel_shape=2,3 strides=3,2 ceil_mode=1 pads=1,0,0,1"},
		{"2 1 5 5", "kernel_shape=2,2 strides=2,2 auto_pad=SAME_UPPER"},
		{"2 1 4 5", "kernel_shape=3,2 strides=2,2 auto_pad=SAME_LOWER"},
		{"2 1 3 2 3", "kernel_shape=2,1,2"},
	} {
		// Averages may have gaps from opset 19 on.
		out = append(out, use("MaxPool", k[0], k[1]), use("AveragePool", k[0], k[1]).since(19).exact(true))
		if !strings.Contains(k[1], "ceil_mode") {
			out = append(out, use("AveragePool", k[0], k[1]+" count_include_pad=1").since(19).exact(true))
		}
	}
	for _, shape := range []string{"N 2 2 3", "2 3 4", "1 2 2 1 3"} {
		out = append(out, use("GlobalAveragePool", shape, "").exact(true),
			use("GlobalMaxPool", shape+" ^36", "").exact(false))
	}
	return out
}

func reduceSamples() (out []sample) {
	for _, op := range []string{
		"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
		"ReduceLogSumExp",
	} {
		x := "N 3 @0.3~2;"
		out = append(out, use(op, x+"[-1]", "keepdims=0"), use(op, "2 3 2 @0.3~2; [2 0]", ""))
		if op == "ReduceSum" || op == "ReduceMax" { // the axes are read alike
			out = append(out, use(op, "N 3", ""), use(op, "N 3", "keepdims=0"), use(op, x+"[1]", ""),
				use(op, x+"[0]", "keepdims=0"), use(op, "2 3 2; [0 2]", "keepdims=0"))
		}
	}
	return append(out, use("ReduceSum", "N 3", "noop_with_empty_axes=1"), use("ReduceL1", "N 3 !0", ""), use("ReduceProd",
		"2 3; [1]", ""), use("ReduceProd", "2 5 :0 :1 :2 :0 :3 :1 :2 :0 :2 :1", "keepdims=0"))
}

func shapeSamples() []sample {
	return []sample{
		use("Dropout", "N 3", ""), use("Dropout", "N 3; _; ?0", ""),
		use("Cast", "N 3", "to=11"), use("Cast", "N 3 float", "to=11").inFloat(), use("CastLike", "N 3; =1", ""),
		use("Reshape", "N 4; [-1 2 2]", ""), use("Reshape", "N 2 3; [0 -1]", ""), use("Reshape", "N 4; [-1]", ""),
		use("Reshape", "2 3; [3 2]", ""),
		use("Flatten", "N 2 3", ""), use("Flatten", "N 2", "axis=0"), use("Flatten", "2 2 3", "axis=-1"),
		use("Squeeze", "N 1 3; [1]", ""), use("Squeeze", "2 1 1", ""), use("Squeeze", "1 1; [0 -1]", ""),
		use("Unsqueeze", "N 3; [0 -1]", ""),
		use("Transpose", "N 3", ""), use("Transpose", "2 3 4", "perm=1,2,0"),
		use("Expand", "N 1; [1 3]", ""), use("Expand", "3; [2 1 3]", ""), use("Expand", "2 1; [4 1 3]", ""),
		use("Tile", "N 3; [1 2]", ""), use("Tile", "2 2 1; [2 3 4]", ""),
		use("Range", "* :0.3; =2; * :0.5", ""), use("OneHot", "[1 0 2]; <4>; 2", "").exact(false),
	}
}

func indexSamples() []sample {
	wide := use("Gather", "2 90; ["+strings.Repeat("0 7 14 ", 33)+"]", "axis=1")
	wide.linear = true
	return []sample{
		use("Concat", "N 2; N 3; N 1", "axis=1"), use("Concat", "2 2; 1 2", "axis=-2"), use("Concat", "N 2", "axis=0"),
		use("Split", "N 5; [2 1 2]", "axis=1").outputs(3, 0, 2), use("Split", "5 2", "num_outputs=2").outputs(2, 1, 0),
		use("Slice", "N 5; [1]; [3]; [1]", ""), use("Slice", "N 5; [0 -2]; [1e12 1e12]; [0 1]", ""),
		use("Slice", "N 6; [1]; [6]; [1]; [2]", ""), use("Slice", "4 3; [-1 1]; [-1e12 3]; [0 1]; [-1 1]", ""),
		use("Slice", "4 3; [1 0]; [-1 2]", ""),
		use("Pad", "N 2; [0 1 0 2]", ""), use("Pad", "N 2; [1 1]; =0.5; [-1]", ""), use("Pad", "N 3; [0 -1 0 2]; *", ""),
		use("Pad", "N 3; [0 1 0 2]", "mode=edge"), use("Pad", "2 3; [1 2 0 2]", "mode=reflect"),
		use("Gather", "N 3; <1>", "axis=1"), use("Gather", "N 4; [1 2]", "axis=1"),
		use("Gather", "N 4; [3 0 -1 2 0]", "axis=1"), use("Gather", "4 3; [2 0 2]", ""),
		use("Gather", "N 4; 2x2[0 3 -4 1]", "axis=-1"), use("Gather", "N 2; [0 -1 0]", ""), wide,
		use("GatherElements", "2 3; 2x2[0 2 2 -1]", "axis=1"), use("GatherND", "2 3 2; 2x2[0 1 1 -1]", ""),
		use("ScatterElements", "2 3; 2x2[0 2 2 2]; 2 2", "axis=1 reduction=add"),
		use("ScatterElements", "2 3; 1x2[1 0]; 1 2", ""), use("ScatterND", "2 3 2; 2x2[0 1 1 -1]; 2 2", ""),
		use("ScatterND", "2 3 2; 2x1[1 1]; 2 3 2", "reduction=add"),
		use("TopK", "2 5 ^10; [2]", "").outputs(2, 0), use("TopK", "4 2 ^8; [3]", "axis=0 largest=0").outputs(2, 0),
		use("CumSum", "N 3; <1>", ""), use("CumSum", "N 3; <-1>", "reverse=1 exclusive=1"),
		use("ReverseSequence", "4 3; [1 4 2]", ""), use("Trilu", "N 3 3", ""), use("Trilu", "2 4; <1>", "upper=0"),
	}
}

func normSamples() []sample {
	return []sample{
		use("BatchNormalization", "N 3; 3; 3; 3; 3 @0.3~2", ""),
		use("BatchNormalization", "2 3 2; 3; 3; 3; 3 @0.3~2", "epsilon=0.01"),
		use("LayerNormalization", "N 3; 3; 3", ""), use("LayerNormalization", "2 2 3; 3", ""),
		use("LayerNormalization", "N 2 2; 2 2; 2 2", "axis=1"), use("RMSNormalization", "N 4; 4", "").since(23),
		use("InstanceNormalization", "N 4 2 2; 4; 4", ""),
		use("GroupNormalization", "N 4 3; 4; 4", "num_groups=2").since(21),
		use("MeanVarianceNormalization", "2 3 2 2", ""), use("MeanVarianceNormalization", "N 3 2", "axes=1,-1"),
		use("LpNormalization", "N 4", ""), use("LpNormalization", "3 2 !0", "p=1 axis=0"),
		use("LRN", "N 4 2 1", "size=3 alpha=0.5 beta=0.6 bias=0.8"),
	}
}

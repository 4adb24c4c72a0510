package autodiff_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"cfq/onnxio/graph"
)

func imageGenerators() map[string]func(*rapid.T) sample {
	pool := func(average bool) func(t *rapid.T) sample {
		return func(t *rapid.T) sample { return randomPool(t, average) }
	}
	return map[string]func(*rapid.T) sample{
		"Conv": randomConv, "ConvTranspose": randomConvTranspose, "MaxPool": pool(false), "AveragePool": pool(true),
		"Resize": randomResize,
		"LpPool": func(t *rapid.T) sample {
			s := randomPool(t, true)
			s.op, s.grid, s.rounds = "LpPool", 0, false
			s.in[0] = s.in[0].within(0.5, 2)
			s.attrs = slices.DeleteFunc(s.attrs, func(a graph.Attr) bool {
				return a.Name == "ceil_mode" || a.Name == "count_include_pad"
			})
			s.attrs = append(s.attrs, number("p", small(t, "p", 1, 3)))
			for i, a := range s.attrs {
				if a.Name == "pads" { // no window of padding only: its root has no derivative
					s.attrs[i] = list("pads", make([]int64, len(a.Ints))...)
				}
			}
			return s
		},
	}
}

func randomResize(t *rapid.T) sample {
	n := int(small(t, "axes", 1, 2))
	dims, scales, to := []int64{2, 1}, []float32{1, 1}, []int64{2, 1}
	mode := oneOf(t, "mode", "nearest", "linear", "cubic")
	for range n {
		size := small(t, "size", 2, 4)
		scale := oneOf(t, "scale", 0.5, 1, 1.5, 2, 3)
		dims, scales, to = append(dims, size), append(scales, float32(scale)), append(to, int64(float64(size)*scale))
	}
	s := sample{op: "Resize", note: fmt.Sprint(to), in: []operand{in(text(dims)), absent(), reals(scales...)}}
	if rapid.Bool().Draw(t, "sizes") {
		s.in = append(s.in[:2], absent(), ints(to...))
	}
	modes := []string{"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"}
	if mode == "cubic" && n == 1 {
		mode = "linear" // ONNX Runtime has cubic for two axes only
	}
	s.opset = 19
	s.attrs = attrs(word("mode", mode), word("coordinate_transformation_mode", oneOf(t, "coordinates", modes...)),
		word("nearest_mode", oneOf(t, "rounding", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
		real("cubic_coeff_a", oneOf[float32](t, "a", -0.75, -0.5)))
	if mode == "cubic" {
		s.attrs = append(s.attrs, number("exclude_outside", small(t, "exclude_outside", 0, 1)))
	}
	return s
}

func normGenerators() map[string]func(*rapid.T) sample {
	epsilon := func(t *rapid.T) graph.Attr { return real("epsilon", oneOf[float32](t, "epsilon", 1e-5, 0.01)) }
	behind := func(op string, opset int64, bias bool) func(t *rapid.T) sample {
		return func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			axis := small(t, "axis", 0, int64(len(dims))-1)
			dims[len(dims)-1] += 2 // more than one number to average
			of := text(dims[axis:])
			s := sample{op: op, opset: opset, attrs: attrs(epsilon(t), number("axis", axis))}
			s.in = []operand{in(text(dims)), in(of)}
			if bias && rapid.Bool().Draw(t, "bias") {
				s.in = append(s.in, in(of))
			}
			return s
		}
	}
	channels := func(op string, inputs int, least int64) func(t *rapid.T) sample {
		return func(t *rapid.T) sample {
			c := small(t, "channels", 1, 4)
			dims := append([]int64{2, c}, sizes(t, 1, 2)...)
			dims[len(dims)-1] += least
			s := sample{op: op, attrs: attrs(epsilon(t)), in: []operand{in(batched(t, dims))}}
			for range inputs {
				s.in = append(s.in, in(fmt.Sprint(c)).within(0.3, 2))
			}
			return s
		}
	}
	return map[string]func(*rapid.T) sample{
		"LayerNormalization":    behind("LayerNormalization", 18, true),
		"RMSNormalization":      behind("RMSNormalization", 23, false),
		"BatchNormalization":    channels("BatchNormalization", 4, 0),
		"InstanceNormalization": channels("InstanceNormalization", 2, 2),
		"GroupNormalization": func(t *rapid.T) sample {
			groups := small(t, "groups", 1, 2)
			c := groups * small(t, "channels", 1, 2)
			dims := append([]int64{2, c}, sizes(t, 0, 2)...)
			dims[len(dims)-1] *= 2
			c = dims[1]
			return sample{
				op: "GroupNormalization", opset: 21, attrs: attrs(epsilon(t), number("num_groups", groups)),
				in: []operand{in(batched(t, dims)), in(fmt.Sprint(c)), in(fmt.Sprint(c))},
			}
		},
	}
}

func productGenerators() map[string]func(*rapid.T) sample {
	return map[string]func(*rapid.T) sample{
		"MatMul": randomMatMul, "Einsum": randomEinsum, "Attention": randomAttention, "RotaryEmbedding": randomRotary,
		"Gemm": func(t *rapid.T) sample {
			n := rapid.SliceOfN(rapid.Int64Range(1, 3), 3, 3).Draw(t, "n, k, m")
			a, b := []int64{n[0], n[1]}, []int64{n[1], n[2]}
			ta, tb := small(t, "transA", 0, 1), small(t, "transB", 0, 1)
			if ta > 0 {
				slices.Reverse(a)
			}
			if tb > 0 {
				slices.Reverse(b)
			}
			s := sample{op: "Gemm", in: []operand{in(text(a)), in(text(b))}, attrs: attrs(
				number("transA", ta), number("transB", tb), real("alpha", oneOf[float32](t, "alpha", 1, 0.5)),
				real("beta", oneOf[float32](t, "beta", 1, -1.5)))}
			if rapid.Bool().Draw(t, "bias") {
				s.in = append(s.in, in(text(broadcastable(t, []int64{n[0], n[2]}))))
			}
			return s
		},
	}
}

func randomEinsum(t *rapid.T) sample {
	sizes := map[rune]int64{'i': 2, 'j': 3, 'k': 1, 'l': 2}
	letters := func(name string, of []rune, most int) string {
		order := rapid.Permutation(of).Draw(t, name)
		return string(order[:rapid.IntRange(0, min(most, len(of))).Draw(t, name)])
	}
	var in1 []string
	s := sample{op: "Einsum"}
	for range rapid.IntRange(1, 3).Draw(t, "operands") {
		text := letters("operand", []rune("ijkl"), 3)
		var dims []int64
		for _, l := range text {
			dims = append(dims, sizes[l])
		}
		in1 = append(in1, text)
		s.in = append(s.in, in(strings.Trim(fmt.Sprint(dims), "[]")))
	}
	all := []rune(strings.Join(in1, ""))
	slices.Sort(all)
	all = slices.Compact(all)
	equation := strings.Join(in1, ",") + "->" + letters("output", all, 4)
	s.note, s.attrs = equation, attrs(word("equation", equation))
	return s
}

func randomAttention(t *rapid.T) sample {
	shared := small(t, "heads of keys", 1, 2)
	heads := shared * small(t, "times", 1, 2)
	rows, keys := small(t, "queries", 1, 3), small(t, "keys", 1, 3)
	size, width := small(t, "size", 1, 2), small(t, "width", 1, 2)
	s := sample{op: "Attention", opset: 23}
	flat := rapid.Bool().Draw(t, "flat")
	operandOf := func(n, rows, size int64) operand {
		if flat {
			return in(fmt.Sprintf("N %d %d", rows, n*size))
		}
		return in(fmt.Sprintf("N %d %d %d", n, rows, size))
	}
	s.in = []operand{operandOf(heads, rows, size), operandOf(shared, keys, size), operandOf(shared, keys, width)}
	if flat {
		s.attrs = attrs(number("q_num_heads", heads), number("kv_num_heads", shared))
	}
	if rapid.Bool().Draw(t, "scale") {
		s.attrs = append(s.attrs, real("scale", 0.4))
	}
	switch oneOf(t, "mask", "none", "causal", "numbers", "softcap") {
	case "causal":
		s.attrs = append(s.attrs, number("is_causal", 1))
	case "softcap":
		s.attrs = append(s.attrs, real("softcap", 1.5))
	case "numbers":
		s.in = append(s.in, in(fmt.Sprintf("%d %d", rows, keys)))
	}
	return s
}

func randomRotary(t *rapid.T) sample {
	heads, length, half := small(t, "heads", 1, 2), small(t, "length", 1, 3), small(t, "half", 1, 2)
	turned := half
	s := sample{op: "RotaryEmbedding", opset: 23, attrs: attrs(number("interleaved", small(t, "interleaved", 0, 1)))}
	if half > 1 && rapid.Bool().Draw(t, "part") {
		turned = 1
		s.attrs = append(s.attrs, number("rotary_embedding_dim", 2*turned))
	}
	x := in(fmt.Sprintf("2 %d %d %d", heads, length, 2*half))
	if rapid.Bool().Draw(t, "flat") || turned < half {
		x = in(fmt.Sprintf("2 %d %d", length, heads*2*half))
		s.attrs = append(s.attrs, number("num_heads", heads))
	}
	angles := in(fmt.Sprintf("2 %d %d", length, turned))
	s.in = []operand{x, angles, angles}
	if rapid.Bool().Draw(t, "positions") {
		angles.shape = fmt.Sprintf("4 %d", turned)
		s.in = []operand{x, angles, angles, indices(t, []int64{2, length}, 4, false)}
	}
	return s
}

package autodiff_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"cfq/onnxio/graph"
)

func sizes(t *rapid.T, lo, hi int) []int64 {
	return rapid.SliceOfN(rapid.Int64Range(1, 3), lo, hi).Draw(t, "shape")
}

func text(dims []int64) string { return strings.Trim(fmt.Sprint(dims), "[]") }

func broadcastable(t *rapid.T, dims []int64) []int64 {
	out := slices.Clone(dims[rapid.IntRange(0, len(dims)).Draw(t, "dropped"):])
	for i := range out {
		if rapid.Bool().Draw(t, "repeated") {
			out[i] = 1
		}
	}
	return out
}

func randomMatMul(t *rapid.T) sample {
	batch := sizes(t, 0, 2)
	n := rapid.SliceOfN(rapid.Int64Range(1, 3), 3, 3).Draw(t, "n, k, m")
	a := append(broadcastable(t, batch), n[0], n[1])
	b := append(broadcastable(t, batch), n[1], n[2])
	if rapid.IntRange(0, 3).Draw(t, "vector a") == 0 {
		a = n[1:2]
	}
	if rapid.IntRange(0, 3).Draw(t, "vector b") == 0 {
		b = n[1:2]
	}
	return sample{op: "MatMul", in: []operand{in(text(a)), in(text(b))}}
}

func randomReduce(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	axes := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(len(dims)-1)), 1, len(dims), rapid.ID[int64]).Draw(t, "axes")
	op := rapid.SampledFrom([]string{
		"ReduceSum", "ReduceMean", "ReduceMax", "ReduceSumSquare", "ReduceL2",
		"ReduceLogSumExp",
	}).Draw(t, "op")
	return sample{
		op: op, in: []operand{in(text(dims)).within(0.5, 2), ints(axes...)},
		attrs: []graph.Attr{graph.IntAttr("keepdims", rapid.Int64Range(0, 1).Draw(t, "keepdims"))},
	}
}

func randomSlice(t *rapid.T) sample {
	n := rapid.Int64Range(1, 6).Draw(t, "size")
	dims := slices.Insert(sizes(t, 0, 2), 0, n)
	start := rapid.Int64Range(0, n-1).Draw(t, "start")
	step := rapid.Int64Range(1, 3).Draw(t, "step")
	end := rapid.Int64Range(start+1, n+2).Draw(t, "end")
	if rapid.Bool().Draw(t, "backwards") {
		step = -step
		end = rapid.Int64Range(-n-2, start-n-1).Draw(t, "end")
	}
	if end > 0 && end < n && rapid.Bool().Draw(t, "from the end") {
		start, end = start-n, end-n
	}
	return sample{
		op: "Slice", note: fmt.Sprint(start, end, step),
		in: []operand{in(text(dims)), ints(start), ints(end), ints(0), ints(step)},
	}
}

func randomGather(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	axis := rapid.IntRange(0, len(dims)-1).Draw(t, "axis")
	at := rapid.SliceOfN(rapid.Int64Range(-dims[axis], dims[axis]-1), 1, 4).Draw(t, "indices")
	return sample{
		op: "Gather", note: fmt.Sprint(at), in: []operand{in(text(dims)), ints(at...)},
		attrs: []graph.Attr{graph.IntAttr("axis", int64(axis))},
	}
}

func randomConcat(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	axis := rapid.IntRange(0, len(dims)-1).Draw(t, "axis")
	s := sample{op: "Concat", attrs: []graph.Attr{graph.IntAttr("axis", int64(axis))}}
	for range rapid.IntRange(1, 3).Draw(t, "inputs") {
		dims[axis] = rapid.Int64Range(1, 3).Draw(t, "size")
		s.in = append(s.in, in(text(dims)))
	}
	return s
}

func randomTranspose(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	perm := make([]int64, len(dims))
	for i := range perm {
		perm[i] = int64(i)
	}
	perm = rapid.Permutation(perm).Draw(t, "perm")
	return sample{op: "Transpose", in: []operand{in(text(dims))}, attrs: []graph.Attr{graph.IntsAttr("perm", perm...)}}
}

func randomWindows(t *rapid.T) (image, kernel []int64, attrs map[string][]int64) {
	attrs = map[string][]int64{}
	n := rapid.IntRange(1, 2).Draw(t, "spatial axes")
	var after []int64
	for range n {
		k, d := rapid.Int64Range(1, 3).Draw(t, "kernel"), rapid.Int64Range(1, 2).Draw(t, "dilation")
		kernel = append(kernel, k)
		attrs["dilations"] = append(attrs["dilations"], d)
		attrs["strides"] = append(attrs["strides"], rapid.Int64Range(1, 3).Draw(t, "stride"))
		attrs["pads"] = append(attrs["pads"], rapid.Int64Range(0, k-1).Draw(t, "pad before"))
		after = append(after, rapid.Int64Range(0, k-1).Draw(t, "pad after"))
		image = append(image, (k-1)*d+rapid.Int64Range(1, 3).Draw(t, "more"))
	}
	attrs["pads"] = append(attrs["pads"], after...)
	return image, kernel, attrs
}

func attributesOf(group int64, lists map[string][]int64) []graph.Attr {
	var out []graph.Attr
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		out = append(out, graph.IntsAttr(name, lists[name]...))
	}
	if group > 1 {
		out = append(out, graph.IntAttr("group", group))
	}
	return out
}

func randomConv(t *rapid.T) sample {
	image, kernel, attrs := randomWindows(t)
	small := rapid.Int64Range(1, 2)
	group, channels, outputs := small.Draw(t, "group"), small.Draw(t, "channels"), small.Draw(t, "outputs")
	x, w := append([]int64{2, group * channels}, image...), append([]int64{group * outputs, channels}, kernel...)
	return sample{
		op: "Conv", single: true, grid: grid, attrs: attributesOf(group, attrs),
		in: []operand{in(text(x)), in(text(w)), in(text(w[:1]))},
	}
}

func randomConvTranspose(t *rapid.T) sample {
	_, kernel, attrs := randomWindows(t)
	small := rapid.Int64Range(1, 2)
	group, channels, outputs := small.Draw(t, "group"), small.Draw(t, "channels"), small.Draw(t, "outputs")
	image := make([]int64, len(kernel))
	for i := range image {
		image[i] = rapid.Int64Range(2, 3).Draw(t, "size")
		attrs["output_padding"] = append(attrs["output_padding"],
			rapid.Int64Range(0, attrs["strides"][i]-1).Draw(t, "output padding"))
		// Something must be left between the pads.
		for _, k := range []int{i, len(kernel) + i} {
			attrs["pads"][k] = min(attrs["pads"][k], 1)
		}
	}
	x, w := append([]int64{2, group * channels}, image...), append([]int64{group * channels, outputs}, kernel...)
	return sample{
		op: "ConvTranspose", single: true, grid: grid, attrs: attributesOf(group, attrs),
		in: []operand{in(text(x)), in(text(w))},
	}
}

func randomPool(t *rapid.T, average bool) sample {
	image, kernel, attrs := randomWindows(t)
	attrs["kernel_shape"] = kernel
	x := in(text(append([]int64{2, 2}, image...)))
	ceil := rapid.Int64Range(0, 1).Draw(t, "ceil_mode")
	for i, k := range kernel {
		// ONNX Runtime runs a window less than its shape inference counts where that
		// window would start behind the image, and stumbles over the buffers.
		before, stride := attrs["pads"][i], attrs["strides"][i]
		room := before + image[i] + attrs["pads"][len(kernel)+i] - (k-1)*attrs["dilations"][i] - 1
		if room%stride != 0 && (room/stride+1)*stride >= before+image[i] {
			ceil = 0
		}
	}
	s := sample{op: "MaxPool", in: []operand{x}}
	if average {
		s = sample{op: "AveragePool", in: []operand{x}, opset: 19, single: true, grid: grid, rounds: true}
		for i := range kernel {
			attrs["dilations"][i] = 1 // a window with gaps may read padding only
		}
	}
	s.attrs = append(attributesOf(1, attrs), graph.IntAttr("ceil_mode", ceil))
	if s.op == "AveragePool" && ceil == 0 && rapid.Bool().Draw(t, "count_include_pad") {
		s.attrs = append(s.attrs, graph.IntAttr("count_include_pad", 1))
	}
	return s
}

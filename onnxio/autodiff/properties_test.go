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

func randomSlice(t *rapid.T) sample {
	n := small(t, "size", 1, 6)
	dims := slices.Insert(sizes(t, 0, 2), 0, n)
	start := small(t, "start", 0, n-1)
	step := small(t, "step", 1, 3)
	end := small(t, "end", start+1, n+2)
	if rapid.Bool().Draw(t, "backwards") {
		step = -step
		end = small(t, "end", -n-2, start-n-1)
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
		dims[axis] = small(t, "size", 1, 3)
		s.in = append(s.in, in(text(dims)))
	}
	return s
}

func randomTranspose(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	perm := rapid.Permutation([]int64{0, 1, 2, 3}[:len(dims)]).Draw(t, "perm")
	return sample{op: "Transpose", in: []operand{in(text(dims))}, attrs: []graph.Attr{graph.IntsAttr("perm", perm...)}}
}

func randomWindows(t *rapid.T) (image, kernel []int64, attrs map[string][]int64) {
	attrs = map[string][]int64{}
	n := rapid.IntRange(1, 2).Draw(t, "spatial axes")
	var after []int64
	for range n {
		k, d := small(t, "kernel", 1, 3), small(t, "dilation", 1, 2)
		kernel = append(kernel, k)
		attrs["dilations"] = append(attrs["dilations"], d)
		attrs["strides"] = append(attrs["strides"], small(t, "stride", 1, 3))
		attrs["pads"] = append(attrs["pads"], small(t, "pad before", 0, k-1))
		after = append(after, small(t, "pad after", 0, k-1))
		image = append(image, (k-1)*d+small(t, "more", 1, 3))
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

// kernelSample has channels of groups, and as many outputs of each as drawn.
func kernelSample(t *rapid.T, op string, image, kernel []int64, lists map[string][]int64) sample {
	group, inner, outer := small(t, "group", 1, 2), small(t, "channels", 1, 2), small(t, "outputs", 1, 2)
	s := sample{op: op, single: true, grid: grid, attrs: attributesOf(group, lists)}
	w := append([]int64{group * outer, inner}, kernel...) // of a Conv
	if op == "Conv" {
		s.in = []operand{in(text(append([]int64{2, group * inner}, image...))), in(text(w)), in(text(w[:1]))}
	} else {
		s.in = []operand{in(text(append([]int64{2, group * outer}, image...))), in(text(w))}
	}
	return s
}

func randomConv(t *rapid.T) sample {
	image, kernel, lists := randomWindows(t)
	return kernelSample(t, "Conv", image, kernel, lists)
}

func randomConvTranspose(t *rapid.T) sample {
	image, kernel, lists := randomWindows(t)
	for i := range image {
		image[i] = small(t, "size", 2, 3)
		lists["output_padding"] = append(lists["output_padding"], small(t, "padding", 0, lists["strides"][i]-1))
		// Something must be left between the pads.
		for _, k := range []int{i, len(kernel) + i} {
			lists["pads"][k] = min(lists["pads"][k], 1)
		}
	}
	return kernelSample(t, "ConvTranspose", image, kernel, lists)
}

func randomPool(t *rapid.T, average bool) sample {
	image, kernel, attrs := randomWindows(t)
	attrs["kernel_shape"] = kernel
	x := in(text(append([]int64{2, 2}, image...)))
	ceil := small(t, "ceil_mode", 0, 1)
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

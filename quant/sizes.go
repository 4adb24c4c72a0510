package quant

import (
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// window is how a kernel moves over an input.
type window struct{ strides, dilations, begin, end, output []int }

// windowOf reads strides, dilations and pads of a Conv or pooling operator.
func windowOf(n *graph.Node, kernel, in []int) (*window, error) {
	d := len(kernel)
	w := &window{}
	var err error
	read := func(name string, count, def, least int) []int {
		out := slices.Repeat([]int{def}, count)
		v := n.Ints(name)
		if v == nil {
			return out
		}
		if len(v) != count {
			err = fmt.Errorf("its %s are %v", name, v)
			return out
		}
		for i, x := range v {
			if x < int64(least) || x > maxSize {
				err = fmt.Errorf("its %s are %v", name, v)
				return out
			}
			out[i] = int(x)
		}
		return out
	}
	w.strides, w.dilations = read("strides", d, 1, 1), read("dilations", d, 1, 1)
	pads := read("pads", 2*d, 0, 0)
	if err != nil {
		return nil, err
	}
	auto := "NOTSET"
	if a := n.Attr("auto_pad"); a != nil {
		auto = string(a.S)
	}
	for i, k := range kernel {
		reach := (k-1)*w.dilations[i] + 1
		begin, end := pads[i], pads[d+i]
		switch auto {
		case "NOTSET", "":
		case "VALID":
			begin, end = 0, 0
		case "SAME_UPPER", "SAME_LOWER":
			out := (in[i] + w.strides[i] - 1) / w.strides[i]
			total := max((out-1)*w.strides[i]+reach-in[i], 0)
			if begin, end = total/2, total-total/2; auto == "SAME_LOWER" {
				begin, end = end, begin
			}
		default:
			return nil, fmt.Errorf("its auto_pad is %q", auto)
		}
		room := in[i] + begin + end - reach
		if room < 0 {
			return nil, errors.New("its kernel is larger than its input")
		}
		size := room/w.strides[i] + 1
		if n.Int("ceil_mode", 0) != 0 {
			size = (room+w.strides[i]-1)/w.strides[i] + 1
			if (size-1)*w.strides[i] >= in[i]+begin {
				size-- // a window must begin within the input
			}
		}
		w.begin, w.end, w.output = append(w.begin, begin), append(w.end, end), append(w.output, size)
	}
	if product(w.output) > maxSize {
		return nil, fmt.Errorf("its output has the absurd size %v", w.output)
	}
	return w, nil
}

// product multiplies sizes; it stops growing beyond maxSize.
func product(v []int) int {
	p := 1
	for _, x := range v {
		if p *= x; p > maxSize {
			return maxSize + 1
		}
	}
	return p
}

// shapes returns the sizes behind the batch of every value for which they follow
// from those of the model's inputs, or are declared. It is computed once.
func (f *finder) shapes() map[string][]int {
	if f.sizes != nil {
		return f.sizes
	}
	f.sizes = map[string][]int{}
	declared := map[string][]int{}
	for _, v := range slices.Concat(f.g.Values, f.g.Outputs) {
		if s := behind(v.Shape); s != nil {
			declared[v.Name] = s
		}
	}
	for _, v := range f.g.DataInputs() {
		if s := behind(v.Shape); s != nil {
			f.sizes[v.Name] = s
			f.batch = v.Shape[0].Size
		}
	}
	for _, n := range f.g.Nodes {
		if len(n.Outputs) == 0 {
			continue
		}
		s := f.shape(n)
		if s == nil {
			s = declared[n.Outputs[0]]
		}
		if s != nil {
			f.sizes[n.Outputs[0]] = s
		}
	}
	return f.sizes
}

// behind returns the sizes behind the first of a shape, nil when one is not known.
func behind(s graph.Shape) []int {
	if len(s) < 2 {
		return nil
	}
	var out []int
	for _, d := range s[1:] {
		if d.Size < 1 || d.Size > maxSize {
			return nil
		}
		out = append(out, int(d.Size))
	}
	return out
}

// shape returns the sizes of n's first output behind the batch, nil when they are not known.
func (f *finder) shape(n *graph.Node) []int {
	in := f.sizes[n.Input(0)]
	if !n.Standard() || in == nil {
		return nil
	}
	switch n.Op {
	case "HardSwish", "Mish", "PRelu", "ThresholdedRelu", "Abs", "QuantizeLinear", "DequantizeLinear":
		return in
	case "Conv":
		w := f.stored[n.Input(1)]
		if w == nil || len(w.Dims) < 3 || w.Len() == 0 {
			return nil
		}
		c, err := convOf(n, w.Dims, in)
		if err != nil {
			return nil
		}
		return append([]int{int(w.Dims[0])}, c.Output...)
	case "MaxPool", "AveragePool", "LpPool":
		return pooled(n, in)
	case "GlobalAveragePool", "GlobalMaxPool":
		out := slices.Repeat([]int{1}, len(in))
		out[0] = in[0]
		return out
	case "Flatten":
		if n.Int("axis", 1) == 1 {
			return []int{product(in)}
		}
	case "Reshape":
		return f.reshaped(n, in)
	case "Unsqueeze", "Squeeze":
		return f.squeezed(n, in)
	case "Transpose":
		return permuted(n.Ints("perm"), in)
	case "Gemm":
		if w := f.inits[n.Input(1)]; w != nil && len(w.Dims) == 2 && n.Int("transA", 0) == 0 {
			return []int{int(w.Dims[1-n.Int("transB", 0)&1])}
		}
	case "Add", "Sub", "Mul", "Div", "Max", "Min":
		return f.broadcast(n, in)
	case "Concat":
		return f.concatenated(n, in)
	}
	if n.KeepsShape() {
		return in
	}
	return nil
}

func pooled(n *graph.Node, in []int) []int {
	var kernel []int
	for _, k := range n.Ints("kernel_shape") {
		if k < 1 || k > maxSize {
			return nil
		}
		kernel = append(kernel, int(k))
	}
	if len(kernel) == 0 || len(kernel) != len(in)-1 {
		return nil
	}
	w, err := windowOf(n, kernel, in[1:])
	if err != nil {
		return nil
	}
	return append([]int{in[0]}, w.output...)
}

// reshaped follows a Reshape with a constant shape that keeps the batch.
func (f *finder) reshaped(n *graph.Node, in []int) []int {
	shape := f.ints(n.Input(1))
	if len(shape) < 2 || shape[0] > 0 && shape[0] != f.batch || n.Int("allowzero", 0) != 0 {
		return nil
	}
	out, known, open := []int{}, 1, -1
	for i, s := range shape[1:] {
		switch {
		case s == -1:
			open, s = i, 1
		case s == 0 && i < len(in):
			s = int64(in[i])
		}
		if s < 1 || s > maxSize {
			return nil
		}
		out = append(out, int(s))
		known *= int(s)
		if known > maxSize {
			return nil
		}
	}
	all := product(in)
	if open >= 0 && all%known == 0 {
		out[open] = all / known
	}
	if product(out) != all { // the batch would change
		return nil
	}
	return out
}

func (f *finder) squeezed(n *graph.Node, in []int) []int {
	axes := f.ints(n.Input(1))
	if len(axes) == 0 {
		return nil
	}
	rank := len(in) + 1
	if n.Op == "Unsqueeze" {
		rank += len(axes)
	}
	at := map[int]bool{}
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 1 || a >= int64(rank) {
			return nil
		}
		at[int(a)] = true
	}
	var out []int
	next := 0
	for i := 1; i < rank; i++ {
		switch {
		case n.Op == "Unsqueeze" && at[i]:
			out = append(out, 1)
			continue
		case next >= len(in) || n.Op == "Squeeze" && at[i] && in[next] != 1:
			return nil
		case n.Op == "Unsqueeze" || !at[i]:
			out = append(out, in[next])
		}
		next++
	}
	return out
}

func permuted(perm []int64, in []int) []int {
	if len(perm) != len(in)+1 || perm[0] != 0 {
		return nil
	}
	out := make([]int, len(in))
	for i, p := range perm[1:] {
		if p < 1 || p > int64(len(in)) {
			return nil
		}
		out[i] = in[p-1]
	}
	return out
}

// broadcast follows an operator on values of one shape, or on one and constants of it.
func (f *finder) broadcast(n *graph.Node, in []int) []int {
	for _, name := range n.Inputs {
		if s := f.sizes[name]; s != nil && !slices.Equal(s, in) {
			return nil
		}
		t := f.inits[name]
		if t == nil && f.sizes[name] == nil || t != nil && !fits(t.Dims, in) {
			return nil
		}
	}
	return in
}

// fits reports whether a constant broadcasts over rows of sizes without changing their shape.
func fits(dims []int64, sizes []int) bool {
	for i := range dims {
		d := dims[len(dims)-1-i]
		if at := len(sizes) - 1 - i; d != 1 && (at < 0 || d != int64(sizes[at])) {
			return false
		}
	}
	return len(dims) <= len(sizes)+1
}

func (f *finder) concatenated(n *graph.Node, in []int) []int {
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(in) + 1
	}
	if axis < 1 || axis > len(in) {
		return nil
	}
	out := slices.Clone(in)
	for _, name := range n.Inputs[1:] {
		s := f.sizes[name]
		if len(s) != len(in) {
			return nil
		}
		for i := range s {
			if i == axis-1 {
				out[i] += s[i]
			} else if s[i] != in[i] {
				return nil
			}
		}
	}
	return out
}

// ints returns the integer constant called name, nil without one.
func (f *finder) ints(name string) []int64 {
	t := f.inits[name]
	if t == nil || t.DType != graph.Int64 {
		return nil
	}
	v, err := t.Ints()
	if err != nil {
		return nil
	}
	return v
}

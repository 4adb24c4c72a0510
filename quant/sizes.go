package quant

import (
	"slices"

	"cfq/onnxio/graph"
)

// sizes holds the sizes behind the batch of every value for which they follow from
// those of the model's inputs, or are declared.
type sizes struct {
	inits  map[string]*graph.Tensor
	stored map[string]*graph.Tensor // inits, and what Casts make of them
	of     map[string][]int
	batch  int64 // the batch size that the model insists on; -1 without one
}

func newSizes(g *graph.Graph, inits, stored map[string]*graph.Tensor) *sizes {
	z := &sizes{inits: inits, stored: stored, of: map[string][]int{}}
	declared := map[string][]int{}
	for _, v := range slices.Concat(g.Values, g.Outputs) {
		declared[v.Name] = behind(v.Shape)
	}
	for _, v := range g.DataInputs() {
		if s := behind(v.Shape); s != nil {
			z.of[v.Name], z.batch = s, v.Shape[0].Size
		}
	}
	for _, n := range g.Nodes {
		if len(n.Outputs) == 0 {
			continue
		}
		s := z.shape(n)
		if s == nil {
			s = declared[n.Outputs[0]]
		}
		if s != nil {
			z.of[n.Outputs[0]] = s
		}
	}
	return z
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
func (z *sizes) shape(n *graph.Node) []int {
	in := z.of[n.Input(0)]
	if !n.Standard() || in == nil {
		return nil
	}
	switch n.Op {
	case "HardSwish", "Mish", "PRelu", "ThresholdedRelu", "Abs", "QuantizeLinear", "DequantizeLinear":
		return in
	case "Conv":
		w := z.stored[n.Input(1)]
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
		return z.reshaped(n, in)
	case "Unsqueeze", "Squeeze":
		return z.squeezed(n, in)
	case "Transpose":
		return permuted(n.Ints("perm"), in)
	case "Gemm":
		if w := z.inits[n.Input(1)]; w != nil && len(w.Dims) == 2 && n.Int("transA", 0) == 0 {
			return []int{int(w.Dims[1-n.Int("transB", 0)&1])}
		}
	case "Add", "Sub", "Mul", "Div", "Max", "Min":
		return z.broadcast(n, in)
	case "Concat":
		return z.concatenated(n, in)
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
func (z *sizes) reshaped(n *graph.Node, in []int) []int {
	shape := z.ints(n.Input(1))
	if len(shape) < 2 || shape[0] > 0 && shape[0] != z.batch || n.Int("allowzero", 0) != 0 {
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

func (z *sizes) squeezed(n *graph.Node, in []int) []int {
	axes := z.ints(n.Input(1))
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
func (z *sizes) broadcast(n *graph.Node, in []int) []int {
	for _, name := range n.Inputs {
		if s := z.of[name]; s != nil && !slices.Equal(s, in) {
			return nil
		}
		t := z.inits[name]
		if t == nil && z.of[name] == nil || t != nil && !fits(t.Dims, in) {
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

func (z *sizes) concatenated(n *graph.Node, in []int) []int {
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(in) + 1
	}
	if axis < 1 || axis > len(in) {
		return nil
	}
	out := slices.Clone(in)
	for _, name := range n.Inputs[1:] {
		s := z.of[name]
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
func (z *sizes) ints(name string) []int64 {
	t := z.inits[name]
	if t == nil || t.DType != graph.Int64 {
		return nil
	}
	v, err := t.Ints()
	if err != nil {
		return nil
	}
	return v
}

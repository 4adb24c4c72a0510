package quant

import "cfq/onnxio/graph"

// identities removes nodes that pass their first input on unchanged.
func (r *rewriter) identities() {
	for again := true; again; {
		again = false
		for _, n := range r.g.Nodes {
			if r.passes(n) && r.bypass(n) {
				r.index()
				again = true
				break
			}
		}
	}
}

// passes reports whether n's first output is its first input.
func (r *rewriter) passes(n *graph.Node) bool {
	if !n.Standard() || len(n.Outputs) == 0 || n.Input(0) == "" {
		return false
	}
	switch n.Op {
	case "Identity":
		return true
	case "Dropout":
		mask := len(n.Outputs) > 1 && n.Outputs[1] != "" && (len(r.consumers[n.Outputs[1]]) > 0 || r.outputs[n.Outputs[1]])
		return !mask && r.isFalse(n.Input(2))
	case "Flatten":
		_, ok := r.width(n.Input(0), 0)
		return ok && n.Int("axis", 1) == 1
	case "Reshape":
		return r.keepsShape(n)
	}
	return false
}

// keepsShape reports whether a Reshape of a rank-2 value gives the same shape.
func (r *rewriter) keepsShape(n *graph.Node) bool {
	t := r.inits[n.Input(1)]
	if t == nil || t.DType != graph.Int64 {
		return false
	}
	shape, err := t.Ints()
	w, ok := r.width(n.Input(0), 0)
	if err != nil || len(shape) != 2 || !ok || n.Int("allowzero", 0) != 0 || shape[0] > 0 {
		return false
	}
	switch {
	case shape[0] == 0:
		return shape[1] == 0 || shape[1] == -1 || (shape[1] == w && w > 0)
	case shape[0] == -1:
		return shape[1] == 0 || (shape[1] == w && w > 0)
	}
	return false
}

// isFalse reports whether the optional boolean constant called name is absent or false.
func (r *rewriter) isFalse(name string) bool {
	if name == "" {
		return true
	}
	t := r.inits[name]
	return t != nil && t.DType == graph.Bool && len(t.Raw) == 1 && t.Raw[0] == 0
}

// bypass connects n's readers with n's input and removes n. It does nothing
// when n's output is an output of the model whose name no other node can take over.
func (r *rewriter) bypass(n *graph.Node) bool {
	in, out := n.Input(0), n.Outputs[0]
	if r.outputs[out] {
		p := r.producers[in]
		if p == nil || r.outputs[in] {
			return false
		}
		for i, o := range p.Outputs {
			if o == in {
				p.Outputs[i] = out
			}
		}
		r.replace(in, out)
	} else {
		r.replace(out, in)
	}
	for _, c := range n.Inputs[1:] {
		r.retired[c] = true
	}
	r.remove(n)
	return true
}

// sameShape reports whether op's first output has the shape of its first input.
func sameShape(op string) bool {
	switch op {
	case "Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "Tanh", "Softplus", "Gelu", "Clip",
		"Softmax", "LogSoftmax", "Identity", "Dropout", "BatchNormalization", "Cast":
		return true
	}
	return false
}

// width returns the size of the second dimension of a value of rank 2, -1 when
// it is not known, and whether the value is known to have rank 2.
func (r *rewriter) width(v string, depth int) (int64, bool) {
	if in, ok := r.inputs[v]; ok {
		return widthOf(in.Shape)
	}
	n := r.producers[v]
	if n == nil || depth > 64 {
		return -1, false
	}
	switch {
	case n.Is("Gemm") || n.Is("MatMul"):
		t := r.inits[n.Input(1)]
		if t == nil || len(t.Dims) != 2 {
			break
		}
		if n.Op == "Gemm" {
			return t.Dims[1-n.Int("transB", 0)&1], true
		}
		if _, ok := r.width(n.Input(0), depth+1); ok {
			return t.Dims[1], true
		}
	case n.Is("Flatten"):
		if w, ok := r.width(n.Input(0), depth+1); ok && n.Int("axis", 1) == 1 {
			return w, true
		}
		return -1, true
	case n.Standard() && sameShape(n.Op) && n.Outputs[0] == v:
		return r.width(n.Input(0), depth+1)
	case n.Is("Add") || n.Is("Sub") || n.Is("Mul") || n.Is("Div"):
		for i, other := range []int{1, 0} {
			t := r.inits[n.Input(other)]
			if t == nil {
				continue // only one input is followed: both would take 2^depth steps
			}
			if w, ok := r.width(n.Input(i), depth+1); ok && w > 0 && channels(t, int(w)) {
				return w, true
			}
		}
	}
	if d, ok := r.declared[v]; ok {
		return widthOf(d.Shape)
	}
	return -1, false
}

func widthOf(s graph.Shape) (int64, bool) {
	if len(s) != 2 {
		return -1, false
	}
	if s[1].Size <= 0 {
		return -1, true
	}
	return s[1].Size, true
}

// channels reports whether t broadcasts over the rows of a [N, width] value
// without changing its shape.
func channels(t *graph.Tensor, width int) bool {
	if len(t.Dims) > 2 || (len(t.Dims) == 2 && t.Dims[0] != 1) {
		return false
	}
	n := t.Len()
	return n == 1 || n == width
}

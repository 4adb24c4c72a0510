package pass

import (
	"slices"

	"cfq/onnxio/graph"
)

func (r *canonicalizer) constants() {
	for _, n := range slices.Clone(r.G.Nodes) {
		var t *graph.Tensor
		switch {
		case len(n.Outputs) != 1 || r.G.IsOutput(n.Outputs[0]):
			continue
		case n.Is("Constant"):
			t = n.Constant()
		case n.Is("Transpose"):
			if t = transposed(r.Float(n.Input(0)), n.Ints("perm")); t != nil {
				r.Retire(n.Input(0))
			}
		case n.Is("Identity") && r.Float(n.Input(0)) != nil:
			c := *r.Float(n.Input(0))
			t = &c
			r.Retire(n.Input(0))
		case n.Is("Cast"):
			t = r.stored(n)
		}
		if t == nil {
			continue
		}
		t.Name = n.Outputs[0]
		r.G.Inits = append(r.G.Inits, t)
		r.Inits[t.Name] = t
		r.Remove(n)
	}
}

func (r *canonicalizer) stored(n *graph.Node) *graph.Tensor {
	t := r.Inits[n.Input(0)]
	weights := func(n *graph.Node) bool { return slices.Contains([]string{"MatMul", "Gemm", "Conv", "Einsum"}, n.Op) }
	if t == nil || !t.DType.IsFloat() || len(t.Extra) > 0 || graph.DType(n.Int("to", 0)) != graph.Float ||
		!slices.ContainsFunc(r.Consumers[n.Outputs[0]], weights) {
		return nil
	}
	v, err := t.Floats()
	if err != nil {
		return nil
	}
	r.Retire(t.Name)
	return graph.FromFloats("", v, t.Dims...)
}

func transposed(t *graph.Tensor, perm []int64) *graph.Tensor {
	if t == nil {
		return nil
	}
	if perm == nil {
		for i := range t.Dims {
			perm = append(perm, int64(len(t.Dims)-1-i))
		}
	}
	v, err := t.Doubles()
	if err != nil || len(perm) != len(t.Dims) {
		return nil
	}
	dims := make([]int64, len(perm))
	for i, p := range perm {
		if p < 0 || p >= int64(len(perm)) || slices.Contains(perm[:i], p) {
			return nil
		}
		dims[i] = t.Dims[p]
	}
	return graph.FromNumbers("", graph.Float, permuted(v, t.Dims, perm), dims...)
}

package pass

import (
	"slices"

	"cfq/onnxio/graph"
)

func (r *canonicalizer) gemms() {
	for _, n := range slices.Clone(r.G.Nodes) {
		_, flat := r.width(n.Input(0))
		if n.Is("Gemm") || n.Is("MatMul") && flat {
			if w := r.Float(n.Input(1)); w != nil && len(w.Dims) == 2 && w.Len() > 0 {
				r.gemm(n, w)
			}
		}
	}
}

func (r *canonicalizer) gemm(n *graph.Node, w *graph.Tensor) {
	wv, err := w.Doubles()
	if err != nil {
		return
	}
	rows, cols := w.Dims[0], w.Dims[1]
	changed := false
	if n.Int("transB", 0) == 0 {
		wv, rows, cols, changed = permuted(wv, w.Dims, []int64{1, 0}), cols, rows, true
	}
	var bias []float64 // nil where it stays
	if c := n.Input(2); c != "" {
		if bias = r.perChannel(c, int(rows), 0); bias == nil {
			return // a bias per example: not a dense layer
		}
		beta := float64(n.Float("beta", 1))
		if t := r.Inits[c]; len(t.Dims) == 1 && t.Dims[0] == rows && beta == 1 {
			bias = nil
		}
		for i := range bias {
			bias[i] *= beta
		}
	}
	if alpha := float64(n.Float("alpha", 1)); alpha != 1 {
		changed = true
		for i := range wv {
			wv[i] *= alpha
		}
	}
	if changed {
		r.Retire(n.Input(1))
		n.Inputs[1] = r.numbers("w", wv, rows, cols)
	}
	if bias != nil {
		r.Retire(n.Input(2))
		n.Inputs[2] = r.numbers("b", bias, rows)
	}
	if n.Int("transA", 0) != 0 {
		t := r.Name("t")
		r.Insert(n, &graph.Node{
			Op: "Transpose", Inputs: []string{n.Inputs[0]}, Outputs: []string{t},
			Attrs: []graph.Attr{graph.IntsAttr("perm", 1, 0)},
		})
		n.Inputs[0] = t
	}
	n.Op, n.Attrs = "Gemm", []graph.Attr{graph.IntAttr("transB", 1)}
}
